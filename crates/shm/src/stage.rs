//! The stage: a pipe through which bytes go from the lane to the kernel pipe, so that a process that
//! is killed on the way neither loses nor doubles any. Whoever comes next finds them there.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};

use crate::private_fd::PrivateFd;
use standpipe_core::size::PIPE_BUF;

/// How much is moved at a time: one page, which goes into the kernel pipe as a whole, or not at all.
pub const STAGE_BYTES: usize = PIPE_BUF;

/// The stage. Only for who holds the lane's read lock.
pub struct Stage {
    read: PrivateFd,
    write: PrivateFd,
}

impl Stage {
    /// Empty. See pipe(2).
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let _ = rustix::pipe::fcntl_setpipe_size(&write, STAGE_BYTES);
        Ok(Self::from_fds([read, write]))
    }

    /// One that was handed over.
    pub fn from_fds([read, write]: [OwnedFd; 2]) -> Self {
        let [read, write] = [read, write].map(PrivateFd::from);
        Self { read, write }
    }

    /// What to hand over.
    pub fn as_fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.read.as_fd(), self.write.as_fd()]
    }

    /// How many bytes it holds.
    pub fn queued_bytes(&self) -> io::Result<usize> {
        Ok(rustix::io::ioctl_fionread(&self.read)? as usize)
    }

    /// Puts bytes in; returns how many. Never waits, whatever a peer did to the descriptor.
    pub fn put(&self, bytes: &[u8]) -> io::Result<usize> {
        let slices = [IoSlice::new(bytes)];
        match rustix::io::pwritev2(&self.write, &slices, u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) => Ok(rustix::io::write(&self.write, bytes)?),
            result => Ok(result?),
        }
    }

    /// Takes bytes out; returns how many. Never waits.
    pub fn take(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match rustix::io::preadv2(&self.read, slices, u64::MAX, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) => Ok(rustix::io::readv(&self.read, slices)?),
            result => Ok(result?),
        }
    }

    /// Moves what it holds into `pipe`, as far as it fits. Says whether it is empty now. See splice(2).
    ///
    /// # Errors
    /// `BrokenPipe`, with `SIGPIPE`, if nobody reads there.
    pub fn move_to(&self, pipe: BorrowedFd<'_>) -> io::Result<bool> {
        loop {
            let queued = self.queued_bytes()?;
            if queued == 0 {
                return Ok(true);
            }
            match splice(&self.read, None, pipe, None, queued, SpliceFlags::NONBLOCK) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(false),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
