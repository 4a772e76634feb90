//! Reading and writing.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, Read, Write};

use libc::{iovec, off_t, ssize_t};
use rustix::event::PollFlags;
use rustix::io::Errno;
use standpipe::end::End;

use crate::border::{Answer, Refusal, answer, check_address};
use crate::{table, vectors};

/// Most bytes that one call moves, as on the kernel.
pub(crate) const MOST_BYTES: usize = 0x7fff_f000;

/// [read(2)](https://man7.org/linux/man-pages/man2/read.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_read(fd: c_int, buf: *mut c_void, count: usize) -> ssize_t {
    answer(
        || table::with(fd, |end| read(end, buf.cast(), count)),
        // SAFETY: the caller's arguments, which answer for themselves.
        || unsafe { libc::read(fd, buf, count) },
    )
}

/// [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_write(fd: c_int, buf: *const c_void, count: usize) -> ssize_t {
    answer(
        || table::with(fd, |end| write(fd, end, buf.cast(), count)),
        // SAFETY: the caller's arguments, which answer for themselves.
        || unsafe { libc::write(fd, buf, count) },
    )
}

/// [readv(2)](https://man7.org/linux/man-pages/man2/readv.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_readv(fd: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    answer(
        || table::with(fd, |end| read_vectors(end, iov, iovcnt)),
        // SAFETY: the caller's arguments, which answer for themselves.
        || unsafe { libc::readv(fd, iov, iovcnt) },
    )
}

/// [writev(2)](https://man7.org/linux/man-pages/man2/writev.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_writev(fd: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    answer(
        || table::with(fd, |end| write_vectors(fd, end, iov, iovcnt)),
        // SAFETY: the caller's arguments, which answer for themselves.
        || unsafe { libc::writev(fd, iov, iovcnt) },
    )
}

/// [preadv2(2)](https://man7.org/linux/man-pages/man2/preadv2.2.html). An end is read at offset -1
/// only; with flags its pipe uses the kernel from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_preadv2(
    fd: c_int,
    iov: *const iovec,
    iovcnt: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    answer(
        || {
            table::with(fd, |end| {
                for_lane(end, offset, flags)?;
                read_vectors(end, iov, iovcnt)
            })
        },
        // SAFETY: the caller's arguments, which answer for themselves.
        || unsafe { libc::preadv2(fd, iov, iovcnt, offset, flags) },
    )
}

/// [pwritev2(2)](https://man7.org/linux/man-pages/man2/pwritev2.2.html), in the same way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_pwritev2(
    fd: c_int,
    iov: *const iovec,
    iovcnt: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    answer(
        || {
            table::with(fd, |end| {
                for_lane(end, offset, flags)?;
                write_vectors(fd, end, iov, iovcnt)
            })
        },
        // SAFETY: the caller's arguments, which answer for themselves.
        || unsafe { libc::pwritev2(fd, iov, iovcnt, offset, flags) },
    )
}

/// `Ok` for what the lane does.
fn for_lane(end: &End, offset: off_t, flags: c_int) -> Answer<()> {
    if offset != -1 {
        return Err(Refusal::Kernel);
    }
    if flags != 0 {
        end.use_kernel()?;
        return Err(Refusal::Kernel);
    }
    Ok(())
}

#[inline]
fn read(end: &End, buf: *mut u8, count: usize) -> Answer<ssize_t> {
    check_can_read(end)?;
    if count == 0 {
        return Ok(0);
    }
    check_address(buf, count)?;
    // SAFETY: C answers for the memory, as it does to read(2): it is there, and ours until we return.
    let slice = unsafe { std::slice::from_raw_parts_mut(buf, count.min(MOST_BYTES)) };
    let mut end = end;
    Ok(end.read(slice)?.cast_signed())
}

#[inline]
fn write(fd: c_int, end: &End, buf: *const u8, count: usize) -> Answer<ssize_t> {
    check_can_write(end)?;
    if count == 0 {
        return Ok(0);
    }
    check_address(buf, count).or_else(|errno| unless_broken(fd, end, errno))?;
    // SAFETY: C answers for the memory, as it does to write(2): it is there, and stays.
    let slice = unsafe { std::slice::from_raw_parts(buf, count.min(MOST_BYTES)) };
    let mut end = end;
    Ok(end.write(slice)?.cast_signed())
}

fn read_vectors(end: &End, iov: *const iovec, iovcnt: c_int) -> Answer<ssize_t> {
    check_can_read(end)?;
    let mut end = end;
    // SAFETY: C answers for the vectors and their memory, as it does to readv(2).
    unsafe {
        vectors::with_mut(iov, iovcnt, |slices| {
            Ok(end.read_vectored(slices)?.cast_signed())
        })
    }
}

fn write_vectors(fd: c_int, end: &End, iov: *const iovec, iovcnt: c_int) -> Answer<ssize_t> {
    check_can_write(end)?;
    let mut writer = end;
    let work = |slices: &[IoSlice<'_>]| Ok(writer.write_vectored(slices)?.cast_signed());
    // SAFETY: C answers for the vectors and their memory, as it does to writev(2).
    match unsafe { vectors::with(iov, iovcnt, work) } {
        Err(Refusal::Errno(Errno::FAULT)) => Err(unless_broken(fd, end, Errno::FAULT)
            .expect_err("never repairs an address")
            .into()),
        result => result,
    }
}

#[inline]
fn check_can_read(end: &End) -> Result<(), Errno> {
    if end.can_read() {
        Ok(())
    } else {
        Err(Errno::BADF)
    }
}

#[inline]
fn check_can_write(end: &End) -> Result<(), Errno> {
    if end.can_write() {
        Ok(())
    } else {
        Err(Errno::BADF)
    }
}

/// A pipe without readers is broken for bad addresses, too: signal and `EPIPE` come first.
#[cold]
fn unless_broken(fd: c_int, end: &End, errno: Errno) -> Result<(), Errno> {
    if end
        .events(PollFlags::empty())
        .is_ok_and(|events| events.contains(PollFlags::ERR))
    {
        // SAFETY: nothing is there to be read: if a reader comes in this moment, it fails.
        let _ = unsafe { libc::write(fd, std::ptr::without_provenance(1), 1) };
        return Err(Errno::PIPE);
    }
    Err(errno)
}
