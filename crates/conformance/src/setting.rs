//! Where a behaviour is shown: whose pipe, and what the peer is.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::ends::{EndOf, Held, Reader, Writer};
use crate::engine::{Engine, Options};
use crate::fail::Fail;
use crate::side::Side;
use crate::{paths, raw};

/// What a peer is, and how it comes by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// A thread of this process.
    Thread,
    /// A forked child process.
    Fork,
    /// A process that knows what one knows after exec: the numbers of the descriptors.
    Exec,
    /// A process that knows what it received over a Unix socket.
    Rights,
    /// A process that opened the path of a FIFO.
    Fifo,
}

impl PeerKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Thread,
        Self::Fork,
        Self::Exec,
        Self::Rights,
        Self::Fifo,
    ];

    /// Whether peers share nothing with the test but ends.
    #[must_use]
    pub fn are_strangers(self) -> bool {
        !matches!(self, Self::Thread | Self::Fork)
    }
}

/// Whose pipe, and what the peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Whose pipe.
    pub engine: Engine,
    /// What the peer is.
    pub peers: PeerKind,
}

impl Setting {
    /// A pipe of the default size: blocking, inherited over exec.
    #[must_use]
    pub fn pipe(self) -> (Reader, Writer) {
        self.pipe_with(&Options::default())
    }

    /// A pipe as `options` say; where peers come by a path, a FIFO.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn pipe_with(self, options: &Options) -> (Reader, Writer) {
        let named = self.peers == PeerKind::Fifo;
        let path = named.then(paths::new_fifo);
        let pipe = match &path {
            Some(path) => self.engine.fifo(path, options),
            None => self.engine.pipe(options),
        };
        let (r, w) = pipe.unwrap_or_else(|e| panic!("no pipe {options:?} of {self}: {e}"));
        let held = |side| self.hold(side, path.clone());
        (Reader::of(held(r)), Writer::of(held(w)))
    }

    /// As [`Self::pipe`], where that may fail.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn try_pipe(self) -> Result<(Reader, Writer), Fail> {
        let (r, w) = self.engine.pipe(&Options::default())?;
        Ok((
            Reader::of(self.hold(r, None)),
            Writer::of(self.hold(w, None)),
        ))
    }

    /// An end that was made by other means than this suite's.
    ///
    /// # Panics
    /// If the engine does not take it.
    #[must_use]
    pub fn adopt<K>(self, fd: OwnedFd) -> EndOf<K> {
        let side = self.engine.adopt(fd).expect("cannot adopt the descriptor");
        EndOf::of(self.hold(side, None))
    }

    /// A new FIFO, with its path.
    #[must_use]
    pub fn fifo(self) -> Arc<CStr> {
        paths::new_fifo()
    }

    /// Makes a FIFO.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn mkfifo(self, path: &CStr, mode: u32) -> Result<(), Fail> {
        Ok(self.engine.mkfifo(path, mode)?)
    }

    /// Opens a FIFO.
    ///
    /// # Errors
    /// What the engine's open fails with.
    pub fn open<K>(self, path: &CStr, flags: OFlags) -> Result<EndOf<K>, Fail> {
        let side = self.engine.open(path, flags)?;
        Ok(EndOf::of(self.hold(side, Some(path.into()))))
    }

    /// A pipe made with the flags of pipe2(2), whatever they are.
    ///
    /// # Errors
    /// What pipe2 fails with.
    pub fn pipe2(self, flags: i32) -> Result<(Reader, Writer), Fail> {
        let mut ends = [-1; 2];
        raw::pipe2(&mut ends, flags)?;
        // SAFETY: just made, nobody else's.
        let [r, w] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((self.adopt(r), self.adopt(w)))
    }

    fn hold(self, side: Box<dyn Side>, path: paths::Path) -> Held {
        let Self { engine, .. } = self;
        Held { side, engine, path }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = match self.peers {
            PeerKind::Thread => "threads",
            PeerKind::Fork => "fork",
            PeerKind::Exec => "exec",
            PeerKind::Rights => "rights",
            PeerKind::Fifo => "fifo",
        };
        write!(f, "{}/{peers}", self.engine)
    }
}
