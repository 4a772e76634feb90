//! Operations.

use std::ffi::{c_int, c_short, c_void};
use std::ptr::NonNull;

use libc::{iovec, timespec};
use rustix::io::Errno;
use standpipe::completion::{Buffer, EndId, Operation, PollFlags, SubmitError};

use super::{Chain, State, sp_ring, with};
use crate::border::{Answer, Refusal, answer, check_address};
use crate::vectors;
use crate::wait::duration;

/// Submits a read of up to `count` bytes into `buf`: as read(2), but it completes when there is something,
/// whatever the mode of `fd`.
///
/// All functions that submit something return 0, or -1 with errno and nothing is done: `EBUSY` (all places are
/// taken: reap first), `EEXIST` (the token is in use until its last completion is reaped), `EBADF` (`fd` is
/// not open, or of the other direction), `EINVAL` (0 bytes to move; a pipe that is left to the kernel, as by
/// `sp_give_up`; the ring's own descriptor), `EFAULT`, `ENOSYS` (it is no end of a pipe or FIFO, and there is no
/// `io_uring` for it), `EMFILE` (no descriptor left to attach it by).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_read(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    buf: *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: by the caller.
    let buffer = || unsafe { lent(buf, count) };
    // SAFETY: by the caller.
    unsafe { submit_on(ring, token, fd, |end| Ok(Operation::read(end, buffer()?))) }
}

/// Submits a write of all of `count` bytes, as a blocking write(2) does it: up to `PIPE_BUF` bytes go in
/// as a whole. A pipe without readers gives `-EPIPE`, and the signal `SIGPIPE`, as ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_write(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    buf: *const c_void,
    count: usize,
) -> c_int {
    // SAFETY: by the caller. It is read only.
    let buffer = || unsafe { lent(buf.cast_mut(), count) };
    // SAFETY: by the caller.
    unsafe { submit_on(ring, token, fd, |end| Ok(Operation::write(end, buffer()?))) }
}

/// Submits a read into several pieces of memory, in order. `iov` itself is not looked at after the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_readv(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    iov: *const iovec,
    iovcnt: c_int,
) -> c_int {
    // SAFETY: by the caller.
    let buffers = || unsafe { lent_vectors(iov, iovcnt) };
    let operation = |end| Ok(Operation::read_vectored(end, buffers()?));
    // SAFETY: by the caller.
    unsafe { submit_on(ring, token, fd, operation) }
}

/// Submits a write of several pieces of memory, in order. `iov` itself is not looked at after the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_writev(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    iov: *const iovec,
    iovcnt: c_int,
) -> c_int {
    // SAFETY: by the caller.
    let buffers = || unsafe { lent_vectors(iov, iovcnt) };
    let operation = |end| Ok(Operation::write_vectored(end, buffers()?));
    // SAFETY: by the caller.
    unsafe { submit_on(ring, token, fd, operation) }
}

/// Submits reads until the end of the stream, or until cancelled: a completion (with `SP_RING_MORE`) per
/// arrival, of at most `chunk_bytes`, in memory of the library's, see `data`. The last completion has 0 for
/// the end of the stream, or an error. While all places are taken, bytes stay in the pipe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_read_multishot(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    chunk_bytes: usize,
) -> c_int {
    let operation = |end| Ok(Operation::ReadMultishot { end, chunk_bytes });
    // SAFETY: by the caller.
    unsafe { submit_on(ring, token, fd, operation) }
}

/// Submits a question of poll(2): completes when one of `events` is there, or what comes unasked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_poll(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    events: c_short,
) -> c_int {
    let events = PollFlags::from_bits_retain(events.cast_unsigned());
    // SAFETY: by the caller.
    unsafe { submit_on(ring, token, fd, |end| Ok(Operation::Poll { end, events })) }
}

/// Submits a time-out, which completes with 0 when so much time has passed since it began. Linked before a
/// cancel, it limits the time of an operation. `EINVAL` for what is no time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_timeout(
    ring: *mut sp_ring,
    token: u64,
    after: *const timespec,
) -> c_int {
    let operation = |_: &mut State| {
        check_address(after, size_of::<timespec>())?;
        // SAFETY: by the caller.
        let after = unsafe { duration(after) }?.ok_or(Errno::FAULT)?;
        Ok(Operation::Timeout { after })
    };
    // SAFETY: by the caller.
    answer(|| unsafe { submit(ring, token, operation) }, || -1)
}

/// Submits the cancelling of the operation `target`, which completes with what it moved so far, if
/// anything, or with `-ECANCELED`. Completes itself with 0, or `-ENOENT` if there is none under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_cancel(ring: *mut sp_ring, token: u64, target: u64) -> c_int {
    let operation = |_: &mut State| Ok(Operation::Cancel { token: target });
    // SAFETY: by the caller.
    answer(|| unsafe { submit(ring, token, operation) }, || -1)
}

