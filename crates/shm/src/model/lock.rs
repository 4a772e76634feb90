//! A robust lock: what the kernel does for a dead owner, [`Guard::die`] does.

use std::io;
use std::mem::ManuallyDrop;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use crate::sync::full_fence_after_swap;

#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Free,
    Held,
    OwnerDied,
}

/// The lock.
#[derive(Default)]
pub struct RobustLock {
    /// And how often it was left.
    state: Mutex<(State, u32)>,
    changed: Condvar,
}

/// Why a lock could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Never here.
    #[error("reentered")]
    Reentered,
}

impl LockError {
    pub fn owner(self) -> Option<u32> {
        None
    }

    pub fn kind(self) -> io::ErrorKind {
        io::ErrorKind::Deadlock
    }
}

impl RobustLock {
    pub fn lock(&self) -> Result<Guard<'_>, LockError> {
        let mut state = self.state.lock().unwrap();
        while state.0 == State::Held {
            state = self.changed.wait(state).unwrap();
        }
        let owner_died = state.0 == State::OwnerDied;
        state.0 = State::Held;
        Ok(Guard {
            lock: self,
            owner_died,
        })
    }

    pub fn lock_for(&self, _patience: Duration) -> Result<Guard<'_>, LockError> {
        self.lock()
    }

    pub fn lock_patiently(
        &self,
        _restarts: bool,
        still_waits: impl Fn() -> bool,
    ) -> io::Result<Option<Guard<'_>>> {
        loop {
            let (state, left) = *self.state.lock().unwrap();
            if state == State::Held && !still_waits() {
                return Ok(None);
            }
            let state = self.state.lock().unwrap();
            if state.0 != State::Held {
                drop(state);
                return Ok(Some(self.lock().unwrap()));
            }
            // The futex call compares the word, which a release changes.
            if state.1 == left {
                drop(self.changed.wait(state).unwrap());
            }
        }
    }

    fn leave(&self, state: State) {
        let mut now = self.state.lock().unwrap();
        *now = (state, now.1 + 1);
        self.changed.notify_all();
    }
}

/// The lock, held.
pub struct Guard<'a> {
    lock: &'a RobustLock,
    owner_died: bool,
}

impl Guard<'_> {
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }

    pub fn release_to_all(self) {}

    pub fn release_with_fence(self) {
        drop(self);
        full_fence_after_swap();
    }

    /// Killed with the lock held.
    pub fn die(self) {
        let guard = ManuallyDrop::new(self);
        guard.lock.leave(State::OwnerDied);
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.lock.leave(State::Free);
    }
}
