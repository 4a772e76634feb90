//! How bytes get out of the lane.

use standpipe_core::accounting::{Corrupted, queued_bytes};

use super::{By, CHUNK_BYTES, Lane, LaneError, Side};
use crate::gather::Scatter;
use crate::memory::Ring;
use crate::sync::Ordering;

impl Lane {
    /// Takes whatever is queued, up to the room in `target`. Returns the number of bytes, 0 if the
    /// lane is empty, or if others have to be read first.
    ///
    /// # Errors
    /// [`LaneError`]; nothing was taken.
    #[inline]
    pub fn try_read(&self, target: &mut Scatter<'_, '_>) -> Result<usize, LaneError> {
        self.try_read_by(By::Bell, target)
    }

    /// The same, and how to tell writers that wait for the room.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    #[inline]
    pub fn try_read_by(&self, by: By, target: &mut Scatter<'_, '_>) -> Result<usize, LaneError> {
        self.reserve_for_reading(target.remaining_bytes())?;
        let guard = self.lock(Side::Reader)?;
        let start = self.header().head.0.load(Ordering::Relaxed);
        let mut head = start;
        let outcome = self
            .current_ring()
            .and_then(|ring| self.read_locked(by, ring, target, &mut head));
        let bytes = head.wrapping_sub(start) as usize;
        self.end_turn(by, Side::Reader, bytes, guard);
        outcome.map(|()| bytes)
    }

    fn read_locked(
        &self,
        by: By,
        ring: &Ring,
        target: &mut Scatter<'_, '_>,
        head: &mut u64,
    ) -> Result<(), LaneError> {
        while target.remaining_bytes() > 0 {
            let bytes = self
                .next_read(ring, *head)?
                .min(target.remaining_bytes())
                .min(CHUNK_BYTES)
                // After the look at `tail`: a mark was put before what is behind it was published.
                .min(self.up_to_mark_bytes(*head));
            if bytes == 0 {
                break;
            }
            self.read_chunk(by, ring, target, head, bytes)?;
        }
        Ok(())
    }

    /// How much can be read, by the `tail` seen last if there is something, else by the newest.
    #[inline]
    pub(super) fn next_read(&self, ring: &Ring, head: u64) -> Result<usize, Corrupted> {
        let seen_tail = &self.header().reader.0.seen_tail;
        match queued_bytes(
            head,
            seen_tail.load(Ordering::Relaxed),
            ring.capacity_bytes(),
        ) {
            Ok(bytes) if bytes > 0 => Ok(bytes),
            _ => {
                // Acquire pairs with the Release in `publish_tail`: the bytes below are there.
                let tail = self.header().tail.0.load(Ordering::Acquire);
                seen_tail.store(tail, Ordering::Relaxed);
                queued_bytes(head, tail, ring.capacity_bytes())
            }
        }
    }

    #[inline]
    fn read_chunk(
        &self,
        by: By,
        ring: &Ring,
        target: &mut Scatter<'_, '_>,
        head: &mut u64,
        bytes: usize,
    ) -> Result<(), LaneError> {
        if !ring.read.covers(head.wrapping_add(bytes as u64)) {
            self.populate_inside(ring, Side::Reader, *head, head.wrapping_add(bytes as u64))?;
        }
        let at = *head;
        let mut copied = Ok(());
        target.take(bytes, |offset, part| {
            // SAFETY: `part` lies within what `next_read` found queued, and we hold the read lock
            // (invariants 1 and 3).
            let this = unsafe { ring.copy_out(at.wrapping_add(offset as u64), part) };
            copied = copied.and(this);
        });
        copied?;
        *head = head.wrapping_add(bytes as u64);
        let goes_on = target.remaining_bytes() > 0;
        self.publish_head(*head, goes_on && self.wakes_midway(by, at, *head));
        Ok(())
    }

    #[inline]
    fn publish_head(&self, to: u64, wakes: bool) {
        // Release pairs with the Acquire in `next_write_step`: we are done with the bytes below.
        self.header().head.0.store(to, Ordering::Release);
        if wakes {
            let sleeper = self.look_for_sleeper(Side::Writer);
            self.ring(Side::Writer, sleeper);
        }
    }

    /// Runs `action` while no other reader is inside. For what readers do beside the lane, in an order
    /// that all of them agree on.
    ///
    /// # Errors
    /// [`LaneError::Lock`].
    pub fn as_only_reader<T>(
        &self,
        action: impl FnOnce(&OnlyReader<'_>) -> T,
    ) -> Result<T, LaneError> {
        let guard = self.lock(Side::Reader)?;
        let done = action(&OnlyReader { lane: self });
        // Bytes that were taken elsewhere may have made room here.
        self.end_turn(By::Bell, Side::Reader, 0, guard);
        Ok(done)
    }

    /// Runs `action` while no writer is inside.
    ///
    /// # Errors
    /// [`LaneError::Lock`].
    pub fn as_only_writer<T>(&self, action: impl FnOnce() -> T) -> Result<T, LaneError> {
        let _guard = self.lock(Side::Writer)?;
        Ok(action())
    }
}

/// The one reader that is inside ([`Lane::as_only_reader`]). What it may do is in `lane/way.rs`.
pub struct OnlyReader<'a> {
    pub(super) lane: &'a Lane,
}
