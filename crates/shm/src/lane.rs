//! The lane: an ordered stream of bytes between processes, through a ring in shared memory.
//!
//! # Roles
//! Any number of *writers* and *readers*, threads of any processes that share the memory. A writer
//! holds the write lock while it copies in, a reader the read lock while it copies out; the two
//! sides meet only in the positions `tail` and `head`.
//!
//! # The normal path
//! A writer makes sure that its memory is there (no lock held), locks, copies a chunk, *publishes*
//! it by storing `tail`, goes on until all is queued or nothing fits, unlocks, looks for a sleeping
//! reader, and rings if there is one. A reader does the same with `head`. Nothing else is shared:
//! no system call, no allocation and no page fault while bytes flow.
//!
//! # Going to sleep
//! Whoever can't go on spins a little, then takes its side's *seat*. The one who holds the seat is
//! the side's sentinel: it *arms* (announces itself and what it wants), looks once more, and sleeps on
//! two descriptors, the side's doorbell and its end of the kernel pipe. Whoever finds the seat
//! taken waits for the seat. When the sentinel wakes, for whatever reason, it leaves the seat, and
//! the next one looks for itself. So one event wakes one reader, and no wake-up is swallowed by
//! somebody else.
//!
//! The classic race (I look, you publish, I sleep) is closed by two full fences: the sleeper arms,
//! fence, looks at the positions; the waker stores a position, fence (at the end of a turn that is the
//! swap that gives the lock back, where the processor has no weaker one), looks at the sleepers. One of
//! the two sees the other.
//!
//! Tasks are announced in the same way, and those of one process need no bell (`lane/tasks.rs`).
//!
//! # Death
//! A position is stored once per chunk, when everything below it is in place; so a peer killed at
//! any instruction leaves a lane that is consistent as it stands. Its locks and its seat are passed
//! on by the kernel (see `lock.rs`). What it copied but did not publish was never written. How bytes that
//! go elsewhere are moved exactly once is in `lane/empty.rs`.
//!
//! # Invariants
//! 1. `head <= tail <= head + capacity` (checked on every use: a hostile peer gets
//!    [`LaneError::Corrupted`], nobody reads or writes outside the ring).
//! 2. `tail` moves under the write lock only, `head` under the read lock only; both only grow.
//! 3. Bytes in `head..tail` do not change; bytes elsewhere belong to the writer.
//! 4. `seen_head <= head` and `seen_tail <= tail`.
//! 5. Whoever sleeps armed after its last look, and a change since then rings its bell.

use std::io;
use std::time::Duration;

use standpipe_core::accounting::{Corrupted, queued_bytes, wakes_writer};
use standpipe_core::size::{PAGE_BYTES, PipeSize};

use crate::doorbell::Doorbell;
use crate::header::{Counts, Header, Notices, Sleepers, add_locked};
use crate::lock::{Guard, LockError, RobustLock};
use crate::memory::{Memory, Ring};
use crate::sync::Ordering;
#[cfg(not(loom))]
use crate::{presence::Presence, stage::Stage};

#[cfg(not(loom))]
mod cut;
#[cfg(not(loom))]
mod empty;
#[cfg(all(test, loom))]
mod explore;
#[cfg(not(loom))]
mod parts;
mod read;
mod reserve;
#[cfg(not(loom))]
mod resize;
mod roster;
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;
mod wake;
mod way;
mod write;

pub use crate::gather::{Gather, Scatter};
#[cfg(not(loom))]
pub use cut::{Ends, WriteEnds};
#[cfg(not(loom))]
pub use parts::{BorrowedParts, Parts};
pub use read::OnlyReader;
pub use roster::Standing;
pub use wake::{By, Seat};
pub use way::Turn;

use tasks::Tasks;

/// How much is copied before it is published: enough to make the store of the position cheap,
/// little enough that the other side starts early.
const CHUNK_BYTES: usize = if cfg!(loom) { 1 } else { 16 << 10 };

/// How long to wait for a lock that a living thread holds: long enough for a holder that lost its
/// processor in the middle of a copy. Whoever may wait longer tries again.
const LOCK_PATIENCE: Duration = Duration::from_millis(if cfg!(fuzzing) { 1 } else { 100 });

