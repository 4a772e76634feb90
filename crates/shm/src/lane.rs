//! The lane: an ordered stream of bytes between processes, through a ring in shared memory.
//!
//! # Roles
//! Any number of *writers* and *readers*, threads of any processes that share the memory. A writer
//! holds the write lock while it copies in, a reader the read lock while it copies out; the two
//! sides meet only in the positions `tail` and `head`.
//!
//! # The normal path
//! A writer makes sure that its memory is there (no lock held), locks, copies a chunk, *publishes*
//! it by storing `tail`, goes on until all is queued or nothing fits, looks for a sleeping reader,
//! unlocks, and rings if there was one. A reader does the same with `head`. Nothing else is shared:
//! no system call, no allocation and no page fault while bytes flow.
//!
//! # Going to sleep
//! Whoever can't go on spins a little, then takes its side's *seat*. The one who holds the seat is
//! the side's sentinel: it *arms* (announces itself in [`Sleepers`]), looks once more, and sleeps on
//! two descriptors, the side's doorbell and its end of the kernel pipe. Whoever finds the seat
//! taken waits for the seat. When the sentinel wakes, for whatever reason, it leaves the seat, and
//! the next one looks for itself. So one event wakes one reader, and no wake-up is swallowed by
//! somebody else.
//!
//! The classic race (I look, you publish, I sleep) is closed by two full fences: the sleeper arms,
//! fence, looks at the positions; the waker stores a position, fence, looks at the sleepers. One of
//! the two sees the other.
//!
//! # Death
//! A position is stored once per chunk, when everything below it is in place; so a peer killed at
//! any instruction leaves a lane that is consistent as it stands. Its locks and its seat are passed
//! on by the kernel ([`crate::lock`]). What it copied but did not publish was never written.
//!
//! # Invariants
//! 1. `head <= tail <= head + capacity` (checked on every use: a hostile peer gets
//!    [`LaneError::Corrupted`], nobody reads or writes outside the ring).
//! 2. `tail` moves under the write lock only, `head` under the read lock only; both only grow.
//! 3. Bytes in `head..tail` do not change; bytes elsewhere belong to the writer.
//! 4. `seen_head <= head` and `seen_tail <= tail`.
//! 5. Whoever sleeps armed after its last look, and a change since then rings its bell.

use std::io;

use standpipe_core::accounting::{
    Corrupted, WriteStep, completes_segment, queued_bytes, wakes_writer, write_step,
};
use standpipe_core::size::{PAGE_BYTES, PipeSize};

use crate::doorbell::Doorbell;
use crate::frontier::Frontier;
use crate::header::{Counts, Header, Notices, Seen, Sleepers, add, add_locked};
use crate::lock::{Guard, LockError, RobustLock};
use crate::memory::Memory;
use crate::sync::{Ordering, fence};

pub use crate::gather::{Gather, Scatter};

/// How much is copied before it is published: enough to make the store of the position cheap,
/// little enough that the other side starts early.
const CHUNK_BYTES: usize = if cfg!(loom) { 1 } else { 16 << 10 };

/// How much memory is populated at a time, at least: the bulk of the 2026 work on pipe writes.
pub(crate) const BULK_PAGES: usize = 8;

/// Why a lane can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// A peer wrote nonsense into the shared memory.
    #[error(transparent)]
    Corrupted(#[from] Corrupted),
    /// A lock could not be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Memory for the bytes could not be had.
    #[error("no memory for the pipe's ring: {0}")]
    Memory(#[source] io::Error),
}

impl From<LaneError> for io::Error {
    fn from(error: LaneError) -> Self {
        let kind = match &error {
            LaneError::Corrupted(_) => io::ErrorKind::InvalidData,
            LaneError::Lock(LockError::Reentered) => io::ErrorKind::Deadlock,
            LaneError::Memory(_) => io::ErrorKind::OutOfMemory,
        };
        Self::new(kind, error)
    }
}

/// What the ends of the pipe have to take into account besides the lane. Only ever gains bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(u32);

impl Mode {
    /// Everybody uses the lane.
    pub const LANE: Self = Self(0);
    /// Somebody who does not know the lane may write to the kernel pipe: writers see to it that
    /// their bytes do not overtake those.
    pub const MIXED: Self = Self(1);
    /// Somebody who does not know the lane may read from the kernel pipe: all bytes go there.
    pub const KERNEL: Self = Self(2);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// As kept in shared memory.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// From shared memory: unknown bits mean nothing.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & 3)
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
    /// The lane is closed to writers: the rest belongs into the kernel pipe.
    KernelOnly,
}

/// The two sides of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those who read.
    Reader,
    /// Those who write.
    Writer,
}

