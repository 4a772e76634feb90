//! A touch: is the page there, what does the policy want.

use standpipe_core::readahead::{Access, Event, Plan, Window};

use super::policy::Sight;
use super::reader::Waiting;
use super::slots::Place;
use super::{Body, Book, Eviction, IoId, ReaderId, Step};

/// Pages that a reader leaves behind unread are given up when it has touched twice as many as are
/// read ahead for it, and so many more: enough for streams that take turns on one handle.
const STALE_PAGES: u64 = 256;

/// A touch, as [`Book::touch`] takes it.
#[derive(Clone, Copy)]
pub(super) struct Touch {
    pub reader: ReaderId,
    pub index: u64,
    pub count: u64,
    pub is_first: bool,
    pub now_ns: u64,
}

/// A [`Step`] that does not borrow the book.
enum Outcome {
    Ready(u32),
    Pending(IoId),
    Failed,
    NoRoom,
    End,
}

impl<P: Body> Book<P> {
    /// A read touches the page `index`, and wants `count` pages from there on, this one included.
    /// `is_first` says that this is the first page of the read.
    ///
    /// After anything but [`Step::Ready`], touching the same page again is the same touch: it does
    /// not count twice, and the policy is not asked again.
    pub fn touch(
        &mut self,
        reader: ReaderId,
        index: u64,
        count: u64,
        is_first: bool,
        now_ns: u64,
    ) -> Step<'_, P> {
        let touch = Touch {
            reader,
            index,
            count: count.max(1),
            is_first,
            now_ns,
        };
        match self.step(touch) {
            Outcome::Ready(id) => self.slots[id]
                .body
                .as_ref()
                .map_or(Step::NoRoom, Step::Ready),
            Outcome::Pending(io) => Step::Pending(io),
            Outcome::Failed => Step::Failed,
            Outcome::NoRoom => Step::NoRoom,
            Outcome::End => Step::End,
        }
    }

    fn step(&mut self, touch: Touch) -> Outcome {
        let Some(reader) = self.readers.get_mut(touch.reader) else {
            return Outcome::End;
        };
        let Some(object) = self.objects.get(reader.object) else {
            return Outcome::End;
        };
        if touch.index >= object.end {
            self.stop_waiting(touch.reader);
            return Outcome::End;
        }
        reader.active_ns = touch.now_ns;
        match reader.waiting {
            None => {}
            Some(waiting) if waiting.index == touch.index => return self.go_on(touch, waiting),
            Some(_) => self.stop_waiting(touch.reader),
        }
        self.begin(touch)
    }

    /// The first touch of a page by a read.
    fn begin(&mut self, touch: Touch) -> Outcome {
        let reader = &mut self.readers[touch.reader];
        let object = &mut self.objects[reader.object];
        reader.touched += u64::from(reader.last != Some(touch.index));
        let found = object.table.get(touch.index);
        let (mut is_marked, mut is_present) = (false, false);
        if let Some(id) = found {
            let slot = &mut self.slots[id];
            is_marked = std::mem::take(&mut slot.is_marked);
            is_present = slot.body.is_some();
        }
        let accounts = &mut reader.accounts;
        match (found, is_present) {
            (None, _) => accounts.misses += 1,
            (_, true) => accounts.hits += 1,
            (_, false) => accounts.waits += 1,
        }
        let access = Access {
            index: touch.index,
            count: touch.count,
            is_first: touch.is_first,
            is_cached: found.is_some(),
            is_marked,
            reader: super::key_index(touch.reader),
        };
        let sight = Sight {
            table: &object.table,
            end: object.end,
            is_congested: object.is_congested,
            budget_pages: self.options.budget_pages,
            streams: self.streams + u64::from(!reader.is_stream),
            speed: object.speed,
        };
        let policy = reader.policy.as_mut().or(object.shared.as_mut());
        let plan = policy.map_or_else(Plan::none, |policy| policy.access(&access, &sight));
        if found.is_none() || is_marked {
            accounts.readahead_calls += 1;
            self.take_census(touch.now_ns);
            self.give_up_stale(touch.reader);
        }
        match found {
            Some(id) if plan.is_none() && is_present => {
                // by far the most common
                self.use_page(touch.reader, id);
                return Outcome::Ready(id);
            }
            Some(_) if plan.is_none() => {}
            Some(id) => self.carry_out_around(touch, &plan, id),
            None => self.carry_out(touch, true, &plan),
        }
        self.look(touch, found)
    }

    /// Whether the page is there, now that all that could be done is done.
    fn look(&mut self, touch: Touch, found: Option<u32>) -> Outcome {
        let reader = &self.readers[touch.reader];
        let Some(id) = self.objects[reader.object].table.get(touch.index) else {
            self.wait(touch, None, false);
            return Outcome::NoRoom;
        };
        if self.slots[id].body.is_some() {
            self.use_page(touch.reader, id);
            return Outcome::Ready(id);
        }
        let slot = &mut self.slots[id];
        let is_late = found == Some(id) && slot.is_ahead;
        let is_new = is_late && !slot.is_late;
        slot.is_late |= is_late;
        let (io, owner) = (slot.io, slot.owner);
        if is_new {
            self.accounts_of(owner).late += 1;
        }
        self.wait(touch, Some(id), is_late);
        self.flights.hurry(io);
        Outcome::Pending(io)
    }

    /// Another touch of the page that the reader waits for.
    fn go_on(&mut self, touch: Touch, waiting: Waiting) -> Outcome {
        if waiting.has_failed {
            self.stop_waiting(touch.reader);
            return Outcome::Failed;
        }
        let object = self.readers[touch.reader].object;
        let found = self.objects[object].table.get(touch.index);
        if let Some(id) = found
            && self.slots[id].body.is_some()
        {
            self.stop_waiting(touch.reader);
            self.use_page(touch.reader, id);
            if waiting.is_late {
                let late = Event::Late {
                    index: touch.index,
                    waited_ns: touch.now_ns.saturating_sub(waiting.since_ns),
                };
                self.note(touch.reader, &late);
            }
            return Outcome::Ready(id);
        }
        if found.is_none() {
            // what was planned did not come, or had to go again: just what is asked for
            let asked = Plan {
                windows: vec![Window {
                    start: touch.index,
                    size: touch.count,
                    async_size: 0,
                }],
            };
            self.carry_out(touch, true, &asked);
        }
        let since_ns = waiting.since_ns;
        let outcome = self.look(touch, None);
        if let Some(waiting) = &mut self.readers[touch.reader].waiting {
            waiting.since_ns = since_ns;
        }
        outcome
    }

    /// A read has got the page.
    fn use_page(&mut self, reader: ReaderId, id: u32) {
        let born = self.slots.born();
        let slot = &mut self.slots[id];
        let last = self.readers[reader].last.replace(slot.index);
        if !slot.is_unread {
            // of reads of a few bytes, the first counts; of readers side by side, too
            let is_again = last != Some(slot.index) && born - slot.used_at >= self.apart_pages;
            slot.is_reused |= is_again;
            return;
        }
        slot.is_unread = false;
        slot.used_at = born;
        let (owner, is_ahead) = (slot.owner, slot.is_ahead);
        if is_ahead {
            self.accounts_of(owner).used += 1;
        }
        self.release_claim(id);
        if self.options.eviction == Eviction::Streaming {
            self.unlist(id);
            self.shelve(
                id,
                if is_ahead {
                    Place::Spent
                } else {
                    Place::Recent
                },
            );
        }
    }

    fn wait(&mut self, touch: Touch, slot: Option<u32>, is_late: bool) {
        self.stop_waiting(touch.reader);
        let slot = slot.map(|id| {
            let slot = &mut self.slots[id];
            slot.waiters += 1;
            (id, slot.born)
        });
        self.starved += u64::from(slot.is_none());
        self.readers[touch.reader].waiting = Some(Waiting {
            index: touch.index,
            slot,
            is_starved: slot.is_none(),
            since_ns: touch.now_ns,
            is_late,
            has_failed: false,
        });
    }

    /// The reader does not wait for its page any more.
    pub(super) fn stop_waiting(&mut self, reader: ReaderId) {
        let waiting = self.readers[reader].waiting.take();
        self.starved -= u64::from(waiting.is_some_and(|waiting| waiting.is_starved));
        if let Some((id, born)) = waiting.and_then(|waiting| waiting.slot)
            && self.slots.get(id).is_some_and(|slot| slot.born == born)
        {
            self.slots[id].waiters -= 1;
        }
    }

    fn give_up_stale(&mut self, id: ReaderId) {
        let reader = &self.readers[id];
        let patience = reader.claimed * 2 + STALE_PAGES;
        self.give_up_unread(id, reader.touched.saturating_sub(patience));
    }
}
