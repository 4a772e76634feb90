//! What a lane consists of, for handing it over, and the readers that are present.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use standpipe_core::size::PipeSize;

use super::{Lane, Side, Wake, tasks::Tasks};
use crate::doorbell::Doorbell;
use crate::memory::Memory;
use crate::presence::Presence;
use crate::stage::Stage;

/// A lane's parts, as received.
#[derive(Debug)]
pub struct Parts {
    /// Capacity and segment.
    pub size: PipeSize,
    /// When peers are woken.
    pub wake: Wake,
    /// The sealed memfd.
    pub memory: OwnedFd,
    /// The bell that readers wait for.
    pub reader_bell: OwnedFd,
    /// The bell that writers wait for.
    pub writer_bell: OwnedFd,
    /// The read end of the pipe that hangs up when no reader is left.
    pub presence: OwnedFd,
    /// The stage, its read end first.
    pub stage: [OwnedFd; 2],
}

/// A lane's parts, to hand over.
#[derive(Clone, Copy, Debug)]
pub struct BorrowedParts<'a> {
    /// Capacity and segment.
    pub size: PipeSize,
    /// When peers are woken.
    pub wake: Wake,
    /// Memory, reader's bell, writer's bell, presence, stage (read end, write end).
    pub fds: [BorrowedFd<'a>; 6],
}

impl Lane {
    /// What to hand over.
    #[must_use]
    pub fn parts(&self) -> BorrowedParts<'_> {
        let [stage_read, stage_write] = self.stage.as_fds();
        BorrowedParts {
            size: self.size(),
            wake: self.wake,
            fds: [
                self.memory.as_fd(),
                self.reader_bell.as_fd(),
                self.writer_bell.as_fd(),
                self.presence.as_fd(),
                stage_read,
                stage_write,
            ],
        }
    }

    /// A lane that was handed over. The parts were checked (see `rendezvous`).
    ///
    /// # Errors
    /// What the kernel says if the memory can't be mapped.
    pub fn from_parts(parts: Parts) -> io::Result<Self> {
        if !crate::robust_list::is_supported() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            memory: Memory::over(parts.memory.into())?,
            size: parts.size,
            wake: parts.wake,
            reader_bell: Doorbell::from_fd(parts.reader_bell),
            writer_bell: Doorbell::from_fd(parts.writer_bell),
            reading_tasks: Tasks::default(),
            writing_tasks: Tasks::default(),
            presence: Presence::watching(parts.presence),
            stage: Stage::from_fds(parts.stage),
        })
    }

    /// This process reads from the lane from now on.
    ///
    /// # Errors
    /// As open(2) of `/proc/self/fd`.
    pub fn enter(&self) -> io::Result<()> {
        self.presence.enter()
    }

    /// This process reads from the lane no more: writers hear of it. Afterwards no writer puts bytes in
    /// on the strength of our presence.
    ///
    /// # Errors
    /// [`super::LaneError::Lock`].
    pub fn leave(&self) -> io::Result<()> {
        self.presence.leave();
        self.note_departure(Side::Reader);
        // Those inside are done when we have had the lock; those after it see the note.
        Ok(self.as_only_writer(|| ())?)
    }

    /// Whether anybody reads from the lane, asked of the kernel.
    #[must_use]
    pub fn has_readers(&self) -> bool {
        self.presence.is_anybody()
    }

    /// The bell that sleepers of `side` wait for.
    #[must_use]
    pub fn bell_fd(&self, side: Side) -> BorrowedFd<'_> {
        self.bell(side).as_fd()
    }

    /// How many bytes are queued, and on their way to the kernel pipe.
    ///
    /// # Errors
    /// Of the stage.
    pub fn unread_bytes(&self) -> io::Result<usize> {
        let staged = if self.is_staged() {
            self.stage.queued_bytes()?
        } else {
            0
        };
        Ok(self.queued_bytes() + staged)
    }

    /// Hangs up when nobody reads from the lane any more.
    #[must_use]
    pub fn presence(&self) -> BorrowedFd<'_> {
        self.presence.as_fd()
    }
}
