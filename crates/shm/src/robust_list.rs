//! This thread's list of robust locks, and who this thread is.
//!
//! While a thread holds a robust lock, the lock is linked into the list that the C library
//! registered for the thread. If the thread dies, killed at any instruction, the kernel walks the
//! list, marks the words and wakes a waiter
//! (<https://docs.kernel.org/locking/robust-futex-ABI.html>).

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::compiler_fence;

use crate::fork;
use crate::sync::Ordering;

/// Distance from a list entry to its lock's word. It is one number per thread, and glibc chose it
/// for its mutexes on 64-bit machines.
pub const WORD_FROM_ENTRY: isize = -32;

/// The kernel's view of a thread's locks (`struct robust_list_head`).
#[repr(C)]
struct ListHead {
    first: u64,
    word_from_entry: isize,
    pending: u64,
}

/// What a thread must know to take robust locks. Asked of the kernel once per thread and fork.
#[derive(Clone, Copy)]
pub struct Me {
    /// As in the lock's word.
    pub tid: u32,
    fork_generation: u32,
    pub list: ThreadList,
}

/// The registered list. Addresses of entries are plain numbers here: only the kernel follows them.
#[derive(Clone, Copy)]
pub struct ThreadList {
    first: *mut u64,
    pending: *mut u64,
}

thread_local! {
    static ME: Cell<Me> = const {
        let list = ThreadList { first: ptr::null_mut(), pending: ptr::null_mut() };
        Cell::new(Me { tid: 0, fork_generation: 0, list })
    };
}

/// Whether this thread's locks can be robust: the C library registered a list of the layout that
/// our locks have. Without it there must be no lane.
pub fn is_supported() -> bool {
    me().list.is_there()
}

/// This thread.
#[inline]
pub fn me() -> Me {
    let me = ME.get();
    if me.tid != 0 && me.fork_generation == fork::generation() {
        me
    } else {
        introduce()
    }
}

#[cold]
fn introduce() -> Me {
    let me = Me {
        tid: rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs(),
        fork_generation: fork::generation(),
        list: registered_list(),
    };
    ME.set(me);
    me
}

fn registered_list() -> ThreadList {
    let mut head: *mut ListHead = ptr::null_mut();
    let mut bytes = 0_usize;
    // SAFETY: both out-pointers are valid for writes; get_robust_list(2) writes nothing else.
    let status =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut bytes) };
    let none = ThreadList {
        first: ptr::null_mut(),
        pending: ptr::null_mut(),
    };
    if status != 0 || bytes != size_of::<ListHead>() || head.is_null() {
        return none;
    }
    // SAFETY: the kernel gave the address that the C library registered for this thread; it is part
    // of the thread's own descriptor and lives as long as the thread. The C library uses it on this
    // thread only, hence not while this borrow lasts.
    let head = unsafe { &mut *head };
    if head.word_from_entry != WORD_FROM_ENTRY {
        return none;
    }
    ThreadList {
        first: &raw mut head.first,
        pending: &raw mut head.pending,
    }
}

/// The order of these accesses is for the kernel, which looks when the thread is dead: program order
/// is what it sees, and the compiler must not change it.
impl ThreadList {
    /// Whether this thread has one. Without it, nothing below may be called.
    #[inline]
    pub fn is_there(self) -> bool {
        !self.first.is_null()
    }

    #[inline]
    pub fn first(self) -> u64 {
        // SAFETY: this thread's own list (see `registered_list`), which the locks make sure of
        // (`is_there`); nobody else touches it while the thread lives.
        unsafe { ptr::read_volatile(self.first) }
    }

    #[inline]
    pub fn set_first(self, entry: u64) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `first`.
        unsafe { ptr::write_volatile(self.first, entry) };
        compiler_fence(Ordering::SeqCst);
    }

    /// Names the lock that is about to be taken or given back; returns what was named before.
    #[inline]
    pub fn swap_pending(self, entry: u64) -> u64 {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as in `first`.
        let before = unsafe { ptr::read_volatile(self.pending) };
        // SAFETY: as in `first`.
        unsafe { ptr::write_volatile(self.pending, entry) };
        compiler_fence(Ordering::SeqCst);
        before
    }
}
