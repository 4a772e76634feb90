//! Completions.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use libc::timespec;
use rustix::io::Errno;
use standpipe::completion::{Buffers, Completion, Failure, Outcome};

use super::open::{self, Opened};
use super::turn::Inside;
use super::{State, sp_ring};
use crate::border::{Answer, answer, check_address, errno_of};
use crate::wait::duration;

/// More completions of the same operation follow.
pub const SP_RING_MORE: u32 = 1;

/// What came of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "named as C names types")]
pub struct sp_completion {
    /// As submitted.
    pub token: u64,
    /// How many bytes were moved, 0 being the end of the stream for a read; the descriptor of what was
    /// opened; 0 for what else went well; or the negated errno of the blocking call. `-ECANCELED`: cancelled before anything was moved, or
    /// linked behind something that did not succeed. `-ENOENT`: nothing to cancel.
    pub result: i64,
    /// Of a multishot read: the bytes that arrived. They are the library's, and there until the next call
    /// of `sp_ring_reap` or `sp_ring_wait`. Else null.
    pub data: *const c_void,
    /// `SP_RING_MORE`, or 0: then this is the last completion of its operation, and the token is free.
    pub flags: u32,
    /// Of a poll: which events are there, as in `revents` of poll(2).
    pub events: u32,
}

/// Stores up to `max` completions, oldest first, without waiting; others stay for the next call.
///
/// Returns their number, or -1 with errno `EINVAL` (`max` is not positive), `EFAULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_reap(
    ring: *mut sp_ring,
    completions: *mut sp_completion,
    max: c_int,
) -> c_int {
    let now = Some(Duration::ZERO);
    // SAFETY: by the caller.
    answer(|| unsafe { collect(ring, completions, max, now) }, || -1)
}

/// Waits until something is complete, and stores up to `max` completions. A null `timeout` is none.
///
/// Returns their number; 0 when the time has passed, and where there is nothing under way to wait for. Or -1
/// with errno `EINTR` (a signal handler ran), `EINVAL` (`max` is not positive, or no such time), `EFAULT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_wait(
    ring: *mut sp_ring,
    completions: *mut sp_completion,
    max: c_int,
    timeout: *const timespec,
) -> c_int {
    answer(
        || {
            // SAFETY: by the caller.
            let timeout = unsafe { duration(timeout) }?;
            // SAFETY: by the caller.
            unsafe { collect(ring, completions, max, timeout) }
        },
        || -1,
    )
}

/// # Safety
/// The ring as in [`super::with`]; there is room for `max` completions.
unsafe fn collect(
    ring: *mut sp_ring,
    completions: *mut sp_completion,
    max: c_int,
    timeout: Option<Duration>,
) -> Answer<c_int> {
    let most = usize::try_from(max).ok().filter(|max| *max > 0);
    let most = most.ok_or(Errno::INVAL)?;
    check_address(completions, most.saturating_mul(size_of::<sp_completion>()))?;
    check_address(ring, size_of::<sp_ring>())?;
    // SAFETY: by the caller.
    let ring = unsafe { &*ring };
    let mut inside = ring.turn.enter()?;
    inside.shown.clear();
    if timeout != Some(Duration::ZERO) && inside.ring.reap()?.len() == 0 {
        wait(&mut inside, timeout)?;
    }
    let State { ring, shown, .. } = &mut *inside;
    let mut count = 0;
    let mut opened = Opened::default();
    for completion in ring.reap()?.take(most) {
        if let Ok(Outcome::Opened(end)) = completion.result {
            opened.push(count, end);
        }
        // SAFETY: less than `max`.
        let place = unsafe { completions.add(count) };
        // SAFETY: there is room, by the caller.
        unsafe { place.write(told(&completion)) };
        if !completion.is_last {
            shown.push(completion.buffers);
        }
        count += 1;
    }
    let opened = opened.leave(&mut inside);
    inside.ends.close_left();
    drop(inside);
    // SAFETY: each has its completion, stored above.
    unsafe { open::publish(opened, completions) };
    c_int::try_from(count).map_err(|_| Errno::OVERFLOW.into())
}

/// Who waits lets go of what other threads closed so often: their peers wait for that.
const NOTES: Duration = Duration::from_millis(100);

/// Until something is complete, nothing is under way, or the time has passed.
fn wait(inside: &mut Inside<'_>, timeout: Option<Duration>) -> Answer<()> {
    inside.note_waiting(true);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let slice = left.map_or(NOTES, |left| left.min(NOTES));
        let is_complete = inside.ring.wait(Some(slice))?.len() > 0;
        if is_complete || inside.ring.in_flight() == 0 || left == Some(slice) {
            return Ok(());
        }
        inside.take_notes();
    }
}

fn told(completion: &Completion) -> sp_completion {
    let mut told = sp_completion {
        token: completion.token,
        result: 0,
        data: std::ptr::null(),
        flags: 0,
        events: 0,
    };
    match &completion.result {
        Ok(Outcome::Bytes(bytes)) => told.result = bytes.cast_signed() as i64,
        Ok(Outcome::Events(events)) => told.events = events.bits().into(),
        Ok(_) => {}
        Err(failure) => told.result = -i64::from(errno_of_failure(failure).raw_os_error()),
    }
    if !completion.is_last {
        told.flags = SP_RING_MORE;
        if let Buffers::One(bytes) = &completion.buffers {
            told.data = bytes.as_ptr().cast();
        }
    }
    told
}

fn errno_of_failure(failure: &Failure) -> Errno {
    match failure {
        Failure::Cancelled | Failure::LinkBroken => Errno::CANCELED,
        Failure::NotFound(_) => Errno::NOENT,
        Failure::Io(error) => errno_of(error),
        _ => Errno::IO,
    }
}
