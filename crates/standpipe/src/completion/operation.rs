//! What can be submitted, and why it may be refused.

use std::path::PathBuf;
use std::time::Duration;

use rustix::event::PollFlags;
use standpipe_shm::lane::Side;

use super::EndId;
use super::buffer::{Buffer, Buffers};
use super::others::Others;
use crate::fifo::{Access, Options};

/// Most buffers of one operation (`IOV_MAX` of Linux).
pub(super) const MOST_BUFFERS: usize = 1024;

/// Most bytes of one arrival, whatever was asked for: what a pipe holds at most unless root made it larger
/// (`pipe-max-size` in pipe(7)), and more than datagrams have. The memory is taken before they come.
pub(super) const MOST_CHUNK_BYTES: usize = 1 << 20;

/// An operation. Buffers are the ring's until it completes, and come back with the completion.
///
/// Operations by reference (loans, splice between pipes, tee) would be further variants here, and a case
/// of `attempt::attempt` each.
#[derive(Debug)]
pub enum Operation {
    /// A read into `buffer`, up to its length: completes with one byte or more, or 0 at the end of the
    /// stream.
    Read {
        /// From where.
        end: EndId,
        /// To where: its length is the room.
        buffer: Buffer,
    },
    /// A read into several buffers, in order, each up to its length.
    ReadVectored {
        /// From where.
        end: EndId,
        /// To where.
        buffers: Vec<Buffer>,
    },
    /// A read of a file from an offset on, without a look at its position: completes when all of `buffer` is
    /// read, or with less where the file ends.
    ReadAt {
        /// The file.
        end: EndId,
        /// From where.
        offset: u64,
        /// To where: its length is the room.
        buffer: Buffer,
    },
    /// Moves bytes of a file of the cache into a pipe, without a copy in between: completes when all are in
    /// the pipe, or the file ended. It is a write of the pipe's end, in order with others.
    #[cfg(feature = "file")]
    Splice {
        /// From where.
        file: EndId,
        /// From where on; or from the position of the file, which moves on with what is moved.
        offset: Option<u64>,
        /// To where.
        end: EndId,
        /// How many at most.
        bytes: usize,
    },
    /// Reads until the end of the stream, or until cancelled: a completion per arrival, each with a buffer
    /// of its own, of `chunk_bytes` (and 1 MiB) at most. Only the last has [`is_last`](super::Completion::is_last).
    ReadMultishot {
        /// From where.
        end: EndId,
        /// How many bytes at most at once.
        chunk_bytes: usize,
    },
    /// A write of all of `buffer`: completes when everything is in the pipe, as a blocking write does. Up to
    /// `PIPE_BUF` bytes go in as a whole.
    Write {
        /// To where.
        end: EndId,
        /// What.
        buffer: Buffer,
    },
    /// A write of several buffers, in order.
    WriteVectored {
        /// To where.
        end: EndId,
        /// What.
        buffers: Vec<Buffer>,
    },
    /// Completes when poll(2) would report something of these events, or what comes unasked.
    Poll {
        /// Of whom.
        end: EndId,
        /// Which.
        events: PollFlags,
    },
    /// Opens a FIFO, as open(2) does, though nothing waits in it: completes with
    /// [`Outcome::Opened`](super::Outcome::Opened) when somebody has it open for the other direction (or at
    /// once, opened both ways or with [`Options::nonblocking`]). Cancelled, it was never open.
    ///
    /// To be read, it waits with the FIFO open: a writer that waits in open(2) goes on. To be written it
    /// can't; and as no descriptor tells of a reader that waits in open(2), it looks for one now and then,
    /// each 16 milliseconds at most. Others who open the FIFO are noticed at once (inotify(7)).
    OpenFifo {
        /// Where.
        path: PathBuf,
        /// What for.
        access: Access,
        /// How.
        options: Options,
    },
    /// Completes when that much time has passed.
    Timeout {
        /// Since it began.
        after: Duration,
    },
    /// Cancels an operation, which completes at once: with what it moved so far if that is anything (only a
    /// write of more than fits, or a chain of arrivals, can be half done), else as cancelled, and then it
    /// moved nothing. Completes itself with [`Outcome::Cancelled`](super::Outcome::Cancelled), or fails
    /// with [`Failure::NotFound`](super::Failure::NotFound).
    Cancel {
        /// Whose token it is.
        token: u64,
    },
}

