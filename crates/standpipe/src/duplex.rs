//! Two-way pipes, as FreeBSD's pipe(2) makes them: both ends read and write, each direction has its
//! own buffer.
//!
//! ```
//! use std::io::{Read, Write};
//! let (mut here, mut there) = standpipe::duplex::duplex()?;
//! here.write_all(b"ping")?;
//! there.write_all(b"pong")?;
//! let mut word = [0; 4];
//! there.read_exact(&mut word)?;
//! assert_eq!(&word, b"ping");
//! here.read_exact(&mut word)?;
//! assert_eq!(&word, b"pong");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Closing one end widows both directions of the other: it reads what is queued, then the end of the
//! stream; its writes fail with `BrokenPipe` (and `SIGPIPE`). An end is two descriptors, not one: two
//! pipes are inside.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use rustix::event::PollFlags;

use crate::pipe::{Builder, ReadEnd, WriteEnd};

/// Makes a two-way pipe: blocking, closed on exec, each direction of the default size.
///
/// # Errors
/// As pipe2(2).
pub fn duplex() -> io::Result<(DuplexEnd, DuplexEnd)> {
    duplex_with(&Builder::new())
}

/// Makes a two-way pipe, each direction as `builder` makes pipes.
///
/// # Errors
/// As [`Builder::build`].
pub fn duplex_with(builder: &Builder) -> io::Result<(DuplexEnd, DuplexEnd)> {
    let (here_reader, there_writer) = builder.clone().build()?;
    let (there_reader, here_writer) = builder.clone().build()?;
    Ok((
        DuplexEnd {
            reader: here_reader,
            writer: here_writer,
        },
        DuplexEnd {
            reader: there_reader,
            writer: there_writer,
        },
    ))
}

/// An end of a two-way pipe.
#[derive(Debug)]
pub struct DuplexEnd {
    reader: ReadEnd,
    writer: WriteEnd,
}

impl DuplexEnd {
    /// The two directions of an end, put together.
    #[cfg(any(feature = "tokio", feature = "futures"))]
    pub(crate) fn from_halves(reader: ReadEnd, writer: WriteEnd) -> Self {
        Self { reader, writer }
    }

    /// As dup(2) for both directions.
    ///
    /// # Errors
    /// As dup(2).
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            reader: self.reader.try_clone()?,
            writer: self.writer.try_clone()?,
        })
    }

    /// Sets or clears the non-blocking mode of this end, for both directions and all copies.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.reader.set_nonblocking(yes)?;
        self.writer.set_nonblocking(yes)
    }

    /// What poll would report now if it was asked for `wanted`, in FreeBSD's way: a lost peer is `HUP`,
    /// together with whatever was asked for, since neither reads nor writes would wait; never `ERR`.
    ///
    /// # Errors
    /// As poll(2).
    pub fn events(&self, wanted: PollFlags) -> io::Result<PollFlags> {
        let mut events = PollFlags::empty();
        let read = self.reader.as_end().events(wanted & READ)?;
        events |= read & READ;
        if read.contains(PollFlags::HUP) {
            events |= PollFlags::HUP | (wanted & READ);
        }
        let write = self.writer.as_end().events(wanted & WRITE)?;
        events |= write & WRITE;
        if write.contains(PollFlags::ERR) {
            events |= PollFlags::HUP | (wanted & WRITE);
        }
        Ok(events)
    }

    /// The direction that is read.
    #[must_use]
    pub fn reader(&self) -> &ReadEnd {
        &self.reader
    }

    /// The direction that is written.
    #[must_use]
    pub fn writer(&self) -> &WriteEnd {
        &self.writer
    }

    /// The two directions (read, write), each an end of its own from now on. The peer is widowed in
    /// one direction when the other's end is closed.
    #[must_use]
    pub fn split(self) -> (ReadEnd, WriteEnd) {
        (self.reader, self.writer)
    }
}

const READ: PollFlags = PollFlags::IN.union(PollFlags::RDNORM);
const WRITE: PollFlags = PollFlags::OUT.union(PollFlags::WRNORM);

impl Read for &DuplexEnd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&self.reader).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.reader).read_vectored(bufs)
    }
}

impl Write for &DuplexEnd {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&self.writer).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.writer).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for DuplexEnd {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for DuplexEnd {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
