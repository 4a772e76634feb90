//! Ends take turns; what nobody here can complete is armed.

use std::io;
use std::mem::{self, MaybeUninit};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use slotmap::KeyData;
use standpipe_core::size::PIPE_BUF;
use standpipe_shm::lane::Side;
use standpipe_shm::signals;

use super::alarm::timespec;
use super::attached::{Attached, Look, Watch};
use super::attempt::{Attempt, attempt};
use super::flight::FlightId;
use super::others::{self, Job};
use super::outcome::{Failure, Outcome};
use super::timers::Due;
use super::{EndId, Ring};

/// Events that one system call brings at most.
const EVENTS_AT_ONCE: usize = 256;

/// Turns in a row at most: a write, or many reads, that a partner elsewhere keeps up with would have no end. So
/// many take about a millisecond; and ends that serve each other seldom have as many between two reaps.
const TURNS_AT_ONCE: usize = 1024;

/// What the alarm's event carries: no key has this value.
pub const ALARM: u64 = 0;

/// What the event of a new lane carries: nor this one.
pub const NEWS: u64 = 1;

/// As long as ends of the ring serve each other, the kernel is asked with every so many reaps.
const REAPS_PER_QUESTION: u32 = 16;

/// A peer that is killed between moving bytes and ringing leaves a sleeper that nobody rings for: who waits
/// looks up now and then.
const LOOK_UP: Duration = Duration::from_secs(1);

/// A write that waits for less than a page is told of a page. And who has an end that reads and writes is
/// told of bytes, not of room.
const LOOK_UP_FOR_ROOM: Duration = Duration::from_millis(10);

impl Ring {
    /// Completes what can be, without waiting.
    pub(super) fn progress(&mut self) -> io::Result<()> {
        self.expire();
        self.run_kernel()?;
        self.run_turns();
        self.reaps_since_asked += 1;
        if self.done.is_empty() || self.reaps_since_asked >= REAPS_PER_QUESTION {
            self.reaps_since_asked = 0;
            self.arm_all();
            self.run_turns();
            self.take_events(Some(Duration::ZERO))?;
            self.run_turns();
            if self.done.is_empty() {
                // What got on by an event may have to wait again: for pages first, for room then.
                self.arm_all();
                self.run_turns();
            }
        }
        Ok(())
    }

