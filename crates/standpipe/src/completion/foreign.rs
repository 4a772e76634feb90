//! Foreign descriptors: sockets, terminals, eventfds, anything that is no pipe. Their operations go to the
//! [kernel's ring](super::kernel).
//!
//! On each side of a descriptor only the oldest operation is with the kernel, so bytes keep the order of
//! submissions. What the kernel calls back with less than was asked for goes on from there.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use standpipe_shm::lane::Side;

use super::buffer::Buffer;
use super::flight::FlightId;
use super::kernel::{Call, Kernel, Returned};
use super::operation::{MOST_CHUNK_BYTES, Operation};
use super::others::{self, Job, Other};
use super::outcome::{Failure, Outcome};
use super::{EndId, Ring};
use crate::end::Role;

/// A descriptor that belongs to a ring.
pub struct Foreign {
    fd: Arc<OwnedFd>,
    pub role: Role,
    /// Oldest first: the kernel has the first.
    reads: VecDeque<FlightId>,
    writes: VecDeque<FlightId>,
}

impl Foreign {
    fn queue(&mut self, side: Side) -> &mut VecDeque<FlightId> {
        match side {
            Side::Reader => &mut self.reads,
            Side::Writer => &mut self.writes,
        }
    }
}

/// An operation that has been given to the kernel.
#[derive(Default)]
pub struct KernelJob {
    seat: usize,
    /// The kernel was asked to give it back.
    is_cancelled: bool,
    /// It waits until the descriptor is ready: its mode does not let the kernel wait in the call.
    waits: bool,
    /// Bytes that arrived when there was no place for a completion.
    arrived: Option<Vec<u8>>,
}

/// A descriptor that could not be attached, given back.
#[derive(Debug)]
pub struct AttachError {
    /// The descriptor.
    pub fd: Arc<OwnedFd>,
    /// Why.
    pub refusal: Refusal,
}

/// Why a descriptor can't be attached as a foreign one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is an end of a pipe or FIFO, whose bytes may be in a lane.
    #[error(
        "it is an end of a pipe, expected something else: adopt it (End::from_fd), attach the end"
    )]
    Pipe,
    /// Nothing can be read from or written to it.
    #[error("it only names a file (O_PATH)")]
    PathOnly,
    /// There is no `io_uring` to be had, by which foreign descriptors are driven.
    #[error("io_uring is refused ({0}), see kernel.io_uring_disabled in sysctl(8), seccomp(2)")]
    NoIoUring(#[source] io::Error),
    /// What the kernel said.
    #[error(transparent)]
    Io(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fd, refusal) = (self.fd.as_raw_fd(), &self.refusal);
        write!(f, "descriptor {fd} can't be attached: {refusal}")
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.refusal)
    }
}

impl From<AttachError> for io::Error {
    fn from(error: AttachError) -> Self {
        let kind = match &error.refusal {
            Refusal::Pipe | Refusal::PathOnly => io::ErrorKind::InvalidInput,
            Refusal::NoIoUring(error) | Refusal::Io(error) => error.kind(),
        };
        Self::new(kind, error)
    }
}

impl Ring {
    /// Takes a descriptor in that is no pipe: a socket, a terminal, an eventfd. Its operations are the
    /// kernel's, by an `io_uring` that is made for the first one. In whichever mode it is, the kernel waits
    /// (with threads of its own for the few that it can't wait for otherwise, such as files of some file
    /// systems).
    ///
    /// What the kernel completes interrupts the thread that submitted it if that waits in a call that signals
    /// interrupt for good, such as `epoll_wait(2)`: it returns `EINTR`. That is seen to in
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// [`AttachError`] with the descriptor: no `io_uring` to be had; an end of a pipe.
    pub fn attach_foreign(&mut self, fd: impl Into<Arc<OwnedFd>>) -> Result<EndId, AttachError> {
        let fd = fd.into();
        let prepared = role_of(&fd).and_then(|role| {
            self.have_kernel()?;
            Ok(role)
        });
        match prepared {
            Ok(role) => Ok(self.others.add(Other::Foreign(Foreign {
                fd,
                role,
                reads: VecDeque::new(),
                writes: VecDeque::new(),
            }))),
            Err(refusal) => Err(AttachError { fd, refusal }),
        }
    }

