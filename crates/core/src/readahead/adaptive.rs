//! Readahead that learns from its store, its memory and its readers. Ours; the default.
//!
//! One policy serves all readers of an object, so that they find each other's streams. As
//! [on demand](super::OnDemand), it acts on missing and on marked pages only: pages that are cached
//! cost nothing. What goes on is told by the history of the object, not by who reads:
//!
//! - A page at the end of a stream, at its mark or within its windows pushes that *stream* on. Streams
//!   are found by the page that they expect next, whichever handle they are read through, however
//!   many there are ([`tracks`]).
//! - A page that is read backwards is a stream as well: of the object seen in a mirror ([`way`]).
//! - Reads of equal length at equal distances are a stride, and the next several are read ahead
//!   ([`strides`]).
//! - A read behind an earlier one, or before it, begins a stream ([`recent`]). So does page 0.
//! - Anything else is a random read and gets what it asked for.
//!
//! Chance looks like all of these now and then: a mark is hit by a random read, a random read lands next
//! to another. Readers that come on from the page before are believed at once. Others have to be where
//! they are expected a few times before windows grow.
//!
//! # How long, and how far ahead
//! A window ramps up as on demand does, to a length whose transfer takes four times the latency of the
//! store, so that a disk reads rather than seeks, and the requests to a distant store overlap. Two
//! windows fit into the stream's share of the budget: one that is being read, and one on its way
//! ([`pace`]). Where three fit, two are on their way:
//!
//! **A stream that has ramped up never waits for a page that an idle store could have had ready**, if
//! it reads equal amounts, and three windows fit into its share. While a reader that is faster than the
//! store waits, the store transfers; a slower one does not wait. (Told in virtual time by the tests in
//! `idle.rs`.)
//!
//! A reader's share is what the budget gives each; if it reads several streams, they divide it.
//!
//! # Thrashing
//! Pages that are evicted before they are used say that the share was less than it seemed. They halve
//! the next window of their stream, and each window that comes through lets it recover by an eighth.
//!
//! **However often that happens, windows are a quarter of the stream's share, or four pages:** every
//! stream makes progress by at least so much per transfer.

mod pace;
mod recent;
mod strides;
mod tracks;
mod way;

use std::collections::BTreeSet;

use super::{Access, Event, Plan, Policy, View, Window};
use pace::{Crowd, News, Reach};
use recent::Recent;
use strides::Strides;
use tracks::Tracks;
use way::{Span, Way};

/// One for all readers of an object.
#[derive(Debug)]
pub struct Adaptive {
    max: u64,
    forward: Tracks,
    backward: Tracks,
    strides: Strides,
    recent: Recent,
    /// Those that are open and were planned for.
    readers: BTreeSet<u32>,
    /// The pages of all plans.
    planned: u64,
    last: Last,
    /// How long reads are: the longest, and less with each that is shorter.
    read_pages: u64,
    /// The store failed: nothing but what is asked for is read next, so that a bad page is found
    /// without those around it.
    is_wary: bool,
}

impl Adaptive {
    /// Windows of `max_pages` at most; where the store and the budget allow less, of less.
    #[must_use]
    pub fn new(max_pages: u64) -> Self {
        Self {
            max: max_pages.max(1),
            forward: Tracks::new(Way::Forward),
            backward: Tracks::new(Way::Backward),
            strides: Strides::default(),
            recent: Recent::default(),
            readers: BTreeSet::new(),
            planned: 0,
            last: Last::default(),
            read_pages: 0,
            is_wary: false,
        }
    }

    /// A page is missing or marked.
    fn plan(&mut self, access: &Access, came_on: bool, view: &dyn View) -> Plan {
        self.readers.insert(access.reader);
        let crowd = self.crowd(view);
        let reach = Reach::of(view, crowd, self.max, self.read_pages);
        let plan = self.decide(access, came_on, &reach, view);
        self.planned += plan.windows.iter().map(|window| window.size).sum::<u64>();
        plan
    }

    /// How many readers and streams there are. A stream is not told from one that ended but by what
    /// was read ahead since: as much as there is room for all readers, and it is gone.
    fn crowd(&mut self, view: &dyn View) -> Crowd {
        let readers = self.readers.len() as u64;
        let lifetime = view.share_pages().saturating_mul(readers);
        let forward = self.forward.set_time(self.planned, lifetime);
        let backward = self.backward.set_time(self.planned, lifetime);
        Crowd {
            readers,
            streams: forward + backward,
        }
    }

