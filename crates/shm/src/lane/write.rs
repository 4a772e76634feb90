//! How bytes get into the lane.

use standpipe_core::accounting::{Corrupted, WriteStep, queued_bytes, write_step};

use super::{By, CHUNK_BYTES, Lane, LaneError, Side, Written};
use crate::gather::Gather;
use crate::memory::Ring;
use crate::sync::Ordering;

impl Lane {
    /// Queues as much of `source` as fits, or, if it is at most `PIPE_BUF` in all, everything or
    /// nothing. What was queued is taken off `source`, also when an error follows. `departures` is how
    /// many readers had left when the caller made sure that one is present; `kernel_bytes` is asked
    /// when the last write of a member went there.
    ///
    /// # Errors
    /// [`LaneError`]; nothing of the failing step was queued.
    #[inline]
    pub fn try_write(
        &self,
        source: &mut Gather<'_>,
        departures: u32,
        kernel_bytes: impl Fn() -> usize,
    ) -> Result<Written, LaneError> {
        self.try_write_by(By::Bell, source, departures, kernel_bytes)
    }

    /// The same, and how to tell readers that wait for the bytes.
    ///
    /// # Errors
    /// As [`try_write`](Self::try_write).
    #[inline]
    pub fn try_write_by(
        &self,
        by: By,
        source: &mut Gather<'_>,
        departures: u32,
        kernel_bytes: impl Fn() -> usize,
    ) -> Result<Written, LaneError> {
        self.reserve_for_writing(source.remaining_bytes())?;
        let guard = self.lock(Side::Writer)?;
        let start = self.header().tail.0.load(Ordering::Relaxed);
        let mut tail = start;
        let outcome = self.current_ring().and_then(|ring| {
            self.write_locked(by, ring, source, &mut tail, departures, kernel_bytes)
        });
        #[cfg(not(loom))]
        if tail != start {
            self.note_write_end(tail);
        }
        self.end_turn(by, Side::Writer, tail.wrapping_sub(start) as usize, guard);
        outcome
    }

    pub(super) fn write_locked(
        &self,
        by: By,
        ring: &Ring,
        source: &mut Gather<'_>,
        tail: &mut u64,
        departures: u32,
        kernel_bytes: impl Fn() -> usize,
    ) -> Result<Written, LaneError> {
        while source.remaining_bytes() > 0 {
            if self.departures_seen_by(Side::Writer) != departures
                || !self.mode(Side::Writer).is_open()
            {
                return Ok(Written::Ask);
            }
            self.go_inside(*tail, &kernel_bytes);
            match self.next_write_step(ring, source, *tail)? {
                WriteStep::Copy(bytes) => self.write_chunk(by, ring, source, tail, bytes)?,
                WriteStep::Full(wanted_bytes) => return Ok(Written::Full(wanted_bytes)),
            }
        }
        Ok(Written::All)
    }

    /// The next step, by the `head` seen last if that allows all of it, else by the newest.
    #[inline]
    fn next_write_step(
        &self,
        ring: &Ring,
        source: &Gather<'_>,
        tail: u64,
    ) -> Result<WriteStep, Corrupted> {
        let capacity = ring.capacity_bytes();
        let share = self.kernel_share();
        let seen_head = &self.header().writer.0.seen_head;
        let step_from = |head| {
            let room = (capacity - queued_bytes(head, tail, capacity)?).saturating_sub(share);
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
        by: By,
        ring: &Ring,
        source: &mut Gather<'_>,
        tail: &mut u64,
        bytes: usize,
    ) -> Result<(), LaneError> {
        let bytes = bytes.min(CHUNK_BYTES);
        if !ring.written.covers(tail.wrapping_add(bytes as u64)) {
            self.populate_inside(ring, Side::Writer, *tail, tail.wrapping_add(bytes as u64))?;
        }
        let at = *tail;
        let mut copied = Ok(());
        source.take(bytes, |offset, part| {
            // SAFETY: `part` lies within the room that `next_write_step` found, and we hold the write
            // lock (invariants 1 and 3).
            let this = unsafe { ring.copy_in(at.wrapping_add(offset as u64), part) };
            copied = copied.and(this);
        });
        copied?;
        *tail = tail.wrapping_add(bytes as u64);
        let goes_on = source.remaining_bytes() > 0;
        self.publish_tail(*tail, goes_on && self.wakes_midway(by, at, *tail));
        Ok(())
    }

    #[inline]
    fn publish_tail(&self, to: u64, wakes: bool) {
        // Release pairs with the Acquire in `next_read` and `queued_bytes`: the bytes below are there.
        self.header().tail.0.store(to, Ordering::Release);
        if wakes {
            let sleeper = self.look_for_sleeper(Side::Reader);
            self.ring(Side::Reader, sleeper);
        }
    }
}
