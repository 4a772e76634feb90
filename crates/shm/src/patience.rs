//! How long to wait awake before going to sleep.
//!
//! Waking a sleeper on another processor takes about 20 microseconds on a virtual machine, and half
//! of one by letting it spin, so a little spinning pays, as long as the peer runs meanwhile: that
//! takes a second processor. On one processor, giving up the rest of the time slice lets the peer
//! run at half the price of a sleep and a wake-up. Both are bounded, and the bound follows success:
//! spinning that did not help is halved, spinning that did is doubled.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Longest spin, in ticks: 25 to 60 microseconds on processors of 2 to 5 GHz, what the sleep costs
/// that it may avoid, so that waiting awake at worst doubles the price.
const MAX_SPIN_TICKS: u64 = 120_000;
/// Shortest spin: enough to see a peer that is in the middle of its copy.
const MIN_SPIN_TICKS: u64 = 4_000;
/// One in so many waits spins the longest, whatever came before: a peer that has to be woken is
/// never back within the shortest, so without trying nobody would find out that it became fast. It
/// does not linger either, for the same reason.
const PROBE_EVERY: u32 = 16;
/// Most pauses between two looks of a spinner: under a microsecond.
const MOST_PAUSES: u32 = 4;
/// A peer that was back sooner than this, 100 to 200 nanoseconds, sends a stream of small pieces, and
/// we are faster than it. Looking at its position each time would take the cache line from it each
/// time; lingering lets it get some pieces ahead. An answer to something we sent takes longer.
const STREAM_TICKS: u64 = 400;
/// By how many pauses to linger longer each time that it worked out.
const LINGER_STEP: u32 = 4;
/// The longest linger, in pauses.
const LINGER_MOST: u32 = 32;
/// How often to yield to a peer on the same processor: it gets its turn at the first or second.
const YIELDS: u32 = 3;

/// A yield that took longer than this, 80 to 200 microseconds, gave the processor to a stranger: on
/// a busy machine, a sleeper is sooner back than a yielder.
const LONG_YIELD_TICKS: u64 = 400_000;
/// For how many waits after that not to yield.
const WAITS_WITHOUT_YIELD: u32 = 64;

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

/// The processor that this thread runs on, at the moment.
#[inline]
#[must_use]
pub fn processor() -> u32 {
    // SAFETY: sched_getcpu(3) has no preconditions. (glibc reads it from the thread's rseq area.)
    unsafe { libc::sched_getcpu() }.unsigned_abs()
}

/// A time-out for calls that must not wait.
pub const AT_ONCE: rustix::time::Timespec = rustix::time::Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

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
#[derive(Default)]
pub struct Patience {
    /// By how much the longest spin is halved.
    doubts: AtomicU32,
    waits: AtomicU32,
    /// How many pauses to let the peer get ahead before the first look.
    linger: AtomicU32,
    /// How many waits to go before yielding is tried again.
    no_yield: AtomicU32,
}

impl Patience {
    /// Waits awake for `ready`, within bounds. Says whether it came true. `peer_runs_elsewhere` says
    /// whether the peer can make it come true while we spin.
    pub fn wait(&self, peer_runs_elsewhere: bool, ready: impl Fn() -> bool) -> bool {
        if peer_runs_elsewhere {
            self.spin_for(ready)
        } else {
            self.yield_for(ready)
        }
    }

    fn yield_for(&self, ready: impl Fn() -> bool) -> bool {
        let no_yield = self.no_yield.load(Ordering::Relaxed);
        if no_yield > 0 {
            self.no_yield.store(no_yield - 1, Ordering::Relaxed);
            return false;
        }
        let mut start = ticks();
        (0..YIELDS).any(|_| {
            rustix::thread::sched_yield();
            let now = ticks();
            if now.wrapping_sub(start) > LONG_YIELD_TICKS {
                self.no_yield.store(WAITS_WITHOUT_YIELD, Ordering::Relaxed);
            }
            start = now;
            ready()
        })
    }

    fn spin_for(&self, ready: impl Fn() -> bool) -> bool {
        let waits = self.waits.load(Ordering::Relaxed).wrapping_add(1);
        self.waits.store(waits, Ordering::Relaxed);
        let is_probe = waits.is_multiple_of(PROBE_EVERY);
        let start = ticks();
        pause(if is_probe {
            0
        } else {
            self.linger.load(Ordering::Relaxed)
        });
        let mut pauses = 1;
        let mut waited = 0;
        while !ready() {
            if waited > self.bound_ticks(is_probe) {
                self.note_failure();
                return false;
            }
            pause(pauses);
            pauses = (pauses * 2).min(MOST_PAUSES);
            waited = ticks().wrapping_sub(start);
        }
        self.note_success(waited);
        true
    }

    fn bound_ticks(&self, is_probe: bool) -> u64 {
        let doubts = if is_probe {
            0
        } else {
            self.doubts.load(Ordering::Relaxed)
        };
        (MAX_SPIN_TICKS >> doubts).max(MIN_SPIN_TICKS)
    }

    /// `waited_ticks` is 0 if the first look was enough.
    fn note_success(&self, waited_ticks: u64) {
        self.doubts.store(0, Ordering::Relaxed);
        let linger = if waited_ticks < STREAM_TICKS {
            (self.linger.load(Ordering::Relaxed) + LINGER_STEP).min(LINGER_MOST)
        } else {
            0
        };
        self.linger.store(linger, Ordering::Relaxed);
    }

    fn note_failure(&self) {
        self.linger.store(0, Ordering::Relaxed);
        let doubts = self.doubts.load(Ordering::Relaxed);
        self.doubts
            .store((doubts + 1).min(u32::BITS - 1), Ordering::Relaxed);
    }
}

fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}
