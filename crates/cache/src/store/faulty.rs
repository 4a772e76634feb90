//! A store in front of another that goes wrong as it is told to, for tests: late answers, errors, bodies that
//! end early, an object that changes, answers that never come.
//!
//! What becomes of a read is decided by a seed, by where the read begins, and by how often it was asked for
//! there: not by the order in which threads come, so that a test that failed fails again.

use standpipe_core::readahead::Speed;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Read, Store, StoreError, Version};

/// What goes wrong, and how often: shares of all reads, from 0 to 1. By default, nothing.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Of all chance.
    pub seed: u64,
    /// How long each read waits before anything else happens. Without any, what goes wrong is told before
    /// [`start`](Store::start) returns.
    pub latency: Range<Duration>,
    /// Reads that fail.
    pub errors: f64,
    /// Reads that fail after some of the bytes have come.
    pub truncations: f64,
    /// Reads that are never answered, unless they are [released](Faulty::release).
    pub stalls: f64,
    /// The object is another one after this many reads.
    pub change_after: Option<u64>,
}

/// What became of the reads so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads that were started.
    pub reads: u64,
    /// Those that went through.
    pub passed: u64,
    /// Those that failed.
    pub errors: u64,
    /// Those that failed in the middle.
    pub truncations: u64,
    /// Those that stalled, released or not.
    pub stalls: u64,
    /// Those that found the object changed.
    pub changes: u64,
}

/// A store that goes wrong.
pub struct Faulty {
    shared: Arc<Shared>,
    /// To the thread that lets reads wait.
    later: Option<Sender<Waiting>>,
}

struct Shared {
    inner: Arc<dyn Store>,
    faults: Faults,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tally: Tally,
    /// How often reads were begun at each offset.
    asked: HashMap<u64, u64>,
    stalled: Vec<Read>,
}

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Fail,
    Truncate,
    Stall,
    Change,
}

impl Faulty {
    /// A store that reads from `inner`, if at all.
    ///
    /// # Panics
    /// If there is to be latency, and no thread can be had for it.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, faults: Faults) -> Self {
        let is_late = !faults.latency.is_empty();
        let shared = Arc::new(Shared {
            inner,
            faults,
            state: Mutex::default(),
        });
        let later = is_late.then(|| {
            let (later, waiting) = mpsc::channel();
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.let_wait(&waiting));
            later
        });
        Self { shared, later }
    }

    /// What became of the reads so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.shared.lock().tally
    }

    /// Lets the reads that have stalled so far go through.
    pub fn release(&self) {
        let stalled = std::mem::take(&mut self.shared.lock().stalled);
        for read in stalled {
            self.shared.inner.start(read);
        }
    }
}

impl Store for Faulty {
    fn name(&self) -> &str {
        self.shared.inner.name()
    }

