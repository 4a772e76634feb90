//! Vectors of C as slices of Rust, which have the same layout (see `IoSlice`). They are copied, up to
//! the most that one call moves, without those of no bytes: C may give such a one any address.

use std::ffi::c_int;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

use libc::{iovec, ssize_t};
use rustix::io::Errno;

use crate::border::{Answer, check_address};
use crate::transfer::MOST_BYTES;

/// Most vectors in one call (`IOV_MAX` of Linux).
const IOV_MAX: usize = 1024;

/// Calls `work` with the vectors to write from, unless there is nothing in them.
///
/// # Safety
/// The vectors are there, and so is the memory that they name.
pub unsafe fn with(
    iov: *const iovec,
    iovcnt: c_int,
    work: impl FnOnce(&[IoSlice<'_>]) -> Answer<ssize_t>,
) -> Answer<ssize_t> {
    let mut room = [const { MaybeUninit::uninit() }; IOV_MAX];
    // SAFETY: by the caller.
    let vectors = filled(unsafe { checked(iov, iovcnt) }?, &mut room)?;
    if vectors.is_empty() {
        return Ok(0);
    }
    // SAFETY: same layout; every vector has memory for its length, by the caller.
    work(unsafe { std::slice::from_raw_parts(vectors.as_ptr().cast(), vectors.len()) })
}

/// Calls `work` with the vectors to read into, unless there is no room in them.
///
/// # Safety
/// The vectors are there, and so is the memory that they name, which nobody else uses meanwhile.
pub unsafe fn with_mut(
    iov: *const iovec,
    iovcnt: c_int,
    work: impl FnOnce(&mut [IoSliceMut<'_>]) -> Answer<ssize_t>,
) -> Answer<ssize_t> {
    let mut room = [const { MaybeUninit::uninit() }; IOV_MAX];
    // SAFETY: by the caller.
    let vectors = filled(unsafe { checked(iov, iovcnt) }?, &mut room)?;
    if vectors.is_empty() {
        return Ok(0);
    }
    // SAFETY: same layout; every vector has memory for its length, by the caller.
    work(unsafe { std::slice::from_raw_parts_mut(vectors.as_mut_ptr().cast(), vectors.len()) })
}

/// The vectors, if their number is one that readv(2) takes.
///
/// # Safety
/// They are there.
pub unsafe fn checked<'a>(iov: *const iovec, iovcnt: c_int) -> Result<&'a [iovec], Errno> {
    let count = usize::try_from(iovcnt).map_err(|_| Errno::INVAL)?;
    if count > IOV_MAX {
        return Err(Errno::INVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    check_address(iov, count * size_of::<iovec>())?;
    // SAFETY: by the caller.
    let vectors = unsafe { std::slice::from_raw_parts(iov, count) };
    if vectors
        .iter()
        .any(|vector| vector.iov_len > isize::MAX as usize)
    {
        return Err(Errno::INVAL);
    }
    Ok(vectors)
}

/// Copies those that have bytes, up to the most that one call moves.
fn filled<'a>(
    vectors: &[iovec],
    room: &'a mut [MaybeUninit<iovec>; IOV_MAX],
) -> Result<&'a mut [iovec], Errno> {
    let mut left = MOST_BYTES;
    let mut n = 0;
    for vector in vectors {
        let bytes = vector.iov_len.min(left);
        if bytes > 0 {
            check_address(vector.iov_base.cast::<u8>(), vector.iov_len)?;
            room[n].write(iovec {
                iov_base: vector.iov_base,
                iov_len: bytes,
            });
            n += 1;
            left -= bytes;
        }
    }
    // SAFETY: the first `n` were written just now.
    Ok(unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), n) })
}
