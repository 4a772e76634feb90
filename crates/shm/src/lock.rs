//! A lock in shared memory that outlives its owner: the kernel's robust futex.
//!
//! The word holds the owner's thread id, plus the kernel's bits for "somebody waits" and "the owner
//! died". While a thread holds the lock, it is linked into the thread's robust list
//! ([`crate::robust_list`]), so that a killed owner's lock is passed on.
//!
//! Why not `pthread_mutex_t` with the robust attribute, which does the same: it follows pointers
//! that lie in the shared memory when it unlocks, so a peer that scribbles there would make us
//! write anywhere. Here the pointer that we need again is kept in the guard, on our own stack; the
//! copy in shared memory is for the kernel's eyes only, which checks each word before touching it.
//!
//! Sharing the C library's list is sound because our sections nest: nothing else is linked or
//! unlinked by this thread between taking and giving back, except by a signal handler, which is done
//! before we go on.

use std::io;
use std::marker::PhantomData;
use std::ptr;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

use crate::patience;
use crate::robust_list::{ThreadList, WORD_FROM_ENTRY, me};
use crate::signals;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// How long to spin for a lock before sleeping, in ticks: about two copies of 64 KiB, which is what
/// a holder is usually busy with.
const SPIN_TICKS: u64 = 20_000;

/// How long to sleep before looking again, whatever happens: peers are to be told of a death within
/// 100 milliseconds.
const RECHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 40_000_000,
};

/// The bits of the word that hold the owner's thread id (`FUTEX_TID_MASK`).
const OWNER: u32 = 0x3fff_ffff;

/// The lock. Zeroed memory is an unlocked lock.
#[repr(C)]
#[derive(Default)]
pub struct RobustLock {
    word: AtomicU32,
    _pad: [u32; 7],
    /// The list entry: a pointer of the owner's address space, written for the kernel only.
    next: AtomicU64,
}

const _: () = assert!(
    std::mem::offset_of!(RobustLock, word).cast_signed()
        - std::mem::offset_of!(RobustLock, next).cast_signed()
        == WORD_FROM_ENTRY
);

/// Why a lock could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// This thread holds it: a signal handler used the pipe whose call it interrupted.
    #[error("this thread is inside a call on the same pipe (called from a signal handler?)")]
    Reentered,
    /// This thread was made without the C library, which registers a list of locks for each.
    #[error("this thread has no list of robust locks (made by a raw clone?)")]
    NoList,
}

impl RobustLock {
    /// Takes the lock, from a dead owner too: [`Guard::owner_died`] says so.
    ///
    /// # Errors
    /// [`LockError::Reentered`] if this thread holds it already.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_>, LockError> {
        let me = me();
        if !me.list.is_there() {
            return Err(LockError::NoList);
        }
        // Tells the kernel which lock this thread is about to take.
        let pending = me.list.swap_pending(self.entry());
        // Acquire pairs with the Release in Guard::drop: what the last holder wrote is seen.
        let free = self
            .word
            .compare_exchange(0, me.tid, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        let owner_died = if free {
            false
        } else {
            match self.lock_contended(me.tid) {
                Ok(owner_died) => owner_died,
                Err(error) => {
                    me.list.swap_pending(pending);
                    return Err(error);
                }
            }
        };
        Ok(Guard::link(self, me.list, pending, owner_died))
    }

