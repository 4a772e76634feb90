//! Objects and readers come and go; readers seek and give advice.

use std::ops::Range;

use standpipe_core::readahead::{Event, Speed};

use super::object::Object;
use super::reader::Reader;
use super::{Advice, Body, Book, ObjectId, PolicyKind, ReaderId};

impl<P: Body> Book<P> {
    /// A new object of `end` pages, on a store that is about as fast as `speed`.
    pub fn add_object(&mut self, end: u64, speed: Speed) -> ObjectId {
        self.objects.insert(Object::new(end, speed))
    }

    /// The number of pages of `object`; 0 once it is forgotten.
    #[must_use]
    pub fn end(&self, object: ObjectId) -> u64 {
        self.objects.get(object).map_or(0, |object| object.end)
    }

    /// The object was truncated, or has grown. The last page of the shorter of the two is dropped,
    /// since what it holds has changed, and all behind it.
    pub fn set_end(&mut self, object: ObjectId, end: u64) {
        let Some(entry) = self.objects.get_mut(object) else {
            return;
        };
        if entry.is_forgotten {
            return;
        }
        let shorter = end.min(entry.end);
        entry.end = end;
        self.drop_from(object, shorter.saturating_sub(1));
    }

    /// What the store of `object` was measured to do.
    pub fn set_speed(&mut self, object: ObjectId, speed: Speed) {
        if let Some(object) = self.objects.get_mut(object) {
            object.speed = speed;
        }
    }

    /// From now on no read of `object` has more than `pages` pages (at least one): what is to be read in a
    /// row is read in several, so that its beginning need not wait for its end.
    pub fn set_most_of_a_read(&mut self, object: ObjectId, pages: u64) {
        if let Some(object) = self.objects.get_mut(object) {
            object.most_of_a_read = usize::try_from(pages).unwrap_or(usize::MAX).max(1);
        }
    }

    /// The store of `object` has more to do than it should: policies leave out what can wait.
    pub fn set_congested(&mut self, object: ObjectId, is_congested: bool) {
        if let Some(object) = self.objects.get_mut(object) {
            object.is_congested = is_congested;
        }
    }

    /// Drops all pages of `object`, cancels what is not yet being read; what is being read is
    /// dropped when it arrives. The id is no longer valid, but for readers that are still open:
    /// their touches find [`Step::End`](super::Step::End).
    pub fn forget(&mut self, object: ObjectId) {
        self.drop_from(object, 0);
        let Some(entry) = self.objects.get_mut(object) else {
            return;
        };
        entry.end = 0;
        entry.is_forgotten = true;
        if entry.readers == 0 {
            self.objects.remove(object);
        }
    }

    /// A new reader of `object`, whose policy reads at most `max_pages` ahead.
    pub fn open(&mut self, object: ObjectId, policy: PolicyKind, max_pages: u64) -> ReaderId {
        if let Some(object) = self.objects.get_mut(object) {
            object.readers += 1;
            if policy.is_shared() && object.shared.is_none() {
                object.shared = Some(policy.policy(max_pages));
            }
        }
        self.readers.insert(Reader::new(object, policy, max_pages))
    }

    /// The reader is gone: what is queued for it alone is cancelled, and what was read ahead for it
    /// goes first.
    pub fn close(&mut self, reader: ReaderId) {
        if !self.readers.contains_key(reader) {
            return;
        }
        self.stop_waiting(reader);
        self.abandon(reader);
        let closed = Event::Closed {
            reader: super::key_index(reader),
        };
        self.note(reader, &closed);
        let Some(gone) = self.readers.remove(reader) else {
            return;
        };
        self.streams -= u64::from(gone.is_stream);
        self.closed += gone.accounts;
        if let Some(object) = self.objects.get_mut(gone.object) {
            object.readers -= 1;
            if object.readers == 0 {
                object.shared = None;
            }
            if object.readers == 0 && object.is_forgotten {
                self.objects.remove(gone.object);
            }
        }
    }