impl Operation {
    /// Opens a FIFO, and waits for a partner.
    #[must_use]
    pub fn open_fifo(path: impl Into<PathBuf>, access: Access) -> Self {
        Self::OpenFifo {
            path: path.into(),
            access,
            options: Options::new(),
        }
    }

    /// A [read](Self::Read).
    #[inline]
    pub fn read(end: EndId, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::Read { end, buffer }
    }

    /// A [read at an offset](Self::ReadAt).
    pub fn read_at(end: EndId, offset: u64, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::ReadAt {
            end,
            offset,
            buffer,
        }
    }

    /// A [write](Self::Write).
    #[inline]
    pub fn write(end: EndId, buffer: impl Into<Buffer>) -> Self {
        let buffer = buffer.into();
        Self::Write { end, buffer }
    }

    /// A [vectored read](Self::ReadVectored).
    pub fn read_vectored<B: Into<Buffer>>(
        end: EndId,
        buffers: impl IntoIterator<Item = B>,
    ) -> Self {
        let buffers = buffers.into_iter().map(Into::into).collect();
        Self::ReadVectored { end, buffers }
    }

    /// A [vectored write](Self::WriteVectored).
    pub fn write_vectored<B: Into<Buffer>>(
        end: EndId,
        buffers: impl IntoIterator<Item = B>,
    ) -> Self {
        let buffers = buffers.into_iter().map(Into::into).collect();
        Self::WriteVectored { end, buffers }
    }

    /// A read or a write.
    pub(super) fn transfer(end: EndId, side: Side, buffer: Buffer) -> Self {
        match side {
            Side::Reader => Self::Read { end, buffer },
            Side::Writer => Self::Write { end, buffer },
        }
    }

    /// The end that it is on, and which side of it it moves bytes on.
    pub(super) fn place(&self) -> Option<(EndId, Option<Side>)> {
        match *self {
            Self::Read { end, .. }
            | Self::ReadVectored { end, .. }
            | Self::ReadAt { end, .. }
            | Self::ReadMultishot { end, .. } => Some((end, Some(Side::Reader))),
            Self::Write { end, .. } | Self::WriteVectored { end, .. } => {
                Some((end, Some(Side::Writer)))
            }
            #[cfg(feature = "file")]
            Self::Splice { end, .. } => Some((end, Some(Side::Writer))),
            Self::Poll { end, .. } => Some((end, None)),
            Self::OpenFifo { .. } | Self::Timeout { .. } | Self::Cancel { .. } => None,
        }
    }

    /// Whether it is on this end or file.
    pub(super) fn has(&self, id: EndId) -> bool {
        #[cfg(feature = "file")]
        if matches!(self, Self::Splice { file, .. } if *file == id) {
            return true;
        }
        self.place().is_some_and(|(end, _)| end == id)
    }