    fn access(&self) -> &'static str {
        "faulty"
    }

    fn version(&self) -> &Version {
        self.shared.inner.version()
    }

    fn length_bytes(&self) -> u64 {
        self.shared.inner.length_bytes()
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        if self.shared.is_changed(self.tally().reads) {
            return Err(self.shared.changed());
        }
        self.shared.inner.refresh()
    }

    fn has_fixed_length(&self) -> bool {
        self.shared.inner.has_fixed_length()
    }

    fn transfer_bytes(&self) -> usize {
        self.shared.inner.transfer_bytes()
    }

    fn speed(&self) -> Speed {
        self.shared.inner.speed()
    }

    fn start(&self, read: Read) {
        let (fate, latency) = self.shared.decide(read.offset_bytes);
        let Some(later) = &self.later else {
            return self.shared.carry_out(fate, read);
        };
        let due = Instant::now() + latency;
        // The thread lives as long as this.
        let _ = later.send(Waiting { due, fate, read });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What becomes of a read that begins there now, and how late.
    fn decide(&self, offset_bytes: u64) -> (Fate, Duration) {
        let mut state = self.lock();
        let asked = state.asked.entry(offset_bytes).or_default();
        *asked += 1;
        let hasher = BuildHasherDefault::<DefaultHasher>::new();
        let seed = hasher.hash_one((self.faults.seed, offset_bytes, *asked));
        let mut random = fastrand::Rng::with_seed(seed);
        let is_changed = self.is_changed(state.tally.reads);
        let fate = self.faults.fate(is_changed, random.f64());
        state.tally.note(fate);
        (fate, self.faults.latency(random.f64()))
    }

    fn is_changed(&self, reads: u64) -> bool {
        let change = self.faults.change_after;
        change.is_some_and(|change| reads >= change)
    }

    fn changed(&self) -> StoreError {
        let was = &self.inner.version().0;
        StoreError::Changed {
            name: self.inner.name().to_owned(),
            was: was.clone(),
            is: format!("{was}, changed"),
        }
    }

    fn carry_out(&self, fate: Fate, read: Read) {
        let name = self.inner.name();
        let error = match fate {
            Fate::Pass => return self.inner.start(read),
            Fate::Stall => return self.lock().stalled.push(read),
            Fate::Truncate => return self.truncate(read),
            Fate::Change => self.changed(),
            Fate::Fail => {
                let error = io::Error::from(rustix::io::Errno::IO);
                StoreError::io(name, read.offset_bytes, error)
            }
        };
        (read.done)(read.lease, Err(error));
    }

    /// Reads half of what is wanted, and fails.
    fn truncate(&self, read: Read) {
        let (wanted, offset_bytes) = (read.len_bytes, read.offset_bytes);
        let name = self.inner.name().to_owned();
        let done = read.done;
        self.inner.start(Read {
            len_bytes: wanted / 2,
            done: Box::new(move |lease, result| {
                let truncated = |got| StoreError::Truncated {
                    name,
                    offset_bytes,
                    wanted,
                    got,
                    tries: 1,
                };
                done(lease, result.and_then(|got| Err(truncated(got))));
            }),
            ..read
        });
    }

    /// Carries out each read when it is due, until the store is gone.
    fn let_wait(&self, arriving: &mpsc::Receiver<Waiting>) {
        let mut waiting = BinaryHeap::<Waiting>::new();
        let mut is_open = true;
        while is_open || !waiting.is_empty() {
            let next = waiting.peek().map(|first| first.due);
            let left = next.map(|due| due.saturating_duration_since(Instant::now()));
            let arrived = match left {
                Some(left) => arriving.recv_timeout(left),
                None => arriving.recv().map_err(RecvTimeoutError::from),
            };
            match arrived {
                Ok(read) => waiting.push(read),
                Err(RecvTimeoutError::Timeout) => {
                    let Waiting { fate, read, .. } = waiting.pop().expect("one is due");
                    self.carry_out(fate, read);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    is_open = false;
                    // Nobody is left who could want to wait.
                    for Waiting { fate, read, .. } in waiting.drain() {
                        self.carry_out(fate, read);
                    }
                }
            }
        }
    }
}

impl Faults {
    /// What becomes of a read, by a number from 0 to 1.
    fn fate(&self, is_changed: bool, chance: f64) -> Fate {
        if is_changed {
            return Fate::Change;
        }
        let mut below = 0.0;
        let fates = [
            (self.errors, Fate::Fail),
            (self.truncations, Fate::Truncate),
            (self.stalls, Fate::Stall),
        ];
        let mut fates = fates.into_iter();
        let fate = fates.find(|(share, _)| {
            below += share;
            chance < below
        });
        fate.map_or(Fate::Pass, |(_, fate)| fate)
    }

    /// How late a read is, by a number from 0 to 1.
    fn latency(&self, chance: f64) -> Duration {
        let Range { start, end } = self.latency;
        start + end.saturating_sub(start).mul_f64(chance)
    }
}

impl Tally {
    fn note(&mut self, fate: Fate) {
        self.reads += 1;
        let count = match fate {
            Fate::Pass => &mut self.passed,
            Fate::Fail => &mut self.errors,
            Fate::Truncate => &mut self.truncations,
            Fate::Stall => &mut self.stalls,
            Fate::Change => &mut self.changes,
        };
        *count += 1;
    }
}

/// A read that is late. The first that is due is the greatest.
struct Waiting {
    due: Instant,
    fate: Fate,
    read: Read,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.due.cmp(&self.due)
    }
}

#[cfg(test)]
mod tests;
