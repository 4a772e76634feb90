//! A doorbell: an eventfd that a sleeper waits for beside its kernel pipe, so that whatever
//! happens first (bytes, room, the death of the peer) ends the sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// The bell. Rung by anyone who shares it, over fork.
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// See eventfd(2).
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// One that was handed over.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Wakes whoever waits for it, now or later.
    pub fn ring(&self) {
        // Fails only if the count is at its end, and then it rings already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Silences it.
    pub fn silence(&self) {
        // Fails only if it did not ring.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
