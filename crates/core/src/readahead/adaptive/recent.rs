//! The reads of late that belong to no stream, among which streams and strides begin.

use std::collections::VecDeque;

use super::way::Way;
use crate::readahead::Access;

/// So many reads are remembered: as many new streams can take turns and still be noticed.
const MAX_READS: usize = 256;

/// A read next to one of the last few begins a stream, whoever reads. Next to an older one it may be
/// by chance, as happens in a small file that is read at random; then it takes a third, and all of
/// them by one reader.
const SURE_AGE: usize = 4;

/// Strides are looked for among so many reads, of which this many may be the one before: so many
/// strides can take turns.
const STRIDE_READS: usize = 32;
const MAX_STRIDES: usize = 8;

/// A read.
#[derive(Clone, Copy, Debug)]
struct Past {
    reader: u32,
    start: u64,
    /// Behind what was read for it.
    end: u64,
    /// Behind what it asked for.
    stop: u64,
    /// How many reads it is of, one next to the other.
    reads: u32,
}

impl Past {
    const fn length(&self) -> u64 {
        self.stop - self.start
    }

    /// Where a read goes from here, if it goes on: not the rest of this very read.
    fn leads_to(&self, access: &Access) -> Option<Way> {
        let stop = access.index + access.count;
        if self.end == access.index && self.stop != stop {
            Some(Way::Forward)
        } else if access.index < self.start && self.start <= stop {
            Some(Way::Backward)
        } else {
            None
        }
    }
}

/// The last such reads of an object, the latest first.
#[derive(Debug, Default)]
pub(super) struct Recent {
    reads: VecDeque<Past>,
}

impl Recent {
    /// The direction in which a read goes on from an earlier one, if that is no chance. Otherwise it
    /// is remembered, with the pages before `end` read.
    pub fn neighbour(&mut self, access: &Access, end: u64) -> Option<Way> {
        let mut read = Past {
            reader: access.reader,
            start: access.index,
            end,
            stop: access.index + access.count,
            reads: 1,
        };
        let is_near = |(age, past): (usize, &Past)| {
            (age < SURE_AGE || past.reader == access.reader) && past.leads_to(access).is_some()
        };
        if let Some(age) = self.reads.iter().enumerate().position(is_near)
            && let Some(past) = self.reads.remove(age)
        {
            if age < SURE_AGE || past.reads > 1 {
                return past.leads_to(access);
            }
            read.reads += past.reads;
        }
        self.reads.push_front(read);
        self.reads.truncate(MAX_READS);
        None
    }

    /// The direction and the distance in which the last read is the fourth of its length by its
    /// reader.
    pub fn period(&self) -> Option<(Way, u64)> {
        let read = self.reads.front()?;
        let last = self.like(read).skip(1).take(MAX_STRIDES);
        last.map(|past| match read.start.checked_sub(past.start) {
            Some(period) => (Way::Forward, period),
            None => (Way::Backward, past.start - read.start),
        })
        .filter(|&(_, period)| period > read.length())
        .find(|&(way, period)| {
            (1..=3).all(|times| match way {
                Way::Forward => (read.start.checked_sub(times * period))
                    .is_some_and(|start| self.has(read, start)),
                Way::Backward => self.has(read, read.start + times * period),
            })
        })
    }

    /// The last reads of the same length by the same reader.
    fn like(&self, read: &Past) -> impl Iterator<Item = &Past> {
        let (reader, length) = (read.reader, read.length());
        let like = move |past: &&Past| past.reader == reader && past.length() == length;
        self.reads.iter().filter(like).take(STRIDE_READS)
    }

    /// Whether one of these was from `start` on.
    fn has(&self, read: &Past, start: u64) -> bool {
        self.like(read).any(|past| past.start == start)
    }
}
