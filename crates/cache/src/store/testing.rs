//! What tests of stores have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use standpipe_core::size::PAGE_BYTES;
use standpipe_shm::arena::{Arena, Lease};

use super::{Read, Store, StoreError};

/// Some bytes, never zero.
pub fn bytes(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(length as u64);
    (0..length).map(|_| random.u8(1..)).collect()
}

/// A lease that is full of what must not be seen.
pub fn dirty(arena: &Arc<Arena>, pages: usize) -> Lease {
    let mut lease = arena.take(pages).unwrap();
    for mut slice in lease.slices_mut() {
        slice.fill(0xff);
    }
    lease
}

/// Starts a read, and waits for it: what came, and the bytes of all pages.
pub fn try_read(
    store: &dyn Store,
    arena: &Arc<Arena>,
    offset_bytes: u64,
    len_bytes: usize,
) -> Result<(usize, Vec<u8>), StoreError> {
    let (tell, told) = mpsc::channel();
    store.start(Read {
        offset_bytes,
        len_bytes,
        lease: dirty(arena, len_bytes.div_ceil(PAGE_BYTES)),
        done: Box::new(move |lease, result| tell.send((lease, result)).unwrap()),
    });
    let (lease, result) = told.recv().unwrap();
    let bytes = lease.freeze().into_iter().flat_map(|page| page.to_vec());
    result.map(|got| (got, bytes.collect()))
}

/// As [`try_read`], where no error is expected.
#[track_caller]
pub fn read(
    store: &dyn Store,
    arena: &Arc<Arena>,
    offset_bytes: u64,
    len_bytes: usize,
) -> (usize, Vec<u8>) {
    try_read(store, arena, offset_bytes, len_bytes).unwrap()
}

/// That a read of the whole object gives these bytes, and zeroes behind them.
#[track_caller]
pub fn assert_reads(store: &dyn Store, wanted: &[u8]) {
    let arena = Arena::new(4096).unwrap();
    assert_eq!(store.length_bytes(), wanted.len() as u64);
    let (got, bytes) = read(store, &arena, 0, wanted.len().max(1));
    assert_eq!(got, wanted.len(), "{}", store.access());
    assert!(bytes[..got] == *wanted, "{}", store.access());
    let is_zero = bytes[got..].iter().all(|&byte| byte == 0);
    assert!(is_zero, "{}", store.access());
}

/// Whether `work` comes to its end in a forked child.
pub fn in_a_fork(work: impl FnOnce()) -> bool {
    // SAFETY: the child takes no lock that a thread of the parent may hold but the allocator's, which the C
    // library looks after, and ends with _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: ends the process without running what the parent has registered.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
    let mut status = 0;
    // SAFETY: waits for the child above; `status` outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status == 0
}
