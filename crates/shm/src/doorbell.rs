//! A doorbell: an eventfd that a sleeper waits for beside its kernel pipe, so that whatever
//! happens first (bytes, room, the death of the peer) ends the sleep.
//!
//! Whether a descriptor blocks is a matter of the open file, which all peers share, so a hostile one
//! can change it at any time. Neither ringing nor silencing relies on it.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags};

use crate::patience::AT_ONCE;

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
        let mut fds = [PollFd::new(&self.0, PollFlags::OUT)];
        let _ = poll(&mut fds, Some(&AT_ONCE));
        // If the count is at its end (nobody honest brings it there), it rings already.
        if fds[0].revents().contains(PollFlags::OUT) {
            let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
        }
    }

    /// Silences it. Says whether it rang. Never waits, whatever a peer did to the descriptor.
    pub fn silence(&self) -> bool {
        let mut count = [0_u8; 8];
        let mut slices = [IoSliceMut::new(&mut count)];
        // Fails if it did not ring; or before Linux 5.12, which has no such read for bells.
        let read = rustix::io::preadv2(&self.0, &mut slices, u64::MAX, ReadWriteFlags::NOWAIT);
        if read == Err(Errno::OPNOTSUPP) {
            return rustix::io::read(&self.0, &mut count).is_ok();
        }
        read.is_ok()
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
    use rustix::fs::OFlags;
    use std::time::Duration;

    #[test]
    fn a_bell_that_a_peer_made_block_stops_nobody() {
        let (tell, hear) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let bell = Doorbell::new().unwrap();
            rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            rustix::fs::fcntl_setfl(&bell, OFlags::empty()).unwrap();
            bell.ring();
            bell.silence();
            bell.silence();
            bell.ring();
            tell.send(()).unwrap();
        });
        hear.recv_timeout(Duration::from_secs(60)).expect("hangs");
    }
}
