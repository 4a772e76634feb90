//! What a program may ask about an end.

use std::ffi::c_int;

use rustix::io::Errno;
use standpipe::end::{Close, CloseReason, End};

use crate::border::{Answer, Refusal, answer, check_address};
use crate::table;

/// What is known about an end, and about its side of the pipe since its lane was made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "named as its function, like stat")]
pub struct sp_stats {
    /// How many bytes the pipe holds.
    pub capacity_bytes: u64,
    /// How many of them are unread.
    pub unread_bytes: u64,
    /// Bytes that its side moved through the lane.
    pub lane_bytes: u64,
    /// Bytes that this process moved through the kernel's pipe instead.
    pub kernel_bytes: u64,
    /// Turns at the lane that moved bytes.
    pub operations: u64,
    /// How often somebody of its side went to sleep.
    pub sleeps: u64,
    /// Sleepers of the other side that were woken.
    pub wakeups_sent: u64,
    /// Transfers that had nobody to wake.
    pub wakeups_saved: u64,
    /// How often the lane was taken over from somebody who was killed in it.
    pub owner_deaths: u64,
}

/// The other side is there.
pub const SP_PEER_OPEN: c_int = 0;
/// Its last process closed its end, or handed it on.
pub const SP_PEER_CLOSED: c_int = 1;
/// It said that it gave up (`sp_cancel`).
pub const SP_PEER_CANCELLED: c_int = 2;
/// It ended with the end open: killed, crashed, or without closing.
pub const SP_PEER_DIED: c_int = 3;
/// It is gone, and nobody of it who knows standpipe was met.
pub const SP_PEER_UNKNOWN: c_int = 4;

/// How the last process at the other side of an end left.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "named as its function, like stat")]
pub struct sp_close_reason {
    /// One of `SP_PEER_...`.
    pub kind: c_int,
    /// Which process, if it was met; else 0.
    pub pid: c_int,
    /// The signal that killed it, as far as its parent may know it; else 0.
    pub signal: c_int,
    /// Room for more.
    pub reserved: c_int,
    /// How many bytes those at the other side who know standpipe, and met somebody, wrote (seen by a
    /// reader) or read (seen by a writer).
    pub committed_bytes: u64,
}

impl From<Close> for sp_close_reason {
    fn from(close: Close) -> Self {
        let (kind, pid, signal) = match close.reason {
            CloseReason::Open => (SP_PEER_OPEN, 0, None),
            CloseReason::Closed { pid } => (SP_PEER_CLOSED, pid, None),
            CloseReason::Cancelled { pid } => (SP_PEER_CANCELLED, pid, None),
            CloseReason::Died { pid, signal } => (SP_PEER_DIED, pid, signal),
            CloseReason::Unknown => (SP_PEER_UNKNOWN, 0, None),
        };
        Self {
            kind,
            pid: pid.cast_signed(),
            signal: signal.unwrap_or(0),
            reserved: 0,
            committed_bytes: close.committed_bytes,
        }
    }
}

/// Tells about the end `fd`. `size` is that of the caller's struct: fields beyond what this library
/// knows are zero, and it writes no more than there is room for. Returns 0, or -1 with errno `EINVAL`
/// for a descriptor that is no end, else as fcntl(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_stats(fd: c_int, stats: *mut sp_stats, size: usize) -> c_int {
    answer(
        || {
            let found = ours(fd, |end| {
                let stats = end.stats();
                Ok(sp_stats {
                    capacity_bytes: end.capacity_bytes()? as u64,
                    unread_bytes: end.unread_bytes()? as u64,
                    lane_bytes: stats.bytes,
                    kernel_bytes: stats.kernel_bytes,
                    operations: stats.operations,
                    sleeps: stats.sleeps,
                    wakeups_sent: stats.wakeups_sent,
                    wakeups_saved: stats.wakeups_saved,
                    owner_deaths: stats.owner_deaths,
                })
            })?;
            // SAFETY: by the caller.
            unsafe { write_out(&found, stats, size) }
        },
        || -1,
    )
}

/// Tells how the last process at the other side of the end `fd` left. `size` and errors as in [`sp_stats()`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_close_reason(
    fd: c_int,
    reason: *mut sp_close_reason,
    size: usize,
) -> c_int {
    answer(
        || {
            let found = ours(fd, |end| Ok(end.close_reason()?.into()))?;
            // SAFETY: by the caller.
            unsafe { write_out(&found, reason, size) }
        },
        || -1,
    )
}

fn ours<T>(fd: c_int, work: impl FnOnce(&End) -> Answer<T>) -> Answer<T> {
    table::with(fd, work).map_err(|refusal| no_end(fd, refusal))
}

/// What is said of a descriptor that is no end, where only those will do.
pub fn no_end(fd: c_int, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Kernel if table::is_open(fd) => Errno::INVAL.into(),
        Refusal::Kernel => Errno::BADF.into(),
        refusal @ Refusal::Errno(_) => refusal,
    }
}

/// # Safety
/// There is room for `size` bytes at `place`.
unsafe fn write_out<T: Copy>(value: &T, place: *mut T, size: usize) -> Answer<c_int> {
    check_address(place, size)?;
    let known = size.min(size_of::<T>());
    let place = place.cast::<u8>();
    // SAFETY: the value has that many bytes, and the caller's place has room for them.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast(), place, known) };
    // SAFETY: inside of the caller's place.
    let rest = unsafe { place.add(known) };
    // SAFETY: as above.
    unsafe { rest.write_bytes(0, size - known) };
    Ok(0)
}