    fn have_kernel(&mut self) -> Result<(), Refusal> {
        if self.kernel.is_none() {
            let kernel = Kernel::new().map_err(Refusal::NoIoUring)?;
            let data = EventData::new_u64(others::KERNEL);
            let watched = epoll::add(&self.set, &kernel, data, EventFlags::IN);
            watched.map_err(|errno| Refusal::Io(errno.into()))?;
            self.kernel = Some(kernel);
        }
        Ok(())
    }

    /// Gives a descriptor back. Its operations are cancelled; those that the kernel does not give up at once
    /// complete when it does. `None` if there is no such descriptor.
    pub fn detach_foreign(&mut self, id: EndId) -> Option<Arc<OwnedFd>> {
        let Some(Other::Foreign(_)) = self.others.get(id) else {
            return None;
        };
        for flight in self.all_on(id) {
            self.cancel_flight(flight);
        }
        let removed = self.others.remove(id);
        self.begin_linked();
        self.note_work();
        match removed {
            Some(Other::Foreign(foreign)) => Some(foreign.fd),
            _ => None,
        }
    }

    pub(super) fn start_on_foreign(&mut self, id: FlightId, foreign: EndId) {
        let operation = &self.flights[id].operation;
        let side = operation.place().and_then(|(_, side)| side);
        let Some(side) = side.filter(|_| operation.offset().is_none()) else {
            return self.give_to_kernel(id);
        };
        let Some(Other::Foreign(foreign)) = self.others.get_mut(foreign) else {
            return;
        };
        let queue = foreign.queue(side);
        queue.push_back(id);
        if queue.len() == 1 {
            self.give_to_kernel(id);
        }
    }

    /// The kernel makes the next call of an operation.
    fn give_to_kernel(&mut self, id: FlightId) {
        let flight = &mut self.flights[id];
        let fd = flight
            .operation
            .place()
            .and_then(|(end, _)| match self.others.get(end) {
                Some(Other::Foreign(foreign)) => Some(&foreign.fd),
                _ => None,
            });
        let (Some(fd), Some(kernel)) = (fd, &mut self.kernel) else {
            // Detached meanwhile.
            return self.finish_foreign(id, Err(Errno::CANCELED));
        };
        let mut job = match flight.job.take() {
            Some(Job::Kernel(job)) => job,
            _ => KernelJob::default(),
        };
        let (call, memory) = if job.waits {
            let events = if flight.operation.writes() {
                PollFlags::OUT
            } else {
                PollFlags::IN
            };
            (Call::Poll(events), Vec::new())
        } else {
            call(&mut flight.operation, flight.moved_bytes)
        };
        let skip_bytes = flight.moved_bytes;
        match kernel.begin(id, fd, &call, memory, skip_bytes) {
            Ok(seat) => {
                job.seat = seat;
                flight.job = Some(Job::Kernel(job));
            }
            Err((error, memory)) => {
                put_back(&mut flight.operation, memory);
                self.leave_queue(id);
                self.finish(id, Err(Failure::Io(error)));
            }
        }
    }

    /// Tells the kernel of what is new, and hears of what is complete. Says whether there was anything.
    pub(super) fn run_kernel(&mut self) -> io::Result<bool> {
        let mut was_any = false;
        while let Some(kernel) = &mut self.kernel {
            let returned = kernel.run()?;
            if returned.is_empty() {
                break;
            }
            was_any = true;
            for returned in returned {
                self.take_back(returned);
            }
            self.begin_linked();
        }
        Ok(was_any)
    }

