//! Ghosts: which pages were evicted not long ago. A page that comes back while its ghost is there
//! was worth keeping.
//!
//! A table of fingerprints in small buckets, the oldest of which is overwritten; it seldom forgets a
//! page before its time, and takes one for another once in some hundred million times.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

/// Places of a bucket: half a cache line.
const BUCKET: usize = 4;

/// What is known of an evicted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It had been used.
    Used,
    /// It had been read ahead for nothing.
    Unread,
}

/// The ghosts of the last evictions, as many as there are pages in the budget.
pub(super) struct Ghosts {
    /// Fingerprint above, the count of the eviction below; 0 is none. Plain numbers, so that a large
    /// table costs memory only as it fills.
    table: Vec<u64>,
    evictions: u32,
    memory: u32,
}

impl Ghosts {
    /// For a budget of so many pages.
    pub fn new(budget_pages: u64) -> Self {
        // half empty, so that few are overwritten before their time
        let places = (budget_pages * 2)
            .next_power_of_two()
            .clamp(BUCKET as u64, 1 << 31);
        Self {
            table: vec![0; places as usize],
            evictions: 0,
            memory: u32::try_from(budget_pages).unwrap_or(u32::MAX),
        }
    }

    pub fn add(&mut self, object: u64, index: u64, fate: Fate) {
        let (bucket, mut fingerprint) = self.place(object, index);
        self.evictions = self.evictions.wrapping_add(1);
        let now = self.evictions;
        let places = &mut self.table[bucket..bucket + BUCKET];
        let oldest = places.iter_mut().max_by_key(|ghost| match **ghost {
            0 => u64::MAX,
            ghost => u64::from(now.wrapping_sub(ghost as u32)),
        });
        fingerprint |= u32::from(fate == Fate::Unread);
        if let Some(oldest) = oldest {
            *oldest = u64::from(fingerprint) << 32 | u64::from(now);
        }
    }

    /// The page comes back: what was its end?
    pub fn take(&mut self, object: u64, index: u64) -> Option<Fate> {
        let (bucket, fingerprint) = self.place(object, index);
        let (now, memory) = (self.evictions, self.memory);
        let mut places = self.table[bucket..bucket + BUCKET].iter_mut();
        let ghost = places.find(|ghost| {
            let (found, at) = ((**ghost >> 32) as u32, **ghost as u32);
            found & !1 == fingerprint && now.wrapping_sub(at) < memory
        })?;
        let is_unread = std::mem::take(ghost) >> 32 & 1 == 1;
        Some(if is_unread { Fate::Unread } else { Fate::Used })
    }

    /// Where a page's bucket begins, and its fingerprint: never 0, and even.
    fn place(&self, object: u64, index: u64) -> (usize, u32) {
        let hash = FxBuildHasher.hash_one((object, index));
        let bucket = hash as usize & (self.table.len() - 1) & !(BUCKET - 1);
        (bucket, (hash >> 32) as u32 & !1 | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicted_page_comes_back_once() {
        let mut ghosts = Ghosts::new(8);
        ghosts.add(1, 5, Fate::Used);
        ghosts.add(1, 6, Fate::Unread);
        assert_eq!(ghosts.take(2, 5), None);
        assert_eq!(ghosts.take(1, 5), Some(Fate::Used));
        assert_eq!(ghosts.take(1, 5), None);
        assert_eq!(ghosts.take(1, 6), Some(Fate::Unread));
    }

    #[test]
    fn a_ghost_fades_after_as_many_evictions_as_there_are_pages() {
        let mut ghosts = Ghosts::new(1000);
        ghosts.add(1, 0, Fate::Used);
        let (place, _) = ghosts.place(1, 0);
        for index in (1..)
            .filter(|&index| ghosts_place(index) != place)
            .take(999)
        {
            ghosts.add(1, index, Fate::Used);
        }
        assert_eq!(ghosts.take(1, 0), Some(Fate::Used));

        let mut ghosts = Ghosts::new(1000);
        ghosts.add(1, 0, Fate::Used);
        for index in (1..)
            .filter(|&index| ghosts_place(index) != place)
            .take(1000)
        {
            ghosts.add(1, index, Fate::Used);
        }
        assert_eq!(ghosts.take(1, 0), None);
    }

    fn ghosts_place(index: u64) -> usize {
        Ghosts::new(1000).place(1, index).0
    }

    #[test]
    fn most_of_the_last_evictions_are_remembered_and_no_others() {
        let mut ghosts = Ghosts::new(4096);
        for index in 0..4096 {
            ghosts.add(3, index, Fate::Used);
        }
        let known = (0..4096)
            .filter(|&index| ghosts.take(3, index).is_some())
            .count();
        assert!(known > 4000, "{known}");
        let strange = (4096..100_000)
            .filter(|&index| ghosts.take(3, index).is_some())
            .count();
        assert_eq!(strange, 0);
    }
}
