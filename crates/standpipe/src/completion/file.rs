//! Files of the page cache: reads, and splices into pipes.
//!
//! What a read lacks is asked for when it is tried, and calls it by its number when it comes: all of a ring
//! are told of by one descriptor, each is tried again when its own pages are there. Reads at an offset are
//! all under way at once; those at the position of the file follow each other.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::event::epoll::{self, EventData, EventFlags};
use slotmap::{Key, KeyData};
use standpipe_cache::cache::{Arrivals, Pending, ReadError};

use super::attached::Look;
use super::attempt::Attempt;
use super::flight::{Flight, FlightId};
use super::operation::Operation;
use super::others::{self, Job, Other};
use super::outcome::{Failure, Outcome};
use super::{EndId, Ring};
use crate::end::{End, registry};
use crate::file::{File, Spliced};

/// A file that belongs to a ring.
pub struct AttachedFile {
    file: Arc<File>,
    /// Reads at its position, oldest first: only the first is tried.
    reads: VecDeque<FlightId>,
}

/// A read or a splice that has begun.
pub struct FileJob {
    file: Arc<File>,
    pending: Pending,
    /// What there is to be moved yet, as far as is known: of a splice, what the pipe did not take.
    pub rest_bytes: usize,
}

impl Ring {
    /// Takes a file in, to be read and spliced from. Whether calls on it wait elsewhere stays as it is. What goes
    /// on at its *position* elsewhere holds that: a thread in the midst of a read or splice there keeps the ring
    /// waiting as well, if that has one at the position. (Those at an offset wait for nobody.)
    ///
    /// Pages are read by the store of the file, which in some cases has threads of its own (local files have
    /// one for the process, or a few where the file system or the kernel has no `io_uring` for them;
    /// objects have two); the ring starts none.
    ///
    /// # Errors
    /// As `eventfd(2)`.
    pub fn attach_file(&mut self, file: impl Into<Arc<File>>) -> io::Result<EndId> {
        if self.arrivals.is_none() {
            self.arrivals = Some(watched_arrivals(&self.set)?);
        }
        Ok(self.others.add(Other::File(AttachedFile {
            file: file.into(),
            reads: VecDeque::new(),
        })))
    }

    /// Gives a file back. What reads it, or splices from it, is cancelled. `None` if there is no such file.
    pub fn detach_file(&mut self, id: EndId) -> Option<Arc<File>> {
        let Some(Other::File(_)) = self.others.get(id) else {
            return None;
        };
        for flight in self.all_on(id) {
            self.cancel_flight(flight);
        }
        let removed = self.others.remove(id);
        self.begin_linked();
        self.note_work();
        match removed {
            Some(Other::File(attached)) => Some(attached.file),
            _ => None,
        }
    }

    fn file_job(&self, id: FlightId, file: EndId) -> Option<Job> {
        let (Some(Other::File(attached)), Some(arrivals)) = (self.others.get(file), &self.arrivals)
        else {
            return None;
        };
        let number = id.data().as_ffi();
        Some(Job::File(Box::new(FileJob {
            file: Arc::clone(&attached.file),
            pending: Pending::new(arrivals, number),
            rest_bytes: 0,
        })))
    }

    /// A read or poll of a file.
    pub(super) fn start_on_file(&mut self, id: FlightId, file: EndId) {
        if let Operation::Poll { events, .. } = self.flights[id].operation {
            // As poll(2) has it of files, which are always ready; never of what they don't have.
            let ready = events & (PollFlags::IN | PollFlags::RDNORM);
            if !ready.is_empty() {
                self.finish(id, Ok(Outcome::Events(ready)));
            }
            return;
        }
        self.flights[id].job = self.file_job(id, file);
        if self.flights[id].operation.offset().is_some() {
            return self.try_file_read(id);
        }
        if let Some(Other::File(attached)) = self.others.get_mut(file) {
            attached.reads.push_back(id);
            if attached.reads.len() == 1 {
                self.try_file_read(id);
            }
        }
    }

    /// Has the splice what it needs to be tried in its turn? Else it is over.
    pub(super) fn start_splice(&mut self, id: FlightId) {
        let Operation::Splice { file, .. } = self.flights[id].operation else {
            return;
        };
        self.flights[id].job = self.file_job(id, file);
        if self.flights[id].job.is_some() {
            self.start_on_end(id);
        } else {
            // Linked, and detached meanwhile.
            self.finish(id, Err(Failure::Cancelled));
        }
    }

