//! Streams in one direction, found by the place that they expect next.

use std::collections::BTreeMap;

use super::pace::{News, Pace, Reach};
use super::way::{Span, Way};
use crate::readahead::{Access, Plan, View};

/// So many streams of one object are remembered. A thousand clients of one file are many; what is
/// forgotten begins again as a short window.
const MAX_TRACKS: usize = 1024;

/// How many streams may overlap at a place and all be found.
const MAX_OVERLAP: usize = 4;

/// A random read may hit a mark by chance, and in a file that is mostly cached does so often. A reader
/// that comes from the page before does not; one with several streams is believed when it was at
/// so many marks of a stream.
const SURE_PROOFS: u32 = 3;

/// A stream. It is known by its *edge*, the place behind all of its windows.
#[derive(Clone, Copy, Debug)]
struct Track {
    /// Where its reader was when it was pushed on.
    pos: u64,
    edge: u64,
    /// Where its last window begins.
    last_start: u64,
    /// Where the mark of that is; if it has one.
    mark: Option<u64>,
    /// How often its reader was where it was expected. Windows do not grow before
    /// [`SURE_PROOFS`].
    proofs: u32,
    pace: Pace,
    /// When it was pushed on.
    pushed: Age,
}

/// Time, in pages that were planned for the object.
pub(super) type Age = u64;

/// The streams of an object in one direction.
#[derive(Debug)]
pub(super) struct Tracks {
    way: Way,
    by_edge: BTreeMap<u64, Track>,
    /// The time now.
    now: Age,
    /// For how long what is read ahead stays, if others need the room.
    lifetime: Age,
}

impl Tracks {
    pub const fn new(way: Way) -> Self {
        Self {
            way,
            by_edge: BTreeMap::new(),
            now: 0,
            lifetime: Age::MAX,
        }
    }

    /// Time goes on. Returns how many streams are alive.
    pub fn set_time(&mut self, now: Age, lifetime: Age) -> u64 {
        self.now = now;
        self.lifetime = lifetime;
        self.by_edge
            .values()
            .filter(|track| self.is_alive(track))
            .count() as u64
    }

    /// A stream is alive while what was read ahead for it can be there still.
    fn is_alive(&self, track: &Track) -> bool {
        self.now - track.pushed < self.lifetime
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by_edge.len()
    }

    /// A new stream, whose first read this is.
    pub fn begin(&mut self, access: &Access, reach: &Reach, view: &dyn View) -> Plan {
        let start = self.way.start(access);
        let mut track = Track::at(start, start, 0);
        let size = track.pace.first(access.count, reach);
        let mut place = Place::of(self.way, reach, view);
        track.serve(access, size, &mut place);
        self.insert(track);
        place.plan
    }

    /// A stream that was forgotten, whose reader is at a mark and whose windows end at `edge`.
    pub fn resume(&mut self, access: &Access, edge: u64, reach: &Reach, view: &dyn View) -> Plan {
        let known = (edge - access.index).min(reach.window);
        let mut track = Track::at(access.index, edge, known);
        let mut place = Place::of(self.way, reach, view);
        track.add_next(&mut place);
        self.insert(track);
        place.plan
    }

    /// Pushes on the stream that a missing or marked page belongs to; `None` if there is none. Its reader
    /// `came_on` to it from the page before, or not.
    pub fn push_on(
        &mut self,
        access: &Access,
        came_on: bool,
        reach: &Reach,
        view: &dyn View,
    ) -> Option<Plan> {
        let edge = self.find(self.way.start(access))?;
        if !access.is_cached && !self.is_expected(access, &self.by_edge[&edge]) {
            return None;
        }
        let mut track = self.by_edge.remove(&edge)?;
        let mut place = Place::of(self.way, reach, view);
        if access.is_cached {
            track.pos = self.way.start(access);
            let proofs = if came_on { SURE_PROOFS } else { 1 };
            track.proofs = track.proofs.saturating_add(proofs);
            track.keep_ahead(&mut place);
        } else {
            track.catch_up(access, &mut place);
        }
        self.insert(track);
        Some(place.plan)
    }

    /// Whether a stream may have come to a page that is missing. Within its windows, if they were
    /// evicted and it is alive. Behind them, if it has been at the mark of the last one: who has not
    /// does not read all of it, and is here by chance.
    fn is_expected(&self, access: &Access, track: &Track) -> bool {
        if self.way.turn(access.index) < track.edge {
            self.is_alive(track)
        } else {
            track.mark.is_none_or(|mark| track.pos >= mark)
        }
    }

