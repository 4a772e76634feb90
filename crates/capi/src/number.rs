//! What happens to descriptor numbers: copies and closes.

use std::ffi::{c_int, c_uint};

use crate::border::{Answer, Refusal, answer, last_errno};
use crate::give::note_given;
use crate::make::fresh;
use crate::slot::{Claim, Kind};
use crate::table;

/// [close(2)](https://man7.org/linux/man-pages/man2/close.2.html). While another thread is in a call
/// on `fd`, the number stays taken until that call returns.
#[unsafe(no_mangle)]
pub extern "C" fn sp_close(fd: c_int) -> c_int {
    answer(
        || table::close(fd),
        // SAFETY: what C asks for.
        || unsafe { libc::close(fd) },
    )
}

/// Closes an end, and tells the other side (`sp_close_reason`) that its owner gave up. Other descriptors
/// are just closed. `EBUSY` if another thread is asleep in a call on `fd`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_cancel(fd: c_int) -> c_int {
    answer(
        || {
            let claim = table::claim_for_change(fd)?.filter(Claim::has_end);
            let claim = claim.ok_or(Refusal::Kernel)?;
            claim.take().cancel();
            claim.become_kind(Kind::Unknown);
            Ok(0)
        },
        || sp_close(fd),
    )
}

/// [dup(2)](https://man7.org/linux/man-pages/man2/dup.2.html)
#[unsafe(no_mangle)]
pub extern "C" fn sp_dup(fd: c_int) -> c_int {
    // SAFETY: makes a number that nobody has.
    copied(fd, unsafe { libc::dup(fd) })
}

/// A copy of `fd` has just been made, with this result.
pub fn copied(fd: c_int, copy: c_int) -> c_int {
    if copy >= 0 {
        fresh(copy, kind_of_copy(fd));
    }
    copy
}

/// A copy is what the original is known to be.
fn kind_of_copy(fd: c_int) -> Kind {
    match table::kind(fd) {
        kind @ (Kind::Ours | Kind::Foreign) => kind,
        _ => Kind::Unknown,
    }
}

/// [dup2(2)](https://man7.org/linux/man-pages/man2/dup.2.html). `EBUSY` if another thread is asleep
/// in a call on `new_fd`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_dup2(fd: c_int, new_fd: c_int) -> c_int {
    // SAFETY: what C asks for.
    replaced(fd, new_fd, || unsafe { libc::dup2(fd, new_fd) })
}

/// [dup3(2)](https://man7.org/linux/man-pages/man2/dup.2.html). `EBUSY` if another thread is asleep
/// in a call on `new_fd`.
#[unsafe(no_mangle)]
pub extern "C" fn sp_dup3(fd: c_int, new_fd: c_int, flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC != 0 {
        // SAFETY: fails, with the errno that is due.
        return unsafe { libc::dup3(fd, new_fd, flags) };
    }
    // SAFETY: what C asks for.
    replaced(fd, new_fd, || unsafe { libc::dup3(fd, new_fd, flags) })
}

fn replaced(fd: c_int, new_fd: c_int, kernel: impl Fn() -> c_int) -> c_int {
    answer(|| replace(fd, new_fd, &kernel), &kernel)
}

/// Makes `new_fd` a copy of `fd`. Its number is never free in between.
fn replace(fd: c_int, new_fd: c_int, kernel: &impl Fn() -> c_int) -> Answer<c_int> {
    // What fails changes nothing: the kernel's to tell.
    if fd == new_fd || !table::is_open(fd) || new_fd < 0 {
        return Err(Refusal::Kernel);
    }
    let kind = kind_of_copy(fd);
    let Some(claim) = table::claim_for_change(new_fd)? else {
        return Err(Refusal::Kernel);
    };
    let before = claim.kind();
    table::part(new_fd, &claim);
    if kernel() < 0 {
        let errno = last_errno();
        table::become_like(new_fd, claim, before);
        return Err(errno.into());
    }
    table::become_like(new_fd, claim, kind);
    note_given(new_fd);
    Ok(new_fd)
}

/// [close_range(2)](https://man7.org/linux/man-pages/man2/close_range.2.html). What the library holds for
/// itself stays.
#[unsafe(no_mangle)]
pub extern "C" fn sp_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: what C asks for.
    let kernel = |first: c_uint, last: c_uint| unsafe {
        libc::syscall(libc::SYS_close_range, first, last, flags) as c_int
    };
    if first > last || flags & libc::CLOSE_RANGE_CLOEXEC.cast_signed() != 0 {
        return kernel(first, last);
    }
    close_ours(first, last);
    let mut next = first;
    for private in table::private_between(number(first), number(last)) {
        let private = private.cast_unsigned();
        if private > next && kernel(next, private - 1) < 0 {
            return -1;
        }
        next = private + 1;
    }
    if next > last { 0 } else { kernel(next, last) }
}

/// closefrom(3)
#[unsafe(no_mangle)]
pub extern "C" fn sp_closefrom(first: c_int) {
    sp_close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0);
}

fn number(n: c_uint) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

fn close_ours(first: c_uint, last: c_uint) {
    let close = || -> Answer<c_int> {
        for fd in table::known_between(number(first), number(last)) {
            let _ = table::close(fd);
        }
        Ok(0)
    };
    answer(close, || 0);
}