    /// Waits for an event, but no longer than `limit`; not if turns are due.
    pub(super) fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let look_up_at = *self.look_up_at.get_or_insert(now + LOOK_UP);
        if look_up_at <= now {
            self.look_up_at = Some(now + LOOK_UP);
            self.look_at_all();
            return Ok(());
        }
        let due = self
            .timers
            .next()
            .map(|at| at.saturating_duration_since(now));
        let limits = [limit, due, Some(look_up_at - now)];
        match self.take_events(limits.into_iter().flatten().min()) {
            // What the kernel completes interrupts who submitted it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && self.run_kernel()? => {
                Ok(())
            }
            // As from a blocking read or write: it goes on.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && signals::all_restart() => {
                Ok(())
            }
            taken => taken,
        }
    }

    fn look_at_all(&mut self) {
        let waiting = self.ends.iter().filter(|(_, end)| !end.is_idle());
        let ids: Vec<EndId> = waiting.map(|(id, _)| id).collect();
        for id in ids {
            self.give_turn(id, Look::Full);
        }
    }

    fn take_events(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(timespec);
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_AT_ONCE];
        let (events, _) = epoll::wait(&self.set, &mut room, timeout.as_ref())?;
        for event in &*events {
            match event.data.u64() {
                ALARM => {}
                NEWS => self.hear_of_lanes(),
                other if others::is_other(other) => self.hear(other),
                end => self.hear_of(KeyData::from_ffi(end).into()),
            }
        }
        Ok(())
    }

    fn hear_of(&mut self, id: EndId) {
        if let Some(attached) = self.ends.get_mut(id) {
            attached.is_quiet = false;
            self.give_turn(id, Look::Full);
        }
    }

    /// Some pipes have lanes now, of which their kernel pipes do not tell. Rare: it is the other way round
    /// as a rule, the ring's own reading makes them.
    fn hear_of_lanes(&mut self) {
        // As an eventfd has it: 8 bytes, and quiet afterwards.
        let _ = rustix::io::read(&*self.news, &mut [0; 8]);
        let concerned =
            |end: &Attached| !end.is_idle() && (!end.is_watched() || self.has_left(end));
        let concerned = self.ends.iter().filter(|(_, end)| concerned(end));
        let ids: Vec<EndId> = concerned.map(|(id, _)| id).collect();
        for id in ids {
            // Whoever comes and goes meanwhile: it is looked at.
            self.ends[id].is_quiet = false;
            self.leave_unarmed(id);
        }
        self.arm_all();
    }

    /// Whether others, who may be gone already, left something to do in a lane that is this ring's alone now.
    fn has_left(&self, attached: &Attached) -> bool {
        attached.end.has_lane()
            && attached.watch == Watch::Pipe
            && (!attached.polls.is_empty() || self.has_work_for(attached))
    }

    /// Completes what is due.
    fn expire(&mut self) {
        if self.timers.next().is_none() {
            return;
        }
        let now = Instant::now();
        while let Some(due) = self.timers.pop_due(now) {
            match due {
                Due::Flight(id) => self.fall_due(id),
                Due::End(id) => {
                    if let Some(attached) = self.ends.get_mut(id) {
                        attached.looks_up = false;
                        self.give_turn(id, Look::Full);
                    }
                }
            }
        }
    }

    fn fall_due(&mut self, id: FlightId) {
        let flight = &mut self.flights[id];
        flight.due = None;
        if matches!(flight.job, Some(Job::Opening(_))) {
            self.try_opening(id);
        } else {
            self.finish(id, Ok(Outcome::Expired));
        }
    }

    /// The end is looked at, behind those that wait for their turn already.
    pub(super) fn give_turn(&mut self, id: EndId, look: Look) {
        let Some(attached) = self.ends.get_mut(id) else {
            return;
        };
        if attached.turn == Look::None {
            self.ready.push_back(id);
        }
        attached.turn = attached.turn.max(look);
    }

    /// Other ends of the same pipe may find something.
    pub(super) fn give_turn_to_peers(&mut self, id: EndId) {
        for index in 0..self.ends[id].peers.len() {
            let peer = self.ends[id].peers[index];
            if !self.ends[peer].is_idle() {
                self.give_turn(peer, Look::Lane);
            }
        }
    }

    /// Gives the turns that are due, and those that follow from them; but not more than so many: who is left
    /// stays ready.
    pub(super) fn run_turns(&mut self) {
        self.begin_linked();
        for _ in 0..TURNS_AT_ONCE {
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            self.take_turn(id);
            self.begin_linked();
        }
    }

    fn take_turn(&mut self, id: EndId) {
        if others::has(id) {
            return self.take_turn_of_foreign(id);
        }
        let Some(attached) = self.ends.get_mut(id) else {
            return;
        };
        let look = std::mem::take(&mut attached.turn);
        self.step(id, Side::Reader, look);
        self.step(id, Side::Writer, look);
        self.look_at_polls(id);
    }

    /// One try at the oldest operation of a side.
    pub(super) fn step(&mut self, end: EndId, side: Side, look: Look) {
        let Some(attached) = self.ends.get_mut(end) else {
            return;
        };
        let Some(&id) = attached.queue(side).front() else {
            return;
        };
        if side == Side::Reader && look == Look::Lane && !attached.end.may_have_bytes() {
            return self.leave_unarmed(end);
        }
        if !self.has_place_for(id) {
            self.stalled.push(end);
            return;
        }
        let tried = attempt(&self.ends[end].end, &mut self.flights[id]);
        self.settle(end, side, id, tried);
    }

    /// What a try at the oldest operation of a side means for it, and for others.
    pub(super) fn settle(&mut self, end: EndId, side: Side, id: FlightId, tried: Attempt) {
        match tried {
            Attempt::Blocked => return self.leave_blocked(end, side, id),
            Attempt::Moved => {}
            Attempt::Elsewhere => return,
            Attempt::Arrived(bytes) => self.arrive(id, bytes),
            Attempt::Done(result) => self.finish_first(end, side, id, result),
        }
        self.give_turn_to_peers(end);
        if !self.ends[end].queue(side).is_empty() {
            self.give_turn(end, Look::Full);
        }
    }

    /// It found nothing, with a look at everything.
    fn leave_blocked(&mut self, end: EndId, side: Side, id: FlightId) {
        if !self.ends[end].is_watched() {
            return self.leave_unarmed(end);
        }
        match side {
            Side::Reader => self.ends[end].is_quiet = true,
            Side::Writer => {
                let rest_bytes = self.flights[id].rest_bytes();
                self.look_up_for_room(end, rest_bytes);
            }
        }
    }

    fn look_up_for_room(&mut self, end: EndId, wanted_bytes: usize) {
        let is_small = wanted_bytes < PIPE_BUF;
        let attached = &mut self.ends[end];
        if (is_small || attached.end.can_read()) && !attached.looks_up {
            attached.looks_up = true;
            let at = Instant::now() + LOOK_UP_FOR_ROOM;
            self.timers.add(at, Due::End(end));
        }
    }

    pub(super) fn leave_unarmed(&mut self, id: EndId) {
        let attached = &mut self.ends[id];
        if !attached.is_unarmed && !attached.is_armed() {
            attached.is_unarmed = true;
            self.unarmed.push(id);
        }
    }

    /// Has the ring's descriptor tell of all that wait: each is watched, and then tried once more, which
    /// arms it.
    pub(super) fn arm_all(&mut self) {
        for index in 0..self.unarmed.len() {
            let id = self.unarmed[index];
            let Some(attached) = self.ends.get_mut(id) else {
                continue;
            };
            attached.is_unarmed = false;
            if attached.is_idle() {
                continue;
            }
            if !attached.is_watched() {
                attached.unwatch(&self.set);
            }
            match attached.watch(id, &self.set, &self.news) {
                Ok(()) => self.give_turn(id, Look::Full),
                Err(error) => self.fail_all_of(id, &error),
            }
        }
        self.unarmed.clear();
    }

    /// Nobody would tell of them: they end with what the kernel said.
    fn fail_all_of(&mut self, id: EndId, error: &io::Error) {
        let attached = &mut self.ends[id];
        let mut all = std::mem::take(&mut attached.polls);
        all.extend(attached.reads.drain(..));
        all.extend(attached.writes.drain(..));
        for id in all {
            let moved_bytes = self.flights[id].moved_bytes;
            let result = if moved_bytes > 0 {
                Ok(Outcome::Bytes(moved_bytes))
            } else {
                Err(Failure::Io(same(error)))
            };
            self.finish(id, result);
        }
    }

    fn look_at_polls(&mut self, id: EndId) {
        let count = self.ends[id].polls.len();
        // Those that complete are taken off: from the last to the first.
        for index in (0..count).rev() {
            let flight = self.ends[id].polls[index];
            self.look_at_poll(id, flight);
        }
    }

    pub(super) fn look_at_poll(&mut self, end: EndId, id: FlightId) {
        let attached = &mut self.ends[end];
        if attached.watch == Watch::Pollable {
            // Armed before it is looked at. Fails only if the end was not watched.
            let _ = attached.end.pollable();
        }
        match attempt(&attached.end, &mut self.flights[id]) {
            Attempt::Done(result) => {
                attached.polls.retain(|other| *other != id);
                self.finish(id, result);
            }
            _ if !attached.is_watched() => self.leave_unarmed(end),
            _ if attached.end.can_write() && self.flights[id].operation.polls_for_room() => {
                self.look_up_for_room(end, PIPE_BUF);
            }
            _ => {}
        }
    }

    /// There are places again.
    pub(super) fn resume_stalled(&mut self) {
        for id in mem::take(&mut self.stalled) {
            if others::has(id) {
                self.ready.push_back(id);
            } else {
                self.give_turn(id, Look::Full);
            }
        }
    }
}

/// The same error once more.
fn same(error: &io::Error) -> io::Error {
    error
        .raw_os_error()
        .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::completion::Operation;
    use crate::pipe::pipe;

    /// As by one that was killed before it rang: the ring's set does not have the end any more.
    #[test]
    fn who_waits_a_little_at_a_time_finds_what_nobody_rang_for() {
        let (reader, mut writer) = pipe().unwrap();
        let mut ring = Ring::new(8).unwrap();
        let reader = ring.attach(reader);
        ring.submit(1, Operation::read(reader, vec![0; 1])).unwrap();
        assert_eq!(ring.reap().unwrap().count(), 0);
        assert!(ring.ends[reader].watch == Watch::Pipe);
        epoll::delete(&ring.set, ring.ends[reader].end.borrow()).unwrap();
        writer.write_all(b"x").unwrap();
        let a_little = LOOK_UP / 4;
        let mut waits = 0;
        while ring.wait(Some(a_little)).unwrap().count() == 0 {
            waits += 1;
            assert!(waits < 40, "nobody looked up");
        }
    }
}
