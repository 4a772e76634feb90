//! What the ends of one pipe share within a process, above all its lane.

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{Lane, Mode, Side, Wake};
use standpipe_shm::patience::Patience;
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, full_fence};
use standpipe_shm::{patience, pool};

use super::capacity::Capacity;
use super::meeting::Meetings;
use super::registry::{self, PipeId};
use crate::pipe::limits;

/// One pipe, as this process knows it.
pub struct Shared {
    pub(super) id: PipeId,
    pub(super) capacity: Capacity,
    wake: Wake,
    lane: OnceLock<Lane>,
    /// Rung when there is one, for readers that wait for the kernel pipe alone.
    arrival: OnceLock<PrivateFd>,
    /// Rung when there is one, or when somebody comes: of those who wait for the kernel pipes of many, each
    /// with the descriptor of the end that it waits by.
    news: Mutex<Vec<(RawFd, Arc<PrivateFd>)>>,
    has_news: AtomicBool,
    /// How many bytes of it count against the limits of this process. (Others may change its capacity.)
    counted_bytes: AtomicUsize,
    /// No lane is made or joined (any more).
    is_retired: AtomicBool,
    /// Other processes may have the lane.
    is_met: AtomicBool,
    /// Processes that did not inherit the pipe's ends as objects may hold its descriptors.
    is_open_to_strangers: AtomicBool,
    /// A program was handed a write end while others stayed.
    has_unaware_writers: AtomicBool,
    /// This process is present as a reader of the lane.
    has_entered: AtomicBool,
    /// The lane is empty, and nothing will ever enter it again.
    pub(super) is_lane_done: AtomicBool,
    pub(super) meetings: Meetings,
    pub(super) readers: Locals,
    pub(super) writers: Locals,
}

/// What one side of the pipe has in this process.
#[derive(Default)]
pub struct Locals {
    /// How many ends.
    pub ends: AtomicUsize,
    /// How long they wait awake.
    pub patience: Patience,
    /// When somebody last asked the kernel pipe, in ticks.
    pub asked_ticks: AtomicU64,
    /// How many departures of the other side were seen then.
    pub departures_seen: AtomicU32,
    /// For writers: a reader of the lane was present then.
    pub is_lane_read: AtomicBool,
    /// Small transfers since.
    pub transfers_since: AtomicU32,
    /// Bytes that went through the kernel pipe.
    pub kernel_bytes: AtomicU64,
}

impl Shared {
    /// A pipe without a lane so far.
    pub fn new(id: PipeId, capacity: Capacity, wake: Wake, is_open_to_strangers: bool) -> Self {
        Self {
            id,
            capacity,
            wake,
            lane: OnceLock::new(),
            arrival: OnceLock::new(),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            counted_bytes: AtomicUsize::new(0),
            is_retired: AtomicBool::new(false),
            is_met: AtomicBool::new(false),
            is_open_to_strangers: AtomicBool::new(is_open_to_strangers),
            has_unaware_writers: AtomicBool::new(false),
            has_entered: AtomicBool::new(false),
            is_lane_done: AtomicBool::new(false),
            meetings: Meetings::default(),
            readers: Locals::default(),
            writers: Locals::default(),
        }
    }

    /// Capacity and segment.
    pub fn size(&self) -> PipeSize {
        self.capacity.size()
    }

    /// The lane, if there is one.
    #[inline]
    pub fn lane(&self) -> Option<&Lane> {
        self.lane.get()
    }

    /// The lane, made now if need be. `None` if this pipe does without one.
    #[inline]
    pub fn lane_or_make(&self) -> Option<&Lane> {
        self.lane.get().or_else(|| self.make_lane())
    }

    #[cold]
    fn make_lane(&self) -> Option<&Lane> {
        self.make_lane_held(&*registry::try_hold_forks()?)
    }

    /// The same for who holds forks: a child has the lane with all its descriptors, or does not have it.
    pub fn make_lane_held(&self, no_fork: &registry::Live) -> Option<&Lane> {
        // Another thread may have been faster.
        if self.lane.get().is_none() && !self.is_retired() {
            match self.new_lane() {
                Ok((lane, bytes)) => {
                    // As far as anybody here knows; who makes it larger says so.
                    lane.note_kernel_capacity(bytes);
                    let set = self.lane.set(lane);
                    debug_assert!(set.is_ok(), "lanes are set while forks are held");
                    self.counted_bytes.store(bytes, Ordering::Relaxed);
                    self.sign_in();
                }
                // Slower, never wrong.
                Err(_) => self.is_retired.store(true, Ordering::Relaxed),
            }
            // Pairs with the fence in `keep_writers_outside`: one of the two tells the lane.
            full_fence();
            self.tell_lane();
            self.announce_lane(no_fork);
        }
        self.lane.get()
    }

    /// And how many bytes of it were counted.
    fn new_lane(&self) -> io::Result<(Lane, usize)> {
        let size = self.size();
        let bytes = size.capacity_bytes();
        if !limits::take_lane(bytes) {
            return Err(Errno::NOMEM.into());
        }
        match pool::take(size, self.wake) {
            Ok(lane) if limits::leaves_descriptors(&lane) => Ok((lane, bytes)),
            Ok(_) => {
                limits::give_lane_back(bytes);
                Err(Errno::MFILE.into())
            }
            Err(error) => {
                limits::give_lane_back(bytes);
                Err(error)
            }
        }
    }

