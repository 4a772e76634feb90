//! A doorbell: an eventfd that a sleeper waits for beside its kernel pipe, so that whatever
//! happens first (bytes, room, the death of the peer) ends the sleep.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags};

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

    /// Silences it. Never waits, whatever a peer did to the descriptor.
    pub fn silence(&self) {
        let mut count = [0_u8; 8];
        let slices = &mut [IoSliceMut::new(&mut count)];
        // Fails only if it did not ring.
        let silenced = rustix::io::preadv2(&self.0, slices, u64::MAX, ReadWriteFlags::NOWAIT);
        if silenced == Err(Errno::OPNOTSUPP) {
            // Before Linux 5.8.
            let _ = rustix::io::read(&self.0, &mut count);
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_a_peer_made_blocking_is_silenced_without_waiting() {
        let bell = Doorbell::new().unwrap();
        rustix::io::ioctl_fionbio(&bell.0, false).unwrap();
        bell.ring();
        bell.silence();
        bell.silence();
    }
}