/// Why a lane can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// A peer wrote nonsense into the shared memory.
    #[error(transparent)]
    Corrupted(#[from] Corrupted),
    /// A lock could not be had.
    #[error("{field}: {error}")]
    Lock {
        /// Which one.
        field: &'static str,
        /// Why.
        error: LockError,
    },
    /// Memory for the bytes could not be had.
    #[error("no memory for the pipe's ring: {0}")]
    Memory(#[source] io::Error),
    /// The ring that counts could not be mapped, or is none.
    #[error("{0}")]
    Ring(#[source] io::Error),
    /// More is queued than the capacity that was asked for.
    #[error(
        "{queued_bytes} bytes are queued, expected at most the new capacity of {capacity_bytes}"
    )]
    Busy {
        /// How much is queued.
        queued_bytes: usize,
        /// How much there would be room for.
        capacity_bytes: usize,
    },
}

/// Somebody kept a lock for longer than a call waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field}: word corrupted, or its holder stopped: held by thread {owner} while no peer is left"
)]
pub struct Held {
    /// Which one.
    pub field: &'static str,
    /// The thread that holds it, as the shared memory says.
    pub owner: u32,
}

impl LaneError {
    /// Whether the lane can't be used just now, since a living thread keeps a lock.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        match self {
            Self::Lock { field, error } => error.owner().map(|owner| Held { field, owner }),
            _ => None,
        }
    }
}

impl From<LaneError> for io::Error {
    fn from(error: LaneError) -> Self {
        let kind = match &error {
            LaneError::Corrupted(_) => io::ErrorKind::InvalidData,
            LaneError::Lock { error, .. } => error.kind(),
            LaneError::Memory(_) => io::ErrorKind::OutOfMemory,
            LaneError::Ring(error) => error.kind(),
            LaneError::Busy { .. } => io::ErrorKind::ResourceBusy,
        };
        Self::new(kind, error)
    }
}

/// What the ends of the pipe have to take into account besides the lane. Only ever gains bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// Nothing.
    pub const OPEN: Self = Self(0);
    /// Nothing enters the lane any more.
    pub const RETIRED: Self = Self(1);
    /// A program that does not know the lane writes beside others: all write into the kernel pipe.
    pub const UNAWARE_WRITERS: Self = Self(2);
    /// Somebody waits for a doorbell on its own: it rings for as long as there is something to do.
    pub const POLLED: Self = Self(4);

    /// Whether writers may use the lane.
    #[must_use]
    pub const fn is_open(self) -> bool {
        self.0 & (Self::RETIRED.0 | Self::UNAWARE_WRITERS.0) == 0
    }

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// As kept in shared memory.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From shared memory: unknown bits mean nothing.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 7)
    }
}

/// When peers are woken in the course of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// After each segment of a transfer, and at its end (variant A+B of 2001).
    #[default]
    PerSegment,
    /// At the end of the transfer only (variant A).
    PerTransfer,
}

/// How far a write got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// Everything is queued.
    All,
    /// The lane is full; going on is worthwhile once this many bytes fit.
    Full(usize),
    /// A reader left, or the lane is retired: ask who is there first.
    Ask,
}

/// The two sides of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those who read.
    Reader,
    /// Those who write.
    Writer,
}

/// What went through one side of a pipe. What the lane moved is counted over all processes that share
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes moved through the lane.
    pub bytes: u64,
    /// Turns at the lock that moved bytes (a transfer larger than the room takes several).
    pub operations: u64,
    /// How often somebody of this side went to sleep.
    pub sleeps: u64,
    /// Doorbells rung for a sleeper of the other side.
    pub wakeups_sent: u64,
    /// Transfers that found nobody to wake and rang nothing.
    pub wakeups_saved: u64,
    /// Pages populated before the lock was taken.
    pub pages_populated_outside: u64,
    /// Pages populated inside the lock: 0 once the ring has been through.
    pub pages_populated_inside: u64,
    /// How often the lock was taken over from somebody who was killed inside.
    pub owner_deaths: u64,
    /// Bytes that this process moved through the kernel pipe instead, because somebody without the
    /// lane takes part. (Not known to the lane.)
    pub kernel_bytes: u64,
}

/// A lane, as this process has it mapped.
pub struct Lane {
    memory: Memory,
    size: PipeSize,
    wake: Wake,
    reader_bell: Doorbell,
    writer_bell: Doorbell,
    reading_tasks: Tasks,
    writing_tasks: Tasks,
    #[cfg(not(loom))]
    presence: Presence,
    #[cfg(not(loom))]
    stage: Stage,
}