    fn decide(&mut self, access: &Access, came_on: bool, reach: &Reach, view: &dyn View) -> Plan {
        if !access.is_cached && std::mem::take(&mut self.is_wary) {
            return as_asked(access, reach, view);
        }
        let plan = (self.forward.push_on(access, came_on, reach, view))
            .or_else(|| self.backward.push_on(access, came_on, reach, view))
            .unwrap_or_else(|| self.meet(access, came_on, reach, view));
        if access.is_cached || plan.covers(access.index) {
            plan
        } else {
            // A read longer than a window, going backward: the window has its last pages.
            as_asked(access, reach, view)
        }
    }

    /// A page of no stream: the first of one, one of a stride, or random.
    fn meet(&mut self, access: &Access, came_on: bool, reach: &Reach, view: &dyn View) -> Plan {
        if !access.is_cached && (came_on || access.index == 0) {
            return self.forward.begin(access, reach, view);
        }
        let end = access.index + access.count.min(reach.most);
        match self.recent.neighbour(access, end) {
            Some(Way::Forward) => return self.forward.begin(access, reach, view),
            Some(Way::Backward) => return self.backward.begin(access, reach, view),
            None => {}
        }
        if let Some(plan) = self.strides.push_on(access, reach, view) {
            plan
        } else if access.is_cached {
            self.adopt(access, reach, view)
        } else if let Some(period) = self.recent.period() {
            self.strides.begin(access, period, reach, view)
        } else {
            as_asked(access, reach, view)
        }
    }

    /// A mark of a stream that was forgotten: what is cached behind it was its window.
    fn adopt(&mut self, access: &Access, reach: &Reach, view: &dyn View) -> Plan {
        match view.hole_after(access.index, reach.window + 1) {
            Some(hole) => self.forward.resume(access, hole, reach, view),
            None => Plan::none(),
        }
    }

    /// Tells the stream that read a page ahead, if it is known still.
    fn tell(&mut self, index: u64, news: News) {
        let _ = self.forward.tell(index, news)
            || self.backward.tell(index, news)
            || self.strides.tell(index, news);
    }
}

/// Where readers are: of those whose numbers fall together, one. This is asked for at every touch of
/// a page, and only speeds things up.
#[derive(Debug)]
struct Last {
    slots: [Option<Spot>; 64],
}

/// Where a reader is.
#[derive(Clone, Copy, Debug)]
struct Spot {
    reader: u32,
    index: u64,
    /// Where its read ends.
    stop: u64,
    /// The read began where the one before had ended.
    came_on: bool,
}

impl Default for Last {
    fn default() -> Self {
        Self { slots: [None; 64] }
    }
}

impl Last {
    /// Remembers where a reader is now; whether its read goes on from the one before. A page that is
    /// touched again, because it has arrived, says nothing new.
    fn replace(&mut self, access: &Access) -> bool {
        let &Access { index, reader, .. } = access;
        let stop = index + access.count;
        let slot = &mut self.slots[reader as usize % 64];
        let came_on = match slot.filter(|last| last.reader == reader) {
            None => false,
            Some(last) if !access.is_first || (last.index, last.stop) == (index, stop) => {
                last.came_on
            }
            Some(last) => index.wrapping_sub(last.index) <= 1,
        };
        *slot = Some(Spot {
            reader,
            index,
            stop,
            came_on,
        });
        came_on
    }

    fn forget(&mut self, reader: u32) {
        let slot = &mut self.slots[reader as usize % 64];
        *slot = slot.filter(|last| last.reader != reader);
    }
}

/// What a random read gets: not more than it has memory for.
fn as_asked(access: &Access, reach: &Reach, view: &dyn View) -> Plan {
    let Window { start, size, .. } = Window::as_asked(access, reach.most);
    let size = size.min(view.end().saturating_sub(start));
    let mark = None;
    let mut plan = Plan::none();
    Way::Forward.plan_fresh(Span { start, size, mark }, view, &mut plan);
    plan
}

impl Policy for Adaptive {
    fn access(&mut self, access: &Access, view: &dyn View) -> Plan {
        let came_on = self.last.replace(access);
        if access.is_first {
            let less = self.read_pages - self.read_pages.div_ceil(16);
            self.read_pages = access.count.max(less);
        }
        if access.is_cached && !access.is_marked {
            return Plan::none();
        }
        self.plan(access, came_on, view)
    }

    fn note(&mut self, event: &Event) {
        match *event {
            Event::Failed => self.is_wary = true,
            Event::EvictedUnread { index } => self.tell(index, News::Lost),
            Event::Late { index, .. } => self.tell(index, News::Late),
            Event::Closed { reader } => {
                self.readers.remove(&reader);
                self.last.forget(reader);
            }
        }
    }
}

#[cfg(test)]
mod tests;
