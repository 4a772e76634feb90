//! On-demand readahead, as Linux 2.6.23 had it (S2: Wu Fengguang, 2007).
//!
//! It acts on a page that is missing (a reader waits: *synchronous*) and on one that carries the mark
//! (nobody waits yet: *asynchronous*), and on nothing else. There is one window; the reader's entering
//! its tail pushes it on. Four cases, in this order:
//!
//! 1. *Sequential-next*: the page is the window's end or its mark. The next window begins at the end.
//! 2. *Random*: missing, and not behind the page before. Read what was asked for; the window stays.
//! 3. *Sequential-first*: missing, and behind the page before, or part of an oversize read.
//! 4. *Lookahead-clueless*: a marked page of a window that this state does not know: somebody else
//!    reads here as well, or this reader does at several places. Of 2007, it bets on the smallest
//!    window that can be. Of 2.6.24, it looks for the hole behind the page: what is read up to there
//!    is the window that it does not know.
//!
//! Thrashing needs no state of its own: the page that was evicted is missing again, and enters case 1
//! or 3.

use super::sizes::{init_pages, next_pages};
use super::{Access, Event, Plan, Policy, View, Window};

/// Readahead on a missing or a marked page; one per reader.
#[derive(Clone, Debug)]
pub struct OnDemand {
    max: u64,
    searches_hole: bool,
    window: Window,
    /// The page read last; all ones before the first, which makes page 0 its successor.
    prev: u64,
}

impl OnDemand {
    /// The policy of 2.6.23, with windows of `max_pages` at most.
    #[must_use]
    pub fn new(max_pages: u64) -> Self {
        Self {
            max: max_pages,
            searches_hole: false,
            window: Window::default(),
            prev: u64::MAX,
        }
    }

    /// The same, with the hole search of 2.6.24 for marks of unknown windows.
    #[must_use]
    pub fn with_hole_search(max_pages: u64) -> Self {
        Self {
            searches_hole: true,
            ..Self::new(max_pages)
        }
    }

    fn plan(&mut self, access: &Access, view: &dyn View) -> Plan {
        let is_sequential = access.index.wrapping_sub(self.prev) <= 1 || access.count > self.max;
        if self.is_expected(access.index) {
            self.push_on();
        } else if !access.is_cached && !is_sequential {
            return Plan::one(Window::as_asked(access, self.max), view.end());
        } else if !access.is_cached {
            self.window = self.first(access);
        } else if !self.adopt(access, view) {
            return Plan::none();
        }
        Plan::one(self.window, view.end())
    }

    /// Case 1 applies: the page is the end of the window, or its mark.
    fn is_expected(&self, index: u64) -> bool {
        index != 0 && (index == self.window.end() || Some(index) == self.window.mark())
    }

    /// Case 1.
    fn push_on(&mut self) {
        let size = next_pages(self.window.size, self.max);
        self.window = Window {
            start: self.window.end(),
            size,
            async_size: size,
        };
    }

    /// Case 3.
    fn first(&self, access: &Access) -> Window {
        let size = init_pages(access.count, self.max);
        let async_size = if size > access.count {
            size - access.count
        } else {
            size
        };
        Window {
            start: access.index,
            size,
            async_size,
        }
    }

    /// Case 4; false if there is nothing to read.
    fn adopt(&mut self, access: &Access, view: &dyn View) -> bool {
        if !self.searches_hole {
            let first = self.first(access);
            let size = (4 * first.size).min(self.max);
            self.window = Window {
                start: access.index + 1,
                size,
                async_size: first.async_size,
            };
            return true;
        }
        let Some(hole) = view.hole_after(access.index, self.max + 1) else {
            return false;
        };
        let size = next_pages(hole - access.index, self.max);
        self.window = Window {
            start: hole,
            size,
            async_size: size,
        };
        true
    }
}

impl Policy for OnDemand {
    fn access(&mut self, access: &Access, view: &dyn View) -> Plan {
        let is_called = !access.is_cached || (access.is_marked && !view.is_congested());
        let plan = if is_called {
            self.plan(access, view)
        } else {
            Plan::none()
        };
        self.prev = access.index;
        plan
    }

    fn note(&mut self, _event: &Event) {}
}

#[cfg(test)]
mod tests {
    use super::super::harness::{Cache, marked, missing, sequential, window};
    use super::*;

    /// What one access gives, with the window and the last page as said.
    fn decide(state: Window, prev: u64, access: Access) -> (Vec<Window>, Window) {
        let mut policy = OnDemand {
            window: state,
            prev,
            ..OnDemand::new(32)
        };
        let plan = policy.access(&access, &Cache::of(10_000));
        (plan.windows, policy.window)
    }

    /// Transfers of reads of one page up to page 99: the last one begins as page 92 is read.
    const ONE_PAGE_READS: [(u64, u64); 7] = [
        (0, 4),
        (4, 8),
        (12, 16),
        (28, 32),
        (60, 32),
        (92, 32),
        (124, 32),
    ];

