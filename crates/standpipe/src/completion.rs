//! Completions: operations are submitted with a token, and reaped when they are complete.
//!
//! ```
//! use standpipe::completion::{Operation, Outcome, Ring};
//!
//! let (reader, writer) = standpipe::pipe::pipe()?;
//! let mut ring = Ring::new(64)?;
//! let (reader, writer) = (ring.attach(reader), ring.attach(writer));
//! ring.submit(1, Operation::read(reader, vec![0; 5]))?;
//! ring.submit(2, Operation::write(writer, b"hello"))?;
//! for completion in ring.wait(None)? {
//!     assert_eq!(completion.result?, Outcome::Bytes(5));
//!     assert_eq!(completion.buffers.into_first(), b"hello");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//! 1. **Try.** An operation is tried when it is submitted, without waiting, whatever the mode of its
//!    descriptor. On each side of an end only the oldest is, so bytes keep the order of submissions.
//! 2. **Among ourselves.** What would have to wait is queued on its end. Whatever this ring moves through a
//!    pipe gives the other ends of that pipe that it has a turn. So ends of one ring serve each
//!    other without a system call.
//! 3. **Arm.** Who reaps and finds nothing complete, or waits, has what is queued tried again with a look
//!    at the kernel pipe, and armed: the end's wake-up tells the ring's descriptor. That is one epoll set,
//!    by edges: who only waits costs nothing. A pipe that has no lane, or all of whose ends the ring has, is
//!    watched by its kernel pipe alone. No thread is ever started.
//!
//! # Operations, and how each waits
//! | Operation | on | waits for |
//! |---|---|---|
//! | read, write, vectored, multishot read, poll | [ends](Ring::attach) of pipes and FIFOs | the end's wake-up |
//! | the same | [foreign descriptors](Ring::attach_foreign): sockets, terminals, eventfds | an `io_uring` that the ring makes for the first of them |
//! | [read at](Operation::ReadAt) an offset, read at the position | [files](Ring::attach_file) of the page cache | pages, each read by a call of its own; one eventfd |
//! | [splice](Operation::Splice) | from such a file to an end | pages, then room |
//! | [opening](Operation::OpenFifo) a FIFO | a path | a partner: one inotify instance, and looks now and then |
//! | [time-out](Operation::Timeout), [cancel](Operation::Cancel) | | the time; nothing |
//!
//! All of it is told by the one descriptor. Before it sleeps, [`wait`](Ring::wait) can
//! [stay awake](Ring::set_spin) for a while.
//!
//! # Promises
//! - **Fair.** Ends that have something to do take turns, one call each. So one that is ready waits for at
//!   most one call of each other end that is; one of which only the kernel knows is looked at with every
//!   reap that would give nothing, and at least every sixteenth that would give something. After 1024 calls in
//!   a row the kernel and the time have their turn, and whoever reaps has what is complete by then.
//! - **Exact.** A cancelled operation has moved nothing; or it completes with what it moved. One that the
//!   kernel has (of a foreign descriptor) completes when the kernel says what came of it.
//! - **No loss.** Each operation holds a place from its submission until its last completion is reaped, and
//!   there are as many as the ring was made with. Without a free one, nothing can be submitted, and
//!   arrivals of multishot reads stay in their pipes.
//! - Dropping a ring cancels everything, and waits for nothing. (Memory of operations on foreign descriptors
//!   that the kernel does not give back at once is left to it, and never freed.)
//!
//! A ring belongs to the process that made it: a forked child must not use it. (It may drop it.)

mod alarm;
mod at_once;
mod attached;
mod attempt;
mod buffer;
mod done;
mod drive;
#[cfg(feature = "file")]
mod file;
mod flight;
mod foreign;
mod kernel;
mod opening;
mod operation;
mod others;
mod outcome;
mod queue;
mod spin;
mod timers;

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use slotmap::SlotMap;
#[cfg(feature = "file")]
use standpipe_cache::cache::Arrivals;
use standpipe_shm::lane::Side;
use standpipe_shm::private_fd::PrivateFd;

