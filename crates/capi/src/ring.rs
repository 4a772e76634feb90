//! The completion ring.
//!
//! A ring has a descriptor of its own of each end that it is used with, made at the first use ([`ends`]), so
//! that ordinary calls on the program's descriptor stay what they are. It lets go of it when the
//! program's number is closed or becomes another file.
//!
//! One thread at a time is in a ring ([`turn`]): the one that it belongs to, or for a moment one that
//! closes a descriptor. Around a fork it is nobody's ([`fork`]).

mod ends;
mod fork;
mod open;
mod reap;
mod submit;
mod turn;

use std::ffi::c_int;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use standpipe::completion::{Buffers, EndId, Operation, Ring};

use crate::border::{Answer, answer, check_address};
use crate::slot::Kind;
use crate::{gate, table};
use ends::Ends;

pub use fork::{abandon_in_child, hold_for_fork, let_go, release_after_fork};
pub use open::sp_ring_open;
pub use reap::{SP_RING_MORE, sp_completion, sp_ring_reap, sp_ring_wait};
pub use submit::{
    sp_ring_cancel, sp_ring_cancel_now, sp_ring_link_begin, sp_ring_link_end, sp_ring_poll,
    sp_ring_read, sp_ring_read_multishot, sp_ring_readv, sp_ring_timeout, sp_ring_write,
    sp_ring_writev,
};
use turn::Turn;

/// A completion ring: operations are submitted with a token, and reaped when they are complete.
///
/// Each is tried when it is submitted, without waiting, whatever the mode of its descriptor; what would
/// have to wait is completed later, in the order of submissions on each side of a pipe. There is nothing
/// like `io_uring_submit(3)`, and no thread is ever started.
///
/// Memory that an operation is given belongs to it until it is complete: reaped, cancelled, or the ring
/// destroyed. (One on a descriptor that is no end may have to be reaped even if it is cancelled.) A ring belongs to one thread at a time: who calls while another one is in it gets
/// `EDEADLK`. It belongs to the process that made it: a forked child gets `EPERM`, and may but destroy it.
/// No function of it may be called by a signal handler.
///
/// Descriptors are attached to the ring when they are first used with it. Ordinary calls on them go on as
/// ever. Closing one cancels its operations, which complete with `-ECANCELED`; if another thread is in the
/// ring at that time, it is that thread that closes the end, as it leaves (asleep in `sp_ring_wait`: within a
/// tenth of a second).
///
/// Operations on what is no end of a pipe or FIFO (sockets, eventfds, terminals, files at their position) are
/// made by the kernel, through an `io_uring(7)` that the ring has from the first one on. What that completes
/// interrupts the thread that submitted it in calls such as `epoll_wait(2)`, which then say `EINTR`;
/// `sp_ring_wait` sees to that itself. `ENOSYS` where there is no `io_uring`, or it is forbidden.
#[allow(non_camel_case_types, reason = "named as C names types")]
pub struct sp_ring {
    turn: Turn,
}

/// What a ring consists of.
pub struct State {
    ring: Ring,
    ends: Ends,
    /// Operations that are to be begun one after another.
    chain: Option<Chain>,
    /// Bytes that the program was shown with the last completions.
    shown: Vec<Buffers>,
    /// The number that the program polls.
    polled: Option<c_int>,
}

/// Between `sp_ring_link_begin` and `sp_ring_link_end`.
#[derive(Default)]
pub struct Chain {
    links: Vec<(u64, Operation)>,
    /// What was wrong with one of them.
    failed: Option<Errno>,
}

impl State {
    /// What the program's descriptor is to the ring.
    #[inline]
    fn find(&mut self, fd: c_int) -> Answer<EndId> {
        // It would wait for itself.
        if self.polled == Some(fd) {
            return Err(Errno::INVAL.into());
        }
        self.ends.find(&mut self.ring, fd)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.ends.release_all();
        if let Some(fd) = self.polled {
            table::forget(fd);
        }
    }
}

