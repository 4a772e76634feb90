//! How long to wait awake before going to sleep.
//!
//! Waking a sleeper on another processor takes about 20 microseconds on a virtual machine, and half
//! of one by letting it spin, so a little spinning pays, as long as the peer runs meanwhile: that
//! takes a second processor. On one processor, giving up the rest of the time slice lets the peer
//! run at half the price of a sleep and a wake-up. Both are bounded, and the bound follows success:
//! spinning that did not help is halved, spinning that did is doubled.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Longest spin, in ticks: 20 to 60 microseconds on processors of 2 to 5 GHz, about what the sleep
/// costs that it may avoid.
const MAX_SPIN_TICKS: u32 = 120_000;
/// Shortest spin: enough to see a peer that is in the middle of its copy.
const MIN_SPIN_TICKS: u32 = 4_000;
/// How often to yield on one processor: the peer gets its turn at the first or second.
const YIELDS: u32 = 3;

/// A clock that is cheap to read and good for short distances: the time stamp counter.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reading the counter has no preconditions on x86-64.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

static PROCESSORS: AtomicUsize = AtomicUsize::new(0);

/// How many processors this process may run on, as of the last [`recount_processors`].
#[inline]
pub fn processors() -> usize {
    match PROCESSORS.load(Ordering::Relaxed) {
        0 => recount_processors(),
        n => n,
    }
}

/// Asks the kernel how many processors this thread may run on. Cheap next to a sleep.
pub fn recount_processors() -> usize {
    let n = rustix::thread::sched_getaffinity(None)
        .map_or(1, |set| set.count() as usize)
        .max(1);
    PROCESSORS.store(n, Ordering::Relaxed);
    n
}

/// How patient one side of a pipe is, in this process.
pub struct Patience {
    spin_ticks: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            spin_ticks: AtomicU32::new(MAX_SPIN_TICKS),
        }
    }
}

impl Patience {
    /// Waits awake for `ready`, within bounds. Says whether it came true.
    pub fn wait(&self, ready: impl Fn() -> bool) -> bool {
        if processors() == 1 {
            Self::yield_for(ready)
        } else {
            self.spin_for(ready)
        }
    }

    fn yield_for(ready: impl Fn() -> bool) -> bool {
        (0..YIELDS).any(|_| {
            rustix::thread::sched_yield();
            ready()
        })
    }

    fn spin_for(&self, ready: impl Fn() -> bool) -> bool {
        let bound = self.spin_ticks.load(Ordering::Relaxed);
        let start = ticks();
        loop {
            for _ in 0..8 {
                if ready() {
                    self.adapt(bound.saturating_mul(2).min(MAX_SPIN_TICKS), bound);
                    return true;
                }
                std::hint::spin_loop();
            }
            if ticks().wrapping_sub(start) > u64::from(bound) {
                self.adapt((bound / 2).max(MIN_SPIN_TICKS), bound);
                return false;
            }
        }
    }

    fn adapt(&self, new_ticks: u32, old_ticks: u32) {
        if new_ticks != old_ticks {
            self.spin_ticks.store(new_ticks, Ordering::Relaxed);
        }
    }
}