impl Lane {
    /// A new lane, empty.
    ///
    /// # Errors
    /// What the kernel says if the memory or the descriptors cannot be had; `Unsupported` where the
    /// C library gives no robust locks.
    pub fn new(size: PipeSize, wake: Wake) -> io::Result<Self> {
        #[cfg(not(loom))]
        if !crate::robust_list::is_supported() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Self::over(Memory::new(size.capacity_bytes())?, size, wake)
    }

    fn over(memory: Memory, size: PipeSize, wake: Wake) -> io::Result<Self> {
        Ok(Self {
            memory,
            size,
            wake,
            reader_bell: Doorbell::new()?,
            writer_bell: Doorbell::new()?,
            reading_tasks: Tasks::default(),
            writing_tasks: Tasks::default(),
            #[cfg(not(loom))]
            presence: Presence::new()?,
            #[cfg(not(loom))]
            stage: Stage::new()?,
        })
    }

    /// Capacity and segment, as they are now.
    pub fn size(&self) -> PipeSize {
        let order = (self.capacity() / PAGE_BYTES).checked_ilog2().unwrap_or(0) as u8;
        let shift = self.size.segment_shift();
        PipeSize::new(order, shift.min(order)).unwrap_or(self.size)
    }

    /// As it was made.
    pub(crate) fn made_size(&self) -> PipeSize {
        self.size
    }

    /// When peers are woken.
    pub fn wake(&self) -> Wake {
        self.wake
    }

    /// How many bytes it holds, as a hint without a lock.
    #[inline]
    fn capacity(&self) -> usize {
        self.memory.capacity_bytes()
    }

    #[inline]
    fn header(&self) -> &Header {
        self.memory.header()
    }

    /// The mode, for somebody of `side`.
    #[inline]
    pub fn mode(&self, side: Side) -> Mode {
        // Acquire pairs with the Release in `add_mode`.
        Mode::from_bits(self.notices(side).mode.load(Ordering::Acquire))
    }

    /// Adds to the mode of one side. (Nobody is woken.)
    pub fn add_mode_of(&self, side: Side, mode: Mode) {
        let bits = &self.notices(side).mode;
        if bits.load(Ordering::Relaxed) & mode.bits() != mode.bits() {
            bits.fetch_or(mode.bits(), Ordering::Relaxed);
        }
    }

    /// Adds to the mode, for both sides, and has the sleepers look.
    pub fn add_mode(&self, mode: Mode) {
        for side in [Side::Writer, Side::Reader] {
            // Release pairs with the Acquire in `mode`: what was done before is seen after.
            self.notices(side)
                .mode
                .fetch_or(mode.bits(), Ordering::Release);
        }
        self.bell(Side::Writer).ring();
        self.bell(Side::Reader).ring();
    }

    /// An end of `side` was closed: a hint for the other side to ask the kernel who is left.
    pub fn note_departure(&self, side: Side) {
        // Release pairs with the Acquire in `departures_seen_by`: who sees the departure sees as well that
        // the process it is of has no such end any more.
        self.notices(side.other())
            .departures
            .fetch_add(1, Ordering::Release);
    }

    /// How many ends of the other side were closed by their owners so far.
    #[inline]
    pub fn departures_seen_by(&self, side: Side) -> u32 {
        // Acquire pairs with the Release in `note_departure`.
        self.notices(side).departures.load(Ordering::Acquire)
    }

