//! Standard input and output: a stage of a shell's pipeline.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::io::Errno;

use crate::end::End;

/// The first number that is not a standard descriptor.
const FIRST_PRIVATE_FD: RawFd = 3;

/// Standard input, from descriptor 0.
///
/// ```no_run
/// // `producer | this | consumer`: through the lane, where the neighbours know it.
/// std::io::copy(&mut standpipe::stdin()?, &mut standpipe::stdout()?)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The result is a descriptor of its own, closed on exec, of the same open file description. Unlike
/// [`std::io::stdin`] it has no buffer: don't mix the two.
///
/// Programs started later inherit descriptor 0. A fork(3) is noticed; [`std::process::Command`] makes
/// none as a rule: call [`prepare_for_exec`](crate::end::prepare_for_exec) first, and the program finds
/// what is not read so far.
///
/// # Errors
/// If descriptor 0 is closed, or none is left.
pub fn stdin() -> io::Result<Input> {
    Ok(
        match adopt(std::io::stdin().as_fd(), "standard input (descriptor 0)")? {
            Ok(end) => Input::Pipe(end),
            Err(file) => Input::Other(file),
        },
    )
}

/// Standard output, to descriptor 1. As [`stdin`]; descriptor 1 itself stays open, so readers see the
/// end of the stream when the process ends.
///
/// # Errors
/// If descriptor 1 is closed, or none is left.
pub fn stdout() -> io::Result<Output> {
    Ok(
        match adopt(std::io::stdout().as_fd(), "standard output (descriptor 1)")? {
            Ok(end) => Output::Pipe(end),
            Err(file) => Output::Other(file),
        },
    )
}

fn adopt(fd: BorrowedFd<'_>, name: &str) -> io::Result<Result<End, File>> {
    let private = rustix::io::fcntl_dupfd_cloexec(fd, FIRST_PRIVATE_FD).map_err(|errno| {
        let source = io::Error::from(errno);
        match errno {
            Errno::BADF => io::Error::new(
                io::ErrorKind::NotFound,
                format!("{name} is closed, expected something open"),
            ),
            _ => io::Error::new(source.kind(), format!("{name}: no private copy: {source}")),
        }
    })?;
    Ok(End::from_fd(private).map_err(|error| File::from(error.fd)))
}

/// What standard input is.
#[derive(Debug)]
pub enum Input {
    /// A pipe or FIFO.
    Pipe(End),
    /// Something else: a file, a terminal, a socket.
    Other(File),
}

/// What standard output is.
#[derive(Debug)]
pub enum Output {
    /// A pipe or FIFO.
    Pipe(End),
    /// Something else: a file, a terminal, a socket.
    Other(File),
}

impl Input {
    /// The pipe.
    ///
    /// # Errors
    /// `InvalidInput` if it is something else.
    pub fn into_pipe(self) -> io::Result<End> {
        match self {
            Self::Pipe(end) => Ok(end),
            Self::Other(_) => Err(not_a_pipe("standard input (descriptor 0)")),
        }
    }
}

impl Output {
    /// The pipe.
    ///
    /// # Errors
    /// `InvalidInput` if it is something else.
    pub fn into_pipe(self) -> io::Result<End> {
        match self {
            Self::Pipe(end) => Ok(end),
            Self::Other(_) => Err(not_a_pipe("standard output (descriptor 1)")),
        }
    }
}

fn not_a_pipe(name: &str) -> io::Error {
    let text = format!("{name} is something else, expected an end of a pipe or FIFO");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(end) => (&*end).read(buf),
            Self::Other(file) => file.read(buf),
        }
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Pipe(end) => (&*end).read_vectored(bufs),
            Self::Other(file) => file.read_vectored(bufs),
        }
    }
}

impl Write for Output {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(end) => (&*end).write(buf),
            Self::Other(file) => file.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Pipe(end) => (&*end).write_vectored(bufs),
            Self::Other(file) => file.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(end) => end.as_fd(),
            Self::Other(file) => file.as_fd(),
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(end) => end.as_fd(),
            Self::Other(file) => file.as_fd(),
        }
    }
}