/// What went through one side so far, over all processes.
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
}

/// A lane, as this process has it mapped.
pub struct Lane {
    memory: Memory,
    size: PipeSize,
    wake: Wake,
    reader_bell: Doorbell,
    writer_bell: Doorbell,
    written: Frontier,
    read: Frontier,
}

impl Lane {
    /// A new lane, empty.
    ///
    /// # Errors
    /// What the kernel says if the memory or the descriptors cannot be had; `Unsupported` where the
    /// C library gives no robust locks.
    pub fn new(size: PipeSize, wake: Wake) -> io::Result<Self> {
        #[cfg(not(loom))]
        if !crate::lock::is_supported() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            memory: Memory::new(size.capacity_bytes())?,
            size,
            wake,
            reader_bell: Doorbell::new()?,
            writer_bell: Doorbell::new()?,
            written: Frontier::default(),
            read: Frontier::default(),
        })
    }

    /// Capacity and segment.
    pub fn size(&self) -> PipeSize {
        self.size
    }

    /// When peers are woken.
    pub fn wake(&self) -> Wake {
        self.wake
    }

    fn capacity(&self) -> usize {
        self.memory.capacity_bytes()
    }

    #[inline]
    fn header(&self) -> &Header {
        self.memory.header()
    }

    // ---- what both sides may know ---------------------------------------------------------------

    /// The mode, for somebody of `side`.
    #[inline]
    pub fn mode(&self, side: Side) -> Mode {
        // Acquire pairs with the Release in `add_mode`.
        Mode::from_bits(self.notices(side).mode.load(Ordering::Acquire))
    }

    /// Adds to the mode, for both sides, and has the sleepers look.
    pub fn add_mode(&self, mode: Mode) {
        for side in [Side::Reader, Side::Writer] {
            // Release pairs with the Acquire in `mode`: what was done before is seen after.
            self.notices(side)
                .mode
                .fetch_or(mode.bits(), Ordering::Release);
            self.bell(side).ring();
        }
    }

    /// An end of `side` was closed: a hint for the other side to ask the kernel who is left.
    pub fn note_departure(&self, side: Side) {
        self.notices(side.other())
            .departures
            .fetch_add(1, Ordering::Relaxed);
    }

    /// How many ends of the other side were closed by their owners so far.
    #[inline]
    pub fn departures_seen_by(&self, side: Side) -> u32 {
        self.notices(side).departures.load(Ordering::Relaxed)
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
            Side::Reader => queued > 0,
            Side::Writer => {
                wakes_writer(wanted_bytes, queued, self.capacity(), self.segment_bytes())
                    || self.mode(side).has(Mode::KERNEL)
            }
        }
    }

    /// Whether the other side's last turn ran on another processor than the caller: then spinning
    /// lets it go on, else only yielding does.
    #[cfg(not(loom))]
    #[must_use]
    pub fn peer_runs_elsewhere(&self, side: Side) -> bool {
        let peer = self.counts(side.other()).processor.load(Ordering::Relaxed);
        peer != crate::patience::processor()
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
        }
    }

    // ---- writing --------------------------------------------------------------------------------

    /// Queues as much of `source` as fits, or, if it is at most `PIPE_BUF` in all, everything or
    /// nothing. What was queued is taken off `source`, also when an error follows.
    ///
    /// # Errors
    /// [`LaneError`]; nothing of the failing step was queued.
    #[inline]
    pub fn try_write(&self, source: &mut Gather<'_>) -> Result<Written, LaneError> {
        self.reserve_for_writing(source.remaining_bytes())?;
        let guard = self.lock(Side::Writer)?;
        let start = self.header().tail.0.load(Ordering::Relaxed);
        let mut tail = start;
        let outcome = self.write_locked(source, &mut tail);
        let sleeper = self.account(Side::Writer, (tail - start) as usize);
        drop(guard);
        self.ring(Side::Reader, sleeper);
        outcome
    }

    fn write_locked(&self, source: &mut Gather<'_>, tail: &mut u64) -> Result<Written, LaneError> {
        while source.remaining_bytes() > 0 {
            if self.mode(Side::Writer).has(Mode::KERNEL) {
                return Ok(Written::KernelOnly);
            }
            match self.next_write_step(source, *tail)? {
                WriteStep::Copy(bytes) => self.write_chunk(source, tail, bytes)?,
                WriteStep::Full(wanted_bytes) => return Ok(Written::Full(wanted_bytes)),
            }
        }
        Ok(Written::All)
    }

    /// The next step, by the `head` seen last if that allows all of it, else by the newest.
    #[inline]
    fn next_write_step(&self, source: &Gather<'_>, tail: u64) -> Result<WriteStep, Corrupted> {
        let seen_head = &self.header().writer.0.seen_head;
        let step_from = |head| {
            let room = self.capacity() - queued_bytes(head, tail, self.capacity())?;
            Ok(write_step(source.total_bytes(), source.done_bytes(), room))
        };
        let least = source.remaining_bytes().min(CHUNK_BYTES);
        match step_from(seen_head.load(Ordering::Relaxed)) {
            Ok(WriteStep::Copy(bytes)) if bytes >= least => Ok(WriteStep::Copy(bytes)),
            _ => {
                // Acquire pairs with the Release in `publish_head`: the reader is done with the
                // bytes that we are about to overwrite.
                let head = self.header().head.0.load(Ordering::Acquire);
                seen_head.store(head, Ordering::Relaxed);
                step_from(head)
            }
        }
    }

    #[inline]
    fn write_chunk(
        &self,
        source: &mut Gather<'_>,
        tail: &mut u64,
        bytes: usize,
    ) -> Result<(), LaneError> {
        let bytes = bytes.min(CHUNK_BYTES);
        if !self.written.covers(*tail + bytes as u64) {
            self.populate_inside(Side::Writer, *tail, *tail + bytes as u64)?;
        }
        let at = *tail;
        source.take(bytes, |offset, part| {
            // SAFETY: `part` lies within the room that `next_write_step` found, at most a capacity,
            // and we hold the write lock (invariants 1 and 3).
            unsafe { self.memory.copy_in(at + offset as u64, part) };
        });
        *tail += bytes as u64;
        self.publish_tail(at, *tail, source.remaining_bytes() > 0);
        Ok(())
    }

    #[inline]
    fn publish_tail(&self, from: u64, to: u64, goes_on: bool) {
        // Release pairs with the Acquire in `next_read` and `queued_bytes`: the bytes below are there.
        self.header().tail.0.store(to, Ordering::Release);
        if goes_on && self.wakes_midway(from, to) {
            let sleeper = self.look_for_sleeper(Side::Reader);
            self.ring(Side::Reader, sleeper);
        }
    }

    // ---- reading --------------------------------------------------------------------------------

    /// Takes whatever is queued, up to the room in `target`. Returns the number of bytes, 0 if the
    /// lane is empty.
    ///
    /// # Errors
    /// [`LaneError`]; nothing was taken.
    #[inline]
    pub fn try_read(&self, target: &mut Scatter<'_, '_>) -> Result<usize, LaneError> {
        self.reserve_for_reading(target.remaining_bytes())?;
        let guard = self.lock(Side::Reader)?;
        self.read_under(guard, target)
    }

    fn read_under(
        &self,
        guard: Guard<'_>,
        target: &mut Scatter<'_, '_>,
    ) -> Result<usize, LaneError> {
        let start = self.header().head.0.load(Ordering::Relaxed);
        let mut head = start;
        let outcome = self.read_locked(target, &mut head);
        let bytes = (head - start) as usize;
        let sleeper = self.account(Side::Reader, bytes);
        drop(guard);
        self.ring(Side::Writer, sleeper);
        outcome.map(|()| bytes)
    }

    fn read_locked(&self, target: &mut Scatter<'_, '_>, head: &mut u64) -> Result<(), LaneError> {
        while target.remaining_bytes() > 0 {
            let bytes = self
                .next_read(*head)?
                .min(target.remaining_bytes())
                .min(CHUNK_BYTES);
            if bytes == 0 {
                break;
            }
            self.read_chunk(target, head, bytes)?;
        }
        Ok(())
    }

    /// How much can be read, by the `tail` seen last if there is something, else by the newest.
    #[inline]
    fn next_read(&self, head: u64) -> Result<usize, Corrupted> {
        let seen_tail = &self.header().reader.0.seen_tail;
        match queued_bytes(head, seen_tail.load(Ordering::Relaxed), self.capacity()) {
            Ok(bytes) if bytes > 0 => Ok(bytes),
            _ => {
                // Acquire pairs with the Release in `publish_tail`: the bytes below are there.
                let tail = self.header().tail.0.load(Ordering::Acquire);
                seen_tail.store(tail, Ordering::Relaxed);
                queued_bytes(head, tail, self.capacity())
            }
        }
    }

    #[inline]
    fn read_chunk(
        &self,
        target: &mut Scatter<'_, '_>,
        head: &mut u64,
        bytes: usize,
    ) -> Result<(), LaneError> {
        if !self.read.covers(*head + bytes as u64) {
            self.populate_inside(Side::Reader, *head, *head + bytes as u64)?;
        }
        let at = *head;
        target.take(bytes, |offset, part| {
            // SAFETY: `part` lies within what `next_read` found queued, at most a capacity, and we
            // hold the read lock (invariants 1 and 3).
            unsafe { self.memory.copy_out(at + offset as u64, part) };
        });
        *head += bytes as u64;
        self.publish_head(at, *head, target.remaining_bytes() > 0);
        Ok(())
    }

    #[inline]
    fn publish_head(&self, from: u64, to: u64, goes_on: bool) {
        // Release pairs with the Acquire in `next_write_step`: we are done with the bytes below.
        self.header().head.0.store(to, Ordering::Release);
        if goes_on && self.wakes_midway(from, to) {
            let sleeper = self.look_for_sleeper(Side::Writer);
            self.ring(Side::Writer, sleeper);
        }
    }

    /// Hands what is queued to `sink`, in pieces, and takes off what the sink says it took. Stops
    /// when the sink would block. Says whether the lane is empty.
    ///
    /// # Errors
    /// [`LaneError`], and those of the sink other than `WouldBlock`.
    #[cfg(not(loom))]
    pub fn drain(&self, mut sink: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        let guard = self.lock(Side::Reader)?;
        let mut buffer = [0; CHUNK_BYTES];
        let start = self.header().head.0.load(Ordering::Relaxed);
        let mut head = start;
        let outcome = loop {
            let bytes = self
                .next_read(head)
                .map_err(LaneError::from)?
                .min(buffer.len());
            if bytes == 0 {
                break Ok(true);
            }
            // SAFETY: `next_read` found these bytes queued, and we hold the read lock
            // (invariants 1 and 3).
            unsafe { self.memory.copy_out(head, &mut buffer[..bytes]) };
            match sink(&buffer[..bytes]) {
                Ok(taken) => head += taken.min(bytes) as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(false),
                Err(error) => break Err(error),
            }
            // Release pairs with the Acquire in `next_write_step`.
            self.header().head.0.store(head, Ordering::Release);
        };
        let sleeper = self.account(Side::Reader, (head - start) as usize);
        drop(guard);
        self.ring(Side::Writer, sleeper);
        outcome
    }

    /// Runs `action` while no reader is inside, with whether the lane is empty (looked up anew each
    /// time it asks). For what readers do beside the lane, in an order that all of them agree on.
    ///
    /// # Errors
    /// [`LaneError::Lock`].
    pub fn as_only_reader<T>(
        &self,
        action: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> Result<T, LaneError> {
        let _guard = self.lock(Side::Reader)?;
        let is_empty = || self.queued_bytes() == 0;
        Ok(action(&is_empty))
    }

    /// Runs `action` while no writer is inside.
    ///
    /// # Errors
    /// [`LaneError::Lock`].
    pub fn as_only_writer<T>(&self, action: impl FnOnce() -> T) -> Result<T, LaneError> {
        let _guard = self.lock(Side::Writer)?;
        Ok(action())
    }

    // ---- sleeping and waking --------------------------------------------------------------------

    /// Takes the seat of `side`, to sleep until `wanted_bytes` can be moved. `None` means: look
    /// again first. The caller then [arms](Seat::arm), and sleeps if told so.
    ///
    /// # Errors
    /// `Interrupted` if a signal came that does not restart calls.
    pub fn take_seat(&self, side: Side, wanted_bytes: usize) -> io::Result<Option<Seat<'_>>> {
        let guard = self.seat(side).lock_patiently(|| {
            // The sentinel may be waiting for more than we do. It leaves the seat when it wakes, so
            // an arm made after we were seen waiting is not lost.
            self.arm(side, wanted_bytes);
            !self.is_ready(side, wanted_bytes)
        })?;
        Ok(guard.map(|guard| Seat {
            lane: self,
            side,
            guard: Some(guard),
        }))
    }

    fn arm(&self, side: Side, wanted_bytes: usize) {
        self.sleepers(side).arm(wanted_bytes);
        // Pairs with the fence in `look_for_sleeper`.
        fence(Ordering::SeqCst);
    }

    /// Whether somebody of `side` sleeps and should be woken.
    #[inline]
    fn look_for_sleeper(&self, side: Side) -> Option<Seen> {
        // Pairs with the fence in `arm`: either we see the sleeper, or it sees our position.
        fence(Ordering::SeqCst);
        let (wanted_bytes, seen) = self.sleepers(side).look()?;
        self.is_ready(side, wanted_bytes).then_some(seen)
    }

    /// The end of a turn: counts it, and says whom to wake.
    #[inline]
    fn account(&self, side: Side, moved_bytes: usize) -> Option<Seen> {
        if moved_bytes == 0 {
            return None;
        }
        let counts = self.counts(side);
        add_locked(&counts.bytes, moved_bytes as u64);
        add_locked(&counts.operations, 1);
        #[cfg(not(loom))]
        counts
            .processor
            .store(crate::patience::processor(), Ordering::Relaxed);
        let sleeper = self.look_for_sleeper(side.other());
        if sleeper.is_none() {
            add_locked(&counts.wakeups_saved, 1);
        }
        sleeper
    }

    /// Rings for a sleeper of `side` that was seen.
    #[inline]
    fn ring(&self, side: Side, sleeper: Option<Seen>) {
        if let Some(seen) = sleeper {
            // First the bell, then the note that it rang: killed in between, somebody else rings.
            self.bell(side).ring();
            self.sleepers(side).rung(seen);
            add(&self.counts(side.other()).wakeups_sent, 1);
        }
    }

    #[inline]
    fn wakes_midway(&self, from: u64, to: u64) -> bool {
        self.wake == Wake::PerSegment && completes_segment(from, to, self.segment_bytes())
    }

    // ---- memory ---------------------------------------------------------------------------------

    /// Has the memory for the next write ready before the lock is taken. What an earlier bulk left
    /// over is used first.
    #[inline]
    fn reserve_for_writing(&self, bytes: usize) -> Result<(), LaneError> {
        let tail = self.header().tail.0.load(Ordering::Relaxed);
        let to = tail.wrapping_add(bytes.min(self.capacity()) as u64);
        if self.written.covers(to) {
            return Ok(());
        }
        let bulk = (BULK_PAGES * PAGE_BYTES) as u64;
        self.populate_outside(Side::Writer, tail, to.max(tail.wrapping_add(bulk)))
    }

    /// Has the memory of the next read in this process's page tables. Never allocates: a reader
    /// looks only at what was written.
    #[inline]
    fn reserve_for_reading(&self, bytes: usize) -> Result<(), LaneError> {
        let head = self.header().head.0.load(Ordering::Relaxed);
        let to = head.wrapping_add(bytes.min(self.capacity()) as u64);
        if self.read.covers(to) {
            return Ok(());
        }
        let tail = self.header().tail.0.load(Ordering::Relaxed);
        if self.read.covers(to.min(tail)) {
            return Ok(());
        }
        self.populate_outside(Side::Reader, head, to.min(tail))
    }

    #[cold]
    fn populate_outside(&self, side: Side, from: u64, to: u64) -> Result<(), LaneError> {
        let pages = self.populate(side, from, to)?;
        add(&self.counts(side).pages_populated_outside, pages);
        Ok(())
    }

    /// The fallback: somebody else used up what we had prepared.
    #[cold]
    fn populate_inside(&self, side: Side, from: u64, to: u64) -> Result<(), LaneError> {
        let pages = self.populate(side, from, to)?;
        add(&self.counts(side).pages_populated_inside, pages);
        Ok(())
    }

    fn populate(&self, side: Side, from: u64, to: u64) -> Result<u64, LaneError> {
        let frontier = match side {
            Side::Writer => &self.written,
            Side::Reader => &self.read,
        };
        frontier
            .advance(from, to, self.capacity(), |a, b| self.memory.populate(a, b))
            .map_err(LaneError::Memory)
    }

    /// After a fork, in the child: the memory is shared, the page tables are not.
    pub fn forget_page_tables(&self) {
        self.written.reset();
        self.read.reset();
    }

    /// Makes an unused lane of this one: empty, with no history. Only for a lane that nobody else
    /// can reach any more.
    pub fn reset(&mut self) {
        let tail = self.header().tail.0.load(Ordering::Relaxed);
        self.header().head.0.store(tail, Ordering::Relaxed);
        for side in [Side::Reader, Side::Writer] {
            self.counts(side).reset();
            self.notices(side).reset();
            self.bell(side).silence();
        }
    }

    // ---- who is who -----------------------------------------------------------------------------

    fn lock(&self, side: Side) -> Result<Guard<'_>, LaneError> {
        let lock = match side {
            Side::Reader => &self.header().reader.0.lock,
            Side::Writer => &self.header().writer.0.lock,
        };
        let guard = lock.lock()?;
        if guard.owner_died() {
            // Nothing to repair: a position that was not stored never happened (see "Death").
            add_locked(&self.counts(side).owner_deaths, 1);
        }
        Ok(guard)
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
        self.size.segment_bytes().min(self.capacity())
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

/// The right to sleep for a side. Left when dropped, and somebody else who waits is told.
pub struct Seat<'a> {
    lane: &'a Lane,
    side: Side,
    guard: Option<Guard<'a>>,
}

impl Seat<'_> {
    /// Announces the sleeper, and says whether to sleep: nothing has changed that would let it move
    /// `wanted_bytes`.
    #[must_use]
    pub fn arm(&self, wanted_bytes: usize) -> bool {
        self.lane.arm(self.side, wanted_bytes);
        let sleep = !self.lane.is_ready(self.side, wanted_bytes);
        if sleep {
            add(&self.lane.counts(self.side).sleeps, 1);
        }
        sleep
    }

    /// The bell to sleep on.
    pub fn bell(&self) -> &Doorbell {
        self.lane.bell(self.side)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            match self.side {
                // Each reader wants the same, a byte: one wakes the next.
                Side::Reader => drop(guard),
                // Writers want different amounts, and their arms were used up by one ring.
                Side::Writer => guard.release_to_all(),
            }
        }
    }
}