    /// How many bytes are queued, as a hint: who acts on it takes a lock and is told the truth.
    #[inline]
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        for _ in 0..LOOKS {
            // Acquire pairs with the Release in `publish_head`, `publish_tail`.
            let head = self.header().head.0.load(Ordering::Acquire);
            let tail = self.header().tail.0.load(Ordering::Acquire);
            // The two may be far apart in a lane that moves: look again. Whoever moved it did so
            // after our arm, if we armed, and looks for us.
            if let Ok(queued) = queued_bytes(head, tail, self.capacity()) {
                return queued;
            }
        }
        self.capacity()
    }

    /// Whether somebody of `side` who waits for `wanted_bytes` should go on.
    #[inline]
    pub fn is_ready(&self, side: Side, wanted_bytes: usize) -> bool {
        let queued = self.queued_bytes();
        match side {
            Side::Reader => queued > 0 || self.is_staged(),
            Side::Writer => {
                let taken =
                    (queued + self.kernel_share().min(self.capacity())).min(self.capacity());
                wakes_writer(wanted_bytes, taken, self.capacity(), self.segment_bytes())
                    || !self.mode(side).is_open()
            }
        }
    }

    /// Whether the other side's last turn ran on another processor than the caller: then spinning
    /// lets it go on, else only yielding does.
    #[cfg(not(loom))]
    #[must_use]
    pub fn peer_runs_elsewhere(&self, side: Side) -> bool {
        self.notices(side).processor.load(Ordering::Relaxed) != crate::patience::processor()
    }

    /// What went through `side` so far.
    pub fn stats(&self, side: Side) -> Stats {
        let counts = self.counts(side);
        let get = |count: &crate::sync::AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            bytes: get(&counts.bytes),
            operations: get(&counts.operations),
            sleeps: get(&counts.sleeps),
            wakeups_sent: get(&counts.wakeups_sent),
            wakeups_saved: get(&counts.wakeups_saved),
            pages_populated_outside: get(&counts.pages_populated_outside),
            pages_populated_inside: get(&counts.pages_populated_inside),
            owner_deaths: get(&counts.owner_deaths),
            kernel_bytes: 0,
        }
    }

    /// After a fork, in the child: the memory is shared; page tables and tasks are not.
    pub fn begin_anew(&self) {
        let ring = self.memory.ring();
        ring.written.reset();
        ring.read.reset();
        self.reading_tasks.leave_to_parent();
        self.writing_tasks.leave_to_parent();
    }

    /// Makes an unused lane of this one: empty, with no history. Only for a lane that nobody else
    /// can reach any more.
    pub fn reset(&mut self) {
        let tail = self.header().tail.0.load(Ordering::Relaxed);
        self.header().head.0.store(tail, Ordering::Relaxed);
        self.reset_way();
        self.reset_rosters();
        for side in [Side::Reader, Side::Writer] {
            self.counts(side).reset();
            self.notices(side).reset();
            self.bell(side).silence();
        }
        self.reading_tasks.reset();
        self.writing_tasks.reset();
    }

    #[expect(
        clippy::inline_always,
        reason = "what it returns is large: put together elsewhere, a short transfer waits for it"
    )]
    #[inline(always)]
    fn lock(&self, side: Side) -> Result<Guard<'_>, LaneError> {
        let (field, lock) = match side {
            Side::Reader => ("readers' lock", &self.header().reader.0.lock),
            Side::Writer => ("writers' lock", &self.header().writer.0.lock),
        };
        let guard = lock
            .lock_for(LOCK_PATIENCE)
            .map_err(|error| LaneError::Lock { field, error })?;
        if guard.owner_died() {
            self.take_over(side);
        }
        Ok(guard)
    }

    /// The last holder died inside. A position that was not stored never happened (see "Death").
    #[cold]
    fn take_over(&self, side: Side) {
        add_locked(&self.counts(side).owner_deaths, 1);
        if side == Side::Writer {
            #[cfg(not(loom))]
            self.note_write_end(self.header().tail.0.load(Ordering::Relaxed));
            self.repair_way();
        }
    }

    /// The ring that counts, for who holds a lock.
    #[inline]
    fn current_ring(&self) -> Result<&Ring, LaneError> {
        self.memory.current().map_err(LaneError::Ring)
    }

    fn seat(&self, side: Side) -> &RobustLock {
        match side {
            Side::Reader => &self.header().for_readers.0.seat,
            Side::Writer => &self.header().for_writers.0.seat,
        }
    }

    /// What somebody of `side` looks at.
    #[inline]
    fn notices(&self, side: Side) -> &Notices {
        match side {
            Side::Reader => &self.header().for_readers.0,
            Side::Writer => &self.header().for_writers.0,
        }
    }

    /// The announced sleepers of `side`, which the other side looks at.
    #[inline]
    fn sleepers(&self, side: Side) -> &Sleepers {
        &self.notices(side.other()).sleepers
    }

    fn counts(&self, side: Side) -> &Counts {
        match side {
            Side::Reader => &self.header().reader.0.counts,
            Side::Writer => &self.header().writer.0.counts,
        }
    }

    /// The bell that sleepers of `side` wait for.
    pub(crate) fn bell(&self, side: Side) -> &Doorbell {
        match side {
            Side::Reader => &self.reader_bell,
            Side::Writer => &self.writer_bell,
        }
    }

    fn segment_bytes(&self) -> usize {
        let least = if cfg!(loom) { 1 } else { PAGE_BYTES };
        (self.capacity() >> self.size.segment_shift()).max(least)
    }
}

/// How often to look at two positions that move before taking the lane for full.
const LOOKS: usize = 4;

impl Side {
    /// The peer's side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Reader => Self::Writer,
            Self::Writer => Self::Reader,
        }
    }
}
