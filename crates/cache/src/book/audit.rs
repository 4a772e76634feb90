//! Recounts everything.

use std::collections::{HashMap, HashSet};

use super::slots::{List, Place};
use super::{Body, Book, Eviction, ReaderId, Room};

/// Says what does not add up.
macro_rules! hold {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

impl<P: Body> Book<P> {
    /// Recounts everything, and says what does not add up. For tests: takes time proportional to
    /// the number of pages.
    ///
    /// # Errors
    /// A sentence that names the invariant and the counts.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_budget()?;
        self.audit_room()?;
        self.audit_table()?;
        self.audit_flights()?;
        self.audit_lists()?;
        self.audit_readers()?;
        self.audit_accounts()
    }

    fn audit_budget(&self) -> Result<(), String> {
        let taken =
            self.slots.iter().count() as u64 + self.flights.orphans + self.gone.len() as u64;
        let budget = self.options.budget_pages;
        hold!(
            taken <= budget,
            "1: {taken} pages are taken, the budget is {budget}"
        );
        hold!(
            self.taken_pages() == taken,
            "1: {taken} pages are taken, {} counted",
            self.taken_pages()
        );
        let kept = self.shelves.kept.len();
        hold!(kept <= budget * 3 / 4, "{kept} of {budget} pages are kept");
        Ok(())
    }

    fn audit_room(&self) -> Result<(), String> {
        let (counted, known) = (self.room(), self.room_by(&self.accounts()));
        // What was asked for and has not been fetched yet is unread, but was not read ahead.
        let known = Room {
            unread_pages: known.unread_pages.max(counted.unread_pages),
            ..known
        };
        hold!(counted == known, "{counted:?} was counted, {known:?} known");
        Ok(())
    }

    fn audit_table(&self) -> Result<(), String> {
        let mut entered = 0;
        for (id, slot) in self.slots.iter() {
            let object = self.objects.get(slot.object);
            let found = object.and_then(|object| object.table.get(slot.index));
            hold!(
                found == Some(id),
                "2: page {} is in slot {id}, the table says {found:?}",
                slot.index
            );
            hold!(
                object.is_some_and(|object| slot.index < object.end),
                "page {} lies behind the end",
                slot.index
            );
            entered += 1;
        }
        let listed: u64 = self
            .objects
            .values()
            .map(|object| object.table.pages())
            .sum();
        hold!(
            listed == entered,
            "2: {entered} slots, {listed} pages in the tables"
        );
        Ok(())
    }

    fn audit_flights(&self) -> Result<(), String> {
        let (mut bringing, mut orphans) = (0, 0);
        for (io, flight) in &self.flights.all {
            let pages = flight.index..flight.index + flight.pages;
            let alive = pages.filter(|&index| self.on_its_way(flight.object, index, io).is_some());
            let alive = alive.count() as u64;
            hold!(
                alive + flight.orphans == flight.pages,
                "{io:?} of {} pages brings {alive} and has {} orphans",
                flight.pages,
                flight.orphans
            );
            bringing += alive;
            orphans += flight.orphans;
        }
        hold!(
            orphans == self.flights.orphans,
            "{orphans} orphans, {} counted",
            self.flights.orphans
        );
        let absent = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.body.is_none())
            .count() as u64;
        hold!(
            absent == bringing,
            "2: {absent} pages on their way, {bringing} in reads"
        );
        hold!(
            absent == self.absent_pages,
            "{absent} pages on their way, {} counted",
            self.absent_pages
        );
        Ok(())
    }

    fn audit_lists(&self) -> Result<(), String> {
        let mut listed = HashSet::new();
        let mut walk = |list: &List, place: Place, owner: Option<ReaderId>| {
            let mut len = 0;
            for id in self.slots.walk(list) {
                let slot = &self.slots[id];
                hold!(
                    slot.place == place,
                    "slot {id} is on {place:?} and says {:?}",
                    slot.place
                );
                hold!(
                    owner.is_none_or(|owner| slot.owner == owner),
                    "slot {id} is on another's list"
                );
                hold!(listed.insert(id), "slot {id} is on two lists");
                hold!(
                    slot.body.is_some(),
                    "slot {id} is on {place:?} before it arrived"
                );
                let is_used = !matches!(place, Place::Unread | Place::Hopeless);
                hold!(
                    self.options.eviction == Eviction::TwoLists || is_used != slot.is_unread,
                    "slot {id} on {place:?}: unread is {}",
                    slot.is_unread
                );
                len += 1;
            }
            hold!(
                len == list.len(),
                "{place:?} has {len} pages, {} counted",
                list.len()
            );
            Ok(())
        };
        for place in [Place::Hopeless, Place::Spent, Place::Recent, Place::Kept] {
            walk(self.shelves.list(place), place, None)?;
        }
        for (id, reader) in &self.readers {
            walk(&reader.unread, Place::Unread, Some(id))?;
        }
        let present = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.body.is_some())
            .count();
        hold!(
            present == listed.len(),
            "{present} pages are present, {} on lists",
            listed.len()
        );
        Ok(())
    }

    fn audit_readers(&self) -> Result<(), String> {
        let mut waiters: HashMap<u32, u32> = HashMap::new();
        for (id, reader) in &self.readers {
            let claimed = self
                .slots
                .iter()
                .filter(|(_, slot)| slot.is_claimed && slot.owner == id);
            let claimed = claimed.count() as u64;
            hold!(
                claimed == reader.claimed,
                "{id:?} claims {claimed}, {} counted",
                reader.claimed
            );
            let slot = reader.waiting.and_then(|waiting| waiting.slot);
            if let Some((slot, born)) = slot
                && self.slots.get(slot).is_some_and(|slot| slot.born == born)
            {
                *waiters.entry(slot).or_default() += 1;
            }
        }
        for (id, slot) in self.slots.iter() {
            let waiting = waiters.get(&id).copied().unwrap_or(0);
            hold!(
                waiting == slot.waiters,
                "{waiting} wait for slot {id}, {} counted",
                slot.waiters
            );
            hold!(
                !slot.is_claimed || slot.is_unread,
                "slot {id} is claimed though it was used"
            );
        }
        let starved = self.readers.values().filter_map(|reader| reader.waiting);
        let starved = starved.filter(|waiting| waiting.is_starved).count() as u64;
        hold!(
            starved == self.starved,
            "{starved} readers found no room, {} counted",
            self.starved
        );
        let streams = self
            .readers
            .values()
            .filter(|reader| reader.is_stream)
            .count() as u64;
        hold!(
            streams == self.streams,
            "{streams} streams, {} counted",
            self.streams
        );
        Ok(())
    }

    fn audit_accounts(&self) -> Result<(), String> {
        let unread = |owner: Option<ReaderId>| {
            let slots = self.slots.iter().filter(|(_, slot)| {
                slot.is_unread
                    && slot.is_ahead
                    && slot.body.is_some()
                    && owner.is_none_or(|owner| slot.owner == owner)
            });
            slots.count() as u64
        };
        let own = self
            .readers
            .keys()
            .map(|id| (Some(id), self.reader_accounts(id)));
        for (owner, sums) in own.chain([(None, self.accounts())]) {
            let (unread, accounts) = (unread(owner), sums);
            hold!(
                accounts.prefetched == accounts.used + accounts.wasted + unread,
                "4: {owner:?}: {unread} unread, {accounts:?}"
            );
            hold!(
                accounts.evicted_unread <= accounts.wasted,
                "4: {owner:?}: {accounts:?}"
            );
        }
        Ok(())
    }
}
