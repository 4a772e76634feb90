//! The readahead of Linux up to 2.6.20, with two windows; what on-demand readahead replaced.
//!
//! While the reader is in the *current* window, the *ahead* window is read; when it enters the ahead
//! window, that becomes the current one and the next is read. It is called for every page that a
//! read has not been told about yet, cached or not, and has to notice by itself that everything is
//! cached (256 pages in a row without a transfer turn it off until a page is missing).
//!
//! It also trusts its windows: a page of them that was evicted is read alone, and so is the one
//! behind it. That is its thrashing pathology, and kept.

use super::sizes::{init_pages, next_pages};
use super::{Access, Event, Plan, Policy, View, Window};

/// The smallest window after a miss: 16 KiB.
const MIN_PAGES: u64 = 4;

/// So many pages asked for in a row that were cached turn readahead off.
const MAX_CACHE_HITS: u64 = 256;

/// Readahead with a current and an ahead window; one per reader.
#[derive(Clone, Debug)]
pub struct Legacy {
    max: u64,
    current: Window,
    /// Start 0 is none. Its end counts even then: see [`Legacy::make_ahead`].
    ahead: Window,
    /// The last page that a call has taken care of; all ones before the first.
    prev: u64,
    /// The page of this read at which to call next.
    next_index: u64,
    cache_hits: u64,
    /// A page was missing that should have been there.
    is_missed: bool,
    /// Off, because everything was cached.
    is_in_cache: bool,
}

impl Legacy {
    /// Windows of `max_pages` at most.
    #[must_use]
    pub fn new(max_pages: u64) -> Self {
        Self {
            max: max_pages,
            current: Window::default(),
            ahead: Window::default(),
            prev: u64::MAX,
            next_index: 0,
            cache_hits: 0,
            is_missed: false,
            is_in_cache: false,
        }
    }

    /// Readahead for a read of `req` pages from `off` on; `prev` is then the last page done with.
    fn call(&mut self, mut off: u64, mut req: u64, view: &dyn View) -> Plan {
        let mut plan = Plan::none();
        if off == self.prev {
            // The last page again, by an unaligned read: what counts is the rest.
            req -= 1;
            off += u64::from(req > 0);
        }
        let is_sequential = off == self.prev.wrapping_add(1);
        let pages = req.min(self.max);
        self.prev = off;
        if pages == 0 || self.is_in_cache {
            return plan;
        }
        self.prev += pages - 1;
        if !is_sequential {
            self.turn_off();
            self.submit(off, pages, view, &mut plan);
        } else if self.current.size == 0 {
            self.make_first(off, req, view, &mut plan);
        } else {
            self.move_on(view, &mut plan);
        }
        plan
    }

    /// The first window of a sequential reader, and the second one if the read needs it.
    fn make_first(&mut self, off: u64, req: u64, view: &dyn View, plan: &mut Plan) {
        self.current = Window {
            start: off,
            size: init_pages(req.min(self.max), self.max),
            async_size: 0,
        };
        let did_io = self.submit(off, self.current.size, view, plan);
        if did_io && req >= self.max {
            self.make_ahead(true, view, plan);
        }
    }

    /// Sees to it that there is an ahead window, and that the reader is not in it.
    fn move_on(&mut self, view: &dyn View, plan: &mut Plan) {
        if self.ahead.start != 0 || self.make_ahead(false, view, plan) {
            if self.prev < self.ahead.start {
                return;
            }
            self.current = self.ahead;
            self.make_ahead(false, view, plan);
        }
        self.prev = self.prev.min(self.ahead.end().wrapping_sub(1));
    }

    /// Reads the ahead window. A busy store makes it fail unless somebody waits for it; so does
    /// turning off. What is left of it then is its end, behind which no read may think that it is
    /// taken care of.
    fn make_ahead(&mut self, is_forced: bool, view: &dyn View, plan: &mut Plan) -> bool {
        self.ahead = Window {
            start: self.current.end(),
            size: self.next_size(),
            async_size: 0,
        };
        let is_waited_for = is_forced || self.prev >= self.ahead.start;
        let is_refused = !is_waited_for && view.is_congested();
        if !is_refused {
            self.submit(self.ahead.start, self.ahead.size, view, plan);
        }
        let is_made = !is_refused && !self.is_in_cache;
        if !is_made && !is_forced {
            self.ahead.size = self.ahead.end();
            self.ahead.start = 0;
        }
        is_made
    }

    /// The length of the window behind the current one; a little shorter after a miss.
    fn next_size(&mut self) -> u64 {
        if std::mem::take(&mut self.is_missed) {
            let less = self.current.size.saturating_sub(2).max(MIN_PAGES);
            less.min(self.max)
        } else {
            next_pages(self.current.size, self.max)
        }
    }

