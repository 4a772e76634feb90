//! System calls by descriptor number, for facts about descriptors and for the errors that typed
//! ends cannot make.

use std::io;
use std::os::fd::RawFd;

use crate::fail::{Fail, Outcome};

fn check(returned: libc::ssize_t) -> Outcome {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error().into())
}

fn check_int(returned: i32) -> Result<i32, Fail> {
    if returned < 0 {
        Err(io::Error::last_os_error().into())
    } else {
        Ok(returned)
    }
}

/// [read(2)](https://man7.org/linux/man-pages/man2/read.2.html) of one byte.
///
/// # Errors
/// What the call fails with.
pub fn read_byte(fd: RawFd) -> Outcome {
    let mut byte = 0u8;
    // SAFETY: `byte` is one writable byte.
    check(unsafe { libc::read(fd, (&raw mut byte).cast(), 1) })
}

/// [read(2)](https://man7.org/linux/man-pages/man2/read.2.html) to an address where nothing is.
///
/// # Errors
/// What the call fails with.
pub fn read_nowhere(fd: RawFd, bytes: usize) -> Outcome {
    // SAFETY: nothing can be mapped at address 1, so the kernel writes nothing.
    check(unsafe { libc::read(fd, std::ptr::without_provenance_mut(1), bytes) })
}

/// [write(2)](https://man7.org/linux/man-pages/man2/write.2.html) of `bytes`.
///
/// # Errors
/// What the call fails with.
pub fn write(fd: RawFd, bytes: &[u8]) -> Outcome {
    // SAFETY: `bytes` is readable for its length.
    check(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

/// [write(2)](https://man7.org/linux/man-pages/man2/write.2.html) from an address where nothing
/// is.
///
/// # Errors
/// What the call fails with.
pub fn write_nowhere(fd: RawFd, bytes: usize) -> Outcome {
    // SAFETY: the kernel only reads, and answers an address where nothing is with EFAULT.
    check(unsafe { libc::write(fd, std::ptr::without_provenance(1), bytes) })
}

/// [readv(2)](https://man7.org/linux/man-pages/man2/readv.2.html) with `count` vectors of
/// `bytes` bytes each, at an address where nothing is.
///
/// # Errors
/// What the call fails with.
///
/// # Panics
/// If `count` is above 2048.
pub fn readv_nowhere(fd: RawFd, count: i32, bytes: usize) -> Outcome {
    let nowhere = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(1),
        iov_len: bytes,
    };
    let vectors = vec![nowhere; 2048];
    assert!(count <= 2048);
    // SAFETY: `vectors` holds `count` vectors, and the kernel writes nothing where nothing is.
    check(unsafe { libc::readv(fd, vectors.as_ptr(), count) })
}

/// [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html) with a number as its argument.
///
/// # Errors
/// What the call fails with.
pub fn fcntl(fd: RawFd, command: i32, argument: i32) -> Result<i32, Fail> {
    // SAFETY: the commands used here take a number or nothing.
    check_int(unsafe { libc::fcntl(fd, command, argument) })
}

/// Whether `FD_CLOEXEC` is set.
///
/// # Errors
/// What the call fails with.
pub fn is_close_on_exec(fd: RawFd) -> Result<bool, Fail> {
    Ok(fcntl(fd, libc::F_GETFD, 0)? & libc::FD_CLOEXEC != 0)
}

/// Whether `O_NONBLOCK` is set.
///
/// # Errors
/// What the call fails with.
pub fn is_nonblocking(fd: RawFd) -> Result<bool, Fail> {
    Ok(fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK != 0)
}

/// [dup(2)](https://man7.org/linux/man-pages/man2/dup.2.html).
///
/// # Errors
/// What the call fails with.
pub fn dup(fd: RawFd) -> Result<RawFd, Fail> {
    // SAFETY: makes a descriptor that nobody else owns.
    check_int(unsafe { libc::dup(fd) })
}

/// [dup2(2)](https://man7.org/linux/man-pages/man2/dup.2.html). The caller answers for what was
/// open as `new`.
///
/// # Errors
/// What the call fails with.
pub fn dup2(fd: RawFd, new: RawFd) -> Result<RawFd, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::dup2(fd, new) })
}

/// [dup3(2)](https://man7.org/linux/man-pages/man2/dup.2.html). The caller answers for what was
/// open as `new`.
///
/// # Errors
/// What the call fails with.
pub fn dup3(fd: RawFd, new: RawFd, flags: i32) -> Result<RawFd, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::dup3(fd, new, flags) })
}

/// [close(2)](https://man7.org/linux/man-pages/man2/close.2.html). The caller answers for whose
/// it was.
///
/// # Errors
/// What the call fails with.
pub fn close(fd: RawFd) -> Result<i32, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::close(fd) })
}
