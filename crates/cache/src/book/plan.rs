//! What a policy wants becomes slots for the pages that are not there, and reads to fill them.

use std::ops::Range;

use standpipe_core::readahead::{Plan, Window};

use super::drive::Touch;
use super::evict::Need;
use super::flight::Flight;
use super::ghosts::Fate;
use super::slots::Birth;
use super::{Body, Book, Eviction, ReaderId};

impl<P: Body> Book<P> {
    /// Carries out a plan without evicting the touched page for it.
    pub(super) fn carry_out_around(&mut self, touch: Touch, plan: &Plan, touched: u32) {
        self.slots[touched].waiters += 1;
        self.carry_out(touch, false, plan);
        self.slots[touched].waiters -= 1;
    }

    /// Reads a range ahead, as far as the reader's share goes.
    pub(super) fn read_range(&mut self, reader: ReaderId, range: Range<u64>) {
        let entry = &self.readers[reader];
        if range.is_empty() || !self.objects.contains_key(entry.object) {
            return;
        }
        let room = self.share_of(reader).saturating_sub(entry.claimed);
        let window = Window {
            start: range.start,
            size: (range.end - range.start).min(room),
            async_size: 0,
        };
        // touches nothing
        let touch = Touch {
            reader,
            index: range.start,
            count: 0,
            is_first: false,
            now_ns: entry.active_ns,
        };
        self.read_window(touch, window, &mut None);
    }

    /// Enters the pages of a plan that are not there, and queues their reads. Whatever the plan is,
    /// the touched page is among them if it is absent and there is any room.
    pub(super) fn carry_out(&mut self, touch: Touch, is_absent: bool, plan: &Plan) {
        // before all others, which must not take its room
        let mut demanded = None;
        if is_absent {
            demanded = self.enter(touch, touch.index, Need::Demand);
            if demanded.is_none() {
                return;
            }
        }
        for window in &plan.windows {
            self.read_window(touch, *window, &mut demanded);
        }
        if let Some(id) = demanded {
            self.queue(touch, &[id]);
        }
    }

    /// `demanded` is the slot of the touched page as long as it is in no read.
    fn read_window(&mut self, touch: Touch, window: Window, demanded: &mut Option<u32>) {
        let object = self.readers[touch.reader].object;
        let end = window
            .start
            .saturating_add(window.size)
            .min(self.objects[object].end);
        let mark = window.mark();
        let mut run = std::mem::take(&mut self.run);
        let mut is_full = false;
        for index in window.start..end {
            let found = self.objects[object].table.get(index);
            let new = match found {
                Some(id) => demanded.take_if(|demanded| *demanded == id),
                None if is_full => None,
                None => self.enter(touch, index, Need::Ahead),
            };
            is_full |= found.is_none() && new.is_none();
            match new {
                Some(id) => {
                    self.slots[id].is_marked = mark == Some(index);
                    run.push(id);
                }
                None => self.queue_run(touch, &mut run),
            }
            if is_full && demanded.is_none() {
                break;
            }
        }
        self.queue_run(touch, &mut run);
        self.run = run;
    }

    fn queue_run(&mut self, touch: Touch, run: &mut Vec<u32>) {
        let object = self.readers[touch.reader].object;
        for part in run.chunks(self.objects[object].most_of_a_read) {
            self.queue(touch, part);
        }
        run.clear();
    }

    /// A slot for a page that is to be read, if there is room.
    fn enter(&mut self, touch: Touch, index: u64, need: Need) -> Option<u32> {
        let is_ahead = !(touch.index..touch.index.saturating_add(touch.count)).contains(&index);
        let reader = &mut self.readers[touch.reader];
        if is_ahead && !reader.is_stream {
            // before room is made, which may depend on its share
            reader.is_stream = true;
            self.streams += 1;
        }
        if !self.make_room(touch.reader, need) {
            return None;
        }
        let reader = &mut self.readers[touch.reader];
        let ghost = self.ghosts.take(super::key_bits(reader.object), index);
        reader.accounts.refaults += u64::from(ghost.is_some() && need == Need::Demand);
        let is_reused = ghost == Some(Fate::Used) && self.options.eviction == Eviction::Streaming;
        let id = self.slots.make(&Birth {
            object: reader.object,
            index,
            owner: touch.reader,
            asked_at: reader.touched,
            is_ahead,
            is_reused,
        });
        reader.claimed += 1;
        self.absent_pages += 1;
        self.objects[reader.object].table.insert(index, id);
        Some(id)
    }

    /// One read for pages in a row.
    fn queue(&mut self, touch: Touch, run: &[u32]) {
        let Some(&first) = run.first() else {
            return;
        };
        let (object, index) = (self.slots[first].object, self.slots[first].index);
        let pages = run.len() as u64;
        let io = self.flights.queue(Flight {
            object,
            index,
            pages,
            owner: touch.reader,
            is_started: false,
            is_urgent: touch.count > 0 && (index..index + pages).contains(&touch.index),
            orphans: 0,
        });
        for &id in run {
            self.slots[id].io = io;
        }
    }
}