    /// From where on a file is read, without a look at its position.
    pub(super) fn offset(&self) -> Option<u64> {
        match self {
            Self::ReadAt { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    pub(super) fn writes(&self) -> bool {
        matches!(self.place(), Some((_, Some(Side::Writer))))
    }

    pub(super) fn polls_for_room(&self) -> bool {
        let room = PollFlags::OUT | PollFlags::WRNORM;
        matches!(self, Self::Poll { events, .. } if events.intersects(room))
    }

    /// Whether one call that moved less than all is followed by another.
    pub(super) fn wants_more(&self, moved_bytes: usize) -> bool {
        let total_bytes = match self {
            Self::ReadAt { buffer, .. } | Self::Write { buffer, .. } => buffer.len(),
            Self::WriteVectored { buffers, .. } => buffers.iter().map(|buffer| buffer.len()).sum(),
            _ => 0,
        };
        moved_bytes < total_bytes
    }

    pub(super) fn buffers_mut(&mut self) -> &mut [Buffer] {
        match self {
            Self::Read { buffer, .. }
            | Self::ReadAt { buffer, .. }
            | Self::Write { buffer, .. } => std::slice::from_mut(buffer),
            Self::ReadVectored { buffers, .. } | Self::WriteVectored { buffers, .. } => buffers,
            _ => &mut [],
        }
    }

    /// Whether it is one for an end of a pipe, and moves bytes from what it may.
    #[cfg_attr(not(feature = "file"), expect(unused_variables))]
    pub(super) fn check_stream(&self, others: &Others) -> Result<(), SubmitError> {
        match self {
            Self::ReadAt { .. } => Err(SubmitError::Unfit(
                "a read at an offset of a pipe, which has none; expected a file",
            )),
            #[cfg(feature = "file")]
            Self::Splice { file, .. } => others.check_file(*file),
            _ => Ok(()),
        }
    }

    /// Whether there is something to move, in as many buffers as there may be.
    pub(super) fn check_buffers(&self) -> Result<(), SubmitError> {
        let is_empty = match self {
            Self::Read { buffer, .. }
            | Self::ReadAt { buffer, .. }
            | Self::Write { buffer, .. } => buffer.is_empty(),
            #[cfg(feature = "file")]
            Self::Splice { bytes, .. } => *bytes == 0,
            Self::ReadMultishot { chunk_bytes, .. } => *chunk_bytes == 0,
            Self::ReadVectored { buffers, .. } | Self::WriteVectored { buffers, .. } => {
                if buffers.len() > MOST_BUFFERS {
                    return Err(SubmitError::TooManyBuffers(buffers.len()));
                }
                buffers.iter().all(|buffer| buffer.is_empty())
            }
            Self::Poll { .. }
            | Self::OpenFifo { .. }
            | Self::Timeout { .. }
            | Self::Cancel { .. } => false,
        };
        if is_empty {
            return Err(SubmitError::ZeroLength);
        }
        Ok(())
    }

    pub(super) fn into_buffers(self) -> Buffers {
        match self {
            Self::Read { buffer, .. }
            | Self::ReadAt { buffer, .. }
            | Self::Write { buffer, .. } => Buffers::One(buffer),
            Self::ReadVectored { buffers, .. } | Self::WriteVectored { buffers, .. } => {
                Buffers::Many(buffers.into())
            }
            _ => Buffers::None,
        }
    }
}

/// Why an operation was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// Every place is taken by an operation under way or a completion that was not reaped: reap first.
    #[error("all {0} places of the ring are taken, expected some completions to be reaped first")]
    Full(usize),
    /// The end was detached, or never attached here. (Ids are a ring's own: that of another ring may by chance be
    /// one of this ring, too.)
    #[error("the end is not attached to this ring (any more)")]
    NoSuchEnd,
    /// A read of an end that only writes, or the other way round.
    #[error("the end is of the other direction")]
    WrongDirection,
    /// An operation on something that does not have it.
    #[error("{0}")]
    Unfit(&'static str),
    /// A read without room, or a write of nothing.
    #[error("0 bytes to move, expected 1 or more")]
    ZeroLength,
    /// Too many buffers.
    #[error("{0} buffers, expected at most {MOST_BUFFERS}")]
    TooManyBuffers(usize),
    /// Another operation has this token, and its last completion was not reaped.
    #[error("token {0} is in use until its last completion is reaped")]
    TokenInUse(u64),
}

/// An operation that was not taken, given back: nothing was done.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Rejected {
    /// Why.
    pub reason: SubmitError,
    /// The operation.
    pub operation: Operation,
}

/// Linked operations that were not taken, given back: nothing was done.
#[derive(Debug, thiserror::Error)]
#[error("link {index}: {reason}")]
pub struct RejectedLinks {
    /// Why.
    pub reason: SubmitError,
    /// Which of them is to blame.
    pub index: usize,
    /// All of them.
    pub links: Vec<(u64, Operation)>,
}
