//! Which page goes when room is needed.
//!
//! Streaming: first what is hopeless; then what sequential readers have used, but for a rest in
//! which a second use may still be noticed; then what was asked for and used; then what was read
//! ahead beyond the share of its reader; then what was used again. Only for a page that is asked
//! for: what was read ahead, farthest from its use; and in the end what a reader waits for.
//!
//! Two lists: in the order of arrival, then what was used twice.
//!
//! Use is noted where the page is and looked at here, so that finding a page costs no list.

use standpipe_core::readahead::Event;

use super::ghosts::Fate;
use super::policy::share_pages;
use super::slots::{List, Place};
use super::{Body, Book, Eviction, ReaderId, STREAM_NS};

/// How many pages are looked at for one that may go, where it is only to read ahead.
const AHEAD_TRIES: u64 = 64;
/// How often it is checked which readers still are streams.
const CENSUS_NS: u64 = 1_000_000_000;

/// The lists that all readers share.
#[derive(Default)]
pub(super) struct Shelves {
    pub hopeless: List,
    pub spent: List,
    pub recent: List,
    pub kept: List,
}

impl Shelves {
    pub fn list(&self, place: Place) -> &List {
        match place {
            Place::Hopeless => &self.hopeless,
            Place::Spent => &self.spent,
            Place::Recent => &self.recent,
            Place::Kept => &self.kept,
            Place::Unread | Place::Nowhere => unreachable!("{place:?} is not shared"),
        }
    }

    pub fn list_mut(&mut self, place: Place) -> &mut List {
        match place {
            Place::Hopeless => &mut self.hopeless,
            Place::Spent => &mut self.spent,
            Place::Recent => &mut self.recent,
            Place::Kept => &mut self.kept,
            Place::Unread | Place::Nowhere => unreachable!("{place:?} is not shared"),
        }
    }
}

/// What room is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A page that a reader cannot go on without.
    Demand,
    /// A page that it may want next.
    Ahead,
}

impl<P: Body> Book<P> {
    /// Makes room for one more page, if that can be had.
    pub(super) fn make_room(&mut self, reader: ReaderId, need: Need) -> bool {
        if need == Need::Ahead && self.starved > 0 {
            return false;
        }
        while self.taken_pages() >= self.options.budget_pages {
            if self.reclaim_released() {
                continue;
            }
            let Some(victim) = self.victim(reader, need) else {
                return false;
            };
            self.evict(victim);
        }
        true
    }

    /// Forgets pages that were dropped while held and are not held any more.
    fn reclaim_released(&mut self) -> bool {
        let before = self.gone.len();
        self.gone.retain(Body::is_held);
        self.gone.len() < before
    }

    fn victim(&mut self, reader: ReaderId, need: Need) -> Option<u32> {
        match self.options.eviction {
            Eviction::Streaming => self.streaming_victim(reader, need),
            Eviction::TwoLists => self
                .pick(Place::Recent, need)
                .or_else(|| self.pick(Place::Kept, need))
                .or_else(|| self.last_resort(need)),
        }
    }

    fn streaming_victim(&mut self, reader: ReaderId, need: Need) -> Option<u32> {
        if let Some(id) = self.pick(Place::Hopeless, need) {
            return Some(id);
        }
        // an eighth: long enough for the second reader of a file to come by
        if self.shelves.spent.len() > self.options.budget_pages / 8
            && let Some(id) = self.pick(Place::Spent, need)
        {
            return Some(id);
        }
        let used = self.pick(Place::Recent, need);
        if let Some(id) = used.or_else(|| self.pick(Place::Spent, need)) {
            return Some(id);
        }
        let is_within_share = self.readers[reader].claimed < self.share_of(reader);
        if need == Need::Ahead && !is_within_share {
            return None;
        }
        if let Some(id) = self.beyond_share(reader) {
            return Some(id);
        }
        // a quarter for what is used again and again, however many streams pass by
        if (need == Need::Demand || self.shelves.kept.len() > self.options.budget_pages / 4)
            && let Some(id) = self.pick(Place::Kept, need)
        {
            return Some(id);
        }
        self.last_resort(need)
    }

