//! FIFOs that are opened.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;
use standpipe::completion::{EndId, Operation};
use standpipe::end::End;
use standpipe::fifo::{Access, Options};

use super::reap::sp_completion;
use super::submit::submit;
use super::{State, sp_ring};
use crate::border::{Answer, answer, check_address};
use crate::table;

/// Submits the opening of a FIFO: as open(2), which waits until somebody opens it for the other direction
/// (unless `flags` have `O_RDWR` or `O_NONBLOCK`), though nothing waits here. `result` is the new descriptor,
/// which takes the lane as one of `sp_open` does, and has to be closed; or the negated errno of open(2), or
/// `-EINVAL` for something that is no FIFO. Cancelled, or not reaped before the ring is destroyed, it is not
/// open.
///
/// Of `flags`, `O_RDONLY`, `O_WRONLY`, `O_RDWR`, `O_NONBLOCK`, `O_CLOEXEC` and `O_NOCTTY` are known, others are
/// refused (`EINVAL`). `path` is not looked at after the call; a relative one is of the directory that the
/// program is in when the operation begins.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ring_open(
    ring: *mut sp_ring,
    token: u64,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    let operation = |_: &mut State| {
        let (access, options) = how(flags)?;
        // SAFETY: by the caller.
        let path = unsafe { copied(path) }?;
        Ok(Operation::OpenFifo {
            path,
            access,
            options,
        })
    };
    // SAFETY: by the caller.
    answer(|| unsafe { submit(ring, token, operation) }, || -1)
}

/// # Safety
/// A string.
unsafe fn copied(path: *const c_char) -> Answer<PathBuf> {
    check_address(path, 1)?;
    // SAFETY: by the caller.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(OsStr::from_bytes(path.to_bytes()).into())
}

fn how(flags: c_int) -> Result<(Access, Options), Errno> {
    let access = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Access::Read,
        libc::O_WRONLY => Access::Write,
        libc::O_RDWR => Access::Both,
        _ => return Err(Errno::INVAL),
    };
    let known = libc::O_ACCMODE | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    if flags & !known != 0 {
        return Err(Errno::INVAL);
    }
    let options = Options::new()
        .nonblocking(flags & libc::O_NONBLOCK != 0)
        .close_on_exec(flags & libc::O_CLOEXEC != 0);
    Ok((access, options))
}

/// Those that were opened, on their way from the ring to the program, each with the place of its completion.
#[derive(Default)]
pub struct Opened(Vec<(usize, EndId)>);

impl Opened {
    pub fn push(&mut self, place: usize, id: EndId) {
        self.0.push((place, id));
    }

    /// They are the ring's no more.
    pub fn leave(self, state: &mut State) -> Vec<(usize, End)> {
        let leave = |(place, id)| Some((place, state.ring.detach(id)?));
        self.0.into_iter().filter_map(leave).collect()
    }
}

/// From now on they are the program's, which is told of their numbers. Called outside of the ring: who gives
/// out a number may have to wait for a fork, which waits for who is inside.
///
/// # Safety
/// At each of the places in `completions` there is one.
pub unsafe fn publish(ends: Vec<(usize, End)>, completions: *mut sp_completion) {
    for (place, end) in ends {
        let fd = table::publish_end(end);
        // SAFETY: by the caller.
        let completion = unsafe { completions.add(place) };
        // SAFETY: as above.
        unsafe { (*completion).result = fd.into() };
    }
}
