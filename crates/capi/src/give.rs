//! Descriptors given to code that does not know standpipe: the C library's streams, calls of the
//! kernel that look at its own pipe only, other processes.

use std::ffi::{c_char, c_int, c_uint, c_void};

use standpipe_shm::sync::{AtomicBool, Ordering};

use libc::{FILE, epoll_event, iovec, loff_t, msghdr, off_t, ssize_t};

use crate::border::{Answer, answer};
use crate::make::sp_forget;
use crate::slot::Kind;
use crate::table;

/// From now on, and for good, all bytes of `fd`'s pipe that this process moves go through the kernel's:
/// for code that looks at the descriptor without standpipe. Returns 0 or -1. Other descriptors are
/// left alone.
#[unsafe(no_mangle)]
pub extern "C" fn sp_use_kernel(fd: c_int) -> c_int {
    answer(
        || {
            table::with(fd, |end| {
                end.use_kernel()?;
                Ok(0)
            })
        },
        || 0,
    )
}

static STREAMS_USE_KERNEL: AtomicBool = AtomicBool::new(false);

/// The program's streams use descriptors 0, 1 and 2 without standpipe (as in C++): whatever these
/// numbers are given to from now on uses the kernel's pipe. Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn sp_streams_use_kernel() -> c_int {
    STREAMS_USE_KERNEL.store(true, Ordering::Relaxed);
    0
}

/// `fd` was given to another file.
pub fn note_given(fd: c_int) {
    if (0..=2).contains(&fd) && STREAMS_USE_KERNEL.load(Ordering::Relaxed) {
        sp_use_kernel(fd);
    }
}

/// Gives `fd` up for good: to code that reads, writes and closes it without standpipe. Returns `fd`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_give_up(fd: c_int) -> c_int {
    let give_up = || -> Answer<c_int> {
        table::give_up(fd);
        Ok(fd)
    };
    answer(give_up, || fd)
}

/// Gives the descriptor of a stream up, so that what the stream does and what is done by number stay
/// in order. Returns the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_stream(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() {
        // SAFETY: a stream, by the caller.
        let fd = unsafe { libc::fileno(stream) };
        if fd >= 0 && table::kind(fd) != Kind::Foreign {
            sp_give_up(fd);
        }
    }
    stream
}

/// [fdopen(3)](https://man7.org/linux/man-pages/man3/fdopen.3.html). Streams use the kernel's pipe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: by the caller.
    let stream = unsafe { libc::fdopen(fd, mode) };
    // SAFETY: a stream, or null.
    unsafe { sp_stream(stream) }
}

/// [epoll_ctl(2)](https://man7.org/linux/man-pages/man2/epoll_ctl.2.html). The pipe of an end that is
/// watched uses the kernel's from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if operation != libc::EPOLL_CTL_DEL {
        sp_use_kernel(fd);
    }
    // SAFETY: what C asks for.
    unsafe { libc::epoll_ctl(epoll, operation, fd, event) }
}

/// [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html), between the kernel's pipes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_splice(
    fd_in: c_int,
    off_in: *mut loff_t,
    fd_out: c_int,
    off_out: *mut loff_t,
    len: usize,
    flags: c_uint,
) -> ssize_t {
    sp_use_kernel(fd_in);
    sp_use_kernel(fd_out);
    // SAFETY: what C asks for.
    unsafe { libc::splice(fd_in, off_in, fd_out, off_out, len, flags) }
}

/// [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html), between the kernel's pipes.
#[unsafe(no_mangle)]
pub extern "C" fn sp_tee(fd_in: c_int, fd_out: c_int, len: usize, flags: c_uint) -> ssize_t {
    sp_use_kernel(fd_in);
    sp_use_kernel(fd_out);
    // SAFETY: what C asks for.
    unsafe { libc::tee(fd_in, fd_out, len, flags) }
}

/// [vmsplice(2)](https://man7.org/linux/man-pages/man2/vmsplice.2.html), with the kernel's pipe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_vmsplice(
    fd: c_int,
    iov: *const iovec,
    count: usize,
    flags: c_uint,
) -> ssize_t {
    sp_use_kernel(fd);
    // SAFETY: what C asks for.
    unsafe { libc::vmsplice(fd, iov, count, flags) }
}

/// [sendfile(2)](https://man7.org/linux/man-pages/man2/sendfile.2.html), into the kernel's pipe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_sendfile(
    out_fd: c_int,
    in_fd: c_int,
    offset: *mut off_t,
    count: usize,
) -> ssize_t {
    sp_use_kernel(out_fd);
    sp_use_kernel(in_fd);
    // SAFETY: what C asks for.
    unsafe { libc::sendfile(out_fd, in_fd, offset, count) }
}

/// [sendmsg(2)](https://man7.org/linux/man-pages/man2/sendmsg.2.html). The pipes of ends that are sent
/// use the kernel's from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_sendmsg(
    socket: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: a message, by the caller.
    unsafe { for_each_fd(message, |fd| _ = sp_use_kernel(fd)) };
    // SAFETY: what C asks for.
    unsafe { libc::sendmsg(socket, message, flags) }
}

/// [recvmsg(2)](https://man7.org/linux/man-pages/man2/recvmsg.2.html). Received ends get the lane if
/// those who have the other one speak standpipe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: what C asks for.
    let received = unsafe { libc::recvmsg(socket, message, flags) };
    if received >= 0 {
        // SAFETY: the kernel has written the message.
        unsafe { for_each_fd(message, |fd| _ = sp_forget(fd)) };
    }
    received
}

/// The descriptors in the control part of a message. See cmsg(3).
///
/// # Safety
/// A message, or null.
unsafe fn for_each_fd(message: *const msghdr, mut work: impl FnMut(c_int)) {
    if message.is_null() {
        return;
    }
    // SAFETY: a message.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !control.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR stay inside of what the message has.
        let header = unsafe { &*control };
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: as above.
            let data: *const c_void = unsafe { libc::CMSG_DATA(control) }.cast();
            // SAFETY: arithmetic.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            for i in 0..header.cmsg_len.saturating_sub(head) / size_of::<c_int>() {
                // SAFETY: the length says that there are so many.
                let place = unsafe { data.cast::<c_int>().add(i) };
                // SAFETY: as above; control data need not be aligned.
                work(unsafe { place.read_unaligned() });
            }
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(message, control) };
    }
}
