//! *A stream that has ramped up never waits for a page that an idle store could have had ready*, in
//! virtual time.
//!
//! The store turns to a request after its latency, which passes while others are transferred, and
//! transfers one at a time. Ramped up is a stream that has read three windows of full length. From then
//! on, no instant may pass at which the reader waits and the store transfers nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::harness::DISK;
use super::{Access, Adaptive, Event, OnDemand, Policy, Speed, View, Window};
use crate::size::PAGE_BYTES;

/// Pages of the object: more than anybody reads.
const END: u64 = 1 << 40;

/// From when to when, in virtual nanoseconds.
type Time = (u64, u64);

/// The store, and the pages that it was asked for, with the time at which each arrives.
struct Store {
    speed: Speed,
    free_ns: u64,
    idle: Vec<Time>,
    pages: BTreeMap<u64, u64>,
    marks: Vec<u64>,
    /// The length of each window, in order.
    windows: Vec<u64>,
}

impl Store {
    fn page_ns(&self) -> u64 {
        PAGE_BYTES as u64 * 1_000_000_000 / self.speed.bytes_per_s
    }

    fn submit(&mut self, window: &Window, now_ns: u64) {
        let start_ns = self.free_ns.max(now_ns + self.speed.latency_ns);
        self.idle.push((self.free_ns, start_ns));
        self.free_ns = start_ns + window.size * self.page_ns();
        let pages = window.start..window.end();
        self.pages.extend(pages.map(|page| (page, self.free_ns)));
        self.marks.extend(window.mark());
        self.windows.push(window.size);
    }

    fn take_mark(&mut self, page: u64) -> bool {
        let at = self.marks.iter().position(|&mark| mark == page);
        at.map(|at| self.marks.swap_remove(at)).is_some()
    }
}

impl View for Store {
    fn end(&self) -> u64 {
        END
    }
    fn is_cached(&self, index: u64) -> bool {
        self.pages.contains_key(&index)
    }
    fn is_congested(&self) -> bool {
        false
    }
    fn share_pages(&self) -> u64 {
        1 << 40
    }
    fn speed(&self) -> Speed {
        self.speed
    }
}

/// Reads of `count` pages, each of which takes `think_ns`.
#[derive(Clone, Copy, Debug)]
struct Reader {
    count: u64,
    think_ns: u64,
    is_backward: bool,
}

impl Reader {
    /// When it waited after having ramped up, until it has read ten windows more.
    fn waits(self, store: &mut Store, policy: &mut dyn Policy) -> Vec<Time> {
        let (mut now_ns, mut done, mut waits) = (0, 0, Vec::new());
        loop {
            let full = store.windows.iter().max().copied().unwrap_or(1);
            let ramp = store.windows.iter().take_while(|&&size| size < full);
            let ramped_up = ramp.sum::<u64>() + 3 * full;
            if done > ramped_up + 10 * full {
                return waits;
            }
            let index = if self.is_backward {
                END / 2 - done - self.count
            } else {
                END / 2 + done
            };
            for page in index..index + self.count {
                let arrival_ns = self.touch(page, index, now_ns, store, policy);
                if arrival_ns > now_ns {
                    waits.push((now_ns, arrival_ns));
                    now_ns = arrival_ns;
                }
                now_ns += self.think_ns;
            }
            done += self.count;
            if done <= ramped_up {
                waits.clear();
            }
        }
    }

    /// When a page arrives.
    fn touch(
        &self,
        page: u64,
        index: u64,
        now_ns: u64,
        store: &mut Store,
        policy: &mut dyn Policy,
    ) -> u64 {
        let access = Access {
            index: page,
            count: index + self.count - page,
            is_first: page == index,
            is_cached: store.is_cached(page),
            is_marked: store.take_mark(page),
            reader: 0,
        };
        for window in policy.access(&access, store).windows {
            store.submit(&window, now_ns);
        }
        if !store.is_cached(page) {
            store.submit(
                &Window {
                    start: page,
                    size: 1,
                    async_size: 0,
                },
                now_ns,
            );
        }
        let arrival_ns = store.pages[&page];
        if !access.is_cached {
            return self
                .touch(page, index, now_ns, store, policy)
                .max(arrival_ns);
        }
        if arrival_ns > now_ns {
            policy.note(&Event::Late {
                index: page,
                waited_ns: arrival_ns - now_ns,
            });
        }
        arrival_ns
    }

    /// For how long it waited while the store was idle.
    fn needless_ns(self, speed: Speed, policy: &mut dyn Policy) -> u64 {
        let mut store = Store {
            speed,
            free_ns: 0,
            idle: Vec::new(),
            pages: BTreeMap::new(),
            marks: Vec::new(),
            windows: Vec::new(),
        };
        let waits = self.waits(&mut store, policy);
        let overlap =
            |wait: &Time, idle: &Time| wait.1.min(idle.1).saturating_sub(wait.0.max(idle.0));
        waits
            .iter()
            .flat_map(|wait| store.idle.iter().map(move |idle| overlap(wait, idle)))
            .sum()
    }
}

proptest! {
    #[test]
    fn a_stream_never_waits_for_an_idle_store(
        latency_ns in 1_000..30_000_000_u64,
        window_ns in 1_000..60_000_000_u64,
        count in 1..64_u64,
        think_percent in prop_oneof![Just(0), 0..400_u64],
        is_backward: bool,
    ) {
        // So that what is transferred in one latency is 1 to 500 pages.
        let page_ns = (window_ns / 500).max(latency_ns / 500).max(100);
        let speed = Speed { latency_ns, bytes_per_s: PAGE_BYTES as u64 * 1_000_000_000 / page_ns };
        let reader = Reader { count, think_ns: page_ns * think_percent / 100, is_backward };
        let needless_ns = reader.needless_ns(speed, &mut Adaptive::new(1 << 20));
        prop_assert_eq!(needless_ns, 0);
    }
}

#[test]
fn on_demand_does_wait_for_an_idle_store() {
    let reader = Reader {
        count: 1,
        think_ns: 0,
        is_backward: false,
    };
    assert!(reader.needless_ns(DISK, &mut OnDemand::new(32)) > 0);
    assert_eq!(reader.needless_ns(DISK, &mut Adaptive::new(2048)), 0);
}