    /// An access, and the window that it is answered with.
    struct Case(&'static str, Window, u64, Access, Window);

    #[test]
    fn every_case_by_table() {
        let old = window(100, 8, 4);
        let cases = [
            Case(
                "1, at the end",
                old,
                107,
                missing(108, 1),
                window(108, 16, 16),
            ),
            Case(
                "1, at the mark",
                old,
                103,
                marked(104, 1),
                window(108, 16, 16),
            ),
            Case(
                "1, thrashed mark",
                old,
                103,
                missing(104, 1),
                window(108, 16, 16),
            ),
            Case(
                "1, at the end, not seq",
                old,
                7,
                missing(108, 1),
                window(108, 16, 16),
            ),
            Case(
                "1, small grows by four",
                window(10, 1, 1),
                9,
                marked(10, 1),
                window(11, 4, 4),
            ),
            Case(
                "3, behind the last page",
                old,
                500,
                missing(501, 1),
                window(501, 4, 3),
            ),
            Case(
                "3, the last page again",
                old,
                501,
                missing(501, 1),
                window(501, 4, 3),
            ),
            Case(
                "3, a read of 16",
                old,
                500,
                missing(501, 16),
                window(501, 32, 16),
            ),
            Case(
                "3, start of file",
                window(0, 0, 0),
                u64::MAX,
                missing(0, 1),
                window(0, 4, 3),
            ),
            Case("3, oversize", old, 7, missing(501, 33), window(501, 32, 32)),
            Case(
                "3, thrashed page",
                old,
                105,
                missing(106, 1),
                window(106, 4, 3),
            ),
            Case("4, a page", old, 500, marked(600, 1), window(601, 16, 3)),
            Case(
                "4, never above max",
                old,
                500,
                marked(600, 16),
                window(601, 32, 16),
            ),
        ];
        for Case(name, state, prev, access, wanted) in cases {
            assert_eq!(
                decide(state, prev, access),
                (vec![wanted], wanted),
                "{name}"
            );
        }
    }

    #[test]
    fn a_random_read_leaves_the_window_alone() {
        let old = window(100, 8, 4);
        let (plan, state) = decide(old, 500, missing(700, 4));
        assert_eq!(plan, [window(700, 4, 0)]);
        assert_eq!(state, old);
        // A step back is not sequential either: the difference is unsigned.
        let (plan, state) = decide(old, 500, missing(499, 1));
        assert_eq!(plan, [window(499, 1, 0)]);
        assert_eq!(state, old);
    }

    #[test]
    fn a_congested_store_is_left_alone_at_a_mark_and_not_at_a_miss() {
        let mut cache = Cache::of(1000);
        cache.is_congested = true;
        let mut policy = OnDemand::new(32);
        assert!(!policy.access(&missing(0, 1), &cache).is_none());
        assert!(policy.access(&marked(1, 1), &cache).is_none());
    }

    #[test]
    fn sequential_reads_ramp_up_and_then_never_wait() {
        let mut cache = Cache::of(10_000);
        let transfers = sequential(&mut cache, &mut OnDemand::new(32), 0, 100);
        assert_eq!(transfers, ONE_PAGE_READS);
        let mut cache = Cache::of(10_000);
        let transfers = sequential(&mut cache, &mut OnDemand::new(256), 0, 240);
        let sizes: Vec<_> = transfers.iter().map(|transfer| transfer.1).collect();
        assert_eq!(sizes, [4, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn the_end_of_the_file_cuts_the_window() {
        let mut cache = Cache::of(10);
        let transfers = sequential(&mut cache, &mut OnDemand::new(32), 0, 10);
        assert_eq!(transfers, [(0, 4), (4, 6)]);
    }

    #[test]
    fn a_cached_file_is_never_asked_about() {
        let mut cache = Cache::of(100);
        cache.pages.extend(0..100);
        sequential(&mut cache, &mut OnDemand::new(32), 0, 100);
        assert_eq!(cache.plans, []);
    }

    #[test]
    fn retried_and_unaligned_reads_do_no_harm() {
        let mut cache = Cache::of(1000);
        let mut policy = OnDemand::new(32);
        for index in 0..100 {
            for _ in 0..3 {
                cache.read(&mut policy, 0, index, 2);
            }
        }
        assert_eq!(cache.transfers, ONE_PAGE_READS);
    }

    #[test]
    fn a_thrashed_window_starts_again() {
        let mut cache = Cache::of(1000);
        let mut policy = OnDemand::new(32);
        sequential(&mut cache, &mut policy, 0, 70);
        for index in 70..124 {
            cache.evict(index);
        }
        let transfers = sequential(&mut cache, &mut policy, 70, 30);
        assert_eq!(transfers, [(70, 4), (74, 8), (82, 16), (98, 32), (130, 32)]);
    }

    #[test]
    fn the_hole_search_finds_the_window_of_another_reader() {
        let mut cache = Cache::of(1000);
        cache.pages.extend(100..116);
        let mut policy = OnDemand::with_hole_search(32);
        let plan = policy.access(&marked(108, 1), &cache);
        assert_eq!(plan.windows, [window(116, 16, 16)]);
        // A hole max + 1 pages away is found, one further is not.
        cache.pages.extend(100..300);
        let plan = policy.access(&marked(300 - 32, 1), &cache);
        assert_eq!(plan.windows, [window(300, 32, 32)]);
        assert!(policy.access(&marked(200, 1), &cache).is_none());
        assert!(policy.access(&marked(300 - 33, 1), &cache).is_none());
    }

    #[test]
    fn interleaved_readers_on_one_handle_keep_their_readahead() {
        for (name, mut policy) in [
            ("2007", OnDemand::new(32)),
            ("hole search", OnDemand::with_hole_search(32)),
        ] {
            let mut cache = Cache::of(10_000);
            // One starts at the beginning; the other once it is known to be sequential.
            for step in 0..64 {
                cache.read(&mut policy, 0, step, 1);
                cache.read(&mut policy, 0, 5000 + 2 * step, 2);
            }
            let pages: u64 = cache.transfers.iter().map(|transfer| transfer.1).sum();
            assert!(pages < 64 + 128 + 3 * 32, "{name}: {:?}", cache.transfers);
        }
    }
}
