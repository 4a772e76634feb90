//! What is reaped.

use std::io;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::EndId;
use super::buffer::Buffers;

/// The end of an operation, or one arrival of several.
#[derive(Debug)]
pub struct Completion {
    /// As submitted.
    pub token: u64,
    /// What came of it.
    pub result: Result<Outcome, Failure>,
    /// Its buffers. Of a multishot read, the bytes that arrived.
    pub buffers: Buffers,
    /// No other completion of this operation follows: the token is free when this one is reaped.
    pub is_last: bool,
}

impl Completion {
    /// How many bytes were moved, with errors as the blocking call would have them.
    ///
    /// # Errors
    /// That of the call; `ECANCELED`.
    pub fn into_bytes(self) -> (io::Result<usize>, Buffers) {
        let bytes = match self.result {
            Ok(Outcome::Bytes(bytes)) => Ok(bytes),
            Ok(_) => Ok(0),
            Err(failure) => Err(failure.into()),
        };
        (bytes, self.buffers)
    }
}

/// How an operation went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// So many bytes were moved; of a read, 0 is the end of the stream.
    Bytes(usize),
    /// These events are there.
    Events(PollFlags),
    /// The FIFO is open, and its end attached to the ring.
    Opened(EndId),
    /// The time has passed.
    Expired,
    /// The other operation was cancelled.
    Cancelled,
}

/// How it did not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// It was cancelled, and moved nothing.
    #[error("cancelled before anything was moved")]
    Cancelled,
    /// One that it was linked behind did not succeed; it was not begun.
    #[error("not begun: what it was linked to did not succeed")]
    LinkBroken,
    /// There is no such operation to cancel, or it is complete.
    #[error("no operation under way has token {0}")]
    NotFound(u64),
    /// What the blocking call would say.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled | Failure::LinkBroken => Errno::CANCELED.into(),
            Failure::NotFound(_) => Errno::NOENT.into(),
            Failure::Io(error) => error,
        }
    }
}
