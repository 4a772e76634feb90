//! fcntl and ioctl.

use std::ffi::{c_int, c_ulong};
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use standpipe::end::End;

use crate::border::{Answer, Refusal, answer, check_address};
use crate::number::copied;
use crate::table;

/// [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html). `O_ASYNC` and `O_DIRECT` move the
/// pipe to the kernel for good.
// Declared with `...` in the header: see `sp_open`. What is not there is not looked at by the kernel
// either.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: what C asks for.
    let kernel = || unsafe { libc::fcntl(fd, command, argument) };
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(fd, kernel()),
        libc::F_SETFL => answer(
            || table::with(fd, |end| set_flags(end, argument as u32, kernel)),
            kernel,
        ),
        libc::F_GETPIPE_SZ => answer(
            || table::with(fd, |end| size(end.capacity_bytes()?)),
            kernel,
        ),
        libc::F_SETPIPE_SZ => answer(
            || table::with(fd, |end| set_capacity(end, argument as u32)),
            kernel,
        ),
        _ => answer(|| known_to_kernel(fd), kernel),
    }
}

/// What every descriptor of the program does the same way.
fn known_to_kernel(fd: c_int) -> Answer<c_int> {
    table::check_not_private(fd)?;
    Err(Refusal::Kernel)
}

/// [ioctl(2)](https://man7.org/linux/man-pages/man2/ioctl.2.html)
// Declared with `...` in the header: see `sp_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ioctl(fd: c_int, request: c_ulong, argument: *mut c_int) -> c_int {
    // SAFETY: what C asks for.
    let kernel = || unsafe { libc::ioctl(fd, request, argument) };
    match request {
        libc::FIONREAD => answer(
            || {
                table::with(fd, |end| {
                    let unread = size(end.unread_bytes()?)?;
                    check_address(argument, size_of::<c_int>())?;
                    // SAFETY: C answers for the address, as it does to ioctl(2).
                    unsafe { argument.write_unaligned(unread) };
                    Ok(0)
                })
            },
            kernel,
        ),
        libc::FIONBIO => answer(
            || table::with(fd, |end| set_nonblocking(end, kernel)),
            kernel,
        ),
        libc::FIOASYNC => answer(|| table::with(fd, |end| kernel_only(end, kernel)), kernel),
        _ => kernel(),
    }
}

fn set_flags(end: &End, flags: u32, kernel: impl Fn() -> c_int) -> Answer<c_int> {
    if flags & (libc::O_ASYNC | libc::O_DIRECT).cast_unsigned() != 0 {
        return kernel_only(end, kernel);
    }
    set_nonblocking(end, kernel)
}

/// Has the kernel change the mode, and tells the end, which remembers it.
fn set_nonblocking(end: &End, kernel: impl Fn() -> c_int) -> Answer<c_int> {
    let status = kernel();
    if status < 0 {
        return Err(crate::border::last_errno().into());
    }
    // SAFETY: only asks.
    let flags = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETFL) };
    end.set_nonblocking(flags & libc::O_NONBLOCK != 0)?;
    Ok(status)
}

/// What the kernel does for the bytes of its own pipe only.
fn kernel_only(end: &End, kernel: impl Fn() -> c_int) -> Answer<c_int> {
    end.use_kernel()?;
    set_nonblocking(end, kernel)
}

/// The kernel takes the argument for an unsigned number of 32 bits.
fn set_capacity(end: &End, bytes: u32) -> Answer<c_int> {
    if bytes > 1 << 31 {
        return Err(Errno::INVAL.into());
    }
    size(end.set_capacity_bytes(bytes as usize)?)
}

fn size(bytes: usize) -> Answer<c_int> {
    c_int::try_from(bytes).map_err(|_| Refusal::Errno(Errno::OVERFLOW))
}
