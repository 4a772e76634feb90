//! What the ends of one pipe share within a process, above all its lane, which is made when it is
//! needed; and what has to be done for all pipes of the process around a fork.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};

use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{Lane, Mode, Side, Wake};
use standpipe_shm::patience::Patience;
use standpipe_shm::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use standpipe_shm::{fork, patience, pool};

/// One pipe, as this process knows it.
pub struct Shared {
    size: PipeSize,
    wake: Wake,
    lane: OnceLock<Lane>,
    /// The mode, until there is a lane that knows it. Held while one is made.
    mode_before_lane: Mutex<Mode>,
    /// A fork happened since the pipe was made: the lane may be in use elsewhere.
    is_forked: AtomicBool,
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
            mode_before_lane: Mutex::new(Mode::LANE),
            is_forked: AtomicBool::new(false),
            readers: Locals::default(),
            writers: Locals::default(),
        });
        live().insert(Arc::as_ptr(&shared) as usize, Arc::downgrade(&shared));
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
        let mut mode = self
            .mode_before_lane
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.lane.get().is_none() && !mode.has(Mode::KERNEL) {
            match pool::take(self.size, self.wake) {
                Ok(lane) => {
                    lane.add_mode(*mode);
                    let _ = self.lane.set(lane);
                }
                // Slower, never wrong.
                Err(_) => *mode = mode.with(Mode::KERNEL),
            }
        }
        self.lane.get()
    }

    /// The mode, for somebody of `side`.
    pub fn mode(&self, side: Side) -> Mode {
        match self.lane.get() {
            Some(lane) => lane.mode(side),
            None => *self
                .mode_before_lane
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Adds to the mode.
    pub fn add_mode(&self, mode: Mode) {
        let mut before_lane = self
            .mode_before_lane
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *before_lane = before_lane.with(mode);
        if let Some(lane) = self.lane.get() {
            lane.add_mode(mode);
        }
    }

    /// Whether any end that knows the lane may write: one of ours, or a forked one.
    pub fn may_have_lane_writers(&self) -> bool {
        // Acquire pairs with the Release in the drop of an end.
        self.writers.ends.load(Ordering::Acquire) > 0 || self.is_forked.load(Ordering::Relaxed)
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
        live().remove(&(std::ptr::from_ref(self) as usize));
        if let Some(lane) = self.lane.take()
            && !self.is_forked.load(Ordering::Relaxed)
        {
            pool::keep(lane);
        }
    }
}

// ---- forks --------------------------------------------------------------------------------------

type Live = HashMap<usize, Weak<Shared>>;

fn live() -> MutexGuard<'static, Live> {
    static LIVE: OnceLock<Mutex<Live>> = OnceLock::new();
    LIVE.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Held by the forking thread, so that the child finds them whole.
    static HELD: RefCell<Option<(MutexGuard<'static, Live>, pool::Pause)>> =
        const { RefCell::new(None) };
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
    // Taken out and dropped after the lists are ours: a last end dropped meanwhile waits for them.
    let pipes: Vec<_> = live.values().filter_map(Weak::upgrade).collect();
    for pipe in &pipes {
        pipe.lane_or_make();
        pipe.is_forked.store(true, Ordering::Relaxed);
    }
    HELD.with(|held| *held.borrow_mut() = Some((live, pool::pause())));
    KEEP_ALIVE.with(|keep| *keep.borrow_mut() = pipes);
}

thread_local! {
    /// Pipes must not be dropped while their list is held.
    static KEEP_ALIVE: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
}

fn release() {
    HELD.with(|held| drop(held.borrow_mut().take()));
    KEEP_ALIVE.with(|keep| drop(std::mem::take(&mut *keep.borrow_mut())));
}

/// In a forked child: page tables are empty, and the pool's lanes are the parent's.
fn begin_anew() {
    HELD.with(|held| {
        if let Some((live, pool)) = held.borrow_mut().as_mut() {
            for lane in live.values().filter_map(Weak::upgrade).collect::<Vec<_>>() {
                if let Some(lane) = lane.lane() {
                    lane.forget_page_tables();
                }
            }
            pool.clear();
        }
    });
    patience::recount_processors();
    release();
}
