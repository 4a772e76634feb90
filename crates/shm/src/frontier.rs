//! How far this process has the ring's memory in its page tables.

use std::io;

use standpipe_core::size::PAGE_BYTES;

use crate::sync::{AtomicU64, Ordering};

/// Stream positions from a start up to `end` are populated in this process; once that is a whole
/// capacity, all positions are, for ever. Threads may advance it at the same time: populating twice
/// does no harm.
pub struct Frontier {
    /// Where it began, or [`NOWHERE`].
    start: AtomicU64,
    /// Everything below may be touched. `u64::MAX` when the whole ring may.
    end: AtomicU64,
}

const NOWHERE: u64 = u64::MAX;

impl Default for Frontier {
    fn default() -> Self {
        Self {
            start: AtomicU64::new(NOWHERE),
            end: AtomicU64::new(0),
        }
    }
}

impl Frontier {
    /// Whether positions below `to` may be touched without a page fault.
    #[inline]
    pub fn covers(&self, to: u64) -> bool {
        to <= self.end.load(Ordering::Relaxed)
    }

    /// Moves on to `to`, at most a capacity beyond where it began; the first time it begins at
    /// `from`. Returns how many pages were populated.
    pub fn advance(
        &self,
        from: u64,
        to: u64,
        capacity_bytes: usize,
        populate: impl FnOnce(u64, u64) -> io::Result<()>,
    ) -> io::Result<u64> {
        let page = PAGE_BYTES as u64;
        let start = self.begin_at(from - from % page);
        let end = self.end.load(Ordering::Relaxed).max(start);
        let limit = start.saturating_add(capacity_bytes as u64);
        let new_end = to
            .checked_next_multiple_of(page)
            .map_or(limit, |to| to.min(limit));
        if new_end <= end {
            return Ok(0);
        }
        populate(end, new_end)?;
        self.end.fetch_max(
            if new_end == limit { u64::MAX } else { new_end },
            Ordering::Relaxed,
        );
        Ok((new_end - end) / page)
    }

    fn begin_at(&self, page_start: u64) -> u64 {
        let begun =
            self.start
                .compare_exchange(NOWHERE, page_start, Ordering::Relaxed, Ordering::Relaxed);
        begun.map_or_else(|start| start, |_| page_start)
    }

    /// Back to knowing nothing. Only while no other thread uses it.
    pub fn reset(&self) {
        self.start.store(NOWHERE, Ordering::Relaxed);
        self.end.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    const CAPACITY: usize = 16 * PAGE_BYTES;

    #[test]
    fn it_populates_each_page_of_the_ring_once() {
        let frontier = Frontier::default();
        let next = Cell::new(8192);
        let mut populated = 0;
        for to in (9000..400_000).step_by(3000) {
            if !frontier.covers(to) {
                populated += frontier
                    .advance(9000, to, CAPACITY, |a, b| {
                        assert_eq!(a, next.get());
                        assert!(b > a && b % 4096 == 0);
                        next.set(b);
                        Ok(())
                    })
                    .unwrap();
            }
        }
        assert_eq!(populated, 16);
        assert!(frontier.covers(u64::MAX));
    }

    #[test]
    fn a_failure_covers_nothing_and_a_reset_begins_anew() {
        let frontier = Frontier::default();
        let no_memory = |_, _| Err(io::ErrorKind::OutOfMemory.into());
        assert!(frontier.advance(0, 4096, CAPACITY, no_memory).is_err());
        assert!(!frontier.covers(1));
        assert_eq!(
            frontier.advance(0, 100, CAPACITY, |_, _| Ok(())).unwrap(),
            1
        );
        assert!(frontier.covers(4096) && !frontier.covers(4097));
        frontier.reset();
        assert!(!frontier.covers(1));
    }

    #[test]
    fn nonsense_positions_never_populate_more_than_the_ring() {
        for (from, to) in [
            (u64::MAX - 1, 5),
            (u64::MAX - 5000, u64::MAX),
            (5, u64::MAX),
            (9000, 3),
        ] {
            let frontier = Frontier::default();
            let bytes = Cell::new(0);
            let count = |a: u64, b: u64| {
                bytes.set(b - a);
                Ok(())
            };
            frontier.advance(from, to, CAPACITY, count).unwrap();
            assert!(bytes.get() <= CAPACITY as u64);
        }
    }
}