    /// The first page of a list that may go. Pages that are held, waited for or used again are
    /// passed over, and come to the end of the list, or to a better one.
    fn pick(&mut self, place: Place, need: Need) -> Option<u32> {
        let len = self.shelves.list(place).len();
        let tries = match need {
            // each may be passed over once for its use
            Need::Demand => len * 2,
            Need::Ahead => (len * 2).min(AHEAD_TRIES),
        };
        for _ in 0..tries {
            let id = self.shelves.list(place).head()?;
            let slot = &self.slots[id];
            let is_reused = slot.is_reused && place != Place::Hopeless;
            if !is_reused && may_go(slot.waiters, slot.body.as_ref()) {
                return Some(id);
            }
            self.unlist(id);
            if is_reused {
                self.slots[id].is_reused = false;
                self.shelve(id, Place::Kept);
                self.limit_kept();
            } else {
                self.shelve(id, place);
            }
        }
        None
    }

    /// At most three quarters are kept for their repeated use.
    fn limit_kept(&mut self) {
        while self.shelves.kept.len() > self.options.budget_pages * 3 / 4 {
            let Some(id) = self.shelves.kept.head() else {
                return;
            };
            self.unlist(id);
            self.slots[id].is_reused = false;
            self.slots[id].used_at = self.slots.born();
            self.shelve(id, Place::Recent);
        }
    }

    /// A page read ahead for another reader that has more than its share: the one farthest from use.
    fn beyond_share(&mut self, reader: ReaderId) -> Option<u32> {
        let share = self.share();
        let is_beyond = |book: &Self, id: ReaderId| {
            id != reader
                && book
                    .readers
                    .get(id)
                    .is_some_and(|r| r.claimed > share && r.unread.len() > 0)
        };
        // the same one as long as it is beyond: looking at all readers for each page would not do
        if !is_beyond(self, self.greedy) {
            let beyond = self.readers.keys().filter(|&id| is_beyond(self, id));
            self.greedy = beyond.max_by_key(|&id| self.readers[id].claimed)?;
        }
        self.farthest_unread(self.greedy)
    }

    fn farthest_unread(&self, reader: ReaderId) -> Option<u32> {
        let unread = &self.readers[reader].unread;
        self.slots
            .walk_back(unread)
            .take(AHEAD_TRIES as usize)
            .find(|&id| may_go(self.slots[id].waiters, self.slots[id].body.as_ref()))
    }

    /// For a page that is asked for, when there is no better one: what was read ahead for the reader
    /// with the most. If nothing is on its way either, after which there would be another, any page
    /// that is not held.
    fn last_resort(&mut self, need: Need) -> Option<u32> {
        if need == Need::Ahead {
            return None;
        }
        let richest = self.readers.iter().max_by_key(|(_, r)| r.unread.len())?.0;
        if let Some(id) = self.farthest_unread(richest) {
            return Some(id);
        }
        if self.absent_pages + self.flights.orphans > 0 {
            return None;
        }
        let is_free = |&id: &u32| {
            let body = self.slots[id].body.as_ref();
            body.is_some_and(|body| !body.is_held())
        };
        let shared = [Place::Hopeless, Place::Spent, Place::Recent, Place::Kept];
        let mut lists = shared.iter().map(|&place| self.shelves.list(place));
        let found = lists.find_map(|list| self.slots.walk(list).find(is_free));
        found.or_else(|| {
            let mut unread = self.readers.values().map(|r| &r.unread);
            unread.find_map(|list| self.slots.walk(list).find(is_free))
        })
    }

    fn evict(&mut self, id: u32) {
        let slot = &self.slots[id];
        let (object, index) = (slot.object, slot.index);
        let is_wasted = slot.is_unread && slot.is_ahead;
        let fate = if slot.is_unread {
            Fate::Unread
        } else {
            Fate::Used
        };
        let (owner, was_hopeless) = (slot.owner, slot.place == Place::Hopeless);
        self.ghosts.add(super::key_bits(object), index, fate);
        if is_wasted {
            self.accounts_of(owner).evicted_unread += 1;
        }
        self.drop_page(id);
        if is_wasted && !was_hopeless {
            self.note(owner, &Event::EvictedUnread { index });
        }
    }

