//! Operations begin, end, and are cancelled.

use std::time::Instant;

use standpipe_shm::lane::Side;

use super::attached::Look;
use super::buffer::Buffers;
use super::flight::{Flight, FlightId};
use super::operation::Operation;
use super::outcome::{Failure, Outcome};
use super::timers::Due;
use super::{EndId, Ring};

impl Ring {
    /// From now on it is under way.
    pub(super) fn insert(&mut self, flight: Flight) -> FlightId {
        let token = flight.token;
        let id = self.flights.insert(flight);
        self.tokens.insert(token, id);
        id
    }

    /// Begins one that is under way: it is complete, queued on its end, or due at some time afterwards.
    pub(super) fn start(&mut self, id: FlightId) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        match flight.operation {
            Operation::Timeout { after } => {
                // A time that never comes never comes.
                flight.due = Instant::now().checked_add(after);
                if let Some(due) = flight.due {
                    self.timers.add(due, Due::Flight(id));
                }
            }
            Operation::Cancel { token } => self.start_cancel(id, token),
            Operation::OpenFifo { .. } => self.start_opening(id),
            #[cfg(feature = "file")]
            Operation::Splice { .. } => self.start_splice(id),
            _ => self.start_on_end(id),
        }
    }

    pub(super) fn start_on_end(&mut self, id: FlightId) {
        let place = self.flights[id].operation.place();
        let Some((end, side)) = place else { return };
        let Some(attached) = self.ends.get_mut(end) else {
            return self.start_on_other(id, end);
        };
        let Some(side) = side else {
            attached.polls.push(id);
            return self.look_at_poll(end, id);
        };
        let queue = attached.queue(side);
        queue.push_back(id);
        // Behind others it has to wait for its turn.
        if queue.len() == 1 {
            self.step(end, side, Look::Lane);
        }
    }

    fn start_cancel(&mut self, id: FlightId, token: u64) {
        let is_itself = self.flights[id].token == token;
        let result = if !is_itself && self.cancel_by_token(token) {
            Ok(Outcome::Cancelled)
        } else {
            Err(Failure::NotFound(token))
        };
        self.finish(id, result);
    }

    /// Says whether there was such an operation under way.
    pub(super) fn cancel_by_token(&mut self, token: u64) -> bool {
        let target = self.tokens.get(&token).copied();
        let target = target.filter(|target| self.flights.contains_key(*target));
        if let Some(target) = target {
            self.cancel_flight(target);
        }
        target.is_some()
    }

    /// Takes an operation out of wherever it waits; it completes.
    pub(super) fn cancel_flight(&mut self, id: FlightId) {
        if !self.stop_elsewhere(id) {
            return;
        }
        let flight = &self.flights[id];
        if let Some(due) = flight.due {
            self.timers.remove(due, Due::Flight(id));
        }
        let moved_bytes = flight.moved_bytes;
        if let Some((end, side)) = flight.operation.place()
            && let Some(attached) = self.ends.get_mut(end)
        {
            match side {
                Some(side) => {
                    let queue = attached.queue(side);
                    let was_first = queue.front() == Some(&id);
                    queue.retain(|other| *other != id);
                    if was_first && !queue.is_empty() {
                        // What comes next may want less.
                        self.give_turn(end, Look::Full);
                    }
                }
                None => attached.polls.retain(|other| *other != id),
            }
        }
        let result = if moved_bytes > 0 {
            Ok(Outcome::Bytes(moved_bytes))
        } else {
            Err(Failure::Cancelled)
        };
        self.finish(id, result);
    }

    pub(super) fn cancel_all_of(&mut self, end: EndId) {
        let Some(attached) = self.ends.get_mut(end) else {
            return;
        };
        let mut all: Vec<FlightId> = attached.polls.clone();
        all.extend(attached.reads.iter().chain(&attached.writes));
        for id in all {
            self.cancel_flight(id);
        }
    }

    /// An operation is complete, and in no queue any more.
    pub(super) fn finish(&mut self, id: FlightId, result: Result<Outcome, Failure>) {
        if let Some(flight) = self.flights.remove(id) {
            self.complete(flight, result);
        }
    }

    pub(super) fn complete(&mut self, flight: Flight, result: Result<Outcome, Failure>) {
        let has_succeeded = match result {
            // A write that was cut short was cancelled, or nobody reads.
            Ok(Outcome::Bytes(bytes)) => bytes > 0 && flight.rest_bytes() == 0,
            Ok(_) => true,
            Err(_) => false,
        };
        let buffers = flight.operation.into_buffers();
        self.done.push(flight.token, result, buffers, true);
        if has_succeeded {
            self.starting.extend(flight.next);
        } else {
            self.break_links(flight.next);
        }
    }

    fn break_links(&mut self, mut next: Option<FlightId>) {
        while let Some(flight) = next.and_then(|id| self.flights.remove(id)) {
            next = flight.next;
            let buffers = flight.operation.into_buffers();
            let broken = Err(Failure::LinkBroken);
            self.done.push(flight.token, broken, buffers, true);
        }
    }

    /// Begins what was linked to something that has succeeded.
    pub(super) fn begin_linked(&mut self) {
        while let Some(id) = self.starting.pop_front() {
            self.start(id);
        }
    }

    /// Some bytes of a multishot read.
    pub(super) fn arrive(&mut self, id: FlightId, bytes: Vec<u8>) {
        let token = self.flights[id].token;
        let moved = Ok(Outcome::Bytes(bytes.len()));
        self.done
            .push(token, moved, Buffers::One(bytes.into()), false);
    }

    /// Whether a multishot read may read: its own place is for its end. One arrival is always let through,
    /// or it would wait for ever in a ring whose other places are all taken by what waits for it.
    pub(super) fn has_place_for(&self, id: FlightId) -> bool {
        let is_multishot = matches!(self.flights[id].operation, Operation::ReadMultishot { .. });
        !is_multishot || self.free_places() > 0 || self.done.is_empty()
    }

    /// The oldest operation of a side is complete.
    pub(super) fn finish_first(
        &mut self,
        end: EndId,
        side: Side,
        id: FlightId,
        result: Result<Outcome, Failure>,
    ) {
        let queue = self.ends[end].queue(side);
        let first = queue.pop_front();
        debug_assert_eq!(first, Some(id), "only the oldest is tried");
        self.finish(id, result);
    }
}
