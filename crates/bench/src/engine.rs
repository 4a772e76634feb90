//! The pipes under test, behind one face, so that each benchmark is written once.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, ensure};
use rustix::fs::{Mode, OFlags};
use standpipe::end::End;
use standpipe::fifo;
use standpipe::pipe::{self, Wake};

use self::c_abi::Descriptor;
use crate::record::Engine;

mod c_abi;

/// Which pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel's.
    Kernel,
    /// Ours, with its peers woken so.
    Standpipe(Wake),
    /// Ours through the C ABI, where nobody says how peers are woken.
    StandpipeC,
}

/// From where ours is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// From Rust.
    Rust,
    /// From C.
    C,
}

impl Face {
    /// The rivals of a benchmark that does not vary the wake-ups, in the order they are run.
    #[must_use]
    pub const fn rivals(self) -> [Kind; 2] {
        let ours = match self {
            Self::Rust => Kind::Standpipe(Wake::PerSegment),
            Self::C => Kind::StandpipeC,
        };
        [Kind::Kernel, ours]
    }

    /// Ours with its peers woken so, if that can be asked for.
    #[must_use]
    pub fn ours(self, wake: Wake) -> Option<Kind> {
        match self {
            Self::Rust => Some(Kind::Standpipe(wake)),
            Self::C => (wake == Wake::PerSegment).then_some(Kind::StandpipeC),
        }
    }
}

impl Kind {
    /// The engine under which results are filed.
    #[must_use]
    pub const fn engine(self) -> Engine {
        match self {
            Self::Kernel => Engine::Kernel,
            Self::Standpipe(_) => Engine::Standpipe,
            Self::StandpipeC => Engine::StandpipeC,
        }
    }

    /// A pipe that holds exactly `capacity_bytes`, a power of two of pages.
    ///
    /// # Errors
    /// When the pipe cannot be had, or not of that capacity: rivals of different sizes would not
    /// be rivals.
    pub fn pipe(self, capacity_bytes: usize) -> anyhow::Result<(Source, Sink)> {
        let (source, sink) = match self {
            Self::Kernel => kernel_pipe(Some(capacity_bytes))?,
            Self::Standpipe(wake) => {
                let builder = pipe::Builder::new()
                    .capacity_bytes(capacity_bytes)
                    .wake(wake);
                let (reader, writer) = builder.build().context("cannot make a standpipe")?;
                (Source::Standpipe(reader), Sink::Standpipe(writer))
            }
            Self::StandpipeC => {
                let (reader, writer) = c_abi_pipe()?;
                reader
                    .set_capacity_bytes(capacity_bytes)
                    .context("cannot set the capacity of a standpipe")?;
                (Source::C(reader), Sink::C(writer))
            }
        };
        let given = source.capacity_bytes()?;
        ensure!(
            given == capacity_bytes,
            "{}: asked for a pipe of {capacity_bytes} bytes, it holds {given}; \
             is the user over a limit in /proc/sys/fs/pipe-*?",
            self.engine()
        );
        Ok((source, sink))
    }

    /// A pipe as it comes, with nothing set.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn default_pipe(self) -> anyhow::Result<(Source, Sink)> {
        match self {
            Self::Kernel => kernel_pipe(None),
            Self::Standpipe(_) => {
                let (reader, writer) = pipe::pipe().context("cannot make a standpipe")?;
                Ok((Source::Standpipe(reader), Sink::Standpipe(writer)))
            }
            Self::StandpipeC => {
                let (reader, writer) = c_abi_pipe()?;
                Ok((Source::C(reader), Sink::C(writer)))
            }
        }
    }
}