    /// Drops a page that is present, from wherever it is.
    pub(super) fn drop_page(&mut self, id: u32) {
        let slot = &self.slots[id];
        debug_assert!(slot.body.is_some());
        if slot.is_unread && slot.is_ahead {
            let owner = slot.owner;
            self.accounts_of(owner).wasted += 1;
        }
        self.release_claim(id);
        self.unlist(id);
        if let Some(body) = self.strike_out(id)
            && body.is_held()
        {
            self.gone.push(body);
        }
    }

    /// Takes a page that is on no list out of the book.
    pub(super) fn strike_out(&mut self, id: u32) -> Option<P> {
        let slot = self.slots.free(id);
        if let Some(object) = self.objects.get_mut(slot.object) {
            object.table.remove(slot.index);
        }
        self.absent_pages -= u64::from(slot.body.is_none());
        slot.body
    }

    /// Puts a page that has just arrived on its list.
    pub(super) fn shelve_new(&mut self, id: u32) {
        let place = match self.options.eviction {
            Eviction::TwoLists => Place::Recent,
            Eviction::Streaming if self.slots[id].is_claimed => Place::Unread,
            Eviction::Streaming => Place::Hopeless,
        };
        self.shelve(id, place);
    }

    pub(super) fn shelve(&mut self, id: u32, place: Place) {
        let list = if place == Place::Unread {
            &mut self.readers[self.slots[id].owner].unread
        } else {
            self.shelves.list_mut(place)
        };
        self.slots.push_back(list, id, place);
    }

    pub(super) fn unlist(&mut self, id: u32) {
        let place = self.slots[id].place;
        let list = if place == Place::Unread {
            &mut self.readers[self.slots[id].owner].unread
        } else {
            self.shelves.list_mut(place)
        };
        self.slots.remove(list, id);
    }

    /// The page does not count against its owner's share any more.
    pub(super) fn release_claim(&mut self, id: u32) {
        let slot = &mut self.slots[id];
        if std::mem::take(&mut slot.is_claimed)
            && let Some(owner) = self.readers.get_mut(slot.owner)
        {
            owner.claimed -= 1;
        }
    }

    /// The page will not be used.
    pub(super) fn give_up(&mut self, id: u32) {
        self.release_claim(id);
        if self.slots[id].place == Place::Unread {
            self.unlist(id);
            self.shelve(id, Place::Hopeless);
        }
    }

    /// The pages that each stream may count on.
    pub(super) fn share(&self) -> u64 {
        share_pages(self.options.budget_pages, self.streams)
    }

    /// The pages that a reader may count on, as if it were a stream.
    pub(super) fn share_of(&self, reader: ReaderId) -> u64 {
        let others = self.streams - u64::from(self.readers[reader].is_stream);
        share_pages(self.options.budget_pages, others + 1)
    }

    /// Now and then: readers that used nothing for long are not streams any more.
    pub(super) fn take_census(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.census_ns) < CENSUS_NS {
            return;
        }
        self.census_ns = now_ns;
        self.forget_starved(now_ns);
        let asleep = |reader: &super::reader::Reader| {
            reader.is_stream && now_ns.saturating_sub(reader.active_ns) > STREAM_NS
        };
        let asleep = self.readers.iter().filter(|(_, reader)| asleep(reader));
        for id in asleep.map(|(id, _)| id).collect::<Vec<_>>() {
            self.readers[id].is_stream = false;
            self.streams -= 1;
            self.give_up_unread(id, u64::MAX);
        }
    }

    /// Readers that found no room and did not come back do not hold up the others.
    fn forget_starved(&mut self, now_ns: u64) {
        let readers = self.readers.values_mut();
        let gone = readers.filter(|r| now_ns.saturating_sub(r.active_ns) > CENSUS_NS);
        for waiting in gone.filter_map(|reader| reader.waiting.as_mut()) {
            self.starved -= u64::from(std::mem::take(&mut waiting.is_starved));
        }
    }

    /// Gives up what was read for a reader and asked for before it had touched so many pages.
    pub(super) fn give_up_unread(&mut self, reader: ReaderId, asked_before: u64) {
        while let Some(id) = self.readers[reader].unread.head()
            && self.slots[id].asked_at < asked_before
        {
            self.give_up(id);
        }
    }
}

fn may_go<P: Body>(waiters: u32, body: Option<&P>) -> bool {
    waiters == 0 && body.is_some_and(|body| !body.is_held())
}
