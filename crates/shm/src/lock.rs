//! A lock in shared memory that outlives its owner: the kernel's robust futex.
//!
//! The word holds the owner's thread id, plus the kernel's bits for "somebody waits" and "the owner
//! died". While a thread holds the lock, it is linked into the list of locks that the C library
//! registered for the thread; if the thread dies, killed at any instruction, the kernel walks that
//! list, marks the words and wakes a waiter
//! (<https://docs.kernel.org/locking/robust-futex-ABI.html>).
//!
//! Why not `pthread_mutex_t` with the robust attribute, which does the same: it follows pointers
//! that lie in the shared memory when it unlocks, so a peer that scribbles there would make us
//! write anywhere. Here the pointer that we need again is kept in the guard, on our own stack; the
//! copy in shared memory is for the kernel's eyes only, which checks each word before touching it.
//!
//! Sharing the C library's list is sound because our sections nest: nothing else is linked or
//! unlinked by this thread between [`RobustLock::lock`] and the guard's drop, except by a signal
//! handler, which is done before we go on.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::compiler_fence;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

use crate::fork;
use crate::patience;
use crate::signals;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Distance from the list entry to the lock's word. It is one number per thread, and glibc chose it
/// for its mutexes on 64-bit machines.
const WORD_FROM_ENTRY: isize = -32;

/// How long to spin for a lock before sleeping, in ticks: about two copies of 64 KiB, which is what
/// a holder is usually busy with.
const SPIN_TICKS: u64 = 20_000;

/// How long to wait for a seat before looking for oneself.
const RECHECK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
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
    std::mem::offset_of!(RobustLock, word) as isize
        - std::mem::offset_of!(RobustLock, next) as isize
        == WORD_FROM_ENTRY
);

/// Why a lock could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// This thread holds it: a signal handler used the pipe whose call it interrupted.
    #[error("this thread is inside a call on the same pipe (called from a signal handler?)")]
    Reentered,
}

/// The kernel's view of a thread's locks (`struct robust_list_head`).
#[repr(C)]
struct ListHead {
    first: u64,
    word_from_entry: isize,
    pending: u64,
}

/// What a thread must know to take robust locks. Asked of the kernel once per thread and fork.
#[derive(Clone, Copy)]
struct Me {
    tid: u32,
    fork_generation: u32,
    list: *mut ListHead,
}

thread_local! {
    static ME: Cell<Me> = const { Cell::new(Me { tid: 0, fork_generation: 0, list: ptr::null_mut() }) };
}

/// Whether this thread's locks can be robust: the C library registered a list of the layout that
/// [`RobustLock`] has. Without it there must be no lane.
pub fn is_supported() -> bool {
    !me().list.is_null()
}

fn me() -> Me {
    let me = ME.get();
    if me.tid != 0 && me.fork_generation == fork::generation() {
        me
    } else {
        introduce()
    }
}

#[cold]
fn introduce() -> Me {
    let mut list: *mut ListHead = ptr::null_mut();
    let mut bytes = 0_usize;
    // SAFETY: both out-pointers are valid for writes; get_robust_list(2) writes nothing else.
    let status =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut list, &raw mut bytes) };
    let usable = status == 0
        && bytes == size_of::<ListHead>()
        && !list.is_null()
        // SAFETY: the kernel gave the address that the C library registered for this thread; it
        // is part of the thread's own descriptor and lives as long as the thread.
        && unsafe { (*list).word_from_entry } == WORD_FROM_ENTRY;
    let me = Me {
        tid: rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs(),
        fork_generation: fork::generation(),
        list: if usable { list } else { ptr::null_mut() },
    };
    ME.set(me);
    me
}

