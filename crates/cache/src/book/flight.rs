//! Reads that are queued or being done.

use std::collections::VecDeque;

use slotmap::SlotMap;

use super::{Body, Book, Io, IoId, ObjectId, ReaderId};

pub(super) struct Flight {
    pub object: ObjectId,
    pub index: u64,
    pub pages: u64,
    pub owner: ReaderId,
    /// Handed out: it can no longer be taken back.
    pub is_started: bool,
    /// Somebody waits for it.
    pub is_urgent: bool,
    /// Pages of it that nobody wants any more. Their room is taken until it ends.
    pub orphans: u64,
}

/// All of them, and the order in which they are to be started.
#[derive(Default)]
pub(super) struct Flights {
    pub all: SlotMap<IoId, Flight>,
    urgent: VecDeque<IoId>,
    ahead: VecDeque<IoId>,
    /// Orphans of all flights.
    pub orphans: u64,
}

impl Flights {
    pub fn queue(&mut self, flight: Flight) -> IoId {
        let is_urgent = flight.is_urgent;
        let io = self.all.insert(flight);
        let queue = if is_urgent {
            &mut self.urgent
        } else {
            &mut self.ahead
        };
        queue.push_back(io);
        io
    }

    /// Somebody waits for it now.
    pub fn hurry(&mut self, io: IoId) {
        let Some(flight) = self.all.get_mut(io) else {
            return;
        };
        if !flight.is_started && !flight.is_urgent {
            flight.is_urgent = true;
            self.urgent.push_back(io);
        }
    }

    /// Pages of all flights.
    pub fn pages(&self) -> u64 {
        self.all.values().map(|flight| flight.pages).sum()
    }

    /// None is waiting to be started, for certain.
    pub fn is_idle(&self) -> bool {
        self.urgent.is_empty() && self.ahead.is_empty()
    }

    /// One that was hurried may have been cancelled since.
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// The next one to be started. What was cancelled or hurried on is in the queues still.
    fn start_next(&mut self) -> Option<IoId> {
        loop {
            let io = self.urgent.pop_front().or_else(|| self.ahead.pop_front())?;
            if let Some(flight) = self.all.get_mut(io)
                && !flight.is_started
            {
                flight.is_started = true;
                return Some(io);
            }
        }
    }

    /// A page of a flight is not wanted any more.
    pub fn orphan(&mut self, io: IoId) {
        self.all[io].orphans += 1;
        self.orphans += 1;
    }
}

impl<P: Body> Book<P> {
    /// Whether it is worth calling [`Book::next_io`].
    #[inline]
    #[must_use]
    pub fn has_queued(&self) -> bool {
        !self.flights.is_idle()
    }

    /// Whether somebody may wait for a read that is to be started.
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        self.flights.has_urgent()
    }

    /// The next read to be started, those that somebody waits for first; `None` if there is none.
    /// To be called until then after every call that may read: `touch`, `advise`.
    pub fn next_io(&mut self) -> Option<Io> {
        let id = self.flights.start_next()?;
        let flight = &self.flights.all[id];
        let io = Io {
            id,
            object: flight.object,
            index: flight.index,
            pages: flight.pages,
            is_ahead: !flight.is_urgent,
        };
        let accounts = self.accounts_of(flight.owner);
        accounts.reads += 1;
        accounts.read_pages += io.pages;
        Some(io)
    }

    /// A read is done: `pages` arrived, from its first page on. The others are not there, and if it
    /// `failed`, those who wait for them are told so. Without a failure they find out at their next
    /// touch: the object was truncated, or it is read again.
    ///
    /// Pages that nobody wants any more are dropped here.
    pub fn finish(&mut self, io: IoId, pages: Vec<P>, failed: bool, now_ns: u64) {
        self.take_census(now_ns);
        let Some(flight) = self.flights.all.remove(io) else {
            debug_assert!(false, "{io:?} was finished before, or never started");
            return;
        };
        debug_assert!(flight.is_started, "{io:?} was not yet handed out");
        self.flights.orphans -= flight.orphans;
        let mut pages = pages.into_iter();
        for index in flight.index..flight.index + flight.pages {
            let body = pages.next();
            let Some(slot) = self.on_its_way(flight.object, index, io) else {
                continue;
            };
            match body {
                Some(body) => self.arrive(slot, body),
                None => self.miss_out(slot, failed),
            }
        }
        if failed {
            self.note_failure(flight.owner);
        }
    }

    /// The slot in which a read is to bring a page, unless nobody wants it any more.
    pub(super) fn on_its_way(&self, object: ObjectId, index: u64, io: IoId) -> Option<u32> {
        let slot = self.objects.get(object)?.table.get(index)?;
        (self.slots[slot].body.is_none() && self.slots[slot].io == io).then_some(slot)
    }

    /// The page is there.
    fn arrive(&mut self, id: u32, body: P) {
        self.absent_pages -= 1;
        let slot = &mut self.slots[id];
        slot.body = Some(body);
        let (owner, is_ahead) = (slot.owner, slot.is_ahead);
        if is_ahead {
            self.accounts_of(owner).prefetched += 1;
        }
        self.shelve_new(id);
    }

    /// The page did not come.
    fn miss_out(&mut self, id: u32, failed: bool) {
        let slot = &self.slots[id];
        let (owner, born, waiters) = (slot.owner, slot.born, slot.waiters);
        if failed {
            self.accounts_of(owner).failed += 1;
        }
        if failed && waiters > 0 {
            for waiting in self.readers.values_mut().filter_map(|r| r.waiting.as_mut()) {
                waiting.has_failed |= waiting.slot == Some((id, born));
            }
        }
        self.release_claim(id);
        self.strike_out(id);
    }

    /// Takes back a read that was not started.
    pub(super) fn cancel(&mut self, io: IoId) {
        let Some(flight) = self.flights.all.remove(io) else {
            return;
        };
        debug_assert!(!flight.is_started && flight.orphans == 0);
        for index in flight.index..flight.index + flight.pages {
            if let Some(id) = self.on_its_way(flight.object, index, io) {
                self.release_claim(id);
                self.strike_out(id);
            }
        }
    }
}
