//! Forward and backward: one rule for both, told in *places*.
//!
//! Going forward, a place is a page. Going backward, places count down from the last page that there
//! could be, so that a backward reader of pages is a forward reader of places: windows start where
//! the last one ended, and end further on.

use crate::readahead::{Access, Plan, View, Window};

/// The place of page 0 going backward; no object is as long.
const MIRROR: u64 = 1 << 62;

/// In which direction a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Forward,
    Backward,
}

/// Places to read, some of which may be cached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub start: u64,
    pub size: u64,
    /// Where the mark is to be.
    pub mark: Option<u64>,
}

impl Way {
    /// The place of a page, and the page of a place.
    pub const fn turn(self, page: u64) -> u64 {
        match self {
            Self::Forward => page,
            Self::Backward => MIRROR - page,
        }
    }

    /// The place at which a read begins: going backward, that of its last page.
    pub const fn start(self, access: &Access) -> u64 {
        match self {
            Self::Forward => access.index,
            Self::Backward => self.turn(access.index + access.count - 1),
        }
    }

    /// The place behind the last one.
    pub fn limit(self, view: &dyn View) -> u64 {
        match self {
            Self::Forward => view.end(),
            Self::Backward => MIRROR + 1,
        }
    }

    /// Adds what is not cached of a span: a window for each run. The mark goes to the first such
    /// place from its own on, for a page that is there already cannot carry it; or else to the last
    /// one. Returns where it is.
    pub fn plan_fresh(self, span: Span, view: &dyn View, plan: &mut Plan) -> Option<u64> {
        let places = || span.start..span.start + span.size;
        let is_fresh = |place: &u64| !view.is_cached(self.turn(*place));
        let mark = span.mark.and_then(|mark| {
            let behind = (mark..places().end).find(is_fresh);
            behind.or_else(|| places().rev().find(is_fresh))
        });
        let mut start = span.start;
        while let Some(first) = (start..places().end).find(is_fresh) {
            let end = (first..places().end).find(|place| !is_fresh(place));
            let end = end.unwrap_or(places().end);
            let marked = mark.filter(|place| (first..end).contains(place));
            plan.push(self.window(first, end, marked), view.end());
            start = end;
        }
        mark
    }

    /// Places `start..end` as pages.
    fn window(self, start: u64, end: u64, mark: Option<u64>) -> Window {
        let first = match self {
            Self::Forward => start,
            Self::Backward => self.turn(end - 1),
        };
        Window {
            start: first,
            size: end - start,
            async_size: mark.map_or(0, |place| first + (end - start) - self.turn(place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::harness::{Cache, window};

    fn fresh(way: Way, start: u64, size: u64, mark: u64, cache: &Cache) -> Vec<Window> {
        let mut plan = Plan::none();
        let mark = Some(mark);
        way.plan_fresh(Span { start, size, mark }, cache, &mut plan);
        plan.windows
    }

    #[test]
    fn what_is_cached_is_left_out_and_does_not_carry_the_mark() {
        let mut cache = Cache::of(1000);
        let forward = |cache: &Cache, mark| fresh(Way::Forward, 100, 10, mark, cache);
        assert_eq!(forward(&cache, 100), [window(100, 10, 10)]);
        assert_eq!(forward(&cache, 109), [window(100, 10, 1)]);
        cache.pages.extend([100, 104, 105, 109]);
        assert_eq!(forward(&cache, 100), [window(101, 3, 3), window(106, 3, 0)]);
        assert_eq!(forward(&cache, 104), [window(101, 3, 0), window(106, 3, 3)]);
        assert_eq!(forward(&cache, 109), [window(101, 3, 0), window(106, 3, 1)]);
        cache.pages.extend(100..110);
        assert_eq!(forward(&cache, 100), []);
    }

    #[test]
    fn backward_is_forward_in_a_mirror() {
        let mut cache = Cache::of(1000);
        let way = Way::Backward;
        let backward = |cache: &Cache, mark| fresh(way, way.turn(109), 10, way.turn(mark), cache);
        // The mark counts from the end of the window: its last page is the first to be read.
        assert_eq!(backward(&cache, 109), [window(100, 10, 1)]);
        assert_eq!(backward(&cache, 100), [window(100, 10, 10)]);
        cache.pages.insert(105);
        assert_eq!(
            backward(&cache, 105),
            [window(106, 4, 0), window(100, 5, 1)]
        );
    }
}