/// Makes a ring with places for `capacity` operations. Each holds one from its submission until its last
/// completion is reaped.
///
/// Returns 0, or -1 with errno `EINVAL` (a capacity of 0), `EMFILE`, `ENFILE`, `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_create(capacity: usize, ring: *mut *mut sp_ring) -> c_int {
    answer(
        || {
            check_address(ring, size_of::<*mut sp_ring>())?;
            gate::watch_forks();
            let state = State {
                ring: Ring::new(capacity)?,
                ends: Ends::default(),
                chain: None,
                shown: Vec::new(),
                polled: None,
            };
            let new = Box::leak(Box::new(sp_ring {
                turn: Turn::new(state),
            }));
            fork::note_made(new);
            // SAFETY: C answers for the address.
            unsafe { ring.write(std::ptr::from_ref(new).cast_mut()) };
            Ok(0)
        },
        || -1,
    )
}

/// Cancels everything, waits for nothing, and frees the ring; completions that were not reaped are
/// gone. Does nothing for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_destroy(ring: *mut sp_ring) {
    let destroy = || -> Answer<c_int> {
        if ring.is_null() {
            return Ok(0);
        }
        fork::note_gone(ring);
        // SAFETY: made by `sp_ring_create`, and C does not use it any more; nobody else knows it now.
        let mut ring = unsafe { Box::from_raw(ring) };
        ring.turn.forget_if_foreign();
        Ok(0)
    };
    answer(destroy, || 0);
}

/// A descriptor that is readable when `sp_ring_reap` would give something: for poll, epoll and the like,
/// however many pipes the ring has. It may be readable once more than that; a reap that gives nothing makes
/// it quiet. It is the ring's, and always the same: don't close it.
///
/// From the first call on, operations that have to wait are armed as they are submitted, which takes system
/// calls: programs that only ever wait in `sp_ring_wait` do without.
///
/// Returns the descriptor, or -1 with errno `EMFILE`, `ENFILE`, `ENOMEM`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_fd(ring: *mut sp_ring) -> c_int {
    // SAFETY: by the caller.
    let work = |state: &mut State| {
        let fd = state.ring.pollable()?.as_raw_fd();
        if state.polled.replace(fd).is_none() {
            // So that polls of it go to the kernel, although the library has it for itself.
            table::publish(fd, Kind::Foreign);
        }
        Ok(fd)
    };
    // SAFETY: by the caller.
    answer(|| unsafe { with(ring, work) }, || -1)
}

/// Attaches `fd` ahead of its first use.
///
/// Returns 0, or -1 with errno `EBADF` (not open, or by `O_PATH`), `EINVAL` (a pipe that is left to the kernel,
/// as by `sp_give_up`; the ring's own descriptor), `ENOSYS` (no end, and no `io_uring` for it), `EMFILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_attach(ring: *mut sp_ring, fd: c_int) -> c_int {
    let work = |state: &mut State| {
        state.find(fd)?;
        Ok(0)
    };
    // SAFETY: by the caller.
    answer(|| unsafe { with(ring, work) }, || -1)
}

/// Has the ring let go of `fd`, as closing it does: its operations are cancelled.
///
/// Returns 0, or -1 with errno `ENOENT` if the ring does not have it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_detach(ring: *mut sp_ring, fd: c_int) -> c_int {
    let work = |state: &mut State| {
        let was_there = state.ends.remove(&mut state.ring, fd);
        if was_there {
            Ok(0)
        } else {
            Err(Errno::NOENT.into())
        }
    };
    // SAFETY: by the caller.
    answer(|| unsafe { with(ring, work) }, || -1)
}

/// Does something in the ring, whose owner calls.
///
/// # Safety
/// Null, or made by `sp_ring_create` and not destroyed.
unsafe fn with<T>(ring: *mut sp_ring, work: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
    check_address(ring, size_of::<sp_ring>())?;
    // SAFETY: by the caller.
    let ring = unsafe { &*ring };
    work(&mut *ring.turn.enter()?)
}