    /// Asks for pages; whether any of them had to be read. If none has been for long, turns off.
    fn submit(&mut self, start: u64, size: u64, view: &dyn View, plan: &mut Plan) -> bool {
        let stop = (start + size).min(view.end());
        let did_io = (start..stop).any(|page| !view.is_cached(page));
        if did_io {
            self.cache_hits = 0;
            let window = Window {
                start,
                size,
                async_size: 0,
            };
            plan.push(window, view.end());
        } else {
            self.cache_hits += size;
            if self.cache_hits >= MAX_CACHE_HITS {
                self.turn_off();
                self.is_in_cache = true;
            }
        }
        did_io
    }

    fn turn_off(&mut self) {
        self.current = Window::default();
        self.ahead = Window::default();
        self.is_missed = false;
        self.is_in_cache = false;
    }
}

impl Policy for Legacy {
    fn access(&mut self, access: &Access, view: &dyn View) -> Plan {
        if access.is_first {
            self.next_index = access.index;
        }
        let mut plan = Plan::none();
        if access.index == self.next_index {
            plan = self.call(access.index, access.count, view);
            self.next_index = self.prev.wrapping_add(1);
        }
        if !access.is_cached && !plan.covers(access.index) {
            self.is_missed = true;
            self.is_in_cache = false;
            self.cache_hits = 0;
        }
        plan
    }

