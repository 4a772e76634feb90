//! A doorbell: an eventfd that a sleeper waits for beside its kernel pipe, so that whatever
//! happens first (bytes, room, the death of the peer) ends the sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::private_fd::PrivateFd;

/// The bell. Rung by anyone who shares it, over fork.
pub struct Doorbell(PrivateFd);

impl Doorbell {
    /// See eventfd(2).
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self::from_fd(eventfd(0, flags)?))
    }

    /// One that was handed over.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd.into())
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
