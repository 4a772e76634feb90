//! Inputs and outputs by name.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use standpipe::end::End;

use super::{Trouble, is_regular};

/// What pipes are grown to: the kernel's limit for unprivileged users, unless changed.
const PIPE_BYTES: usize = 1 << 20;

/// Something to read from.
#[derive(Debug)]
pub struct Input {
    pub name: String,
    port: Port,
}

/// Something to write to.
#[derive(Debug)]
pub struct Output {
    pub name: String,
    port: Port,
}

#[derive(Debug)]
enum Port {
    Pipe(End),
    Other(File),
}

impl Input {
    /// The file at `path`, standard input for `-`.
    pub fn open(path: &Path) -> Result<Self, Trouble> {
        if path == Path::new("-") {
            return Self::stdin();
        }
        Self::new(path.display().to_string(), File::open(path).map(Into::into))
    }

    /// Standard input.
    pub fn stdin() -> Result<Self, Trouble> {
        Self::new("stdin".to_owned(), copy(rustix::stdio::stdin()))
    }

    fn new(name: String, opened: io::Result<OwnedFd>) -> Result<Self, Trouble> {
        match opened.map(Port::of) {
            Ok(port) => Ok(Self { name, port }),
            Err(error) => Err(Trouble::Input(name, error)),
        }
    }

    /// A pipe or FIFO that is open already.
    pub fn of(name: String, end: End) -> Self {
        Self {
            name,
            port: Port::grown(end),
        }
    }

    /// As read(2), once something is there or all is over.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Trouble> {
        let read = || match &self.port {
            Port::Pipe(end) => (&*end).read(buf),
            Port::Other(file) => (&*file).read(buf),
        };
        self.port
            .persist(PollFlags::IN, read)
            .map_err(|error| self.trouble(error))
    }

    /// How many bytes a regular file has, or has left; `-` is standard input.
    pub fn expected_bytes(path: &Path) -> Option<u64> {
        if path != Path::new("-") {
            let stat = rustix::fs::stat(path).ok().filter(is_regular)?;
            return Some(stat.st_size.cast_unsigned());
        }
        let stat = rustix::fs::fstat(rustix::stdio::stdin())
            .ok()
            .filter(is_regular)?;
        let position = rustix::fs::seek(rustix::stdio::stdin(), SeekFrom::Current(0)).ok()?;
        Some(stat.st_size.cast_unsigned().saturating_sub(position))
    }

    /// How many bytes follow, where it is a file that says so; those of /proc say that they are empty.
    pub fn left_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::fstat(self).ok().filter(is_regular)?;
        let position = rustix::fs::seek(self, SeekFrom::Current(0)).ok()?;
        let length = stat.st_size.cast_unsigned();
        (length > 0).then(|| length.saturating_sub(position))
    }

    /// Goes on so many bytes later; for what has places to go to.
    pub fn skip(&self, bytes: u64) -> Result<(), Trouble> {
        let to = i64::try_from(bytes).unwrap_or(i64::MAX);
        let skipped = rustix::fs::seek(self, SeekFrom::Current(to));
        skipped
            .map(|_position| ())
            .map_err(|error| self.trouble(error.into()))
    }

    pub fn trouble(&self, error: io::Error) -> Trouble {
        Trouble::Input(self.name.clone(), error)
    }

    /// Whether it is a pipe or FIFO.
    pub fn is_pipe(&self) -> bool {
        self.port.is_pipe()
    }

    /// How many bytes its readers got through the lane.
    pub fn lane_bytes(&self) -> u64 {
        self.port.lane_bytes()
    }

    /// From now on, the descriptor may be used without standpipe.
    pub fn use_kernel(&self) -> io::Result<()> {
        self.port.use_kernel()
    }

    /// Waits until there is something to read, though the descriptor is non-blocking.
    pub fn await_bytes(&self) -> io::Result<()> {
        self.port.wait(PollFlags::IN)
    }
}

impl Output {
    /// The file at `path`, made or emptied first (with `append`, kept), standard output for `-`.
    pub fn open(path: &Path, append: bool) -> Result<Self, Trouble> {
        if path == Path::new("-") {
            return Self::stdout();
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true);
        let opened = options.append(append).truncate(!append).open(path);
        Self::new(path.display().to_string(), opened.map(Into::into))
    }