    /// Takes a lock that is held, or whose owner died (then true).
    #[cold]
    fn lock_contended(&self, tid: u32) -> Result<bool, LockError> {
        self.spin_while_held();
        let mut mine = tid;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            match self.try_take(seen, mine) {
                Attempt::Taken { owner_died } => return Ok(owner_died),
                Attempt::Mine => return Err(LockError::Reentered),
                Attempt::Changed => {}
                Attempt::Held => {
                    if self.announce_waiter(seen) {
                        // An error means that the word changed, a signal came, or the time is up.
                        let _ = self.wait(seen | futex::WAITERS);
                        // Others may still wait: whoever slept takes the lock with the bit set.
                        mine = tid | futex::WAITERS;
                    }
                }
            }
        }
    }

    /// Takes the lock as a place to stay for long. If it is held, `still_waits` is asked, after the
    /// owner was told that somebody waits; false gives `None`. So does waiting for
    /// [`RECHECK`]: the owner may be a stopped process.
    ///
    /// # Errors
    /// `Interrupted` if a signal handler ran, unless the call `restarts` and the handler asks for it.
    pub fn lock_patiently(
        &self,
        restarts: bool,
        still_waits: impl Fn() -> bool,
    ) -> io::Result<Option<Guard<'_>>> {
        let me = me();
        if !me.list.is_there() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let pending = me.list.swap_pending(self.entry());
        let taken = self.take_patiently(me.tid, restarts, still_waits);
        if let Ok(Some(owner_died)) = taken {
            return Ok(Some(Guard::link(self, me.list, pending, owner_died)));
        }
        me.list.swap_pending(pending);
        taken.map(|_| None)
    }

    fn take_patiently(
        &self,
        tid: u32,
        restarts: bool,
        still_waits: impl Fn() -> bool,
    ) -> io::Result<Option<bool>> {
        let mut mine = tid;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            match self.try_take(seen, mine) {
                Attempt::Taken { owner_died } => return Ok(Some(owner_died)),
                Attempt::Mine => return Err(io::ErrorKind::Deadlock.into()),
                Attempt::Changed => continue,
                Attempt::Held if !self.announce_waiter(seen) => continue,
                Attempt::Held => {}
            }
            if !still_waits() {
                return Ok(None);
            }
            match self.wait(seen | futex::WAITERS) {
                Err(Errno::TIMEDOUT) => return Ok(None),
                Err(Errno::INTR) if !(restarts && signals::all_restart()) => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                // Others may still wait: whoever slept takes the lock with the bit set.
                _ => mine = tid | futex::WAITERS,
            }
        }
    }

    /// Takes the lock if nobody holds the word as `seen`.
    fn try_take(&self, seen: u32, mine: u32) -> Attempt {
        match seen & OWNER {
            0 => {}
            owner if owner == mine & OWNER => return Attempt::Mine,
            _ => return Attempt::Held,
        }
        let taken = mine | (seen & futex::WAITERS);
        // Acquire pairs with the Release in `Guard::drop`. A dead owner published nothing by
        // releasing; what counts of its writes are the positions, which have orderings of their own.
        match self
            .word
            .compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Attempt::Taken {
                owner_died: seen & futex::OWNER_DIED != 0,
            },
            Err(_) => Attempt::Changed,
        }
    }

    /// Sleeps while the word is `word`, for a while at most: a waiter that was woken and killed
    /// before it could take the lock may have left us without the bit that says we wait.
    fn wait(&self, word: u32) -> Result<(), Errno> {
        futex::wait(
            self.word.as_futex(),
            futex::Flags::empty(),
            word,
            Some(&RECHECK),
        )
    }

    /// Makes sure that the owner will wake somebody.
    fn announce_waiter(&self, seen: u32) -> bool {
        seen & futex::WAITERS != 0
            || self
                .word
                .compare_exchange(
                    seen,
                    seen | futex::WAITERS,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    fn spin_while_held(&self) {
        if patience::processors() == 1 {
            return;
        }
        let start = patience::ticks();
        while self.word.load(Ordering::Relaxed) & OWNER != 0
            && patience::ticks().wrapping_sub(start) < SPIN_TICKS
        {
            std::hint::spin_loop();
        }
    }

    fn entry(&self) -> u64 {
        ptr::from_ref(&self.next) as u64
    }
}

/// What came of an attempt to take the lock.
enum Attempt {
    Taken {
        owner_died: bool,
    },
    /// Somebody else has it.
    Held,
    /// This very thread has it.
    Mine,
    /// Look again.
    Changed,
}

/// The lock, held.
pub struct Guard<'a> {
    lock: &'a RobustLock,
    list: ThreadList,
    /// What the list began with before us.
    next: u64,
    /// An operation that a signal handler of ours interrupted.
    pending: u64,
    owner_died: bool,
    to_all: bool,
    /// The lock belongs to the thread.
    _not_send: PhantomData<*mut ()>,
}

impl<'a> Guard<'a> {
    /// Puts a lock that was just taken at the head of the thread's list.
    #[inline]
    fn link(lock: &'a RobustLock, list: ThreadList, pending: u64, owner_died: bool) -> Self {
        let next = list.first();
        lock.next.store(next, Ordering::Relaxed);
        list.set_first(lock.entry());
        list.swap_pending(pending);
        Guard {
            lock,
            list,
            next,
            pending,
            owner_died,
            to_all: false,
            _not_send: PhantomData,
        }
    }

    /// Whether the last owner died inside. Whoever sees it must repair what the lock guards.
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }

    /// Gives the lock back and wakes all who wait for it.
    pub fn release_to_all(mut self) {
        self.to_all = true;
    }

    #[cold]
    fn wake_waiters(&self) {
        // One that took over from a dead owner wakes all: the kernel woke one only.
        let most = if self.to_all || self.owner_died {
            i32::MAX as u32
        } else {
            1
        };
        // Nobody there any more is fine.
        let _ = futex::wake(self.lock.word.as_futex(), futex::Flags::empty(), most);
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.list.swap_pending(self.lock.entry());
        // Sections nest, so the list still begins with our entry.
        self.list.set_first(self.next);
        // Release pairs with the Acquire of the next holder.
        if self.lock.word.swap(0, Ordering::Release) & futex::WAITERS != 0 {
            self.wake_waiters();
        }
        self.list.swap_pending(self.pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[test]
    fn a_second_thread_waits_and_a_reentry_is_refused() {
        let lock = RobustLock::default();
        let guard = lock.lock().unwrap();
        assert_eq!(lock.lock().err(), Some(LockError::Reentered));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| lock.lock().unwrap().owner_died());
            while lock.word.load(Ordering::Relaxed) & futex::WAITERS == 0 {
                std::thread::yield_now();
            }
            drop(guard);
            assert!(!other.join().unwrap());
        });
        assert_eq!(lock.word.load(Ordering::Relaxed) & OWNER, 0);
    }

    #[test]
    fn many_threads_exclude_each_other() {
        let lock = RobustLock::default();
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let _guard = lock.lock().unwrap();
                        // not atomic on purpose: lost updates show up in the sum
                        let n = count.load(Ordering::Relaxed);
                        count.store(n + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 80_000);
    }

    #[test]
    fn the_death_of_the_owner_is_told_and_the_lock_taken_over() {
        let memory = Memory::new(4096).unwrap();
        let lock = &memory.header().writer.0.lock;
        // SAFETY: the child calls nothing but our lock and _exit; no other thread's state matters.
        let child = unsafe { libc::fork() };
        if child == 0 {
            std::mem::forget(lock.lock());
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for our own child; a null status pointer is allowed.
        assert_eq!(unsafe { libc::waitpid(child, ptr::null_mut(), 0) }, child);
        let guard = lock.lock().unwrap();
        assert!(guard.owner_died());
        drop(guard);
        assert!(!lock.lock().unwrap().owner_died());
    }
}