    fn take_back(&mut self, returned: Returned) {
        let id = returned.flight;
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let Some(Job::Kernel(job)) = &mut flight.job else {
            return;
        };
        let waited = mem::take(&mut job.waits);
        match (returned.result, &flight.operation) {
            // A signal, or the end of the thread that submitted it: nobody asked for that.
            (Err(Errno::INTR | Errno::CANCELED), _) if !job.is_cancelled => {
                job.waits = waited;
                put_back(&mut flight.operation, returned.memory);
                self.give_to_kernel(id);
            }
            (Err(Errno::AGAIN), _) if !job.is_cancelled => {
                job.waits = true;
                put_back(&mut flight.operation, returned.memory);
                self.give_to_kernel(id);
            }
            (Ok(_), _) if waited => self.go_on(id),
            (Ok(bytes), Operation::ReadMultishot { .. }) if bytes > 0 => {
                let chunk = returned.memory.into_iter().next().unwrap_or_default();
                let mut chunk = chunk.into_vec();
                chunk.truncate(bytes);
                job.arrived = Some(chunk);
                self.have_turn(id);
            }
            (result, _) => {
                put_back(&mut flight.operation, returned.memory);
                self.note_moved(id, result);
            }
        }
    }

    /// It is complete, unless there is more to be moved.
    fn note_moved(&mut self, id: FlightId, result: Result<usize, Errno>) {
        let flight = &mut self.flights[id];
        let is_poll = matches!(flight.operation, Operation::Poll { .. });
        match result {
            Ok(bytes) if !is_poll => {
                flight.moved_bytes += bytes;
                if bytes > 0 && flight.operation.wants_more(flight.moved_bytes) {
                    return self.go_on(id);
                }
                let moved = Outcome::Bytes(flight.moved_bytes);
                self.finish_foreign(id, Ok(moved));
            }
            Ok(events) => {
                let events = PollFlags::from_bits_retain(events as u16);
                self.finish_foreign(id, Ok(Outcome::Events(events)));
            }
            Err(error) => self.finish_foreign(id, Err(error)),
        }
    }

    /// The next call, unless it was cancelled meanwhile.
    fn go_on(&mut self, id: FlightId) {
        if self.is_cancelled(id) {
            self.finish_foreign(id, Err(Errno::CANCELED));
        } else {
            self.give_to_kernel(id);
        }
    }

    fn is_cancelled(&self, id: FlightId) -> bool {
        matches!(&self.flights[id].job, Some(Job::Kernel(job)) if job.is_cancelled)
    }

    /// What arrived completes in its turn: pipes have theirs, and places may be few. Of one that was cancelled,
    /// whose descriptor may be detached, at once.
    fn have_turn(&mut self, id: FlightId) {
        match self.flights[id].operation.place() {
            Some((end, _)) if !self.is_cancelled(id) => self.ready.push_back(end),
            _ => self.deliver(id),
        }
    }

    /// What arrived completes, as soon as there is a place; then more may.
    fn deliver(&mut self, id: FlightId) {
        let is_cancelled = self.is_cancelled(id);
        if !is_cancelled && !self.has_place_for(id) {
            if let Some((end, _)) = self.flights[id].operation.place() {
                self.stalled.push(end);
            }
            return;
        }
        if let Some(Job::Kernel(job)) = &mut self.flights[id].job
            && let Some(bytes) = job.arrived.take()
        {
            self.arrive(id, bytes);
        }
        self.go_on(id);
    }

    /// Its turn, or there are places again.
    pub(super) fn take_turn_of_foreign(&mut self, foreign: EndId) {
        if let Some(Other::Foreign(foreign)) = self.others.get(foreign)
            && let Some(&id) = foreign.reads.front()
            && matches!(&self.flights[id].job, Some(Job::Kernel(job)) if job.arrived.is_some())
        {
            self.deliver(id);
        }
    }

