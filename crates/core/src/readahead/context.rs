//! Context readahead: that of today's Linux.
//!
//! As [on demand](super::OnDemand), and beyond it: a missing page that this reader did not come to
//! from the page before is judged by what is cached right before it. A long run means that somebody
//! reads sequentially here, and how far that got is how far to read ahead. Mapped reads, which its
//! model has too, do not occur here.

use super::sizes::{init_pages, next_pages};
use super::{Access, Event, Plan, Policy, View, Window};

/// Readahead by the reader's window, or else by what is cached around it; one per reader.
#[derive(Clone, Debug)]
pub struct Context {
    max: u64,
    /// The longest transfer that the store likes; for reads that are longer than `max`.
    optimal: u64,
    window: Window,
    /// The page read last; all ones before the first.
    prev: u64,
}

impl Context {
    /// Windows of `max_pages` at most.
    #[must_use]
    pub fn new(max_pages: u64) -> Self {
        Self::with_optimal(max_pages, max_pages)
    }

    /// Windows of `max_pages` at most, but up to `optimal_pages` for a single read that is longer.
    #[must_use]
    pub fn with_optimal(max_pages: u64, optimal_pages: u64) -> Self {
        Self {
            max: max_pages,
            optimal: optimal_pages,
            window: Window::default(),
            prev: u64::MAX,
        }
    }

    /// The longest window for a read of `req` pages.
    fn max_for(&self, req: u64) -> u64 {
        if req > self.max && self.optimal > self.max {
            req.min(self.optimal)
        } else {
            self.max
        }
    }

    /// The window for a missing page; `None` for a random read.
    fn on_missing(&self, access: &Access, max: u64, view: &dyn View) -> Option<Window> {
        let &Access { index, count, .. } = access;
        let is_sequential = index.wrapping_sub(self.prev) <= 1;
        if index == 0 || count > max || is_sequential {
            let size = init_pages(count, max);
            let async_size = if size > count { size - count } else { size / 2 };
            return Some(Window {
                start: index,
                size,
                async_size,
            });
        }
        let run = view.run_before(index, max);
        if run <= count {
            return None;
        }
        // A run from page 0 on is a reader of the whole file: more of one than of a part.
        let run = if run >= index { 2 * run } else { run };
        Some(Window {
            start: index,
            size: (run + count).min(max),
            async_size: 1,
        })
    }

    /// The window for a marked page, if there is anything to read.
    fn on_marked(&self, access: &Access, max: u64, view: &dyn View) -> Option<Window> {
        let &Access { index, count, .. } = access;
        let (start, size) = if Some(index) == self.window.mark() {
            let size = self.window.size.max(next_pages(self.window.size, max));
            (self.window.end(), size)
        } else {
            let hole = view.hole_after(index, max + 1)?;
            (hole, next_pages(hole - index + count, max))
        };
        Some(Window {
            start,
            size,
            async_size: size,
        })
    }

    fn plan(&mut self, access: &Access, view: &dyn View) -> Plan {
        let max = self.max_for(access.count);
        let window = if access.is_cached {
            self.on_marked(access, max, view)
        } else {
            self.on_missing(access, max, view)
        };
        self.window = window.unwrap_or(self.window);
        match window {
            Some(window) => Plan::one(window, view.end()),
            None if access.is_cached => Plan::none(),
            None => Plan::one(Window::as_asked(access, max), view.end()),
        }
    }
}