impl RobustLock {
    /// Takes the lock, from a dead owner too: [`Guard::owner_died`] says so.
    ///
    /// # Errors
    /// [`LockError::Reentered`] if this thread holds it already.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_>, LockError> {
        let me = me();
        let mut guard = Guard::announce(self, me);
        // Acquire pairs with the Release in Guard::drop: what the last holder wrote is seen.
        match self
            .word
            .compare_exchange(0, me.tid, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => {}
            Err(_) => guard.owner_died = self.lock_contended(me.tid)?,
        }
        guard.link();
        Ok(guard)
    }

    /// Takes a lock that is held, or whose owner died (then true).
    #[cold]
    fn lock_contended(&self, tid: u32) -> Result<bool, LockError> {
        self.spin_while_held();
        let mut mine = tid;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let owner = seen & OWNER;
            if owner == tid {
                return Err(LockError::Reentered);
            }
            if owner == 0 {
                // Acquire: as in `lock`. A dead owner published nothing by releasing; what counts
                // of its writes are the positions, which have orderings of their own.
                let taken = mine | (seen & futex::WAITERS);
                let result =
                    self.word
                        .compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed);
                match result {
                    Ok(_) => return Ok(seen & futex::OWNER_DIED != 0),
                    Err(_) => continue,
                }
            }
            if self.announce_waiter(seen) {
                // An error means that the word changed or a signal came: look again.
                let _ = futex::wait(
                    &self.word,
                    futex::Flags::empty(),
                    seen | futex::WAITERS,
                    None,
                );
                // Others may still wait: whoever slept takes the lock with the bit set.
                mine = tid | futex::WAITERS;
            }
        }
    }

    /// Takes the lock as a place to stay for long. If it is held, `still_waits` is asked, after the
    /// owner was told that somebody waits; false gives `None`. So does waiting for
    /// [`RECHECK`]: the owner may be a stopped process.
    ///
    /// # Errors
    /// `Interrupted` if a signal handler ran that does not restart calls.
    pub fn lock_patiently(&self, still_waits: impl Fn() -> bool) -> io::Result<Option<Guard<'_>>> {
        let me = me();
        let mut guard = Guard::announce(self, me);
        let mut mine = me.tid;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let owner = seen & OWNER;
            if owner == me.tid {
                return Err(io::ErrorKind::Deadlock.into());
            }
            if owner == 0 {
                // A killed owner passed on one wake-up only: who takes over wakes all when it
                // leaves.
                let taken = mine | (seen & futex::WAITERS);
                // Acquire pairs with the Release in `Guard::unlink_and_release`.
                let result =
                    self.word
                        .compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed);
                if result.is_ok() {
                    guard.owner_died = seen & futex::OWNER_DIED != 0;
                    guard.link();
                    return Ok(Some(guard));
                }
                continue;
            }
            if !self.announce_waiter(seen) {
                continue;
            }
            if !still_waits() {
                return Ok(None);
            }
            let bound = Some(&RECHECK);
            match futex::wait(
                &self.word,
                futex::Flags::empty(),
                seen | futex::WAITERS,
                bound,
            ) {
                Err(Errno::TIMEDOUT) => return Ok(None),
                Err(Errno::INTR) if !signals::all_restart() => {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                _ => mine = me.tid | futex::WAITERS,
            }
        }
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

/// The lock, held.
pub struct Guard<'a> {
    lock: &'a RobustLock,
    list: *mut ListHead,
    /// What the list began with before us.
    next: u64,
    /// An operation that a signal handler of ours interrupted.
    pending: u64,
    linked: bool,
    owner_died: bool,
    to_all: bool,
    /// The lock belongs to the thread.
    _not_send: PhantomData<*mut ()>,
}

impl<'a> Guard<'a> {
    /// Tells the kernel which lock this thread is about to take or to give back.
    #[inline]
    fn announce(lock: &'a RobustLock, me: Me) -> Self {
        let mut guard = Guard {
            lock,
            list: me.list,
            next: 0,
            pending: 0,
            linked: false,
            owner_died: false,
            to_all: false,
            _not_send: PhantomData,
        };
        guard.pending = guard.swap_pending(lock.entry());
        guard
    }

    #[inline]
    fn swap_pending(&self, entry: u64) -> u64 {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `list` is this thread's registered list (see `introduce`; lanes exist only where
        // `is_supported`), and only this thread and the kernel, when it dies, look at it.
        let before = unsafe { ptr::read_volatile(&raw const (*self.list).pending) };
        // SAFETY: as above.
        unsafe { ptr::write_volatile(&raw mut (*self.list).pending, entry) };
        compiler_fence(Ordering::SeqCst);
        before
    }

    /// Puts the lock at the head of the thread's list.
    #[inline]
    fn link(&mut self) {
        // SAFETY: as in `swap_pending`.
        self.next = unsafe { ptr::read_volatile(&raw const (*self.list).first) };
        self.lock.next.store(self.next, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `swap_pending`; the entry stays valid until `drop` unlinks it.
        unsafe { ptr::write_volatile(&raw mut (*self.list).first, self.lock.entry()) };
        self.linked = true;
        self.swap_pending(self.pending);
    }

    /// Whether the last owner died inside. Whoever sees it must repair what the lock guards.
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }

    /// Gives the lock back and wakes all who wait for it.
    pub fn release_to_all(mut self) {
        self.to_all = true;
    }

    fn unlink_and_release(&mut self) {
        self.swap_pending(self.lock.entry());
        // SAFETY: as in `swap_pending`; sections nest, so the list still begins with our entry.
        unsafe { ptr::write_volatile(&raw mut (*self.list).first, self.next) };
        compiler_fence(Ordering::SeqCst);
        // Release pairs with the Acquire of the next `lock`.
        if self.lock.word.swap(0, Ordering::Release) & futex::WAITERS != 0 {
            // Nobody there any more is fine.
            let most = if self.to_all || self.owner_died {
                i32::MAX as u32
            } else {
                1
            };
            let _ = futex::wake(&self.lock.word, futex::Flags::empty(), most);
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.linked {
            self.unlink_and_release();
        }
        self.swap_pending(self.pending);
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
