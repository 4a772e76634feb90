//! What holds for every policy, whatever happens; and that adaptive readahead keeps a store busy.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::harness::Cache;
use super::{Access, Event, Plan, Policy, PolicyKind, Speed};

/// Something that happens to a policy.
#[derive(Clone, Debug)]
enum Step {
    /// A read: of a place that was read before, `shift` pages further, or of any.
    Read {
        reader: u32,
        place: Place,
        count: u64,
    },
    /// Pages go, used or not.
    Evict {
        start: u64,
        pages: u64,
    },
    Fail,
    Late {
        index: u64,
    },
    Close {
        reader: u32,
    },
    /// The store and the budget are different from now on.
    Change {
        is_congested: bool,
        share_pages: u64,
        speed: Speed,
    },
    /// The object grows or is cut.
    Resize {
        end: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Random(u64),
    /// Behind the last read of this reader.
    Next,
    /// Before it.
    Back,
    /// As far from it as it was from the one before.
    Stride,
}

const PAGES: u64 = 1500;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        1 => (0..PAGES).prop_map(Place::Random),
        6 => Just(Place::Next),
        2 => Just(Place::Back),
        3 => Just(Place::Stride),
    ]
}

fn speed() -> impl Strategy<Value = Speed> {
    (1..50_000_000_u64, 1..4_000_000_000_u64).prop_map(|(latency_ns, bytes_per_s)| Speed {
        latency_ns,
        bytes_per_s,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (0..3_u32, place(), 1..40_u64)
            .prop_map(|(reader, place, count)| Step::Read { reader, place, count }),
        3 => (0..PAGES, 1..200_u64).prop_map(|(start, pages)| Step::Evict { start, pages }),
        1 => Just(Step::Fail),
        2 => (0..PAGES).prop_map(|index| Step::Late { index }),
        1 => (0..3_u32).prop_map(|reader| Step::Close { reader }),
        2 => (any::<bool>(), 0..2000_u64, speed()).prop_map(|(is_congested, share_pages, speed)| {
            Step::Change { is_congested, share_pages, speed }
        }),
        1 => (0..PAGES).prop_map(|end| Step::Resize { end }),
    ]
}

/// Runs steps, checking every plan.
struct Run {
    kind: PolicyKind,
    policy: Box<dyn Policy>,
    max: u64,
    cache: Cache,
    /// Start and length of the last read of each reader, and how far from the one before.
    last: [(u64, u64, i64); 3],
}

impl Run {
    fn of(kind: PolicyKind, max: u64) -> Self {
        Self {
            kind,
            policy: kind.policy(max),
            max,
            cache: Cache::of(PAGES),
            last: [(0, 0, 0); 3],
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Read {
                reader,
                place,
                count,
            } => self.read(reader, place, count),
            Step::Evict { start, pages } => {
                self.cache
                    .evict_unread(&mut *self.policy, start, start + pages);
            }
            Step::Fail => self.policy.note(&Event::Failed),
            Step::Late { index } => self.policy.note(&Event::Late {
                index,
                waited_ns: 1,
            }),
            Step::Close { reader } => self.policy.note(&Event::Closed { reader }),
            Step::Change {
                is_congested,
                share_pages,
                speed,
            } => {
                self.cache.is_congested = is_congested;
                self.cache.share_pages = share_pages;
                self.cache.speed = speed;
            }
            Step::Resize { end } => {
                self.cache.end = end;
                self.cache.pages.split_off(&end);
                self.cache.marks.split_off(&end);
            }
        }
    }

    fn read(&mut self, reader: u32, place: Place, count: u64) {
        let (start, length, distance) = self.last[reader as usize];
        let (index, count) = match place {
            Place::Random(index) => (index, count),
            Place::Next => (start + length, length.max(1)),
            Place::Back => (start.saturating_sub(length), length.max(1)),
            Place::Stride => (start.saturating_add_signed(distance), length.max(1)),
        };
        let index = index.min(PAGES);
        let distance = match place {
            Place::Stride => distance,
            _ => index.cast_signed() - start.cast_signed(),
        };
        self.last[reader as usize] = (index, count, distance);
        for page in index..(index + count).min(self.cache.end) {
            self.touch(reader, page, index, index + count);
        }
    }

    fn touch(&mut self, reader: u32, page: u64, index: u64, stop: u64) {
        let access = Access {
            index: page,
            count: stop - page,
            is_first: page == index,
            is_cached: self.cache.pages.contains(&page),
            is_marked: self.cache.marks.remove(&page),
            reader,
        };
        let plan = self.policy.access(&access, &self.cache);
        self.check(&access, &plan);
        for window in &plan.windows {
            let mark = window
                .mark()
                .filter(|page| !self.cache.pages.contains(page));
            self.cache.pages.extend(window.start..window.end());
            self.cache.marks.extend(mark);
        }
        self.cache.pages.insert(page);
    }

    fn check(&self, access: &Access, plan: &Plan) {
        let mut asked = BTreeSet::new();
        for window in &plan.windows {
            let context = format!("{} at {access:?}: {window:?}", self.kind);
            assert!(window.size > 0, "empty: {context}");
            assert!(window.end() <= self.cache.end, "beyond the end: {context}");
            assert!(window.size <= self.max, "above max {}: {context}", self.max);
            assert!(window.async_size <= window.size, "mark outside: {context}");
            for page in window.start..window.end() {
                assert!(asked.insert(page), "twice in a plan: {context}");
                let is_there = self.cache.pages.contains(&page);
                let is_exact = self.kind == PolicyKind::Adaptive;
                assert!(!(is_exact && is_there), "cached or in flight: {context}");
            }
        }
        if self.kind == PolicyKind::Adaptive && !access.is_cached {
            assert!(
                plan.covers(access.index),
                "not what was asked for: {access:?}"
            );
        }
    }
}

proptest! {
    /// Never beyond the end of the file, never above max, no page twice; adaptive readahead asks for no
    /// page that is cached or in flight, and always for the one that is missing.
    #[test]
    fn plans_are_sound(
        max in prop_oneof![1..8_u64, 8..300_u64],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        for kind in PolicyKind::ALL {
            let mut run = Run::of(kind, max);
            for step in &steps {
                run.step(step);
            }
        }
    }
}
