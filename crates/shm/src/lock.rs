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
//! A peer may scribble into the word at any time, so a word is not believed for ever: one that names a
//! thread which does not exist is corrupt ([`LockError::Corrupted`]), since the kernel marks a dead
//! owner's locks before it gives the thread's id back. One that names a living thread may be honest
//! for however long that thread is stopped: whoever waits says for how long ([`LockError::Held`]).
//!
//! Sharing the C library's list is sound because our sections nest: nothing else is linked or
//! unlinked by this thread between taking and giving back, except by a signal handler, which is done
//! before we go on.

use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

use crate::patience;
use crate::robust_list::{Me, ThreadList, WORD_FROM_ENTRY, me};
use crate::signals;
use crate::sync::{AtomicU32, AtomicU64, Ordering, full_fence_after_swap};

#[cfg(test)]
mod tests;
mod watch;

use watch::{RECHECK, Watch};

/// How long to spin for a lock before sleeping, in ticks: about two copies of 64 KiB, which is what
/// a holder is usually busy with.
const SPIN_TICKS: u64 = 20_000;

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
    /// A peer wrote nonsense into the lock's word.
    #[error("word corrupted: {found:#010x}, expected 0 or the id of a thread that holds it")]
    Corrupted {
        /// What stood there.
        found: u32,
    },
    /// Somebody held it for as long as we were willing to wait.
    #[error("held by thread {owner}")]
    Held {
        /// The thread.
        owner: u32,
    },
}

impl LockError {
    /// The thread that kept the lock, if that is why.
    pub fn owner(self) -> Option<u32> {
        match self {
            Self::Held { owner } => Some(owner),
            _ => None,
        }
    }

    /// As it is for callers of a pipe.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            Self::Reentered => io::ErrorKind::Deadlock,
            Self::NoList => io::ErrorKind::Unsupported,
            Self::Corrupted { .. } => io::ErrorKind::InvalidData,
            Self::Held { .. } => io::ErrorKind::WouldBlock,
        }
    }
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl RobustLock {
    /// Takes the lock, from a dead owner too: [`Guard::owner_died`] says so. Waits for `patience` at
    /// most, and the short spin that comes first.
    ///
    /// # Errors
    /// [`LockError::Reentered`] if this thread holds it already, [`LockError::Held`] if a living thread
    /// kept it for so long, [`LockError::Corrupted`].
    #[expect(
        clippy::inline_always,
        reason = "what it returns is large: put together elsewhere, a short transfer waits for it"
    )]
    #[inline(always)]
    pub fn lock_for(&self, patience: Duration) -> Result<Guard<'_>, LockError> {
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
            match self.lock_contended(me, pending, patience) {
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
    fn lock_contended(&self, me: Me, pending: u64, patience: Duration) -> Result<bool, LockError> {
        self.spin_while_held();
        let mut watch = Watch::new(self, patience);
        let mut mine = me.tid;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let mut time_is_up = false;
            match self.try_take(seen, mine) {
                Attempt::Taken { owner_died } => return Ok(owner_died),
                Attempt::Mine => return Err(self.mine(me, pending, seen)),
                Attempt::Changed => {}
                Attempt::Held => {
                    if self.announce_waiter(seen) {
                        // Another error means that the word changed, or that a signal came.
                        let slept = self.wait(seen | futex::WAITERS, watch.nap());
                        time_is_up = slept == Err(Errno::TIMEDOUT);
                        // Others may still wait: whoever slept takes the lock with the bit set.
                        mine = me.tid | futex::WAITERS;
                    }
                }
            }
            watch.look(time_is_up)?;
        }
    }

    /// What it means that the word names this thread. If it took the lock, it was about to take or
    /// give it back, or holds it as its innermost one, when the signal came whose handler we are in.
    fn mine(&self, me: Me, pending: u64, found: u32) -> LockError {
        if pending == self.entry() || me.list.first() == self.entry() {
            LockError::Reentered
        } else {
            LockError::Corrupted { found }
        }
    }

    /// Takes the lock as a place to stay for long. If it is held, `still_waits` is asked, after the
    /// owner was told that somebody waits; false gives `None`. So does waiting for
    /// [`RECHECK`]: the owner may be a stopped process.
    ///
    /// # Errors
    /// `Interrupted` if a signal handler ran, unless the call `restarts` and the handler asks for it;
    /// [`LockError::Reentered`], [`LockError::Corrupted`].
    pub fn lock_patiently(
        &self,
        restarts: bool,
        still_waits: impl Fn() -> bool,
    ) -> io::Result<Option<Guard<'_>>> {
        let me = me();
        if !me.list.is_there() {
            return Err(LockError::NoList.into());
        }
        let pending = me.list.swap_pending(self.entry());
        let taken = self.take_patiently(me, pending, restarts, still_waits);
        if let Ok(Some(owner_died)) = taken {
            return Ok(Some(Guard::link(self, me.list, pending, owner_died)));
        }
        me.list.swap_pending(pending);
        taken.map(|_| None)
    }

    fn take_patiently(
        &self,
        me: Me,
        pending: u64,
        restarts: bool,
        still_waits: impl Fn() -> bool,
    ) -> io::Result<Option<bool>> {
        let mut watch = Watch::new(self, RECHECK);
        let mut mine = me.tid;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let mut time_is_up = false;
            match self.try_take(seen, mine) {
                Attempt::Taken { owner_died } => return Ok(Some(owner_died)),
                Attempt::Mine => return Err(self.mine(me, pending, seen).into()),
                Attempt::Changed => {}
                Attempt::Held if !self.announce_waiter(seen) => {}
                Attempt::Held => {
                    if !still_waits() {
                        return Ok(None);
                    }
                    match self.wait(seen | futex::WAITERS, watch.nap()) {
                        Err(Errno::INTR) if !(restarts && signals::all_restart()) => {
                            return Err(io::ErrorKind::Interrupted.into());
                        }
                        slept => time_is_up = slept == Err(Errno::TIMEDOUT),
                    }
                    // Others may still wait: whoever slept takes the lock with the bit set.
                    mine = me.tid | futex::WAITERS;
                }
            }
            match watch.look(time_is_up) {
                Ok(()) => {}
                Err(LockError::Held { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
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
    fn wait(&self, word: u32, at_most: Duration) -> Result<(), Errno> {
        let at_most = Timespec {
            tv_sec: at_most.as_secs().cast_signed(),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        futex::wait(
            self.word.as_futex(),
            futex::Flags::empty(),
            word,
            Some(&at_most),
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

    /// Gives the lock back; what the caller looks at afterwards is looked at after all that it stored.
    #[inline]
    pub fn release_with_fence(self) {
        drop(self);
        full_fence_after_swap();
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