    /// Some pages came.
    pub(super) fn hear_arrivals(&mut self) {
        let Some(arrivals) = &self.arrivals else {
            return;
        };
        for number in arrivals.take() {
            let id = FlightId::from(KeyData::from_ffi(number));
            // Of some that are complete, cancelled: nobody.
            let Some(flight) = self.flights.get(id) else {
                continue;
            };
            match flight.operation {
                Operation::Splice { end, .. } => self.give_turn(end, Look::Full),
                _ => self.try_file_read(id),
            }
        }
    }

    fn try_file_read(&mut self, id: FlightId) {
        let Some(result) = read(&mut self.flights[id]) else {
            return;
        };
        self.stop_file_read(id);
        self.finish(id, result);
    }

    /// It is over: the next one at the position has its turn.
    pub(super) fn stop_file_read(&mut self, id: FlightId) {
        let operation = &self.flights[id].operation;
        let (Some((file, _)), None) = (operation.place(), operation.offset()) else {
            return;
        };
        let Some(Other::File(attached)) = self.others.get_mut(file) else {
            return;
        };
        let was_first = attached.reads.front() == Some(&id);
        attached.reads.retain(|other| *other != id);
        if let (true, Some(next), Some(arrivals)) =
            (was_first, attached.reads.front(), &self.arrivals)
        {
            // Not at once: a long queue would be one long turn.
            arrivals.call(next.data().as_ffi());
        }
    }
}

fn watched_arrivals(set: impl AsFd) -> io::Result<Arc<Arrivals>> {
    let _no_fork = registry::hold_forks();
    let arrivals = Arrivals::new()?;
    let data = EventData::new_u64(others::ARRIVALS);
    epoll::add(set, &*arrivals, data, EventFlags::IN)?;
    Ok(arrivals)
}

/// Reads what is there. `None`: the rest has to be waited for.
fn read(flight: &mut Flight) -> Option<Result<Outcome, Failure>> {
    let Some(Job::File(job)) = &mut flight.job else {
        return None;
    };
    let start = flight.operation.offset();
    let buffers = flight.operation.buffers_mut();
    let moved_bytes = &mut flight.moved_bytes;
    // Unless it gets to the end.
    job.rest_bytes = 1;
    let mut skip = *moved_bytes;
    'all: for buffer in buffers {
        let mut at = skip.min(buffer.len());
        skip -= at;
        while at < buffer.len() {
            let offset = start.map(|start| start.saturating_add(*moved_bytes as u64));
            match job
                .file
                .try_read(&mut buffer[at..], offset, &mut job.pending)
            {
                // The end of the file.
                Ok(0) => break 'all,
                Ok(bytes) => {
                    at += bytes;
                    *moved_bytes += bytes;
                }
                Err(ReadError::WouldBlock) => return None,
                // As from the blocking call: the next read says it.
                Err(_) if *moved_bytes > 0 => return Some(Ok(Outcome::Bytes(*moved_bytes))),
                Err(error) => return Some(Err(Failure::Io(error.into()))),
            }
        }
    }
    job.rest_bytes = 0;
    Some(Ok(Outcome::Bytes(*moved_bytes)))
}

/// One call of the pipe.
pub fn splice(end: &End, flight: &mut Flight) -> Attempt {
    let (Operation::Splice { offset, bytes, .. }, Some(Job::File(job))) =
        (&flight.operation, &mut flight.job)
    else {
        return Attempt::Elsewhere;
    };
    let moved_bytes = flight.moved_bytes;
    let offset = offset.map(|offset| offset.saturating_add(moved_bytes as u64));
    let FileJob { file, pending, .. } = &mut **job;
    match file.try_splice(&mut &*end, offset, *bytes - moved_bytes, pending) {
        Ok(Spliced::NoPages) => Attempt::Elsewhere,
        Ok(Spliced::NoRoom(offered_bytes)) => {
            job.rest_bytes = offered_bytes;
            Attempt::Blocked
        }
        Ok(Spliced::Moved(moved)) => {
            flight.moved_bytes += moved;
            let is_end = moved == 0;
            job.rest_bytes = if is_end {
                0
            } else {
                *bytes - flight.moved_bytes
            };
            if job.rest_bytes == 0 {
                Attempt::Done(Ok(Outcome::Bytes(flight.moved_bytes)))
            } else {
                Attempt::Moved
            }
        }
        Err(_) if moved_bytes > 0 => Attempt::Done(Ok(Outcome::Bytes(moved_bytes))),
        Err(error) => Attempt::Done(Err(error.into())),
    }
}
