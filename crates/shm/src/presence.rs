//! Who reads from a lane, as the kernel counts them: each process that does holds the write end of a
//! pipe of its own, everybody the read end. Hang-up there means that nobody is left, however they
//! went.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::patience::AT_ONCE;
use crate::private_fd::PrivateFd;

/// Nothing is ever written to it.
const LEAST_BYTES: usize = 4096;

/// The readers of a lane, as this process sees them.
pub struct Presence {
    watch: PrivateFd,
    mine: Mutex<Option<PrivateFd>>,
}

impl Presence {
    /// Nobody so far. See pipe(2).
    pub fn new() -> io::Result<Self> {
        let (watch, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Against the user's limit of pipe memory. What does not shrink works as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, LEAST_BYTES);
        Ok(Self::watching(watch))
    }

    /// Those of a lane that was handed over.
    pub fn watching(watch: OwnedFd) -> Self {
        Self {
            watch: watch.into(),
            mine: Mutex::new(None),
        }
    }

    /// This process reads from now on.
    ///
    /// # Errors
    /// As open(2) of `/proc/self/fd`.
    pub fn enter(&self) -> io::Result<()> {
        let mut mine = self.mine();
        if mine.is_none() {
            let path = format!("/proc/self/fd/{}", self.watch.as_raw_fd());
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            *mine = Some(rustix::fs::open(path, flags, Mode::empty())?.into());
        }
        Ok(())
    }

    /// This process reads no more.
    pub fn leave(&self) {
        self.mine().take();
    }

    /// Whether anybody reads.
    pub fn is_anybody(&self) -> bool {
        let mut fds = [PollFd::new(&self.watch, PollFlags::empty())];
        // An interruption never happens to a poll that does not wait; if in doubt, somebody does.
        poll(&mut fds, Some(&AT_ONCE)).is_err() || !fds[0].revents().contains(PollFlags::HUP)
    }

    fn mine(&self) -> MutexGuard<'_, Option<PrivateFd>> {
        self.mine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The descriptor that hangs up when nobody reads.
impl AsFd for Presence {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_who_is_there_also_after_a_child_was_killed() {
        let presence = Presence::new().unwrap();
        assert!(!presence.is_anybody());
        presence.enter().unwrap();
        assert!(presence.is_anybody());
        presence.leave();
        assert!(!presence.is_anybody());
        // SAFETY: the child calls async-signal-safe functions only (open, pause).
        let child = unsafe { libc::fork() };
        if child == 0 {
            presence.enter().unwrap();
            loop {
                // SAFETY: sleeps until a signal comes.
                unsafe { libc::pause() };
            }
        }
        while !presence.is_anybody() {
            std::thread::yield_now();
        }
        // SAFETY: our own child, which was not waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: waits for our own child; a null status pointer is allowed.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert!(!presence.is_anybody());
    }
}
