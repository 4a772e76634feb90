//! FIFOs: pipes that have a name.
//!
//! They are made and opened by the kernel, so whatever fifo(7) and open(2) say holds: permissions, who
//! waits for whom, links and renames. The bytes take the lane as in any pipe, as soon as both sides
//! know it.
//!
//! ```
//! use std::io::{Read, Write};
//! use standpipe::fifo;
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("news");
//! fifo::create(&path, 0o600)?;
//! let writer = std::thread::spawn({
//!     let path = path.clone();
//!     move || (&fifo::open_write(path)?).write_all(b"hello")
//! });
//! let mut text = String::new();
//! (&fifo::open_read(&path)?).read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # writer.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```

pub(crate) mod opening;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::end::End;

/// What went wrong with a FIFO: inside of the [`io::Error`] that is returned.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {reason}", path.display())]
pub struct FifoError {
    /// Where.
    pub path: PathBuf,
    /// What was tried.
    pub action: &'static str,
    /// Why it can't be done, and what was expected.
    pub reason: String,
    /// What the kernel said, if it was the kernel.
    #[source]
    pub errno: Option<io::Error>,
}

impl FifoError {
    fn with(path: &Path, action: &'static str, errno: Errno, hint: Option<&str>) -> io::Error {
        let source = io::Error::from(errno);
        let reason = hint.map_or_else(|| source.to_string(), |hint| format!("{hint} ({source})"));
        let path = path.to_path_buf();
        io::Error::new(
            source.kind(),
            Self {
                path,
                action,
                reason,
                errno: Some(source),
            },
        )
    }

    fn not_a_fifo(path: &Path, action: &'static str, found: &str) -> io::Error {
        let reason = format!("it is {found}, expected a FIFO");
        let path = path.to_path_buf();
        io::Error::new(
            io::ErrorKind::InvalidInput,
            Self {
                path,
                action,
                reason,
                errno: None,
            },
        )
    }
}

/// Makes a FIFO, with the permissions `mode` less the umask. See mkfifo(3).
///
/// # Errors
/// As mkfifo(3), with a [`FifoError`]: `AlreadyExists`, `NotFound`, `PermissionDenied`, ...; and
/// `InvalidInput` for a mode with bits other than 07777.
pub fn create(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    let path = path.as_ref();
    if mode & !0o7777 != 0 {
        return Err(FifoError {
            path: path.to_path_buf(),
            action: CREATE,
            reason: format!("mode {mode:o}, expected permissions, at most 7777 (octal)"),
            errno: None,
        }
        .into());
    }
    rustix::fs::mkfifoat(CWD, path, Mode::from_raw_mode(mode)).map_err(|errno| {
        let hint = match errno {
            Errno::EXIST => Some("something of that name exists"),
            Errno::NOENT => Some("its directory does not exist"),
            _ => None,
        };
        FifoError::with(path, CREATE, errno, hint)
    })
}

const CREATE: &str = "create FIFO";

/// What a FIFO is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Waits for a writer.
    Read,
    /// Waits for a reader.
    Write,
    /// Waits for nobody.
    Both,
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY,
            Self::Write => OFlags::WRONLY,
            Self::Both => OFlags::RDWR,
        }
    }

    fn action(self) -> &'static str {
        match self {
            Self::Read => "open to read",
            Self::Write => "open to write",
            Self::Both => "open to read and write",
        }
    }
}

impl From<FifoError> for io::Error {
    fn from(error: FifoError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

/// Opens a FIFO to read; waits until somebody opens it to write.
///
/// # Errors
/// As [`Options::open_read`].
pub fn open_read(path: impl AsRef<Path>) -> io::Result<End> {
    Options::new().open_read(path)
}

/// Opens a FIFO to write; waits until somebody opens it to read.
///
/// # Errors
/// As [`Options::open_write`].
pub fn open_write(path: impl AsRef<Path>) -> io::Result<End> {
    Options::new().open_write(path)
}

/// Opens a FIFO to read and to write, and doesn't wait.
///
/// # Errors
/// As [`Options::open_both`].
pub fn open_both(path: impl AsRef<Path>) -> io::Result<End> {
    Options::new().open_both(path)
}

/// How to open a FIFO.
///
/// ```no_run
/// let news = standpipe::fifo::Options::new().nonblocking(true).open_read("/run/news")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Options {
    nonblocking: bool,
    inherit: bool,
}

impl Options {
    /// Blocking, closed on exec.
    pub fn new() -> Self {
        Self::default()
    }