/// Cancels the operation `target` without a completion of its own, and needs no place. When it returns, the
/// memory of that operation is the program's again; its completion is still to be reaped. On what is no end of
/// a pipe or FIFO, the kernel may be in the midst of it: then its memory comes back with the completion, which
/// says what was moved.
///
/// Returns 0, or -1 with errno `ENOENT` if there is none under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_cancel_now(ring: *mut sp_ring, target: u64) -> c_int {
    let work = |state: &mut State| {
        if state.ring.cancel(target) {
            Ok(0)
        } else {
            Err(Errno::NOENT.into())
        }
    };
    // SAFETY: by the caller.
    answer(|| unsafe { with(ring, work) }, || -1)
}

/// What is submitted from now on, up to `sp_ring_link_end`, is one chain: each operation begins when that
/// before it has succeeded. After one that failed, was cancelled, or is a read that found the end of the
/// stream, the rest completes with `-ECANCELED`.
///
/// Returns 0, or -1 with errno `EALREADY` if a chain is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_link_begin(ring: *mut sp_ring) -> c_int {
    let work = |state: &mut State| {
        if state.chain.is_some() {
            return Err(Errno::ALREADY.into());
        }
        state.chain = Some(Chain::default());
        Ok(0)
    };
    // SAFETY: by the caller.
    answer(|| unsafe { with(ring, work) }, || -1)
}

/// Submits the chain, all of it or nothing.
///
/// Returns 0, or -1 with errno `EINVAL` if none is open; or that of the first operation in it that was or
/// is refused. In any case no chain is open afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_link_end(ring: *mut sp_ring) -> c_int {
    let work = |state: &mut State| {
        let chain = state.chain.take().ok_or(Errno::INVAL)?;
        if let Some(errno) = chain.failed {
            return Err(errno.into());
        }
        let submitted = state.ring.submit_linked(chain.links);
        submitted.map_err(|rejected| errno_of_rejection(rejected.reason))?;
        Ok(0)
    };
    // SAFETY: by the caller.
    answer(|| unsafe { with(ring, work) }, || -1)
}

/// # Safety
/// The ring as in [`with`].
#[inline]
unsafe fn submit_on(
    ring: *mut sp_ring,
    token: u64,
    fd: c_int,
    operation: impl FnOnce(EndId) -> Answer<Operation>,
) -> c_int {
    let operation = |state: &mut State| operation(state.find(fd)?);
    // SAFETY: by the caller.
    answer(|| unsafe { submit(ring, token, operation) }, || -1)
}

/// # Safety
/// The ring as in [`with`].
#[inline]
pub unsafe fn submit(
    ring: *mut sp_ring,
    token: u64,
    operation: impl FnOnce(&mut State) -> Answer<Operation>,
) -> Answer<c_int> {
    let work = |state: &mut State| {
        let operation = operation(state);
        if state.chain.is_some() {
            return state.link(token, operation);
        }
        let submitted = state.ring.submit(token, operation?);
        submitted.map_err(|rejected| errno_of_rejection(rejected.reason))?;
        Ok(0)
    };
    // SAFETY: by the caller.
    unsafe { with(ring, work) }
}

impl State {
    /// A link that is refused has the whole chain refused: without it, what comes behind it would begin too
    /// early.
    fn link(&mut self, token: u64, operation: Answer<Operation>) -> Answer<c_int> {
        let chain = self.chain.get_or_insert_default();
        match operation {
            Ok(operation) => chain.links.push((token, operation)),
            Err(refusal) => {
                let errno = match refusal {
                    Refusal::Errno(errno) => errno,
                    Refusal::Kernel => Errno::BADF,
                };
                chain.failed.get_or_insert(errno);
                return Err(errno.into());
            }
        }
        Ok(0)
    }
}

fn errno_of_rejection(error: SubmitError) -> Errno {
    match error {
        SubmitError::Full(_) => Errno::BUSY,
        SubmitError::TokenInUse(_) => Errno::EXIST,
        SubmitError::NoSuchEnd | SubmitError::WrongDirection => Errno::BADF,
        _ => Errno::INVAL,
    }
}

/// # Safety
/// C answers for the memory until the operation is complete, as for that of read(2) and write(2) until they
/// return.
unsafe fn lent(buf: *mut c_void, count: usize) -> Answer<Buffer> {
    if count == 0 {
        return Err(Errno::INVAL.into());
    }
    check_address(buf.cast::<u8>(), count)?;
    let start = NonNull::new(buf.cast()).ok_or(Errno::FAULT)?;
    // SAFETY: by the caller.
    Ok(unsafe { Buffer::from_raw_parts(start, count) })
}

/// # Safety
/// The vectors are there; of the memory that they name as in [`lent`].
unsafe fn lent_vectors(iov: *const iovec, iovcnt: c_int) -> Answer<Vec<Buffer>> {
    // SAFETY: by the caller.
    let vectors = unsafe { vectors::checked(iov, iovcnt) }?;
    let total = vectors.iter().try_fold(0_isize, |total, vector| {
        total.checked_add_unsigned(vector.iov_len)
    });
    total.ok_or(Errno::INVAL)?;
    // C may give one of no bytes any address.
    let with_bytes = vectors.iter().filter(|vector| vector.iov_len > 0);
    with_bytes
        // SAFETY: by the caller.
        .map(|vector| unsafe { lent(vector.iov_base, vector.iov_len) })
        .collect()
}
