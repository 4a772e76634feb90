//! What an end can do, by the engine that it is of.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use standpipe::end::End;
use standpipe::pipe::{ReadEnd, WriteEnd};

use crate::raw;

/// What an end can do. An end that reads does not write unless it is a FIFO's, opened for both;
/// what a typed end does not offer is never asked of it (see [`crate::suite::Runs::ByDescriptor`]).
pub(crate) trait Side: Send + Sync + AsRawFd {
    fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        Err(Errno::BADF.into())
    }
    fn read_vectored(&self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Err(Errno::BADF.into())
    }
    fn write(&self, _: &[u8]) -> io::Result<usize> {
        Err(Errno::BADF.into())
    }
    fn write_vectored(&self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(Errno::BADF.into())
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>>;
    fn set_nonblocking(&self, yes: bool) -> io::Result<()>;
    fn into_fd(self: Box<Self>) -> OwnedFd;

    /// What poll(2) reports now.
    fn events(&self, _: PollFlags) -> io::Result<PollFlags> {
        unreachable!("not asked of typed ends")
    }
    /// The descriptor for raw poll and epoll.
    fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        unreachable!("not asked of typed ends")
    }
    fn unread_bytes(&self) -> io::Result<usize> {
        unreachable!("not asked of typed ends")
    }
    fn capacity_bytes(&self) -> io::Result<usize> {
        unreachable!("not asked of typed ends")
    }
    fn set_capacity_bytes(&self, _: usize) -> io::Result<usize> {
        unreachable!("not asked of typed ends")
    }
    /// From now on the bare descriptor does what it says.
    fn use_kernel(&self) -> io::Result<()> {
        unreachable!("not asked of typed ends")
    }
    /// How many bytes went through the lane, on the side of the end.
    fn lane_bytes(&self) -> u64 {
        0
    }
    /// The end as standpipe's own poll takes it.
    fn as_end(&self) -> Option<&End> {
        None
    }
}

fn set_nonblocking(fd: impl AsFd, yes: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(&fd)?;
    flags.set(OFlags::NONBLOCK, yes);
    Ok(rustix::fs::fcntl_setfl(&fd, flags)?)
}

impl Side for OwnedFd {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self, buf)?)
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(self, bufs)?)
    }
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self, buf)?)
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(self, bufs)?)
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        set_nonblocking(self, yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        *self
    }
    fn events(&self, wanted: PollFlags) -> io::Result<PollFlags> {
        let mut fds = [PollFd::new(self, wanted)];
        poll(&mut fds, Some(&Timespec::default()))?;
        Ok(fds[0].revents())
    }
    fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.as_fd())
    }
    fn unread_bytes(&self) -> io::Result<usize> {
        Ok(rustix::io::ioctl_fionread(self)? as usize)
    }
    fn capacity_bytes(&self) -> io::Result<usize> {
        Ok(rustix::pipe::fcntl_getpipe_size(self)?)
    }
    fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        let became = raw::set_pipe_size(self.as_raw_fd(), bytes as u64);
        became.map_err(io::Error::from)
    }
    fn use_kernel(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Side for End {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buf)
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, bufs)
    }
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, buf)
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Write::write_vectored(&mut &*self, bufs)
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        Self::set_nonblocking(self, yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        self.try_into_fd()
            .expect("queued bytes can be moved into the kernel pipe")
    }
    fn events(&self, wanted: PollFlags) -> io::Result<PollFlags> {
        Self::events(self, wanted)
    }
    fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        Self::pollable(self)
    }
    fn unread_bytes(&self) -> io::Result<usize> {
        Self::unread_bytes(self)
    }
    fn capacity_bytes(&self) -> io::Result<usize> {
        Self::capacity_bytes(self)
    }
    fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        Self::set_capacity_bytes(self, bytes)
    }
    fn use_kernel(&self) -> io::Result<()> {
        Self::use_kernel(self)
    }
    fn lane_bytes(&self) -> u64 {
        self.stats().bytes
    }
    fn as_end(&self) -> Option<&End> {
        Some(self)
    }
}

impl Side for ReadEnd {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buf)
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, bufs)
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        Self::set_nonblocking(self, yes)
    }
    fn lane_bytes(&self) -> u64 {
        self.stats().bytes
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        (*self).into()
    }
}

impl Side for WriteEnd {
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, buf)
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Write::write_vectored(&mut &*self, bufs)
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        Self::set_nonblocking(self, yes)
    }
    fn lane_bytes(&self) -> u64 {
        self.stats().bytes
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        (*self).into()
    }
}

/// Takes the descriptor out of an end of which this process is to know nothing more, as it would
/// not after exec.
pub(crate) fn abandon(side: Box<dyn Side>) -> OwnedFd {
    use std::os::fd::FromRawFd;
    let fd: RawFd = side.as_raw_fd();
    std::mem::forget(side);
    // SAFETY: the side owned the number, and is not there any more.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
