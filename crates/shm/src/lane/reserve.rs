//! Having the memory of a transfer ready before its lock is taken.
//!
//! The work on pipe writes of 2026 showed why: an allocation inside the lock stretches it for
//! everybody. So a transfer has its pages populated, in bulk, before it takes the lock; what a bulk
//! leaves over is the reserve that the next transfer uses first; and only a transfer whose reserve
//! somebody else used up in between populates inside.

use standpipe_core::size::PAGE_BYTES;

use super::{Lane, LaneError, Side};
use crate::header::add;
use crate::memory::Ring;
use crate::sync::Ordering;

/// How much memory is populated at a time, at least.
const BULK_PAGES: usize = 8;

impl Lane {
    /// Has the memory for the next write ready before the lock is taken. What an earlier bulk left
    /// over is used first.
    #[inline]
    pub(super) fn reserve_for_writing(&self, bytes: usize) -> Result<(), LaneError> {
        let ring = self.memory.ring();
        let tail = self.header().tail.0.load(Ordering::Relaxed);
        let to = tail.wrapping_add(bytes.min(ring.capacity_bytes()) as u64);
        if ring.written.covers(to) {
            return Ok(());
        }
        let bulk = (BULK_PAGES * PAGE_BYTES) as u64;
        self.populate_outside(ring, Side::Writer, tail, to.max(tail.wrapping_add(bulk)))
    }

    /// Has the memory of the next read in this process's page tables. Never allocates: a reader
    /// looks only at what was written.
    #[inline]
    pub(super) fn reserve_for_reading(&self, bytes: usize) -> Result<(), LaneError> {
        let ring = self.memory.ring();
        let head = self.header().head.0.load(Ordering::Relaxed);
        let to = head.wrapping_add(bytes.min(ring.capacity_bytes()) as u64);
        if ring.read.covers(to) {
            return Ok(());
        }
        let tail = self.header().tail.0.load(Ordering::Relaxed);
        if ring.read.covers(to.min(tail)) {
            return Ok(());
        }
        self.populate_outside(ring, Side::Reader, head, to.min(tail))
    }

    #[cold]
    fn populate_outside(
        &self,
        ring: &Ring,
        side: Side,
        from: u64,
        to: u64,
    ) -> Result<(), LaneError> {
        let pages = populate(ring, side, from, to)?;
        add(&self.counts(side).pages_populated_outside, pages);
        Ok(())
    }

    /// The fallback: somebody else used up what we had prepared.
    #[cold]
    pub(super) fn populate_inside(
        &self,
        ring: &Ring,
        side: Side,
        from: u64,
        to: u64,
    ) -> Result<(), LaneError> {
        let pages = populate(ring, side, from, to)?;
        add(&self.counts(side).pages_populated_inside, pages);
        Ok(())
    }
}

fn populate(ring: &Ring, side: Side, from: u64, to: u64) -> Result<u64, LaneError> {
    let frontier = match side {
        Side::Writer => &ring.written,
        Side::Reader => &ring.read,
    };
    frontier
        .advance(from, to, ring.capacity_bytes(), |a, b| ring.populate(a, b))
        .map_err(LaneError::Memory)
}