    /// The lane is about to have another capacity, as far as the limits of this process allow.
    pub(super) fn count_lane(&self, bytes: usize) -> io::Result<()> {
        let before = self.counted_bytes.swap(bytes, Ordering::Relaxed);
        limits::change_lane(before, bytes)
            .inspect_err(|_| self.counted_bytes.store(before, Ordering::Relaxed))
    }

    /// A lane that was handed over becomes this pipe's, unless it has one. Called while forks are held.
    pub fn join(&self, lane: Lane, no_fork: &registry::Live) {
        let bytes = lane.size().capacity_bytes();
        if self.is_retired() || !limits::take_lane(bytes) {
            return;
        }
        match self.lane.set(lane) {
            Ok(()) => {
                self.counted_bytes.store(bytes, Ordering::Relaxed);
                self.note_met();
                self.sign_in();
                // Pairs with the fence in `await_lane`.
                full_fence();
                self.announce_lane(no_fork);
            }
            Err(_) => limits::give_lane_back(bytes),
        }
    }

    /// This process has the ends that it has, for those who ask how it left.
    pub fn sign_in(&self) {
        let Some(lane) = self.lane.get() else { return };
        for side in [Side::Reader, Side::Writer] {
            if self.locals(side).ends.load(Ordering::Relaxed) > 0 {
                lane.note_open(side, std::process::id());
            }
        }
    }

    /// The bell that rings when there is a lane. Who waits for it looks for one afterwards.
    ///
    /// # Errors
    /// As eventfd(2).
    pub(super) fn await_lane(&self, _no_fork: &registry::Live) -> io::Result<&PrivateFd> {
        let bell = if let Some(bell) = self.arrival.get() {
            bell
        } else {
            let new = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into();
            self.arrival.get_or_init(|| new)
        };
        // Pairs with the fences before `announce_lane`: either we see the lane, or it is announced.
        full_fence();
        Ok(bell)
    }

    /// Has `bell` ring, for the end that `fd` is, when there is a lane, or when others may come to have an
    /// end. Who waits for it looks afterwards.
    pub(super) fn await_news(&self, fd: RawFd, bell: &Arc<PrivateFd>) {
        // A child must not find the list locked.
        let _no_fork = registry::hold_forks();
        let mut bells = self.news_bells();
        bells.retain(|(waiting, _)| *waiting != fd);
        bells.push((fd, Arc::clone(bell)));
        self.has_news.store(true, Ordering::Relaxed);
        // Pairs with the fence in `tell_news`: either we see what is new, or it is told.
        full_fence();
    }

    /// The end that `fd` is waits for them no more.
    pub(super) fn forget_news(&self, fd: RawFd, _no_fork: &registry::Live) {
        let mut bells = self.news_bells();
        bells.retain(|(waiting, _)| *waiting != fd);
        self.has_news.store(!bells.is_empty(), Ordering::Relaxed);
    }

    fn news_bells(&self) -> MutexGuard<'_, Vec<(RawFd, Arc<PrivateFd>)>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody else may have an end now.
    pub(super) fn tell_news(&self) {
        // Pairs with the fence in `await_news`.
        full_fence();
        if self.has_news.load(Ordering::Relaxed) {
            self.ring_news(&registry::hold_forks());
        }
    }

    fn ring_news(&self, _no_fork: &registry::Live) {
        for (_, bell) in &*self.news_bells() {
            ring(bell);
        }
    }

    /// In a forked child: who waits is the parent.
    pub(super) fn leave_news_to_parent(&self) {
        self.news_bells().clear();
        self.has_news.store(false, Ordering::Relaxed);
    }

    /// Whether nobody can have this pipe but so many ends of this process.
    pub(super) fn is_private_to(&self, readers: usize, writers: usize) -> bool {
        !self.is_open_to_strangers()
            && !self.is_met()
            // Pair with the store of an end that is dropped: what it wrote is seen.
            && self.readers.ends.load(Ordering::Acquire) == readers
            && self.writers.ends.load(Ordering::Acquire) == writers
    }

    /// Another end of this process may read from the lane, so that writers bring their bytes there.
    fn announce_lane(&self, no_fork: &registry::Live) {
        if let Some(bell) = self.arrival.get() {
            ring(bell);
        }
        self.ring_news(no_fork);
    }

    /// The bell of [`await_lane`](Self::await_lane), if somebody waits for it.
    pub(super) fn arrival(&self) -> Option<&PrivateFd> {
        self.arrival.get()
    }

    /// The lane, for somebody who is about to read from it: this process becomes present there.
    #[inline]
    pub fn lane_to_read(&self) -> Option<&Lane> {
        let lane = self.lane.get()?;
        if !self.has_entered.load(Ordering::Relaxed) {
            self.enter(lane);
        }
        Some(lane)
    }

