//! A cache of page numbers, and the loop that reads through it; for tests.

use std::collections::BTreeSet;

use super::{Access, Event, Plan, Policy, Speed, View, Window};

/// A 7200 rpm disk.
pub const DISK: Speed = Speed {
    latency_ns: 12_000_000,
    bytes_per_s: 60_000_000,
};

/// The cache: pages are there as soon as they are asked for.
pub struct Cache {
    pub end: u64,
    pub pages: BTreeSet<u64>,
    pub marks: BTreeSet<u64>,
    pub is_congested: bool,
    pub share_pages: u64,
    pub speed: Speed,
    /// Every transfer, in order: start and pages, after what was cached was left out.
    pub transfers: Vec<(u64, u64)>,
    /// How many pages were missing when they were read.
    pub misses: u64,
    /// Every plan that was not empty.
    pub plans: Vec<Plan>,
}

impl Cache {
    /// An empty one, for an object of `end` pages.
    pub fn of(end: u64) -> Self {
        Self {
            end,
            pages: BTreeSet::new(),
            marks: BTreeSet::new(),
            is_congested: false,
            share_pages: 1 << 20,
            speed: DISK,
            transfers: Vec::new(),
            misses: 0,
            plans: Vec::new(),
        }
    }

    /// One read call.
    pub fn read(&mut self, policy: &mut dyn Policy, reader: u32, index: u64, count: u64) {
        let stop = (index + count).min(self.end);
        for page in index..stop {
            self.touch(policy, reader, page, index, index + count);
            if !self.pages.contains(&page) {
                self.add(page, page + 1);
            }
        }
    }

    /// One page of a read of pages `index..stop`; a second time if it was missing and has come.
    fn touch(&mut self, policy: &mut dyn Policy, reader: u32, page: u64, index: u64, stop: u64) {
        let is_cached = self.pages.contains(&page);
        self.misses += u64::from(!is_cached);
        let access = Access {
            index: page,
            count: stop - page,
            is_first: page == index,
            is_cached,
            is_marked: self.marks.remove(&page),
            reader,
        };
        let plan = policy.access(&access, self);
        plan.windows.iter().for_each(|window| self.submit(window));
        if !plan.is_none() {
            self.plans.push(plan);
        }
        if !is_cached && self.pages.contains(&page) {
            self.touch(policy, reader, page, index, stop);
        }
    }

    /// Reads what of a window is missing, one transfer per run, and sets its mark.
    fn submit(&mut self, window: &Window) {
        assert!(window.size > 0, "an empty window was planned");
        let mark = window.mark().filter(|page| !self.pages.contains(page));
        let mut page = window.start;
        while page < window.end() {
            let stop = self.run_end(page, window.end());
            if stop > page {
                self.add(page, stop);
            }
            page = stop.max(page + 1);
        }
        self.marks.extend(mark);
    }

    /// Where the missing pages that begin at `page` end, before `end`.
    fn run_end(&self, page: u64, end: u64) -> u64 {
        self.pages.range(page..end).next().copied().unwrap_or(end)
    }

    fn add(&mut self, start: u64, end: u64) {
        self.pages.extend(start..end);
        self.transfers.push((start, end - start));
    }

    /// Evicts those of pages `start..end` that are there, and tells the policy: they were not used.
    pub fn evict_unread(&mut self, policy: &mut dyn Policy, start: u64, end: u64) {
        for index in start..end {
            if self.evict(index) {
                policy.note(&Event::EvictedUnread { index });
            }
        }
    }

    /// Evicts a page; whether it was there.
    pub fn evict(&mut self, index: u64) -> bool {
        self.marks.remove(&index);
        self.pages.remove(&index)
    }

    /// The transfers since this was last asked for.
    pub fn take_transfers(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.transfers)
    }
}

impl View for Cache {
    fn end(&self) -> u64 {
        self.end
    }

    fn is_cached(&self, index: u64) -> bool {
        self.pages.contains(&index)
    }

    fn is_congested(&self) -> bool {
        self.is_congested
    }

    fn share_pages(&self) -> u64 {
        self.share_pages
    }

    fn speed(&self) -> Speed {
        self.speed
    }
}

/// `reads` of one page each, one behind the other from `start` on; gives the transfers.
pub fn sequential(
    cache: &mut Cache,
    policy: &mut dyn Policy,
    start: u64,
    reads: u64,
) -> Vec<(u64, u64)> {
    for index in start..start + reads {
        cache.read(policy, 0, index, 1);
    }
    cache.take_transfers()
}

/// A read of `count` pages at one that is missing.
pub const fn missing(index: u64, count: u64) -> Access {
    Access {
        index,
        count,
        is_first: true,
        is_cached: false,
        is_marked: false,
        reader: 0,
    }
}

/// A read of `count` pages at one that carries the mark.
pub const fn marked(index: u64, count: u64) -> Access {
    Access {
        is_cached: true,
        is_marked: true,
        ..missing(index, count)
    }
}

/// A window.
pub const fn window(start: u64, size: u64, async_size: u64) -> Window {
    Window {
        start,
        size,
        async_size,
    }
}

/// The `nth` of some numbers below `end`, in no order.
pub const fn scattered(nth: u64, end: u64) -> u64 {
    // The mixer of splitmix64.
    let mixed = (nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % end
}
