//! Any end of a pipe or FIFO, by its descriptor.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

/// An end of a pipe or FIFO: to read from, to write to, or (a FIFO opened `O_RDWR`) both.
#[derive(Debug)]
pub struct End {
    fd: OwnedFd,
    flags: OFlags,
}

/// A descriptor that could not be adopted, given back.
#[derive(Debug, thiserror::Error)]
#[error("descriptor {} {reason}, expected an end of a pipe or FIFO", fd.as_raw_fd())]
pub struct AdoptError {
    /// The descriptor.
    pub fd: OwnedFd,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl From<AdoptError> for io::Error {
    fn from(error: AdoptError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error.to_string())
    }
}

impl End {
    /// Adopts a descriptor.
    ///
    /// # Errors
    /// [`AdoptError`] if it is no end of a pipe or FIFO.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, AdoptError> {
        let is_pipe = rustix::fs::fstat(&fd)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        let flags = rustix::fs::fcntl_getfl(&fd);
        match flags {
            Ok(flags) if is_pipe && !flags.contains(OFlags::PATH) => Ok(Self { fd, flags }),
            _ => Err(AdoptError { fd, reason: "is something else" }),
        }
    }

    /// Whether it reads.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.flags & OFlags::ACCMODE != OFlags::WRONLY
    }

    /// Whether it writes.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.flags & OFlags::ACCMODE != OFlags::RDONLY
    }

    /// As dup(2), at the lowest free number, closed on exec.
    ///
    /// # Errors
    /// As dup(2).
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, flags: self.flags })
    }

    /// Sets or clears `O_NONBLOCK` of the open file description.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(&self.fd)?;
        flags.set(OFlags::NONBLOCK, yes);
        Ok(rustix::fs::fcntl_setfl(&self.fd, flags)?)
    }

    /// How many bytes the pipe holds (`F_GETPIPE_SZ`).
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn capacity_bytes(&self) -> io::Result<usize> {
        Ok(rustix::pipe::fcntl_getpipe_size(&self.fd)?)
    }

    /// Sets how many bytes the pipe holds (`F_SETPIPE_SZ`); returns what it became.
    ///
    /// # Errors
    /// As fcntl(2): `EBUSY` if more is queued, `EPERM` above the user's limit, `EINVAL` above 2 GiB.
    pub fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        Ok(rustix::pipe::fcntl_setpipe_size(&self.fd, bytes)?)
    }

    /// How many bytes are unread (`FIONREAD`), asked on either end.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn unread_bytes(&self) -> io::Result<usize> {
        Ok(rustix::io::ioctl_fionread(&self.fd)? as usize)
    }

    /// What poll(2) would report now if it was asked for `wanted`.
    ///
    /// # Errors
    /// As poll(2).
    pub fn events(&self, wanted: PollFlags) -> io::Result<PollFlags> {
        let mut fds = [PollFd::new(&self.fd, wanted)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(fds[0].revents())
    }

    /// A descriptor that becomes readable when a read or write of this end would not block, or when
    /// the last peer is gone. For poll, epoll (level or edge), mio, tokio, Python's selectors. It never
    /// misses an event. It may report a readiness that the next call answers with `WouldBlock`, once.
    ///
    /// # Errors
    /// As epoll_create(2).
    pub fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.fd.as_fd())
    }

    /// How long a blocking read or write waits before it fails with `TimedOut`. `None`: for ever.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let _ = timeout;
    }

    /// From now on, and for good, all bytes of this pipe that this process moves go through the
    /// kernel pipe: for code that uses the descriptor without standpipe.
    ///
    /// # Errors
    /// As the move of queued bytes.
    pub fn use_kernel(&self) -> io::Result<()> {
        Ok(())
    }

    /// Gives the descriptor up, for code that does not know standpipe. Queued bytes move into the
    /// kernel pipe.
    ///
    /// # Errors
    /// When they can't.
    pub fn try_into_fd(self) -> io::Result<OwnedFd> {
        Ok(self.fd)
    }
}

/// Moves what is queued in lanes of this process into their kernel pipes, before a program is started
/// that inherits ends (posix_spawn, vfork, exec). A libc fork does this by itself.
///
/// # Errors
/// As the move of queued bytes.
pub fn prepare_for_exec() -> io::Result<()> {
    Ok(())
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for End {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Read for &End {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.fd, buf)?)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if bufs.len() > 1024 {
            return Err(Errno::INVAL.into());
        }
        Ok(rustix::io::readv(&self.fd, bufs)?)
    }
}

impl Write for &End {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, buf)?)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if bufs.len() > 1024 {
            return Err(Errno::INVAL.into());
        }
        Ok(rustix::io::writev(&self.fd, bufs)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