    /// Neither opening nor what follows waits (default: no).
    pub fn nonblocking(mut self, yes: bool) -> Self {
        self.nonblocking = yes;
        self
    }

    pub(crate) fn is_nonblocking(self) -> bool {
        self.nonblocking
    }

    /// Whether the descriptor is closed on exec (default: yes, as everywhere in Rust).
    pub fn close_on_exec(mut self, yes: bool) -> Self {
        self.inherit = !yes;
        self
    }

    /// Opens it to read. Waits for a writer, unless non-blocking: then it succeeds at once, and reads
    /// give the end of the stream until one comes.
    ///
    /// # Errors
    /// With a [`FifoError`]: `InvalidInput` if something else is there; `Interrupted` if a signal
    /// handler ran; else as open(2).
    pub fn open_read(self, path: impl AsRef<Path>) -> io::Result<End> {
        self.open(path, Access::Read)
    }

    /// Opens it to write. Waits for a reader, unless non-blocking: then it fails with `ENXIO` if there
    /// is none.
    ///
    /// # Errors
    /// As [`open_read`](Self::open_read).
    pub fn open_write(self, path: impl AsRef<Path>) -> io::Result<End> {
        self.open(path, Access::Write)
    }

    /// Opens it for both, which never waits. The end counts as a reader and as a writer: it sees no
    /// end of the stream.
    ///
    /// # Errors
    /// As [`open_read`](Self::open_read).
    pub fn open_both(self, path: impl AsRef<Path>) -> io::Result<End> {
        self.open(path, Access::Both)
    }

    /// Opens it for what is asked.
    ///
    /// # Errors
    /// As [`open_read`](Self::open_read), [`open_write`](Self::open_write).
    pub fn open(self, path: impl AsRef<Path>, access: Access) -> io::Result<End> {
        let (path, action) = (path.as_ref(), access.action());
        // Should a terminal be there, it is not to become ours.
        let mut flags = access.flags() | OFlags::NOCTTY;
        flags.set(OFlags::NONBLOCK, self.nonblocking);
        flags.set(OFlags::CLOEXEC, !self.inherit);
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| explain(path, action, errno))?;
        adopt(fd, path, action)
    }
}

/// The end that was opened at `path`.
pub(crate) fn adopt(fd: OwnedFd, path: &Path, action: &'static str) -> io::Result<End> {
    End::from_fd(fd).map_err(|error| {
        let stat = rustix::fs::fstat(&error.fd);
        let found = stat.map_or("something else", |stat| name_of(stat.st_mode));
        FifoError::not_a_fifo(path, action, found)
    })
}

fn not_a_fifo(path: &Path, action: &'static str, mode: u32) -> io::Error {
    FifoError::not_a_fifo(path, action, name_of(mode))
}

pub(crate) fn explain(path: &Path, action: &'static str, errno: Errno) -> io::Error {
    // Directories, sockets and devices have refusals of their own.
    let mode = rustix::fs::stat(path).map(|stat| stat.st_mode);
    if let Ok(mode) = mode
        && FileType::from_raw_mode(mode) != FileType::Fifo
    {
        return FifoError::not_a_fifo(path, action, name_of(mode));
    }
    let hint = match errno {
        Errno::NXIO => Some("nobody has it open to read"),
        Errno::NOENT => Some("no such FIFO"),
        _ => None,
    };
    FifoError::with(path, action, errno, hint)
}

fn name_of(mode: u32) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "something else",
    }
}