/// The two ends of a FIFO.
impl Kind {
    /// Opens the FIFO at `path` to read, when there is somebody who writes.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_source(self, path: &Path) -> io::Result<Source> {
        match self {
            Self::Kernel => File::open(path).map(|file| Source::Kernel(file.into())),
            Self::Standpipe(_) => fifo::open_read(path).map(Source::Fifo),
            Self::StandpipeC => Descriptor::open(path, libc::O_RDONLY).map(Source::C),
        }
    }

    /// Opens it to write, when there is somebody who reads.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_sink(self, path: &Path) -> io::Result<Sink> {
        match self {
            Self::Kernel => {
                let file = File::options().write(true).open(path)?;
                Ok(Sink::Kernel(file.into()))
            }
            Self::Standpipe(_) => fifo::open_write(path).map(Sink::Fifo),
            Self::StandpipeC => Descriptor::open(path, libc::O_WRONLY).map(Sink::C),
        }
    }

    /// Opens it in one process: first to read, without waiting for anybody, then to write.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_fifo(self, path: &Path) -> anyhow::Result<(Source, Sink)> {
        let source = match self {
            Self::Kernel => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let fd = rustix::fs::open(path, flags, Mode::empty())?;
                Source::Kernel(fd)
            }
            Self::Standpipe(_) => {
                Source::Fifo(fifo::Options::new().nonblocking(true).open_read(path)?)
            }
            Self::StandpipeC => {
                Source::C(Descriptor::open(path, libc::O_RDONLY | libc::O_NONBLOCK)?)
            }
        };
        Ok((source, self.open_sink(path)?))
    }
}

/// A pipe of the kernel, set to `capacity_bytes` (`fcntl(2)`, `F_SETPIPE_SZ`).
fn kernel_pipe(capacity_bytes: Option<usize>) -> anyhow::Result<(Source, Sink)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .context("cannot make a pipe of the kernel")?;
    if let Some(bytes) = capacity_bytes {
        rustix::pipe::fcntl_setpipe_size(&writer, bytes)
            .with_context(|| format!("cannot set a pipe of the kernel to {bytes} bytes"))?;
    }
    Ok((Source::Kernel(reader), Sink::Kernel(writer)))
}

fn c_abi_pipe() -> anyhow::Result<(Descriptor, Descriptor)> {
    Descriptor::pipe().context("cannot make a standpipe through the C ABI")
}

/// The end to read from.
#[derive(Debug)]
pub enum Source {
    /// Of a pipe of the kernel.
    Kernel(OwnedFd),
    /// Of one of ours.
    Standpipe(pipe::ReadEnd),
    /// Of a FIFO, opened by us.
    Fifo(End),
    /// Of either, by the C ABI.
    C(Descriptor),
}

/// The end to write to.
#[derive(Debug)]
pub enum Sink {
    /// Of a pipe of the kernel.
    Kernel(OwnedFd),
    /// Of one of ours.
    Standpipe(pipe::WriteEnd),
    /// Of a FIFO, opened by us.
    Fifo(End),
    /// Of either, by the C ABI.
    C(Descriptor),
}

impl Source {
    /// How many bytes the pipe holds.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn capacity_bytes(&self) -> io::Result<usize> {
        match self {
            Self::Kernel(fd) => Ok(rustix::pipe::fcntl_getpipe_size(fd)?),
            Self::Standpipe(end) => Ok(end.capacity_bytes()),
            Self::Fifo(end) => end.capacity_bytes(),
            Self::C(descriptor) => descriptor.capacity_bytes(),
        }
    }

    /// Fills `buf`, or less at the end of the stream; says how much.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_full(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match io::Read::read(self, &mut buf[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl io::Read for Source {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(fd) => Ok(rustix::io::read(&*fd, buf)?),
            Self::Standpipe(end) => end.read(buf),
            Self::Fifo(end) => (&*end).read(buf),
            Self::C(descriptor) => descriptor.read(buf),
        }
    }
}

impl Write for Sink {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Kernel(fd) => Ok(rustix::io::write(&*fd, buf)?),
            Self::Standpipe(end) => end.write(buf),
            Self::Fifo(end) => (&*end).write(buf),
            Self::C(descriptor) => descriptor.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn each_kind_makes_pipes_of_the_asked_capacity_that_carry_bytes() {
        for kind in [Face::Rust, Face::C].map(Face::rivals).concat() {
            for capacity in [4096, 65536, 1 << 20] {
                let (mut source, mut sink) = kind.pipe(capacity).unwrap();
                assert_eq!(source.capacity_bytes().unwrap(), capacity, "{kind:?}");
                sink.write_all(b"through").unwrap();
                drop(sink);
                let mut buf = [0; 16];
                assert_eq!(source.read_full(&mut buf).unwrap(), 7, "{kind:?}");
                assert_eq!(&buf[..7], b"through");
                assert_eq!(source.read(&mut buf).unwrap(), 0, "{kind:?}: end of file");
            }
        }
    }
}
