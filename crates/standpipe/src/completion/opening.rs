//! FIFOs that are being opened.
//!
//! One inotify instance tells of all of them who opens what; what it can't tell of, the time does (see
//! [`fifo::opening`](crate::fifo::opening)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use rustc_hash::FxHashMap;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::inotify;
use standpipe_shm::private_fd::PrivateFd;

use super::flight::FlightId;
use super::operation::Operation;
use super::others::Job;
use super::outcome::{Failure, Outcome};
use super::timers::Due;
use super::{Ring, others};
use crate::end::{End, registry};
use crate::fifo::opening::{Opening, Place};
use crate::fifo::{Access, Options};

/// Which openings wait for which FIFOs.
#[derive(Default)]
pub struct Watches {
    /// Since the first one had to wait. None as well where a user has no more of them
    /// (`max_user_instances`).
    inotify: Option<PrivateFd>,
    waiting: FxHashMap<i32, Vec<FlightId>>,
}

/// One of them.
pub struct Waiting {
    opening: Opening,
    watch: Option<i32>,
}

impl Watches {
    /// From now on, who opens the FIFO is told of to `set`. Says by which number.
    fn add(&mut self, place: &Place, id: FlightId, set: impl AsFd) -> io::Result<i32> {
        if self.inotify.is_none() {
            let _no_fork = registry::hold_forks();
            let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
            let inotify = PrivateFd::from(inotify::init(flags)?);
            let data = EventData::new_u64(others::OPENS);
            epoll::add(set, &inotify, data, EventFlags::IN)?;
            self.inotify = Some(inotify);
        }
        let inotify = self.inotify.as_ref().expect("made above");
        let watch = place.watch_opens(inotify)?;
        // Two of one FIFO have one watch.
        self.waiting.entry(watch).or_default().push(id);
        Ok(watch)
    }

    fn remove(&mut self, watch: i32, id: FlightId) {
        let Some(waiting) = self.waiting.get_mut(&watch) else {
            return;
        };
        waiting.retain(|other| *other != id);
        if waiting.is_empty() {
            self.waiting.remove(&watch);
            if let Some(inotify) = &self.inotify {
                // It was there.
                let _ = inotify::remove_watch(inotify, watch);
            }
        }
    }

    /// Whose FIFOs were opened.
    fn take(&self) -> Vec<FlightId> {
        let mut told = Vec::new();
        let Some(inotify) = &self.inotify else {
            return told;
        };
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut room);
        while let Ok(event) = events.next() {
            match self.waiting.get(&event.wd()) {
                Some(waiting) => told.extend(waiting),
                // There were more than it keeps: it may have been any.
                None if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) => {
                    told.extend(self.waiting.values().flatten());
                }
                None => {}
            }
        }
        told
    }
}

impl Ring {
    pub(super) fn start_opening(&mut self, id: FlightId) {
        let Operation::OpenFifo {
            path,
            access,
            options,
        } = &self.flights[id].operation
        else {
            return;
        };
        let (path, access, options) = (path.clone(), *access, *options);
        if access == Access::Both || options.is_nonblocking() {
            // Waits for nobody.
            let opened = options.open(path, access);
            return self.finish_opening(id, opened);
        }
        match self.wait_for_partner(id, &path, access, options) {
            Ok(waiting) => {
                self.flights[id].job = Some(Job::Opening(Box::new(waiting)));
                self.try_opening(id);
            }
            Err(error) => self.finish_opening(id, Err(error)),
        }
    }

    fn wait_for_partner(
        &mut self,
        id: FlightId,
        path: &Path,
        access: Access,
        options: Options,
    ) -> io::Result<Waiting> {
        let place = Place::find(path, access, options)?;
        let watch = self.watches.add(&place, id, &self.set).ok();
        let opening = Opening::begin(place);
        if let (Err(_), Some(watch)) = (&opening, watch) {
            self.watches.remove(watch, id);
        }
        let opening = opening?;
        Ok(Waiting { opening, watch })
    }

    /// Somebody opened the FIFO, or it is time to look whether somebody did.
    pub(super) fn try_opening(&mut self, id: FlightId) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let Some(Job::Opening(waiting)) = &mut flight.job else {
            return;
        };
        match waiting.opening.attempt() {
            Ok(None) if flight.due.is_none() => {
                let due = Instant::now() + waiting.opening.next_look(waiting.watch.is_some());
                flight.due = Some(due);
                self.timers.add(due, Due::Flight(id));
            }
            Ok(None) => {}
            Ok(Some(end)) => self.finish_opening(id, Ok(end)),
            Err(error) => self.finish_opening(id, Err(error)),
        }
    }

    fn finish_opening(&mut self, id: FlightId, opened: io::Result<End>) {
        self.stop_opening(id);
        let result = match opened {
            Ok(end) => Ok(Outcome::Opened(self.attach(end))),
            Err(error) => Err(Failure::Io(error)),
        };
        self.finish(id, result);
    }

    /// Nobody tells of it any more.
    pub(super) fn stop_opening(&mut self, id: FlightId) {
        let flight = &mut self.flights[id];
        let Some(Job::Opening(waiting)) = flight.job.take() else {
            return;
        };
        if let Some(due) = flight.due.take() {
            self.timers.remove(due, Due::Flight(id));
        }
        if let Some(watch) = waiting.watch {
            self.watches.remove(watch, id);
        }
    }

    /// Some FIFOs were opened.
    pub(super) fn hear_opens(&mut self) {
        for id in self.watches.take() {
            self.try_opening(id);
        }
    }
}
