//! Where the pages of one object are: from index to slot, a chunk of pages per look-up.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// One word of bits says which pages of a chunk are there.
const CHUNK_PAGES: u64 = 64;

struct Chunk {
    /// Bit n: page n of the chunk has a slot.
    present: u64,
    slots: [u32; CHUNK_PAGES as usize],
}

/// The pages of an object, present and on their way. Sparse: costs memory per chunk that has any.
#[derive(Default)]
pub(super) struct Table {
    chunks: FxHashMap<u64, Box<Chunk>>,
    pages: u64,
}

impl Table {
    pub fn pages(&self) -> u64 {
        self.pages
    }

    pub fn get(&self, index: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(index / CHUNK_PAGES))?;
        let at = index % CHUNK_PAGES;
        (chunk.present >> at & 1 == 1).then(|| chunk.slots[at as usize])
    }

    /// Enters a page that has no slot yet.
    pub fn insert(&mut self, index: u64, slot: u32) {
        let chunk = self.chunks.entry(index / CHUNK_PAGES).or_insert_with(|| {
            Box::new(Chunk {
                present: 0,
                slots: [0; CHUNK_PAGES as usize],
            })
        });
        let at = index % CHUNK_PAGES;
        debug_assert!(
            chunk.present >> at & 1 == 0,
            "page {index} is there already"
        );
        chunk.present |= 1 << at;
        chunk.slots[at as usize] = slot;
        self.pages += 1;
    }

    pub fn remove(&mut self, index: u64) -> Option<u32> {
        let number = index / CHUNK_PAGES;
        let chunk = self.chunks.get_mut(&number)?;
        let at = index % CHUNK_PAGES;
        if chunk.present >> at & 1 == 0 {
            return None;
        }
        chunk.present &= !(1 << at);
        let slot = chunk.slots[at as usize];
        if chunk.present == 0 {
            self.chunks.remove(&number);
        }
        self.pages -= 1;
        Some(slot)
    }

    /// The pages within `range`, in order.
    pub fn within(&self, range: Range<u64>) -> Vec<u64> {
        if range.is_empty() {
            return Vec::new();
        }
        let (first, last) = (range.start / CHUNK_PAGES, (range.end - 1) / CHUNK_PAGES);
        let mut numbers: Vec<u64> = if last - first < self.chunks.len() as u64 {
            (first..=last).collect()
        } else {
            self.chunks.keys().copied().collect()
        };
        numbers.sort_unstable();
        numbers
            .into_iter()
            .flat_map(|number| number * CHUNK_PAGES..=number * CHUNK_PAGES + (CHUNK_PAGES - 1))
            .filter(|index| range.contains(index) && self.get(*index).is_some())
            .collect()
    }

    /// How many pages right before `index` are there without a hole, to `max` at most.
    pub fn run_before(&self, index: u64, max: u64) -> u64 {
        let max = max.min(index);
        let mut run = 0;
        while run < max {
            let last = index - run - 1;
            let Some(chunk) = self.chunks.get(&(last / CHUNK_PAGES)) else {
                break;
            };
            let at = last % CHUNK_PAGES;
            let ones = u64::from((chunk.present << (CHUNK_PAGES - 1 - at)).leading_ones());
            run += ones;
            if ones <= at {
                break;
            }
        }
        run.min(max)
    }

    /// The first page behind `index` that is not there, if it is less than `max` pages away.
    pub fn hole_after(&self, index: u64, max: u64) -> Option<u64> {
        let end = index.saturating_add(max);
        let mut page = index + 1;
        while page < end {
            let Some(chunk) = self.chunks.get(&(page / CHUNK_PAGES)) else {
                break;
            };
            let at = page % CHUNK_PAGES;
            let ones = u64::from((chunk.present >> at).trailing_ones());
            page += ones;
            if at + ones < CHUNK_PAGES {
                break;
            }
        }
        (page < end).then_some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_empty_table_has_no_pages_and_a_hole_everywhere() {
        let mut table = Table::default();
        assert_eq!(table.get(7), None);
        assert_eq!(table.remove(7), None);
        assert_eq!(table.run_before(100, 50), 0);
        assert_eq!(table.hole_after(100, 2), Some(101));
        assert_eq!(table.hole_after(100, 1), None);
        assert!(table.within(0..u64::MAX).is_empty());
    }

    #[test]
    fn chunks_go_with_their_last_page() {
        let mut table = Table::default();
        table.insert(u64::MAX, 1);
        table.insert(0, 2);
        assert_eq!(table.within(0..u64::MAX), [0]);
        assert_eq!(table.remove(u64::MAX), Some(1));
        assert_eq!((table.chunks.len(), table.pages()), (1, 1));
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_does(
            pages in proptest::collection::vec(0u64..400, 0..300),
            gone in proptest::collection::vec(0u64..400, 0..50),
            index in 0u64..400,
            max in 0u64..300,
        ) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (slot, &page) in (0..).zip(&pages) {
                if map.insert(page, slot).is_none() {
                    table.insert(page, slot);
                } else {
                    table.remove(page);
                    table.insert(page, slot);
                }
            }
            for page in gone {
                prop_assert_eq!(table.remove(page), map.remove(&page));
            }
            prop_assert_eq!(table.pages(), map.len() as u64);
            prop_assert_eq!(table.get(index), map.get(&index).copied());
            let run = (1..=max.min(index)).take_while(|back| map.contains_key(&(index - back)));
            prop_assert_eq!(table.run_before(index, max), run.count() as u64);
            let hole = (1..max).map(|on| index + on).find(|page| !map.contains_key(page));
            prop_assert_eq!(table.hole_after(index, max), hole);
            let within: Vec<u64> = map.range(index..index + max).map(|(&page, _)| page).collect();
            prop_assert_eq!(table.within(index..index + max), within);
        }
    }
}