    /// Standard output.
    pub fn stdout() -> Result<Self, Trouble> {
        Self::new("stdout".to_owned(), copy(rustix::stdio::stdout()))
    }

    fn new(name: String, opened: io::Result<OwnedFd>) -> Result<Self, Trouble> {
        match opened.map(Port::of) {
            Ok(port) => Ok(Self { name, port }),
            Err(error) => Err(Trouble::Output(name, error)),
        }
    }

    /// A pipe or FIFO that is open already.
    pub fn of(name: String, end: End) -> Self {
        Self {
            name,
            port: Port::grown(end),
        }
    }

    /// Writes all of `bytes`.
    pub fn write_all(&self, mut bytes: &[u8]) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            let write = || match &self.port {
                Port::Pipe(end) => (&*end).write(bytes),
                Port::Other(file) => (&*file).write(bytes),
            };
            let written = self.port.persist(PollFlags::OUT, write);
            match written.map_err(|error| self.trouble(error))? {
                0 => return Err(self.trouble(io::ErrorKind::WriteZero.into())),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    /// Writes some of `slices`, once there is room.
    pub fn write_some(&self, slices: &[IoSlice<'_>]) -> Result<usize, Trouble> {
        let write = || match &self.port {
            Port::Pipe(end) => (&*end).write_vectored(slices),
            Port::Other(file) => (&*file).write_vectored(slices),
        };
        let written = self.port.persist(PollFlags::OUT, write);
        written.map_err(|error| self.trouble(error))
    }

    pub fn trouble(&self, error: io::Error) -> Trouble {
        Trouble::Output(self.name.clone(), error)
    }

    /// Whether it is a pipe or FIFO.
    pub fn is_pipe(&self) -> bool {
        self.port.is_pipe()
    }

    /// How many bytes its writers sent through the lane.
    pub fn lane_bytes(&self) -> u64 {
        self.port.lane_bytes()
    }

    /// From now on, the descriptor may be used without standpipe.
    pub fn use_kernel(&self) -> io::Result<()> {
        self.port.use_kernel()
    }

    /// Waits until there is room to write, though the descriptor is non-blocking.
    pub fn await_room(&self) -> io::Result<()> {
        self.port.wait(PollFlags::OUT)
    }
}

/// A standard stream, by a number of its own.
fn copy(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}

impl Port {
    fn of(fd: OwnedFd) -> Self {
        match End::from_fd(fd) {
            Ok(end) => Self::grown(end),
            Err(error) => Self::Other(error.fd.into()),
        }
    }

    /// A small pipe made larger. Where that is forbidden, it is good as it is.
    fn grown(end: End) -> Self {
        if end.capacity_bytes().is_ok_and(|bytes| bytes < PIPE_BYTES) {
            let _ = end.set_capacity_bytes(PIPE_BYTES);
        }
        Self::Pipe(end)
    }

    fn is_pipe(&self) -> bool {
        matches!(self, Self::Pipe(_))
    }

    fn lane_bytes(&self) -> u64 {
        match self {
            Self::Pipe(end) => end.stats().bytes,
            Self::Other(_) => 0,
        }
    }

    fn use_kernel(&self) -> io::Result<()> {
        match self {
            Self::Pipe(end) => end.use_kernel(),
            Self::Other(_) => Ok(()),
        }
    }

    /// Repeats a call that a signal interrupted, or that would have to wait though somebody made
    /// the descriptor non-blocking: it is shared with others, so it stays as it is.
    fn persist(
        &self,
        wanted: PollFlags,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(wanted)?,
                other => return other,
            }
        }
    }

    fn wait(&self, wanted: PollFlags) -> io::Result<()> {
        let (fd, wanted) = match self {
            // what it returns becomes readable whatever the end waits for
            Self::Pipe(end) => (end.pollable()?, wanted | PollFlags::IN),
            Self::Other(file) => (file.as_fd(), wanted),
        };
        loop {
            match poll(&mut [PollFd::new(&fd, wanted)], None) {
                Err(Errno::INTR) => {}
                other => return Ok(other.map(|_ready| ())?),
            }
        }
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(end) => end.as_fd(),
            Self::Other(file) => file.as_fd(),
        }
    }
}
