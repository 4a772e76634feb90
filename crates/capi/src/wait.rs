//! poll.

use std::ffi::c_int;
use std::time::Duration;

use libc::{nfds_t, pollfd, sigset_t, timespec};
use rustix::io::Errno;
use standpipe::poll::{Entry, PollFlags, Source};

use crate::border::{Answer, Refusal, answer, check_address};
use crate::table::Visits;

/// [poll(2)](https://man7.org/linux/man-pages/man2/poll.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    answer(
        // SAFETY: by the caller.
        || unsafe { poll(fds, count, timeout, None) },
        // SAFETY: what C asks for.
        || unsafe { libc::poll(fds, count, timeout_ms) },
    )
}

/// [ppoll(2)](https://man7.org/linux/man-pages/man2/ppoll.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    answer(
        || {
            // SAFETY: by the caller.
            let timeout = unsafe { duration(timeout) }?;
            // SAFETY: by the caller.
            let mask = unsafe { mask.as_ref() };
            // SAFETY: by the caller.
            unsafe { poll(fds, count, timeout, mask) }
        },
        // SAFETY: what C asks for.
        || unsafe { libc::ppoll(fds, count, timeout, mask) },
    )
}

/// A timeout of C; null is none.
///
/// # Safety
/// Null, or a time.
pub unsafe fn duration(time: *const timespec) -> Answer<Option<Duration>> {
    // SAFETY: by the caller.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Ok(None);
    };
    let seconds = u64::try_from(time.tv_sec);
    match (seconds, u32::try_from(time.tv_nsec)) {
        (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Errno::INVAL.into()),
    }
}

/// # Safety
/// There are `count` entries.
unsafe fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Answer<c_int> {
    // What is wrong with the list, and an empty one, the kernel knows best.
    let count = usize::try_from(count)
        .ok()
        .filter(|n| *n > 0 && is_within_limit(*n));
    let count = count.ok_or(Refusal::Kernel)?;
    check_address(fds, count * size_of::<pollfd>()).map_err(|_| Refusal::Kernel)?;
    // SAFETY: by the caller.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count) };
    let visited = Visited::new(fds.iter().map(|fd| fd.fd))?;
    let mut entries: Vec<_> = (fds.iter().enumerate())
        .map(|(i, fd)| Entry::new(visited.source(i), wanted(*fd)))
        .collect();
    let ready = standpipe::poll::poll(&mut entries, timeout, mask)?;
    for (fd, entry) in fds.iter_mut().zip(&entries) {
        fd.revents = entry.revents.bits().cast_signed();
    }
    c_int::try_from(ready).map_err(|_| Errno::OVERFLOW.into())
}

fn wanted(fd: pollfd) -> PollFlags {
    PollFlags::from_bits_retain(fd.events.cast_unsigned())
}

/// poll(2) takes no more entries than the process may have descriptors.
fn is_within_limit(count: usize) -> bool {
    let limit = || rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    count <= 256 || limit().is_none_or(|limit| count as u64 <= limit)
}

/// Descriptors that are waited for, ours and others.
pub struct Visited {
    fds: Vec<(c_int, Option<usize>)>,
    visits: Visits,
}

/// No process has it.
const CLOSED: c_int = c_int::MAX;

impl Visited {
    /// Visits those of ours.
    ///
    /// # Errors
    /// [`Refusal::Kernel`] if none is.
    pub fn new(fds: impl ExactSizeIterator<Item = c_int>) -> Answer<Self> {
        let mut visits = Visits::with_capacity(fds.len());
        let fds: Vec<_> = fds
            .map(|fd| match visits.enter(fd) {
                Ok(place) => (fd, Some(place)),
                Err(Refusal::Kernel) => (fd, None),
                Err(Refusal::Errno(_)) => (CLOSED, None),
            })
            .collect();
        if visits.is_empty() {
            return Err(Refusal::Kernel);
        }
        Ok(Self { fds, visits })
    }

    /// The `i`-th.
    pub fn source(&self, i: usize) -> Source<'_> {
        match self.fds[i] {
            (_, Some(place)) => Source::End(self.visits.end(place)),
            (fd, None) => Source::Foreign(fd),
        }
    }
}
