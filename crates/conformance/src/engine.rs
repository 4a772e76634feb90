//! Who makes the pipes: the kernel, standpipe, or a kernel pipe with a flaw put in on purpose.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use standpipe::pipe;

use crate::flaw::{Flaw, Flawed};

/// Who makes the pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The kernel: the oracle.
    Kernel,
    /// standpipe.
    Standpipe,
    /// The kernel, with a flaw that the suite has to notice.
    Flawed(Flaw),
}

/// How a pipe is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Its capacity, where it is not the default.
    pub capacity_bytes: Option<usize>,
    /// standpipe's segment, where it is not the default.
    pub segment_bytes: Option<usize>,
    /// standpipe's rule of waking.
    pub wake: pipe::Wake,
    /// Both ends non-blocking.
    pub nonblocking: bool,
    /// Both ends closed on exec.
    pub close_on_exec: bool,
}

/// What a reader of an engine can do.
pub(crate) trait ReadSide: Send + Sync + AsRawFd {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn try_clone(&self) -> io::Result<Box<dyn ReadSide>>;
    fn set_nonblocking(&self, yes: bool) -> io::Result<()>;
    fn into_fd(self: Box<Self>) -> OwnedFd;
}

/// What a writer of an engine can do.
pub(crate) trait WriteSide: Send + Sync + AsRawFd {
    fn write(&self, buf: &[u8]) -> io::Result<usize>;
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    fn try_clone(&self) -> io::Result<Box<dyn WriteSide>>;
    fn set_nonblocking(&self, yes: bool) -> io::Result<()>;
    fn into_fd(self: Box<Self>) -> OwnedFd;
}

impl Engine {
    /// The two ends of a new pipe.
    pub(crate) fn pipe(
        self,
        options: &Options,
    ) -> io::Result<(Box<dyn ReadSide>, Box<dyn WriteSide>)> {
        Ok(match self {
            Self::Kernel => {
                let (r, w) = kernel_pipe(options)?;
                (Box::new(r), Box::new(w))
            }
            Self::Flawed(flaw) => {
                let (r, w) = kernel_pipe(options)?;
                (
                    Box::new(Flawed { inner: r, flaw }),
                    Box::new(Flawed { inner: w, flaw }),
                )
            }
            Self::Standpipe => {
                let (r, w) = builder(options).build()?;
                (Box::new(r), Box::new(w))
            }
        })
    }
}

fn builder(options: &Options) -> pipe::Builder {
    let mut builder = pipe::Builder::new()
        .wake(options.wake)
        .nonblocking(options.nonblocking)
        .close_on_exec(options.close_on_exec);
    if let Some(bytes) = options.capacity_bytes {
        builder = builder.capacity_bytes(bytes);
    }
    if let Some(bytes) = options.segment_bytes {
        builder = builder.segment_bytes(bytes);
    }
    builder
}

fn kernel_pipe(options: &Options) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut flags = PipeFlags::empty();
    flags.set(PipeFlags::CLOEXEC, options.close_on_exec);
    flags.set(PipeFlags::NONBLOCK, options.nonblocking);
    let (r, w) = rustix::pipe::pipe_with(flags)?;
    if let Some(bytes) = options.capacity_bytes {
        rustix::pipe::fcntl_setpipe_size(&w, bytes)?;
    }
    Ok((r, w))
}

fn set_nonblocking(fd: impl AsFd, yes: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(&fd)?;
    flags.set(OFlags::NONBLOCK, yes);
    Ok(rustix::fs::fcntl_setfl(&fd, flags)?)
}

impl ReadSide for OwnedFd {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self, buf)?)
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(self, bufs)?)
    }
    fn try_clone(&self) -> io::Result<Box<dyn ReadSide>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        set_nonblocking(self, yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        *self
    }
}

impl WriteSide for OwnedFd {
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self, buf)?)
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(self, bufs)?)
    }
    fn try_clone(&self) -> io::Result<Box<dyn WriteSide>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        set_nonblocking(self, yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        *self
    }
}

impl ReadSide for pipe::ReadEnd {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buf)
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Read::read_vectored(&mut &*self, bufs)
    }
    fn try_clone(&self) -> io::Result<Box<dyn ReadSide>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        Self::set_nonblocking(self, yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        (*self).into()
    }
}

impl WriteSide for pipe::WriteEnd {
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, buf)
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Write::write_vectored(&mut &*self, bufs)
    }
    fn try_clone(&self) -> io::Result<Box<dyn WriteSide>> {
        Ok(Box::new(Self::try_clone(self)?))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        Self::set_nonblocking(self, yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        (*self).into()
    }
}
