//! What a process has once, and a forked child has to make anew: threads, and what they work on.

use std::ptr;

use rustix::process::Pid;
use standpipe_shm::fork;
use standpipe_shm::sync::{AtomicPtr, Ordering};

/// One of these for the process, made when it is first asked for, and kept until the process ends.
///
/// A forked child gets its own: locks that a thread of the parent may have held at the fork are inside the
/// value of the parent, which the child never touches.
pub struct PerProcess<T>(AtomicPtr<Owned<T>>);

struct Owned<T> {
    owner: Owner,
    value: T,
}

/// A process: by its number, and, as a child may have the same one in another namespace or after its parent's
/// end, by the forks that led to it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(Pid, u32);

impl Owner {
    fn this_process() -> Self {
        Self(rustix::process::getpid(), fork::generation())
    }
}

impl<T: Default + Sync + 'static> PerProcess<T> {
    /// Nothing is made yet.
    #[must_use]
    #[allow(clippy::new_without_default)] // it is for statics
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's. What is expensive to make, or can fail, is for the value to make later: of two
    /// threads that come here first, one drops its value again.
    pub fn get(&self) -> &'static T {
        let process = Owner::this_process();
        loop {
            // Acquire pairs with the Release below: the value is seen as it was made.
            let pointer = self.0.load(Ordering::Acquire);
            // SAFETY: null, or what came out of a box and is never freed.
            let owned = unsafe { pointer.as_ref() };
            if let Some(owned) = owned
                && owned.owner == process
            {
                return &owned.value;
            }
            fork::count();
            let value = T::default();
            let new = Box::into_raw(Box::new(Owned {
                owner: process,
                value,
            }));
            let swapped =
                self.0
                    .compare_exchange(pointer, new, Ordering::AcqRel, Ordering::Relaxed);
            if swapped.is_err() {
                // SAFETY: came out of a box just now, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}
