//! Reads of the same length at the same distances: several are read ahead, each a window.

use super::pace::{News, Pace, Reach};
use super::way::{Span, Way};
use crate::readahead::{Access, Plan, View};

/// So many strides of one object are remembered.
const MAX_STRIDES: usize = 32;

/// So many reads of a stride are planned at once: stores take some tens of requests at a time, and
/// disks sort no more than that.
const MAX_BATCH: u64 = 32;

/// Reads of `length` places, one every `period` places.
#[derive(Clone, Copy, Debug)]
struct Stride {
    way: Way,
    /// Longer than `length`.
    period: u64,
    length: u64,
    /// The read that its reader was at.
    last: u64,
    /// The first read that was not planned.
    next: u64,
    /// Of how many pages the reads of a batch are together.
    pace: Pace,
}

/// The strides of an object, the one used last at the end.
#[derive(Debug, Default)]
pub(super) struct Strides {
    all: Vec<Stride>,
}

impl Strides {
    /// A stride was noticed: reads like this one, every `period` places.
    pub fn begin(
        &mut self,
        access: &Access,
        (way, period): (Way, u64),
        reach: &Reach,
        view: &dyn View,
    ) -> Plan {
        let start = way.start(access);
        let mut stride = Stride {
            way,
            period,
            length: access.count,
            last: start,
            next: start,
            pace: Pace::of(access.count),
        };
        let plan = stride.catch_up(reach, view);
        if self.all.len() == MAX_STRIDES {
            self.all.remove(0);
        }
        self.all.push(stride);
        plan
    }

    /// Pushes on the stride that a missing or marked page belongs to; `None` if there is none.
    pub fn push_on(&mut self, access: &Access, reach: &Reach, view: &dyn View) -> Option<Plan> {
        let found = self.all.iter().enumerate().find_map(|(at, stride)| {
            let read = stride.read_of(access.index)?;
            Some((at, read))
        });
        let (at, read) = found?;
        let mut stride = self.all.remove(at);
        stride.last = read;
        let plan = if access.is_cached {
            stride.keep_ahead(reach, view)
        } else {
            stride.catch_up(reach, view)
        };
        self.all.push(stride);
        Some(plan)
    }

    /// Tells the stride that read a page ahead; whether there is one.
    pub fn tell(&mut self, index: u64, news: News) -> bool {
        let mut all = self.all.iter_mut();
        let owner = all.find(|stride| stride.read_of(index).is_some());
        owner.map(|stride| stride.pace.hear(news)).is_some()
    }
}

impl Stride {
    /// Where the read begins that a page is in, if it is one from the last to the next.
    fn read_of(&self, index: u64) -> Option<u64> {
        let distance = self.way.turn(index).checked_sub(self.last)?;
        let offset = distance % self.period;
        let read = self.last + distance - offset;
        (offset < self.length && read <= self.next).then_some(read)
    }

    /// A page is missing: its read is planned (again), and a batch.
    fn catch_up(&mut self, reach: &Reach, view: &dyn View) -> Plan {
        let size = if self.last == self.next {
            self.pace.next(reach)
        } else {
            self.pace.again(reach)
        };
        self.next = self.last;
        self.plan_reads(1 + self.batch(size), reach, view)
    }

    /// The reader is at a read that was planned: if no more than a batch is left, there are to be two.
    fn keep_ahead(&mut self, reach: &Reach, view: &dyn View) -> Plan {
        let left = (self.next - self.last) / self.period;
        let mut pace = self.pace;
        let batch = self.batch(pace.next(reach));
        if left > batch {
            return Plan::none();
        }
        self.pace = pace;
        self.plan_reads(2 * batch - left, reach, view)
    }

    /// How many reads are `size` pages, or one.
    fn batch(&self, size: u64) -> u64 {
        (size / self.length).clamp(1, MAX_BATCH)
    }

    /// The next `reads`, each with a mark, until the object ends.
    fn plan_reads(&mut self, reads: u64, reach: &Reach, view: &dyn View) -> Plan {
        let limit = self.way.limit(view);
        let mut plan = Plan::none();
        for _ in 0..reads {
            if self.next >= limit {
                break;
            }
            let span = Span {
                start: self.next,
                size: self.length.min(limit - self.next).min(reach.window),
                mark: Some(self.next),
            };
            self.way.plan_fresh(span, view, &mut plan);
            self.next += self.period;
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_a_read_or_between_two() {
        let mut stride = Stride {
            way: Way::Forward,
            period: 100,
            length: 8,
            last: 1000,
            next: 1300,
            pace: Pace::of(8),
        };
        let cases = [
            (999, None),
            (1000, Some(1000)),
            (1007, Some(1000)),
            (1008, None),
            (1299, None),
            (1300, Some(1300)),
            (1400, None),
        ];
        for (page, read) in cases {
            assert_eq!(stride.read_of(page), read, "page {page}");
        }
        // The same, seen in the mirror.
        stride.way = Way::Backward;
        stride.last = stride.way.turn(9000);
        stride.next = stride.way.turn(8700);
        for (page, read) in cases {
            let read = read.map(|read| stride.way.turn(10_000 - read));
            assert_eq!(
                stride.read_of(10_000 - page),
                read,
                "page {page} from 10000"
            );
        }
    }
}