    /// The reader goes on at `index`. Unless that is cached or on its way, this is like
    /// [`Book::close`] for what was read ahead for it. Not needed for correctness: without it, the
    /// pages go once the reader has touched enough others.
    pub fn seek(&mut self, reader: ReaderId, index: u64) {
        let Some(entry) = self.readers.get(reader) else {
            return;
        };
        if self.is_cached(entry.object, index) {
            return;
        }
        self.stop_waiting(reader);
        self.abandon(reader);
    }

    /// What the reader says about `range`, in pages; for the first three pieces of advice, about
    /// all that it reads.
    pub fn advise(&mut self, reader: ReaderId, advice: Advice, range: Range<u64>) {
        let Some(entry) = self.readers.get_mut(reader) else {
            return;
        };
        let (kind, max_pages) = (entry.kind, entry.max_pages);
        let (kind, max_pages) = match advice {
            Advice::Normal => (kind, max_pages),
            Advice::Sequential => (kind, max_pages * 2),
            Advice::Random => (PolicyKind::Off, max_pages),
            Advice::WillNeed => return self.read_range(reader, range),
            Advice::DontNeed => return self.drop_range(reader, range),
        };
        entry.policy = (!kind.is_shared()).then(|| kind.policy(max_pages));
    }

    fn drop_range(&mut self, reader: ReaderId, range: Range<u64>) {
        let object = self.readers[reader].object;
        let Some(entry) = self.objects.get(object) else {
            return;
        };
        for index in entry.table.within(range) {
            let id = self.objects[object].table.get(index);
            if let Some(id) = id.filter(|&id| self.slots[id].body.is_some()) {
                self.drop_page(id);
            }
        }
    }

    /// Nothing that was read for the reader and not used is going to be used.
    fn abandon(&mut self, reader: ReaderId) {
        self.give_up_unread(reader, u64::MAX);
        let flights = self.flights.all.iter();
        let own = flights.filter(|(_, flight)| flight.owner == reader);
        let own: Vec<_> = own.map(|(io, flight)| (io, flight.object)).collect();
        for (io, object) in own {
            let flight = &self.flights.all[io];
            let pages = flight.index..flight.index + flight.pages;
            let is_started = flight.is_started;
            let pages = pages.filter_map(|index| self.on_its_way(object, index, io));
            let pages: Vec<u32> = pages.collect();
            if !is_started && pages.iter().all(|&id| self.slots[id].waiters == 0) {
                self.cancel(io);
                continue;
            }
            for id in pages {
                self.release_claim(id);
            }
        }
    }

    /// Drops the pages of an object from `first` on, present or not.
    fn drop_from(&mut self, object: ObjectId, first: u64) {
        let Some(entry) = self.objects.get(object) else {
            return;
        };
        let mut pages = entry.table.within(first..u64::MAX);
        // the range leaves out the last number there is
        pages.extend(entry.table.get(u64::MAX).map(|_| u64::MAX));
        for index in pages {
            let Some(id) = self.objects[object].table.get(index) else {
                continue;
            };
            if self.slots[id].body.is_some() {
                self.drop_page(id);
            } else {
                self.drop_unarrived(id);
            }
        }
    }

    /// Drops a page on its way, and with it all behind it in the same read.
    fn drop_unarrived(&mut self, id: u32) {
        let (io, index) = (self.slots[id].io, self.slots[id].index);
        self.release_claim(id);
        self.strike_out(id);
        let Some(flight) = self.flights.all.get_mut(io) else {
            return;
        };
        if flight.is_started {
            self.flights.orphan(io);
            return;
        }
        flight.pages = flight.pages.min(index - flight.index);
        if flight.pages == 0 {
            self.flights.all.remove(io);
        }
    }

    /// Tells the policy of a reader what came of its plans.
    pub(super) fn note(&mut self, reader: ReaderId, event: &Event) {
        let Some(reader) = self.readers.get_mut(reader) else {
            return;
        };
        let object = self.objects.get_mut(reader.object);
        let shared = object.and_then(|object| object.shared.as_mut());
        if let Some(policy) = reader.policy.as_mut().or(shared) {
            policy.note(event);
        }
    }

    pub(super) fn note_failure(&mut self, reader: ReaderId) {
        self.note(reader, &Event::Failed);
    }
}
