//! Who is in a ring.
//!
//! - The **owner**, a thread of the program, enters for each call. A second one is refused: it might wait
//!   for ever for one that waits in the ring.
//! - A **closer** closes a descriptor that the ring uses, from whichever thread. It never waits: if
//!   somebody is inside it leaves the number behind, and who leaves the ring, or waits in it, lets go of
//!   it. (It notes, then tries to enter; who leaves unlocks, then looks for notes. So one of them sees the other.)
//! - A **fork** keeps everybody out, unless the owner is asleep inside.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use rustix::io::Errno;
use standpipe_shm::fork;
use standpipe_shm::sync::{AtomicBool, Ordering, full_fence, full_fence_after_swap};

use super::State;

/// The lock of a ring, and what it locks: `None` in a forked child.
pub struct Turn {
    state: Mutex<Option<State>>,
    /// The owner is inside. A hint: written by who holds the lock.
    is_owned: AtomicBool,
    /// The owner is inside, and may be asleep. A hint as well.
    is_waiting: AtomicBool,
    /// Numbers that were closed while somebody was inside.
    gone: Mutex<Vec<c_int>>,
    has_gone: AtomicBool,
    /// See [`fork::generation`].
    generation: u32,
}

impl Turn {
    pub fn new(state: State) -> Self {
        Self {
            state: Mutex::new(Some(state)),
            is_owned: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            gone: Mutex::default(),
            has_gone: AtomicBool::new(false),
            generation: fork::generation(),
        }
    }

    /// As the owner.
    ///
    /// # Errors
    /// `EPERM` in a forked child, `EDEADLK` if another thread is inside, `EIO` after a panic in there.
    #[inline]
    pub fn enter(&self) -> Result<Inside<'_>, Errno> {
        if self.is_foreign() {
            return Err(Errno::PERM);
        }
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(_)) => return Err(Errno::IO),
            Err(TryLockError::WouldBlock) if self.is_owned.load(Ordering::Relaxed) => {
                return Err(Errno::DEADLK);
            }
            // A closer or a fork: not for long.
            Err(TryLockError::WouldBlock) => self.state.lock().map_err(|_| Errno::IO)?,
        };
        if state.is_none() {
            return Err(Errno::PERM);
        }
        self.is_owned.store(true, Ordering::Relaxed);
        Ok(Inside {
            turn: self,
            state: ManuallyDrop::new(state),
        })
    }

    /// The descriptor `fd` is closed, or another file: the ring lets go of it as soon as nobody is inside.
    pub fn leave_note(&self, fd: c_int) {
        // It has nothing here any more; and its locks may be held by threads that don't exist.
        if self.is_foreign() {
            return;
        }
        self.gone().push(fd);
        self.has_gone.store(true, Ordering::Relaxed);
        // Pairs with the fence of who leaves.
        full_fence();
        self.take_notes();
    }

    fn take_notes(&self) {
        while self.has_gone.load(Ordering::Relaxed) {
            let Ok(mut state) = self.state.try_lock() else {
                return;
            };
            if let Some(state) = state.as_mut() {
                self.take_notes_inside(state);
            }
            drop(state);
            // As at the end of `Inside`.
            full_fence_after_swap();
        }
    }

    fn take_notes_inside(&self, state: &mut State) {
        let gone = {
            let mut gone = self.gone();
            self.has_gone.store(false, Ordering::Relaxed);
            std::mem::take(&mut *gone)
        };
        for fd in gone {
            state.ends.let_go(&mut state.ring, fd);
        }
    }

    fn gone(&self) -> MutexGuard<'_, Vec<c_int>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ring is another process's.
    pub fn is_foreign(&self) -> bool {
        self.generation != fork::generation()
    }

    /// For a fork: `None` if the owner is asleep inside, or stays until `deadline`.
    pub fn hold(&self, deadline: Instant) -> Option<MutexGuard<'_, Option<State>>> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(_)) => return None,
                Err(TryLockError::WouldBlock) => {}
            }
            if self.is_waiting.load(Ordering::Relaxed) || Instant::now() > deadline {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// What a child inherited in the midst of a call is not touched again, not even to free it.
    pub fn forget_if_foreign(&mut self) {
        if self.is_foreign() {
            let state = self.state.get_mut();
            std::mem::forget(state.unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// The owner, inside.
pub struct Inside<'a> {
    turn: &'a Turn,
    state: ManuallyDrop<MutexGuard<'a, Option<State>>>,
}

impl Inside<'_> {
    /// From now on, or not any more, it may be asleep.
    pub fn note_waiting(&self, yes: bool) {
        self.turn.is_waiting.store(yes, Ordering::Relaxed);
    }

    /// Lets go of what was closed meanwhile.
    pub fn take_notes(&mut self) {
        if self.turn.has_gone.load(Ordering::Relaxed) {
            let turn = self.turn;
            turn.take_notes_inside(self);
        }
    }
}

impl Deref for Inside<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        self.state.as_ref().expect("looked at when it came in")
    }
}

impl DerefMut for Inside<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("looked at when it came in")
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.turn.is_owned.store(false, Ordering::Relaxed);
        self.turn.is_waiting.store(false, Ordering::Relaxed);
        // SAFETY: dropped here alone.
        unsafe { ManuallyDrop::drop(&mut self.state) };
        // Unlocking is a swap. Pairs with the fence of who leaves a note.
        full_fence_after_swap();
        if self.turn.has_gone.load(Ordering::Relaxed) {
            self.turn.take_notes();
        }
    }
}