pub use buffer::{Buffer, Buffers};
pub use foreign::{AttachError, Refusal};
pub use operation::{Operation, Rejected, RejectedLinks, SubmitError};
pub use outcome::{Completion, Failure, Outcome};
pub use rustix::event::PollFlags;

use crate::end::{End, registry};
use alarm::{Alarm, When};
use attached::Attached;
use done::Done;
use flight::{Flight, FlightId};
use kernel::Kernel;
use opening::Watches;
use others::Others;
use timers::Timers;

slotmap::new_key_type! {
    /// An end that is attached to a ring.
    pub struct EndId;
}

/// Operations under way, and completions to be reaped.
pub struct Ring {
    capacity: usize,
    ends: SlotMap<EndId, Attached>,
    /// The ends of each pipe, by its address.
    pipes: FxHashMap<usize, Vec<EndId>>,
    /// Operations that are not complete.
    flights: SlotMap<FlightId, Flight>,
    /// Of operations that are complete, until they are reaped, too: those have a flight no more.
    tokens: FxHashMap<u64, FlightId>,
    done: Done,
    /// Linked ones whose turn it is to begin.
    starting: VecDeque<FlightId>,
    /// Whose turn it is: ends, and foreign descriptors with arrivals.
    ready: VecDeque<EndId>,
    /// Those with operations that nothing would complete yet but this ring itself.
    unarmed: Vec<EndId>,
    /// Those with arrivals for which there was no place.
    stalled: Vec<EndId>,
    timers: Timers,
    watches: Watches,
    /// Files, foreign descriptors.
    others: Others,
    #[cfg(feature = "file")]
    arrivals: Option<Arc<Arrivals>>,
    /// Since there was a foreign descriptor.
    kernel: Option<Kernel>,
    set: PrivateFd,
    /// Rung where a pipe gets a lane that had none when it was armed.
    news: Arc<PrivateFd>,
    /// Since somebody may poll the descriptor.
    alarm: Option<Alarm>,
    /// How often the kernel was not asked since it was.
    reaps_since_asked: u32,
    /// When whoever waits looks at all ends, since somebody waited.
    look_up_at: Option<Instant>,
    /// How long to wait awake.
    spin: Duration,
}

