//! No fork while a slot is being changed.
//!
//! Changes pass through the gate, many at a time; a fork waits until they are through, and keeps new
//! ones out until it has happened. Reads and writes do not come by here.

use std::cell::{Cell, RefCell};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Instant;

use standpipe_shm::sync::{AtomicBool, Ordering};

use crate::ring;
use crate::start::at_exit;
use crate::table::{self, PATIENCE};

static GATE: RwLock<()> = RwLock::new(());

thread_local! {
    /// How many changes this thread is in. More than one if a signal handler makes one, too, which
    /// must not wait for a fork that waits for the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };

    /// Held by a forking thread.
    static CLOSED: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// The right to change slots, and what the library below keeps of all pipes.
pub struct Pass {
    _guard: Option<RwLockReadGuard<'static, ()>>,
}

/// Waits while the gate is closed.
pub fn enter() -> Pass {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    Pass {
        _guard: (depth == 0).then(|| GATE.read().unwrap_or_else(PoisonError::into_inner)),
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether this thread has a pass: it is changing something.
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// Has forks wait for the gate from now on. The library below must be told of forks last before
/// one and first after it, since closing an end needs it: so it registers first, with a pipe.
pub fn watch_forks() {
    static IS_WATCHING: AtomicBool = AtomicBool::new(false);
    if IS_WATCHING.load(Ordering::Relaxed) || standpipe::pipe::pipe().is_err() {
        return;
    }
    if !IS_WATCHING.swap(true, Ordering::Relaxed) {
        // SAFETY: the three handlers are functions that live for ever.
        unsafe { libc::pthread_atfork(Some(close), Some(open), Some(open_in_child)) };
        // SAFETY: as above.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Not for ever: a thread that changes a slot may itself wait for something that the fork holds. The
/// child then forgets what that thread was about.
extern "C" fn close() {
    close_gate();
    // Who changes a slot may be about to tell the rings of it: that is over now.
    ring::hold_for_fork();
}

fn close_gate() {
    let begin = Instant::now();
    while !is_inside() && begin.elapsed() < PATIENCE {
        match GATE.try_write() {
            Ok(guard) => return CLOSED.set(Some(guard)),
            Err(TryLockError::Poisoned(poisoned)) => {
                return CLOSED.set(Some(poisoned.into_inner()));
            }
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

extern "C" fn open() {
    ring::release_after_fork();
    drop(CLOSED.take());
}

extern "C" fn open_in_child() {
    table::forget_other_threads();
    drop(CLOSED.take());
    ring::abandon_in_child();
    table::finish_closes();
}
