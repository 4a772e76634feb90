//! Which pages of an arena are free: taken and given back in bulk, in runs as long as there are.

use std::ops::Range;

/// A bit for each page: set if it is free.
#[derive(Clone, Debug)]
pub struct FreeMap {
    words: Vec<u64>,
    pages: u32,
    free: u32,
    /// No page before that of this word is free.
    lowest_word: usize,
}

impl FreeMap {
    /// `pages` pages, all free.
    #[must_use]
    pub fn new(pages: u32) -> Self {
        let mut words = vec![u64::MAX; pages.div_ceil(64) as usize];
        if let (Some(last), rest @ 1..) = (words.last_mut(), pages % 64) {
            *last = (1 << rest) - 1;
        }
        Self {
            words,
            pages,
            free: pages,
            lowest_word: 0,
        }
    }

    /// How many are free.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Whether this one is.
    ///
    /// # Panics
    /// If there is no such page.
    #[must_use]
    pub fn is_free(&self, page: u32) -> bool {
        assert!(page < self.pages);
        self.words[page as usize / 64] >> (page % 64) & 1 == 1
    }

    /// Takes `pages` of them, all or none: the first run that is long enough, or else the runs from the
    /// beginning on. They are added to `runs`.
    #[must_use]
    pub fn take(&mut self, pages: u32, runs: &mut Vec<Range<u32>>) -> bool {
        if pages > self.free {
            return false;
        }
        let mut left = pages;
        while left > 0 {
            let run = self.long_run(left).unwrap_or_else(|| self.run_from(0));
            let run = run.start..run.end.min(run.start + left);
            left -= run.len() as u32;
            self.set(run.clone(), false);
            runs.push(run);
        }
        true
    }

    /// Gives pages back.
    ///
    /// # Panics
    /// If one of them is free, or there is no such page: somebody's count is wrong, and going on would
    /// give a page to two.
    pub fn give_back(&mut self, run: Range<u32>) {
        assert!(run.end <= self.pages, "page {} of {}", run.end, self.pages);
        self.set(run, true);
    }

    /// The first run of at least `pages`.
    fn long_run(&self, pages: u32) -> Option<Range<u32>> {
        let mut from = 0;
        loop {
            let run = self.run_from(from);
            if run.len() as u32 >= pages {
                return Some(run);
            }
            if run.is_empty() {
                return None;
            }
            from = run.end;
        }
    }

    /// The first run at or behind a page; empty if there is none.
    fn run_from(&self, page: u32) -> Range<u32> {
        let page = page.max(self.lowest_word as u32 * 64);
        let start = self.next(page, true);
        start..self.next(start, false)
    }

    /// The first page at or behind `page` that is free, or not free; the end if there is none.
    fn next(&self, page: u32, is_free: bool) -> u32 {
        let mut first = page % 64;
        for (at, &word) in self.words.iter().enumerate().skip(page as usize / 64) {
            let wanted = if is_free { word } else { !word };
            let wanted = wanted >> first << first;
            if wanted != 0 {
                return (at as u32 * 64 + wanted.trailing_zeros()).min(self.pages);
            }
            first = 0;
        }
        self.pages
    }

    fn set(&mut self, run: Range<u32>, is_free: bool) {
        let mut page = run.start;
        while page < run.end {
            let at = page as usize / 64;
            let end = run.end.min((at as u32 + 1) * 64);
            let bits = u64::MAX >> (64 - (end - page)) << (page % 64);
            let found = self.words[at] & bits;
            assert!(
                found == if is_free { 0 } else { bits },
                "pages {page}..{end} are not what they are taken for"
            );
            self.words[at] ^= bits;
            page = end;
        }
        let pages = run.len() as u32;
        if is_free {
            self.free += pages;
            self.lowest_word = self.lowest_word.min(run.start as usize / 64);
        } else {
            self.free -= pages;
            self.skip_what_is_taken();
        }
    }

    fn skip_what_is_taken(&mut self) {
        while self.words.get(self.lowest_word) == Some(&0) {
            self.lowest_word += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // runs, not their pages
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn taken(map: &mut FreeMap, pages: u32) -> Option<Vec<Range<u32>>> {
        let mut runs = Vec::new();
        map.take(pages, &mut runs).then_some(runs)
    }

    #[test]
    fn a_run_that_is_long_enough_is_taken_whole() {
        let mut map = FreeMap::new(300);
        assert_eq!(taken(&mut map, 100), Some(vec![0..100]));
        assert_eq!(taken(&mut map, 100), Some(vec![100..200]));
        map.give_back(10..20);
        assert_eq!(taken(&mut map, 50), Some(vec![200..250]));
        assert_eq!(taken(&mut map, 1), Some(vec![10..11]));
    }

    #[test]
    fn where_no_run_is_long_enough_the_first_ones_are_taken() {
        let mut map = FreeMap::new(130);
        assert_eq!(taken(&mut map, 130), Some(vec![0..130]));
        map.give_back(3..5);
        map.give_back(60..70);
        map.give_back(129..130);
        assert_eq!(taken(&mut map, 14), None);
        assert_eq!(taken(&mut map, 12), Some(vec![3..5, 60..70]));
        assert_eq!(map.free(), 1);
    }

    #[test]
    #[should_panic(expected = "not what they are taken for")]
    fn what_is_given_back_twice_is_found() {
        let mut map = FreeMap::new(64);
        assert!(taken(&mut map, 3).is_some());
        map.give_back(1..2);
        map.give_back(0..3);
    }

    proptest! {
        #[test]
        fn nothing_is_given_to_two_or_lost(
            pages in 1_u32..400,
            steps in prop::collection::vec((any::<bool>(), 1_u32..80, any::<prop::sample::Index>()), 1..60),
        ) {
            let mut map = FreeMap::new(pages);
            let mut free: BTreeSet<u32> = (0..pages).collect();
            let mut held: Vec<Range<u32>> = Vec::new();
            for (is_taking, count, which) in steps {
                if is_taking {
                    let Some(runs) = taken(&mut map, count) else {
                        prop_assert!(free.len() < count as usize);
                        continue;
                    };
                    prop_assert_eq!(runs.iter().map(ExactSizeIterator::len).sum::<usize>(), count as usize);
                    for page in runs.iter().cloned().flatten() {
                        prop_assert!(free.remove(&page));
                    }
                    held.extend(runs);
                } else if !held.is_empty() {
                    let run = held.swap_remove(which.index(held.len()));
                    free.extend(run.clone());
                    map.give_back(run);
                }
                prop_assert_eq!(map.free() as usize, free.len());
                for page in 0..pages {
                    prop_assert_eq!(map.is_free(page), free.contains(&page));
                }
            }
        }
    }
}
