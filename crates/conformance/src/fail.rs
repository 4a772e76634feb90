//! What a call failed with, in a form that compares, prints by name and crosses processes.

use std::fmt;
use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use standpipe::fifo::FifoError;

/// An errno.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fail(i32);

/// What a call that counts bytes came back with.
pub type Outcome = Result<usize, Fail>;

impl Fail {
    /// `EACCES`
    pub const ACCES: Self = Self(libc::EACCES);
    /// `EAGAIN`
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// `EBADF`
    pub const BADF: Self = Self(libc::EBADF);
    /// `EBUSY`
    pub const BUSY: Self = Self(libc::EBUSY);
    /// `EEXIST`
    pub const EXIST: Self = Self(libc::EEXIST);
    /// `EFAULT`
    pub const FAULT: Self = Self(libc::EFAULT);
    /// `EINTR`
    pub const INTR: Self = Self(libc::EINTR);
    /// `EINVAL`
    pub const INVAL: Self = Self(libc::EINVAL);
    /// `EMFILE`
    pub const MFILE: Self = Self(libc::EMFILE);
    /// `ENAMETOOLONG`
    pub const NAMETOOLONG: Self = Self(libc::ENAMETOOLONG);
    /// `ENFILE`
    pub const NFILE: Self = Self(libc::ENFILE);
    /// `ENODEV`
    pub const NODEV: Self = Self(libc::ENODEV);
    /// `ENOENT`
    pub const NOENT: Self = Self(libc::ENOENT);
    /// `ENOMEM`
    pub const NOMEM: Self = Self(libc::ENOMEM);
    /// `ENOPKG`
    pub const NOPKG: Self = Self(libc::ENOPKG);
    /// `ENOTDIR`
    pub const NOTDIR: Self = Self(libc::ENOTDIR);
    /// `ENOTTY`
    pub const NOTTY: Self = Self(libc::ENOTTY);
    /// `ENXIO`
    pub const NXIO: Self = Self(libc::ENXIO);
    /// `EOPNOTSUPP`
    pub const OPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// `EPERM`
    pub const PERM: Self = Self(libc::EPERM);
    /// `EPIPE`
    pub const PIPE: Self = Self(libc::EPIPE);
    /// `ESPIPE`
    pub const SPIPE: Self = Self(libc::ESPIPE);
}

impl fmt::Debug for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

impl From<Errno> for Fail {
    fn from(errno: Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

impl From<io::Error> for Fail {
    /// Rust's callers look at the kind, so an error that has only a kind counts as its errno.
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(FifoError {
            errno: Some(errno), ..
        }) = inner
        {
            return Self(errno.raw_os_error().expect("the kernel's"));
        }
        let by_kind = || match error.kind() {
            io::ErrorKind::WouldBlock => libc::EAGAIN,
            io::ErrorKind::BrokenPipe => libc::EPIPE,
            io::ErrorKind::Interrupted => libc::EINTR,
            io::ErrorKind::OutOfMemory => libc::ENOMEM,
            io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => panic!("an error that a pipe never gives: {error:?}"),
        };
        Self(error.raw_os_error().unwrap_or_else(by_kind))
    }
}

impl From<Fail> for io::Error {
    fn from(Fail(errno): Fail) -> Self {
        Self::from_raw_os_error(errno)
    }
}