impl Policy for Context {
    fn access(&mut self, access: &Access, view: &dyn View) -> Plan {
        let is_called = !access.is_cached || access.is_marked;
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

    /// An access, what is cached, and the window that it is answered with.
    struct Case(&'static str, Access, std::ops::Range<u64>, Window);

    #[test]
    fn every_case_by_table() {
        let cases = [
            Case("start of file", missing(0, 1), 0..0, window(0, 4, 3)),
            Case(
                "behind the last page",
                missing(501, 1),
                0..0,
                window(501, 4, 3),
            ),
            Case(
                "the last page again",
                missing(500, 1),
                0..0,
                window(500, 4, 3),
            ),
            Case("a read of max", missing(501, 32), 0..0, window(501, 32, 16)),
            Case("oversize", missing(700, 33), 0..0, window(700, 32, 16)),
            Case("random", missing(700, 4), 0..0, window(700, 4, 0)),
            Case("a step back", missing(499, 1), 0..0, window(499, 1, 0)),
            Case("a short run", missing(700, 4), 696..700, window(700, 4, 0)),
            Case("a run", missing(700, 4), 695..700, window(700, 9, 1)),
            Case("a long run", missing(700, 4), 600..700, window(700, 32, 1)),
            Case("a run from page 0", missing(8, 2), 0..8, window(8, 18, 1)),
            Case(
                "the mark of this window",
                marked(104, 1),
                0..0,
                window(108, 16, 16),
            ),
            Case(
                "another mark",
                marked(600, 1),
                600..606,
                window(606, 14, 14),
            ),
            Case(
                "another mark, of 4",
                marked(600, 4),
                600..606,
                window(606, 20, 20),
            ),
        ];
        for Case(name, access, cached, wanted) in cases {
            let mut cache = Cache::of(10_000);
            cache.pages.extend(cached);
            let mut policy = Context {
                window: window(100, 8, 4),
                prev: 500,
                ..Context::new(32)
            };
            let plan = policy.access(&access, &cache);
            assert_eq!(plan.windows, [wanted], "{name}");
            let is_random = wanted.async_size == 0;
            assert_eq!(policy.window != wanted, is_random, "{name}");
        }
    }

    #[test]
    fn a_mark_far_from_any_hole_is_nothing() {
        let mut cache = Cache::of(10_000);
        cache.pages.extend(600..700);
        let mut policy = Context::new(32);
        assert!(policy.access(&marked(667, 1), &cache).is_none());
        let plan = policy.access(&marked(668, 1), &cache);
        assert_eq!(plan.windows, [window(700, 32, 32)]);
    }

    #[test]
    fn one_oversize_read_may_be_as_long_as_the_store_likes() {
        let cache = Cache::of(10_000);
        for (count, size) in [(16, 16), (48, 48), (500, 128)] {
            let plan = Context::with_optimal(32, 128).access(&missing(700, count), &cache);
            assert_eq!(plan.windows[0].size, size, "a read of {count}");
        }
        // A window that was raised so does not shrink.
        let mut policy = Context {
            window: window(100, 128, 64),
            ..Context::with_optimal(32, 128)
        };
        let plan = policy.access(&marked(164, 1), &cache);
        assert_eq!(plan.windows, [window(228, 128, 128)]);
    }

    #[test]
    fn sequential_reads_ramp_up() {
        let mut cache = Cache::of(10_000);
        let transfers = sequential(&mut cache, &mut Context::new(32), 0, 60);
        assert_eq!(transfers, [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)]);
        let mut cache = Cache::of(10_000);
        let transfers = sequential(&mut cache, &mut Context::new(256), 0, 240);
        let sizes: Vec<_> = transfers.iter().map(|transfer| transfer.1).collect();
        assert_eq!(sizes, [4, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn a_thrashed_window_starts_again() {
        let mut cache = Cache::of(1000);
        let mut policy = Context::new(32);
        sequential(&mut cache, &mut policy, 0, 70);
        for index in 70..124 {
            cache.evict(index);
        }
        let transfers = sequential(&mut cache, &mut policy, 70, 28);
        assert_eq!(transfers, [(70, 4), (74, 8), (82, 16), (98, 32)]);
    }

    #[test]
    fn interleaved_readers_on_one_handle_are_told_by_what_is_cached() {
        let mut cache = Cache::of(100_000);
        let mut policy = Context::new(32);
        for step in 0..200 {
            for reader in 0..4 {
                cache.read(&mut policy, 0, 20_000 * reader + 7 + step, 1);
            }
        }
        let longest = cache.transfers.iter().map(|transfer| transfer.1).max();
        assert_eq!(longest, Some(32));
        let average = 4 * 200 / cache.transfers.len();
        assert!(average >= 10, "{:?}", cache.transfers);
    }
}
