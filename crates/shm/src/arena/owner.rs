//! The processes that pages are lent to.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::private_fd::PrivateFd;

/// As many as a word of the ledger has bits.
const MOST: usize = 64;

/// A process that pages are lent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerId(u8);

impl OwnerId {
    /// As it is told to the process.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// As it was told. None if there can't be such an owner.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        (usize::from(number) < MOST).then_some(Self(number))
    }

    /// Its bit in the words of the ledger.
    pub(super) fn bit(self) -> u64 {
        1 << self.0
    }
}

/// Each by a descriptor that says when it is dead, which no other process can come to mean.
#[derive(Default)]
pub struct Owners {
    pidfds: Vec<Option<PrivateFd>>,
}

impl Owners {
    pub fn admit(&mut self, pid: Pid) -> io::Result<OwnerId> {
        let pidfd: OwnedFd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        let vacant = self.pidfds.iter().position(Option::is_none);
        let at = match vacant {
            Some(at) => at,
            None if self.pidfds.len() == MOST => return Err(Errno::MFILE.into()),
            None => {
                self.pidfds.push(None);
                self.pidfds.len() - 1
            }
        };
        self.pidfds[at] = Some(pidfd.into());
        Ok(OwnerId(at as u8))
    }

    /// Forgets those that have died. The bits of all that don't live: somebody may have been lent a page
    /// after it was forgotten.
    pub fn remove_dead(&mut self) -> u64 {
        let mut living = 0;
        for (at, pidfd) in self.pidfds.iter_mut().enumerate() {
            if pidfd.as_ref().is_some_and(is_dead) {
                *pidfd = None;
            }
            if pidfd.is_some() {
                living |= OwnerId(at as u8).bit();
            }
        }
        !living
    }
}

fn is_dead(pidfd: &PrivateFd) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&now)) == Ok(1)
}
