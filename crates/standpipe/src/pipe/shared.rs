//! What the ends of one pipe share within a process, above all its lane, which is made when it is
//! needed; and what has to be done for all pipes of the process around a fork.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};

use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{Lane, Mode, Side, Wake};
use standpipe_shm::patience::Patience;
use standpipe_shm::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, full_fence};
use standpipe_shm::{fork, patience, pool};

/// One pipe, as this process knows it.
pub struct Shared {
    size: PipeSize,
    wake: Wake,
    lane: OnceLock<Lane>,
    /// The mode, as far as this process added to it: all there is until there is a lane.
    own_mode: AtomicU32,
    /// A fork happened since the pipe was made: the lane may be in use elsewhere.
    is_forked: AtomicBool,
    /// The lane is empty, and nothing will ever enter it again.
    pub(super) is_lane_done: AtomicBool,
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
    /// Small transfers since.
    pub transfers_since: AtomicU32,
    /// Bytes that went through the kernel pipe.
    pub kernel_bytes: AtomicU64,
}

impl Shared {
    /// A new pipe, without a lane so far.
    pub fn new(size: PipeSize, wake: Wake) -> Arc<Self> {
        watch_forks();
        let shared = Arc::new(Self {
            size,
            wake,
            lane: OnceLock::new(),
            own_mode: AtomicU32::new(Mode::LANE.bits()),
            is_forked: AtomicBool::new(false),
            is_lane_done: AtomicBool::new(false),
            readers: Locals::default(),
            writers: Locals::default(),
        });
        live()
            .pipes
            .insert(Arc::as_ptr(&shared) as usize, Arc::downgrade(&shared));
        shared
    }

    /// Capacity and segment.
    pub fn size(&self) -> PipeSize {
        self.size
    }

    /// The lane, if there is one.
    #[inline]
    pub fn lane(&self) -> Option<&Lane> {
        self.lane.get()
    }

    /// The lane, made now if need be. `None` if this pipe does without one: somebody who does not
    /// know lanes reads from it, or none can be had.
    #[inline]
    pub fn lane_or_make(&self) -> Option<&Lane> {
        self.lane.get().or_else(|| self.make_lane())
    }

    #[cold]
    fn make_lane(&self) -> Option<&Lane> {
        if !self.own_mode().has(Mode::KERNEL) {
            match pool::take(self.size, self.wake) {
                // Another thread was faster: back with ours.
                Ok(lane) => drop(self.lane.set(lane).map_err(pool::keep)),
                // Slower, never wrong.
                Err(_) => self.add_mode(Mode::KERNEL),
            }
            // Pairs with the fence in `add_mode`: one of the two tells the lane.
            full_fence();
            self.tell_lane();
        }
        self.lane.get()
    }

    fn own_mode(&self) -> Mode {
        Mode::from_bits(self.own_mode.load(Ordering::Relaxed))
    }

    fn tell_lane(&self) {
        if let Some(lane) = self.lane.get()
            && self.own_mode() != Mode::LANE
        {
            lane.add_mode(self.own_mode());
        }
    }

    /// The mode, for somebody of `side`.
    pub fn mode(&self, side: Side) -> Mode {
        self.lane
            .get()
            .map_or_else(|| self.own_mode(), |lane| lane.mode(side))
    }

    /// Adds to the mode.
    pub fn add_mode(&self, mode: Mode) {
        self.own_mode.fetch_or(mode.bits(), Ordering::Relaxed);
        // Pairs with the fence in `make_lane`.
        full_fence();
        self.tell_lane();
    }

    /// Whether other processes may have the lane.
    pub fn is_forked(&self) -> bool {
        self.is_forked.load(Ordering::Relaxed)
    }

    /// Whether any end that knows the lane may write: one of ours, or a forked one.
    pub fn may_have_lane_writers(&self) -> bool {
        // Acquire pairs with the Release in the drop of an end.
        self.writers.ends.load(Ordering::Acquire) > 0 || self.is_forked()
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

impl Drop for Shared {
    fn drop(&mut self) {
        live().pipes.remove(&(std::ptr::from_ref(self) as usize));
        if let Some(lane) = self.lane.take()
            && !self.is_forked.load(Ordering::Relaxed)
        {
            pool::keep(lane);
        }
    }
}

// ---- forks --------------------------------------------------------------------------------------

/// What has to be known at a fork.
#[derive(Default)]
pub struct Live {
    pipes: HashMap<usize, Weak<Shared>>,
    /// Descriptors of this process alone.
    own_fds: Vec<RawFd>,
}

fn live() -> MutexGuard<'static, Live> {
    static LIVE: OnceLock<Mutex<Live>> = OnceLock::new();
    LIVE.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// No fork happens until the result is dropped.
pub fn hold_forks() -> MutexGuard<'static, Live> {
    live()
}

/// Children of this process close `fd`. Called while forks are held.
pub fn close_in_children(live: &mut Live, fd: &impl AsRawFd) {
    live.own_fds.push(fd.as_raw_fd());
}

/// `fd` is about to be closed here. Called while forks are held.
pub fn closes(live: &mut Live, fd: &impl AsRawFd) {
    live.own_fds.retain(|own| *own != fd.as_raw_fd());
}

/// What the forking thread holds from before a fork until after, so that the child finds it whole.
struct Held {
    live: MutexGuard<'static, Live>,
    pool: pool::Pause,
    /// Pipes must not be dropped while their list is held.
    pipes: Vec<Arc<Shared>>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        fork::watch(fork::Hooks {
            prepare,
            parent: release,
            child: begin_anew,
        });
    });
}

/// Before a fork: each pipe gets its lane, since one made later would be on one side only.
fn prepare() {
    let live = live();
    let pipes: Vec<_> = live.pipes.values().filter_map(Weak::upgrade).collect();
    for pipe in &pipes {
        pipe.lane_or_make();
        pipe.is_forked.store(true, Ordering::Relaxed);
    }
    let held = Held {
        live,
        pool: pool::pause(),
        pipes,
    };
    HELD.with(|place| *place.borrow_mut() = Some(held));
}

fn release() {
    let held = HELD.with(|place| place.borrow_mut().take());
    if let Some(Held { live, pool, pipes }) = held {
        drop((live, pool));
        // The last ends of some may have gone meanwhile; dropping those takes the list.
        drop(pipes);
    }
}

/// In a forked child: page tables are empty, and the pool's lanes are the parent's.
fn begin_anew() {
    HELD.with(|place| {
        if let Some(held) = place.borrow_mut().as_mut() {
            held.pool.clear();
            held.live.own_fds.drain(..).for_each(fork::close);
            for pipe in &held.pipes {
                if let Some(lane) = pipe.lane() {
                    lane.forget_page_tables();
                }
                if fork::is_in_other_pid_namespace() {
                    pipe.add_mode(Mode::KERNEL);
                }
            }
        }
    });
    patience::recount_processors();
    release();
}