impl Ring {
    /// A ring with places for `capacity` operations and completions together.
    ///
    /// # Errors
    /// `InvalidInput` for a capacity of 0. As `epoll_create(2)`.
    pub fn new(capacity: usize) -> io::Result<Self> {
        if capacity == 0 {
            let text = "a ring of 0 places, expected 1 or more";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let _no_fork = registry::hold_forks();
        let set = PrivateFd::from(epoll::create(CreateFlags::CLOEXEC)?);
        let news = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let news = Arc::new(PrivateFd::from(news));
        let data = EventData::new_u64(drive::NEWS);
        epoll::add(&set, &*news, data, EventFlags::IN)?;
        Ok(Self {
            capacity,
            ends: SlotMap::with_key(),
            pipes: FxHashMap::default(),
            flights: SlotMap::with_key(),
            tokens: FxHashMap::default(),
            done: Done::default(),
            starting: VecDeque::new(),
            ready: VecDeque::new(),
            unarmed: Vec::new(),
            stalled: Vec::new(),
            timers: Timers::default(),
            watches: Watches::default(),
            others: Others::default(),
            #[cfg(feature = "file")]
            arrivals: None,
            kernel: None,
            set,
            news,
            alarm: None,
            reaps_since_asked: 0,
            look_up_at: None,
            spin: Duration::ZERO,
        })
    }

    /// Takes an end in. Until it is [detached](Self::detach), no call on it waits.
    pub fn attach(&mut self, end: impl Into<End>) -> EndId {
        let end = end.into();
        let pipe = end.pipe_address();
        let id = self.ends.insert(Attached::new(end));
        let members = self.pipes.entry(pipe).or_default();
        for &member in &*members {
            self.ends[member].peers.push(id);
        }
        self.ends[id].peers.extend_from_slice(members);
        members.push(id);
        self.count_members(pipe);
        id
    }

    fn count_members(&mut self, pipe: usize) {
        let members = self.pipes.get(&pipe).map_or(&[][..], Vec::as_slice);
        let count = |side| {
            let has = |id: &&EndId| self.ends[**id].end.role().has(side);
            members.iter().filter(has).count()
        };
        let counts = [count(Side::Reader), count(Side::Writer)];
        for &member in members {
            self.ends[member].members = counts;
        }
    }

    /// Gives an end back. Its operations are cancelled. `None` if there is no such end.
    pub fn detach(&mut self, id: EndId) -> Option<End> {
        self.cancel_all_of(id);
        let attached = self.ends.remove(id)?;
        for &peer in &attached.peers {
            self.ends[peer].peers.retain(|other| *other != id);
        }
        let peers = attached.peers.clone();
        let pipe = attached.end.pipe_address();
        if let Entry::Occupied(mut members) = self.pipes.entry(pipe) {
            members.get_mut().retain(|member| *member != id);
            if members.get().is_empty() {
                members.remove();
            }
        }
        self.count_members(pipe);
        let end = attached.into_end(&self.set);
        for peer in peers {
            // What it moves the ring does not know any more.
            self.ends[peer].unwatch(&self.set);
            self.leave_unarmed(peer);
        }
        self.begin_linked();
        self.note_work();
        Some(end)
    }

    /// How many places there are.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many places are free.
    #[must_use]
    pub fn free_places(&self) -> usize {
        let taken = self.flights.len() + self.done.len();
        self.capacity.saturating_sub(taken)
    }

    /// How many operations are under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Begins an operation. Its completion, which may be there at once, carries `token`.
    ///
    /// # Errors
    /// [`Rejected`] with the operation: nothing was done.
    #[inline]
    pub fn submit(&mut self, token: u64, operation: Operation) -> Result<(), Rejected> {
        let (end, side, buffer) = match operation {
            Operation::Read { end, buffer } if !others::has(end) => (end, Side::Reader, buffer),
            Operation::Write { end, buffer } if !others::has(end) => (end, Side::Writer, buffer),
            operation => return self.submit_any(token, operation),
        };
        let submitted = self.submit_transfer(token, end, side, buffer);
        submitted.map_err(|(reason, buffer)| Rejected {
            reason,
            operation: Operation::transfer(end, side, buffer),
        })
    }

    fn submit_any(&mut self, token: u64, operation: Operation) -> Result<(), Rejected> {
        let checked = self.check(&operation, 0);
        if let Err(reason) = checked.and_then(|()| self.take_token(token, FlightId::default())) {
            return Err(Rejected { reason, operation });
        }
        let id = self.insert(Flight::new(token, operation));
        self.start(id);
        self.begin_linked();
        self.note_work();
        Ok(())
    }

    /// It is in use from now on.
    #[inline]
    fn take_token(&mut self, token: u64, id: FlightId) -> Result<(), SubmitError> {
        match self.tokens.entry(token) {
            Entry::Vacant(place) => {
                place.insert(id);
                Ok(())
            }
            Entry::Occupied(_) => Err(SubmitError::TokenInUse(token)),
        }
    }

    /// Begins the first of some operations; each other one begins when that before it has succeeded. After
    /// one that failed, was cancelled, or is a read that found the end of the stream, the rest fails with
    /// [`Failure::LinkBroken`].
    ///
    /// # Errors
    /// [`RejectedLinks`] with all of them: nothing was done.
    pub fn submit_linked(&mut self, links: Vec<(u64, Operation)>) -> Result<(), RejectedLinks> {
        let mut tokens = FxHashSet::default();
        for (index, (token, operation)) in links.iter().enumerate() {
            let checked = if tokens.insert(*token) && !self.tokens.contains_key(token) {
                self.check(operation, index)
            } else {
                Err(SubmitError::TokenInUse(*token))
            };
            if let Err(reason) = checked {
                return Err(RejectedLinks {
                    reason,
                    index,
                    links,
                });
            }
        }
        let mut later: Option<FlightId> = None;
        for (token, operation) in links.into_iter().rev() {
            let mut flight = Flight::new(token, operation);
            flight.next = later;
            later = Some(self.insert(flight));
        }
        self.starting.extend(later);
        self.begin_linked();
        self.note_work();
        Ok(())
    }

    /// Cancels an operation, as [`Operation::Cancel`] does, but takes no place: also where all are taken by
    /// operations that wait. Says whether there was one under way with this token.
    pub fn cancel(&mut self, token: u64) -> bool {
        let was_there = self.cancel_by_token(token);
        self.begin_linked();
        self.note_work();
        was_there
    }

    /// What is complete, without waiting.
    ///
    /// # Errors
    /// As `epoll_wait(2)`.
    pub fn reap(&mut self) -> io::Result<Reaped<'_>> {
        self.progress()?;
        Ok(Reaped(self))
    }

