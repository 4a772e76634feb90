//! Where descriptors come from.

use std::ffi::{c_char, c_int, c_uint};

use libc::mode_t;
use rustix::io::Errno;
use standpipe::pipe::Builder;

use crate::border::{Answer, Refusal, answer, check_address};
use crate::gate;
use crate::slot::Kind;
use crate::table;

/// [pipe(2)](https://man7.org/linux/man-pages/man2/pipe.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_pipe(fds: *mut c_int) -> c_int {
    // SAFETY: by the caller.
    unsafe { sp_pipe2(fds, 0) }
}

/// [pipe2(2)](https://man7.org/linux/man-pages/man2/pipe2.2.html). In packet mode (`O_DIRECT`) all
/// bytes go through the kernel's pipe. Its size is that of pipes that nobody sized (`standpipe ctl`), by
/// default the kernel's, and grows while writers wait for room again and again; `F_SETPIPE_SZ` fixes
/// it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_pipe2(fds: *mut c_int, flags: c_int) -> c_int {
    answer(
        || {
            check_address(fds, 2 * size_of::<c_int>())?;
            // SAFETY: C answers for the address, as it does to pipe2(2).
            let fds = unsafe { &mut *fds.cast::<[c_int; 2]>() };
            *fds = new_pipe(flags)?;
            Ok(0)
        },
        || {
            // SAFETY: the kernel checks the address.
            let status = unsafe { libc::pipe2(fds, flags) };
            if status == 0 {
                // SAFETY: the kernel wrote two numbers there.
                let fds = unsafe { fds.cast::<[c_int; 2]>().read() };
                for fd in fds {
                    fresh(fd, Kind::Foreign);
                }
            }
            status
        },
    )
}

fn new_pipe(flags: c_int) -> Answer<[c_int; 2]> {
    if flags & !(libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
        return Err(Refusal::Kernel);
    }
    let _inside = gate::enter();
    let (reader, writer) = Builder::new()
        .close_on_exec(flags & libc::O_CLOEXEC != 0)
        .nonblocking(flags & libc::O_NONBLOCK != 0)
        .build()?;
    Ok([reader.into(), writer.into()].map(table::publish_end))
}

/// [open(2)](https://man7.org/linux/man-pages/man2/open.2.html). FIFOs get the lane.
// Declared with `...` in the header. On the platforms we build for, an argument of a variadic function
// is passed as that of any other; one that isn't there reads as anything, and is looked at only
// when the flags say that it is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: by the caller; the C library looks at the mode as said above.
    opened(unsafe { libc::open(path, flags, c_uint::from(mode)) })
}

/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html). FIFOs get the lane.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_openat(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: as in `sp_open`.
    opened(unsafe { libc::openat(dir, path, flags, c_uint::from(mode)) })
}

/// [creat(2)](https://man7.org/linux/man-pages/man2/creat.2.html). FIFOs get the lane.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_creat(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: by the caller.
    opened(unsafe { libc::creat(path, mode) })
}

fn opened(fd: c_int) -> c_int {
    if fd >= 0 {
        fresh(fd, Kind::Unknown);
    }
    fd
}

/// Notes what a number is that the kernel has just given out.
pub fn fresh(fd: c_int, kind: Kind) {
    let note = || -> Answer<c_int> {
        table::publish(fd, kind);
        Ok(0)
    };
    // After a panic it is looked at again when it is used.
    answer(note, || 0);
}

/// Gives `fd` the lane if it is an end of a pipe or FIFO, whatever it was before: for descriptors
/// received from other processes, or made by code that does not know standpipe.
///
/// Returns 0, or -1 with errno `EBADF` (not open) or `EINVAL` (no end of a pipe or FIFO).
#[unsafe(no_mangle)]
pub extern "C" fn sp_adopt(fd: c_int) -> c_int {
    let adopt = || {
        table::forget(fd);
        match table::with(fd, |_| Ok(0)) {
            Err(Refusal::Kernel) if table::kind(fd) == Kind::Foreign => Err(Errno::INVAL.into()),
            Err(Refusal::Kernel) => Err(Errno::BADF.into()),
            answer => answer,
        }
    };
    answer(adopt, || -1)
}

/// Forgets what `fd` was, without closing it: for numbers that were closed, and perhaps given out
/// again, by code that does not know standpipe. Returns `fd`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_forget(fd: c_int) -> c_int {
    let forget = || -> Answer<c_int> {
        table::forget(fd);
        Ok(fd)
    };
    answer(forget, || fd)
}