    fn note(&mut self, event: &Event) {
        if matches!(event, Event::Failed) {
            self.max /= 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::{Cache, sequential};
    use super::*;

    const fn window(start: u64, size: u64) -> Window {
        Window {
            start,
            size,
            async_size: 0,
        }
    }

    /// A reader at `prev`, with these windows, reads; nothing is cached but what `prev` stands for.
    fn read(
        current: Window,
        ahead: Window,
        prev: u64,
        off: u64,
        req: u64,
    ) -> (Vec<Window>, Legacy) {
        let mut policy = Legacy {
            current,
            ahead,
            prev,
            ..Legacy::new(32)
        };
        let access = Access {
            index: off,
            count: req,
            is_first: true,
            is_cached: off == prev,
            is_marked: false,
            reader: 0,
        };
        let plan = policy.access(&access, &Cache::of(10_000));
        (plan.windows, policy)
    }

    /// A rule; current and ahead window, the last page; the read, its plan, and the last page then.
    struct Case(
        &'static str,
        (Window, Window, u64),
        (u64, u64),
        &'static [Window],
        u64,
    );

    const NONE: Window = window(0, 0);
    const CURRENT: Window = window(100, 8);
    const AHEAD: Window = window(108, 16);
    const START: (Window, Window, u64) = (NONE, NONE, u64::MAX);
    const CASES: [Case; 12] = [
        Case("first", START, (0, 1), &[window(0, 4)], 0),
        Case(
            "first, of 16",
            (NONE, NONE, 499),
            (500, 16),
            &[window(500, 32)],
            515,
        ),
        Case(
            "first, of max",
            START,
            (0, 32),
            &[window(0, 32), window(32, 32)],
            31,
        ),
        Case(
            "not sequential",
            (CURRENT, AHEAD, 103),
            (700, 3),
            &[window(700, 3)],
            702,
        ),
        Case(
            "not sequential, long",
            (CURRENT, AHEAD, 103),
            (700, 40),
            &[window(700, 32)],
            731,
        ),
        Case(
            "no ahead window",
            (CURRENT, NONE, 103),
            (104, 1),
            &[window(108, 16)],
            104,
        ),
        Case("an ahead window", (CURRENT, AHEAD, 103), (104, 1), &[], 104),
        Case(
            "entering it",
            (CURRENT, AHEAD, 107),
            (108, 1),
            &[window(124, 32)],
            108,
        ),
        Case(
            "entering one that is not there",
            (CURRENT, NONE, 107),
            (108, 4),
            &[window(108, 16), window(124, 32)],
            111,
        ),
        Case(
            "never behind the ahead window",
            (window(0, 4), NONE, 3),
            (4, 32),
            &[window(4, 8), window(12, 16)],
            27,
        ),
        Case("the same page", (CURRENT, AHEAD, 104), (104, 1), &[], 104),
        Case(
            "the same and more",
            (CURRENT, AHEAD, 107),
            (107, 2),
            &[window(124, 32)],
            108,
        ),
    ];

    #[test]
    fn every_rule_by_table() {
        for Case(rule, (current, ahead, prev), (off, req), wanted, prev_after) in CASES {
            let (plan, policy) = read(current, ahead, prev, off, req);
            assert_eq!(plan, wanted, "{rule}");
            assert_eq!(policy.prev, prev_after, "{rule}");
        }
    }

    #[test]
    fn reads_out_of_order_switch_the_windows_off() {
        let (_, policy) = read(window(100, 8), window(108, 16), 103, 700, 3);
        assert_eq!((policy.current.size, policy.ahead.size), (0, 0));
    }

    #[test]
    fn sequential_reads_ramp_up_one_window_early() {
        let mut cache = Cache::of(10_000);
        let transfers = sequential(&mut cache, &mut Legacy::new(32), 0, 60);
        assert_eq!(transfers, [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)]);
        let mut cache = Cache::of(10_000);
        let transfers = sequential(&mut cache, &mut Legacy::new(256), 0, 240);
        let sizes: Vec<_> = transfers.iter().map(|transfer| transfer.1).collect();
        assert_eq!(sizes, [4, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn the_end_of_the_file_cuts_the_window() {
        let mut cache = Cache::of(10);
        let transfers = sequential(&mut cache, &mut Legacy::new(32), 0, 10);
        assert_eq!(transfers, [(0, 4), (4, 6)]);
    }

    #[test]
    fn unaligned_reads_do_no_harm() {
        let mut cache = Cache::of(1000);
        let mut policy = Legacy::new(32);
        for index in 0..59 {
            cache.read(&mut policy, 0, index, 1);
            cache.read(&mut policy, 0, index, 2);
        }
        assert_eq!(
            cache.transfers,
            [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)]
        );
    }

    #[test]
    fn an_evicted_window_is_read_page_by_page() {
        let mut cache = Cache::of(1000);
        let mut policy = Legacy::new(32);
        sequential(&mut cache, &mut policy, 0, 70);
        for index in 70..124 {
            cache.evict(index);
        }
        let transfers = sequential(&mut cache, &mut policy, 70, 54);
        let ones = transfers.iter().filter(|transfer| transfer.1 == 1).count();
        assert_eq!(ones, 54, "{transfers:?}");
        // The window behind them is two pages shorter for it.
        let others: Vec<_> = transfers.iter().filter(|transfer| transfer.1 > 1).collect();
        assert_eq!(others, [&(124, 30)]);
    }

    #[test]
    fn a_miss_shrinks_the_next_window_to_four_pages_at_least() {
        for (size, next) in [(32, 30), (6, 4), (5, 4), (2, 4)] {
            let mut policy = Legacy {
                current: window(100, size),
                is_missed: true,
                ..Legacy::new(32)
            };
            assert_eq!(policy.next_size(), next);
            assert!(!policy.is_missed);
        }
    }

    #[test]
    fn a_cached_file_turns_it_off_and_a_missing_page_on() {
        let mut cache = Cache::of(2000);
        cache.pages.extend(0..1000);
        let mut policy = Legacy::new(32);
        // Windows of 4, 8, 16 and seven of 32 pages make 252 hits; the next one makes it 284.
        sequential(&mut cache, &mut policy, 0, 28 + 6 * 32);
        assert!(!policy.is_in_cache);
        sequential(&mut cache, &mut policy, 28 + 6 * 32, 1);
        assert!(policy.is_in_cache);
        assert_eq!(cache.plans, []);
        sequential(
            &mut cache,
            &mut policy,
            28 + 6 * 32 + 1,
            1000 - 28 - 6 * 32 - 1,
        );
        assert!(policy.is_in_cache);
        let transfers = sequential(&mut cache, &mut policy, 1000, 3);
        assert_eq!(transfers, [(1000, 1), (1001, 4), (1005, 4)]);
    }

    #[test]
    fn a_busy_store_gets_no_ahead_window_until_somebody_waits() {
        let mut cache = Cache::of(1000);
        let mut policy = Legacy::new(32);
        sequential(&mut cache, &mut policy, 0, 1);
        cache.is_congested = true;
        assert_eq!(sequential(&mut cache, &mut policy, 1, 3), []);
        assert_eq!((policy.ahead.start, policy.ahead.end()), (0, 12));
        // Once the reader is in the window that was refused, that is read, and not the one behind it.
        assert_eq!(sequential(&mut cache, &mut policy, 4, 1), [(4, 8)]);
        cache.is_congested = false;
        assert_eq!(sequential(&mut cache, &mut policy, 5, 1), [(12, 16)]);
    }

    #[test]
    fn an_error_divides_the_windows_by_four() {
        let mut policy = Legacy::new(32);
        policy.note(&Event::Failed);
        let transfers = sequential(&mut Cache::of(1000), &mut policy, 0, 20);
        assert!(
            transfers.iter().all(|transfer| transfer.1 <= 8),
            "{transfers:?}"
        );
        policy.note(&Event::Failed);
        policy.note(&Event::Failed);
        let transfers = sequential(&mut Cache::of(1000), &mut policy, 100, 3);
        assert_eq!(transfers, [(100, 1), (101, 1), (102, 1)]);
    }
}