    /// What is complete, as soon as anything is, or nothing when `timeout` has passed (`None`: for ever).
    /// Without operations under way there is nothing to wait for.
    ///
    /// # Errors
    /// `Interrupted` if a signal handler ran, unless all handlers of the process ask for calls to be
    /// restarted; else as `epoll_wait(2)`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Reaped<'_>> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            self.wait_awake(deadline)?;
            self.progress()?;
            if !self.done.is_empty() || self.flights.is_empty() {
                break;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            self.sleep(left)?;
        }
        Ok(Reaped(self))
    }

    /// A descriptor that is readable when a [reap](Self::reap) would give something; for poll, epoll
    /// (level or edge), `io_uring`, and what is built on them, however many ends are attached. It may be
    /// readable once more than that; a reap that gives nothing makes it quiet.
    ///
    /// From the first call on, operations that have to wait are armed when they are submitted.
    ///
    /// # Errors
    /// As `timerfd_create(2)`.
    pub fn pollable(&mut self) -> io::Result<BorrowedFd<'_>> {
        if self.alarm.is_none() {
            self.alarm = Some(Alarm::new(&self.set, drive::ALARM)?);
        }
        self.note_work();
        Ok(self.set.as_fd())
    }

    fn check(&self, operation: &Operation, ahead: usize) -> Result<(), SubmitError> {
        if self.free_places() <= ahead {
            return Err(SubmitError::Full(self.capacity));
        }
        if let Some((end, side)) = operation.place() {
            let Some(Attached { end, .. }) = self.ends.get(end) else {
                self.others.check(end, operation)?;
                return operation.check_buffers();
            };
            if side.is_some_and(|side| !end.role().has(side)) {
                return Err(SubmitError::WrongDirection);
            }
            operation.check_stream(&self.others)?;
        }
        operation.check_buffers()
    }

    /// For whoever polls the descriptor: everything that waits is armed, and it is ready if there is
    /// something to reap.
    fn note_work(&mut self) {
        if self.kernel.is_some() {
            // Who asks next is told why it failed.
            let _ = self.run_kernel();
        }
        if self.alarm.is_none() {
            return;
        }
        self.run_turns();
        // Turns leave some to be armed, which may move something for others then.
        while self.ready.is_empty() && !self.unarmed.is_empty() {
            self.arm_all();
            self.run_turns();
        }
        let when = if self.done.is_empty() && self.ready.is_empty() {
            self.timers.next().map_or(When::Never, When::At)
        } else {
            When::Now
        };
        if let Some(alarm) = &mut self.alarm {
            // Fails for no descriptor of ours.
            let _ = alarm.set(when);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Completion> {
        let completion = self.done.pop()?;
        if completion.is_last {
            self.tokens.remove(&completion.token);
        }
        Some(completion)
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("capacity", &self.capacity)
            .field("ends", &self.ends.len())
            .field("in_flight", &self.flights.len())
            .field("completions", &self.done.len())
            .finish_non_exhaustive()
    }
}

/// Completions, taken as they are looked at: those that are not stay for the next reap.
#[derive(Debug)]
pub struct Reaped<'a>(&'a mut Ring);

impl Iterator for Reaped<'_> {
    type Item = Completion;

    #[inline]
    fn next(&mut self) -> Option<Completion> {
        self.0.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.done.len(), Some(self.0.done.len()))
    }
}

impl ExactSizeIterator for Reaped<'_> {}

impl Drop for Reaped<'_> {
    fn drop(&mut self) {
        self.0.resume_stalled();
        self.0.note_work();
    }
}