    fn finish_foreign(&mut self, id: FlightId, result: Result<Outcome, Errno>) {
        self.leave_queue(id);
        let moved_bytes = self.flights[id].moved_bytes;
        let is_cancelled = self.is_cancelled(id);
        let result = match result {
            Ok(outcome) => Ok(outcome),
            // What was moved was: this one says so, the next gets the error.
            Err(_) if moved_bytes > 0 => Ok(Outcome::Bytes(moved_bytes)),
            Err(Errno::CANCELED) => Err(Failure::Cancelled),
            Err(Errno::AGAIN | Errno::INTR) if is_cancelled => Err(Failure::Cancelled),
            Err(error) => Err(Failure::Io(error.into())),
        };
        self.finish(id, result);
    }

    /// The next one of its side has its turn.
    fn leave_queue(&mut self, id: FlightId) {
        let Some((end, Some(side))) = self.flights[id].operation.place() else {
            return;
        };
        let Some(Other::Foreign(foreign)) = self.others.get_mut(end) else {
            return;
        };
        let queue = foreign.queue(side);
        let was_first = queue.front() == Some(&id);
        queue.retain(|other| *other != id);
        if was_first && let Some(&next) = queue.front() {
            self.give_to_kernel(next);
        }
    }

    /// Asks for it back. False: it completes when the kernel gives it back.
    pub(super) fn stop_foreign(&mut self, id: FlightId) -> bool {
        if let Some(Job::Kernel(job)) = &mut self.flights[id].job {
            if let Some(bytes) = job.arrived.take() {
                self.arrive(id, bytes);
            } else {
                job.is_cancelled = true;
                let seat = job.seat;
                if let Some(kernel) = &mut self.kernel {
                    kernel.cancel(seat);
                }
                return false;
            }
        }
        self.leave_queue(id);
        true
    }
}

fn role_of(fd: impl AsFd) -> Result<Role, Refusal> {
    let refuse = |errno: Errno| Refusal::Io(errno.into());
    let flags = rustix::fs::fcntl_getfl(&fd).map_err(refuse)?;
    if flags.contains(OFlags::PATH) {
        return Err(Refusal::PathOnly);
    }
    let mode = rustix::fs::fstat(&fd).map_err(refuse)?.st_mode;
    if FileType::from_raw_mode(mode) == FileType::Fifo {
        return Err(Refusal::Pipe);
    }
    Ok(flags.into())
}

/// The call to be made, and the memory for it.
fn call(operation: &mut Operation, moved_bytes: usize) -> (Call, Vec<Buffer>) {
    match operation {
        Operation::Poll { events, .. } => return (Call::Poll(*events), Vec::new()),
        Operation::ReadMultishot { chunk_bytes, .. } => {
            let chunk = vec![0; MOST_CHUNK_BYTES.min(*chunk_bytes)];
            return (Call::Read(None), vec![chunk.into()]);
        }
        _ => {}
    }
    let call = if operation.writes() {
        Call::Write
    } else {
        let offset = operation.offset();
        Call::Read(offset.map(|offset| offset.saturating_add(moved_bytes as u64)))
    };
    let memory = operation.buffers_mut().iter_mut().map(lend).collect();
    (call, memory)
}

/// Memory that the kernel may have for as long as it likes: what is somebody else's is copied, since that
/// one's promise ends with the ring.
fn lend(buffer: &mut Buffer) -> Buffer {
    if buffer.is_lent() {
        buffer.to_vec().into()
    } else {
        mem::take(buffer)
    }
}

fn put_back(operation: &mut Operation, memory: Vec<Buffer>) {
    let reads = !operation.writes();
    for (buffer, returned) in operation.buffers_mut().iter_mut().zip(memory) {
        if !buffer.is_lent() {
            *buffer = returned;
        } else if reads {
            buffer.copy_from_slice(&returned);
        }
    }
}
