//! Where a behaviour is shown: whose pipe, and what the peer is.

use std::fmt;

use crate::ends::{Reader, Writer};
use crate::engine::{Engine, Options};

/// What a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// A thread of this process.
    Thread,
    /// A forked child process.
    Fork,
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

    /// A pipe as `options` say.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn pipe_with(self, options: &Options) -> (Reader, Writer) {
        let pipe = self.engine.pipe(options);
        let (r, w) = pipe.unwrap_or_else(|e| panic!("no pipe {options:?} of {self}: {e}"));
        (Reader::boxed(r), Writer::boxed(w))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Engine::Kernel => f.write_str("kernel")?,
            Engine::Standpipe => f.write_str("standpipe")?,
            Engine::Flawed(flaw) => write!(f, "flawed({flaw:?})")?,
        }
        f.write_str(match self.peers {
            PeerKind::Thread => "/threads",
            PeerKind::Fork => "/fork",
        })
    }
}