    #[cold]
    fn enter(&self, lane: &Lane) {
        let Some(_no_fork) = registry::try_hold_forks() else {
            return;
        };
        // Who can't enter can still read what others bring in; writers stay outside for us.
        if !self.is_retired() && lane.enter().is_ok() {
            self.has_entered.store(true, Ordering::Relaxed);
        }
    }

    /// This process is not present as a reader of the lane any more. Says whether it was.
    pub fn leave(&self) -> bool {
        let had_entered = self.has_entered.swap(false, Ordering::Relaxed);
        if let (true, Some(lane)) = (had_entered, self.lane.get()) {
            let _no_fork = registry::hold_forks();
            // Without the lock (a handler's reentry), writers learn of it when they next ask.
            let _ = lane.leave();
        }
        had_entered
    }

    /// A program writes: members that write use the kernel pipe from now on.
    pub fn keep_writers_outside(&self) {
        self.has_unaware_writers.store(true, Ordering::Relaxed);
        // Pairs with the fence in `make_lane`.
        full_fence();
        self.tell_lane();
    }

    fn tell_lane(&self) {
        if let Some(lane) = self.lane.get()
            && self.has_unaware_writers.load(Ordering::Relaxed)
        {
            lane.add_mode(Mode::UNAWARE_WRITERS);
            // Who was inside has published all it wrote when we have had the lock: it can be moved.
            let _ = lane.as_only_writer(|| ());
        }
    }

    /// Nothing enters a lane of this pipe any more.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
        self.leave();
        if let Some(lane) = self.lane.get() {
            lane.add_mode(Mode::RETIRED);
            let _ = lane.as_only_writer(|| ());
        }
    }

    /// Whether this process does without the lane.
    #[inline]
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// Whether other processes may have the lane.
    #[inline]
    pub fn is_met(&self) -> bool {
        self.is_met.load(Ordering::Relaxed)
    }

    /// Other processes have the lane.
    pub fn note_met(&self) {
        self.is_met.store(true, Ordering::Relaxed);
    }

    /// Whether processes that know nothing of this one's ends may hold the pipe.
    #[inline]
    pub fn is_open_to_strangers(&self) -> bool {
        self.is_open_to_strangers.load(Ordering::Relaxed)
    }

    /// From now on they may.
    pub fn open_to_strangers(&self) {
        self.is_open_to_strangers.store(true, Ordering::Relaxed);
    }

    /// Whether a reader of this process is at the lane, of a pipe that no stranger can have: then it is read,
    /// not broken, and there is nobody to look for. Whoever closes that reader notes its departure.
    #[inline]
    pub fn is_read_here(&self) -> bool {
        self.has_entered.load(Ordering::Relaxed)
            && !self.is_open_to_strangers()
            && self.readers.ends.load(Ordering::Relaxed) > 0
    }

    /// Whether both sides have ends here: a lane between them needs no meeting.
    pub fn has_members_here(&self) -> bool {
        [&self.readers, &self.writers]
            .iter()
            .all(|locals| locals.ends.load(Ordering::Relaxed) > 0)
    }

    /// What `side` has here.
    #[inline]
    pub fn locals(&self, side: Side) -> &Locals {
        match side {
            Side::Reader => &self.readers,
            Side::Writer => &self.writers,
        }
    }
}

/// How long what the kernel said of a pipe is taken for true while bytes flow: 20 to 60
/// microseconds on processors of 2 to 5 GHz, less than a process takes to die and be waited for.
const ASK_TICKS: u64 = 100_000;

/// Transfers below this size ask the clock only each [`SMALL_TRANSFERS`] times, where a late answer
/// does no harm.
const SMALL_BYTES: usize = 2048;
const SMALL_TRANSFERS: u32 = 16;

impl Locals {
    /// Whether it is time to ask the kernel pipe again.
    #[inline]
    pub fn is_time_to_ask(&self) -> bool {
        let now = patience::ticks();
        let due = now.wrapping_sub(self.asked_ticks.load(Ordering::Relaxed)) > ASK_TICKS;
        if due {
            self.asked_ticks.store(now, Ordering::Relaxed);
        }
        due
    }

    /// What was known is too old now.
    pub fn ask_next(&self) {
        self.asked_ticks.store(0, Ordering::Relaxed);
    }

    /// The same after a transfer, cheaper when it was a small one.
    #[inline]
    pub fn is_time_to_ask_after(&self, bytes: usize) -> bool {
        if bytes < SMALL_BYTES {
            let n = self.transfers_since.load(Ordering::Relaxed) + 1;
            if n < SMALL_TRANSFERS {
                self.transfers_since.store(n, Ordering::Relaxed);
                return false;
            }
            self.transfers_since.store(0, Ordering::Relaxed);
        }
        self.is_time_to_ask()
    }
}

fn ring(bell: &PrivateFd) {
    // Not by far as often as there is room for.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

impl Drop for Shared {
    fn drop(&mut self) {
        registry::remove(self);
        limits::give_lane_back(self.counted_bytes.load(Ordering::Relaxed));
        if let Some(lane) = self.lane.take()
            && !self.is_met()
        {
            // Nobody else can reach it.
            pool::keep(lane);
        }
    }
}
