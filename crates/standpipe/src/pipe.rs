//! Pipes: a read end and a write end.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Stdio;

pub use standpipe_core::size::{PIPE_BUF, PipeSize, SizeError};

/// When the peers of a transfer are woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// After each segment of a transfer, and at its end (variant A+B of 2001).
    #[default]
    PerSegment,
    /// At the end of the transfer only (variant A).
    PerTransfer,
}

/// What went through one end of a pipe, over all its copies in all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes moved.
    pub bytes: u64,
    /// Calls that moved them.
    pub operations: u64,
    /// How often a call went to sleep.
    pub sleeps: u64,
    /// Doorbells rung for a sleeping peer.
    pub wakeups_sent: u64,
    /// Transfers that found the peer awake and rang nothing.
    pub wakeups_saved: u64,
    /// Pages of ring memory populated before the lock was taken.
    pub pages_populated_outside: u64,
    /// Pages of ring memory populated inside the lock (0 in the steady state).
    pub pages_populated_inside: u64,
}

/// Makes a pipe of the default size: blocking, closed on exec.
pub fn pipe() -> io::Result<(ReadEnd, WriteEnd)> {
    Builder::new().build()
}

/// The size of pipes made without one: from `set_default`, else from the environment
/// (`STANDPIPE_PIPE_SZ="Po So"`), else from the user's settings (`standpipe ctl`), else 64 KiB.
pub fn default_size() -> PipeSize {
    PipeSize::DEFAULT
}

/// Sets the size of the pipes that this process makes from now on.
pub fn set_default(_size: PipeSize) {}

/// Makes pipes.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    size: Option<PipeSize>,
    capacity_bytes: Option<usize>,
    segment_bytes: Option<usize>,
    wake: Wake,
    nonblocking: bool,
    inherit: bool,
}

impl Builder {
    /// A pipe as [`pipe`] makes it.
    pub fn new() -> Self {
        Self::default()
    }
    /// Capacity and segment as the pair `Po So`.
    pub fn size(mut self, size: PipeSize) -> Self {
        self.size = Some(size);
        self
    }
    /// How many bytes the pipe holds (rounded up as by `F_SETPIPE_SZ`).
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.capacity_bytes = Some(bytes);
        self
    }
    /// After how many bytes of a transfer the peers are woken.
    pub fn segment_bytes(mut self, bytes: usize) -> Self {
        self.segment_bytes = Some(bytes);
        self
    }
    /// When peers are woken.
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }
    /// Both ends non-blocking (default: no).
    pub fn nonblocking(mut self, yes: bool) -> Self {
        self.nonblocking = yes;
        self
    }
    /// Both descriptors closed on exec (default: yes, as everywhere in Rust).
    pub fn close_on_exec(mut self, yes: bool) -> Self {
        self.inherit = !yes;
        self
    }
    /// Makes the pipe.
    pub fn build(self) -> io::Result<(ReadEnd, WriteEnd)> {
        let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok((ReadEnd { fd: r }, WriteEnd { fd: w }))
    }
}

/// The end to read from.
#[derive(Debug)]
pub struct ReadEnd {
    fd: OwnedFd,
}

/// The end to write to.
#[derive(Debug)]
pub struct WriteEnd {
    fd: OwnedFd,
}

macro_rules! end {
    ($end:ident) => {
        impl $end {
            /// Another descriptor of the same end.
            pub fn try_clone(&self) -> io::Result<Self> {
                Ok(Self { fd: self.fd.try_clone()? })
            }
            /// Capacity and segment.
            pub fn size(&self) -> PipeSize {
                PipeSize::DEFAULT
            }
            /// How many bytes the pipe holds.
            pub fn capacity_bytes(&self) -> usize {
                self.size().capacity_bytes()
            }
            /// After how many bytes the peers are woken.
            pub fn segment_bytes(&self) -> usize {
                self.size().segment_bytes()
            }
            /// Sets or clears `O_NONBLOCK` of the open file description.
            pub fn set_nonblocking(&self, _yes: bool) -> io::Result<()> {
                Ok(())
            }
            /// What went through this end so far.
            pub fn stats(&self) -> Stats {
                Stats::default()
            }
        }
        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.fd.as_fd()
            }
        }
        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.fd.as_raw_fd()
            }
        }
        impl From<$end> for OwnedFd {
            fn from(end: $end) -> OwnedFd {
                end.fd
            }
        }
        impl From<$end> for Stdio {
            fn from(end: $end) -> Stdio {
                end.fd.into()
            }
        }
    };
}
end!(ReadEnd);
end!(WriteEnd);

impl Read for ReadEnd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }
}
impl Read for &ReadEnd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.fd, buf)?)
    }
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(&self.fd, bufs)?)
    }
}
impl Write for WriteEnd {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
impl Write for &WriteEnd {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, buf)?)
    }
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(&self.fd, bufs)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