    /// Tells the stream that read a page ahead; whether there is one.
    pub fn tell(&mut self, index: u64, news: News) -> bool {
        let place = self.way.turn(index);
        let track = self
            .find(place)
            .and_then(|edge| self.by_edge.get_mut(&edge));
        track.map(|track| track.pace.hear(news)).is_some()
    }

    /// The edge of the stream that a place is in, or next for.
    fn find(&self, place: u64) -> Option<u64> {
        let mut near = self.by_edge.range(place..).take(MAX_OVERLAP);
        near.find(|(_, track)| track.pos <= place)
            .map(|near| *near.0)
    }

    /// Remembers a stream, and forgets the one that rested longest if there are too many. Streams that
    /// have come together are one.
    fn insert(&mut self, mut track: Track) {
        track.pushed = self.now;
        if let Some(other) = self.by_edge.get(&track.edge) {
            track.pos = track.pos.min(other.pos);
        }
        self.by_edge.insert(track.edge, track);
        if self.by_edge.len() > MAX_TRACKS {
            let oldest = self.by_edge.values().min_by_key(|track| track.pushed);
            let edge = oldest.map(|track| track.edge);
            edge.and_then(|edge| self.by_edge.remove(&edge));
        }
    }
}

/// Where windows go, and how far they may.
struct Place<'a> {
    way: Way,
    reach: &'a Reach,
    view: &'a dyn View,
    limit: u64,
    plan: Plan,
}

impl<'a> Place<'a> {
    fn of(way: Way, reach: &'a Reach, view: &'a dyn View) -> Self {
        Self {
            way,
            reach,
            view,
            limit: way.limit(view),
            plan: Plan::none(),
        }
    }
}

impl Track {
    /// At `pos`, with windows of which the last had `size` pages up to `edge`.
    const fn at(pos: u64, edge: u64, size: u64) -> Self {
        Self {
            pos,
            edge,
            last_start: edge - size,
            mark: None,
            proofs: 0,
            pace: Pace::of(size),
            pushed: 0,
        }
    }

    /// A page is missing: the reader was faster than the windows, or they were evicted.
    fn catch_up(&mut self, access: &Access, place: &mut Place) {
        let size = if place.way.turn(access.index) < self.edge {
            self.edge = place.way.start(access);
            self.pace.again(place.reach)
        } else {
            self.pace.next(place.reach)
        };
        self.serve(access, size, place);
    }

    /// A window that somebody waits for: all of the read, and what else there is of `size`. The mark is
    /// on what will be read next.
    fn serve(&mut self, access: &Access, size: u64, place: &mut Place) {
        self.pos = place.way.start(access);
        let next = self.pos + access.count;
        let asked = next.saturating_sub(self.edge).min(place.reach.window);
        self.add(size.max(asked), next, place);
    }

    /// The reader is at a mark. Once it is in the last window, there is to be a next; with windows of
    /// full length, there are to be as many as the stream may be ahead.
    fn keep_ahead(&mut self, place: &mut Place) {
        if self.pos >= self.last_start {
            self.add_next(place);
        }
        while self.pace.is_full(place.reach)
            && self.edge - self.pos + place.reach.window <= place.reach.ahead
            && self.edge < place.limit
        {
            self.add_next(place);
        }
    }

    /// The next window, marked where it begins.
    fn add_next(&mut self, place: &mut Place) {
        let size = if self.proofs >= SURE_PROOFS {
            self.pace.next(place.reach)
        } else {
            self.pace.again(place.reach)
        };
        self.add(size, self.edge, place);
    }

    fn add(&mut self, size: u64, mark: u64, place: &mut Place) {
        let size = self.whole_reads(size, place);
        let size = size.min(place.limit.saturating_sub(self.edge));
        if size == 0 {
            return;
        }
        let span = Span {
            start: self.edge,
            size,
            mark: Some(mark.min(self.edge + size - 1)),
        };
        self.mark = place.way.plan_fresh(span, place.view, &mut place.plan);
        self.last_start = self.edge;
        self.edge += size;
    }

    /// Going backward, windows end where reads do: one that begins in a window and ends in the one
    /// before would come upon its first page, and wait for that, before it comes upon the mark.
    fn whole_reads(&self, size: u64, place: &Place) -> u64 {
        let over = (self.edge + size - self.pos) % place.reach.read;
        if place.way == Way::Backward && over < size {
            size - over
        } else {
            size
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_come_together_are_found_where_either_is() {
        let mut tracks = Tracks::new(Way::Forward);
        tracks.insert(Track::at(10, 100, 20));
        tracks.insert(Track::at(50, 100, 20));
        assert_eq!(tracks.len(), 1);
        assert_eq!(tracks.find(20), Some(100));
        assert_eq!(tracks.find(9), None);
    }
}
