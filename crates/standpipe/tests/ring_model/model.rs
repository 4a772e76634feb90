//! What is known of pipes and operations, without a ring.

use standpipe::completion::{EndId, PollFlags};
use standpipe::end::End;

/// Where an end is.
pub enum Place {
    /// Attached to a ring.
    In(usize, EndId),
    /// A peer's, who does not wait.
    Out(End),
    Closed,
}

impl Place {
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// A pipe, with what its completions say.
pub struct Pipe {
    pub reader: Place,
    pub writer: Place,
    /// What writes say they wrote.
    pub sent: Vec<u8>,
    pub received: Vec<u8>,
    /// How many of those were compared.
    checked: usize,
}

impl Pipe {
    pub fn new(reader: Place, writer: Place) -> Self {
        Self {
            reader,
            writer,
            sent: Vec::new(),
            received: Vec::new(),
            checked: 0,
        }
    }

    pub fn is_all_read(&self) -> bool {
        self.sent.len() == self.received.len()
    }

    pub fn place(&mut self, reads: bool) -> &mut Place {
        if reads {
            &mut self.reader
        } else {
            &mut self.writer
        }
    }

    /// Nobody is in the midst of a write: what was read is what was written.
    pub fn compare(&mut self, name: usize) {
        let new = self.checked..self.received.len();
        assert!(
            self.received.len() <= self.sent.len() && self.received[new.clone()] == self.sent[new],
            "pipe {name}: of {} bytes {} were read, or others",
            self.sent.len(),
            self.received.len()
        );
        self.checked = self.received.len();
    }
}

/// What an operation does.
#[derive(Debug)]
pub enum What {
    Read {
        pipe: usize,
    },
    Shots {
        pipe: usize,
    },
    Write {
        pipe: usize,
        bytes: Vec<u8>,
    },
    Poll {
        pipe: usize,
        reads: bool,
        events: PollFlags,
    },
    AtOnce,
    Never,
    Cancel {
        token: u64,
    },
}

impl What {
    /// The end that it is on: the pipe, and whether that reads.
    pub fn end(&self) -> Option<(usize, bool)> {
        match *self {
            Self::Read { pipe } | Self::Shots { pipe } => Some((pipe, true)),
            Self::Write { pipe, .. } => Some((pipe, false)),
            Self::Poll { pipe, reads, .. } => Some((pipe, reads)),
            Self::AtOnce | Self::Never | Self::Cancel { .. } => None,
        }
    }
}

/// An operation of which the last completion was not reaped.
#[derive(Debug)]
pub struct Op {
    /// Never used again, as tokens are.
    pub number: usize,
    pub what: What,
    /// What it is linked behind.
    pub behind: Option<usize>,
    /// Of a cancel that was submitted alone: what had the token then.
    pub target: Option<usize>,
    /// Somebody cancelled it, or took its end away.
    pub may_be_cancelled: bool,
}
