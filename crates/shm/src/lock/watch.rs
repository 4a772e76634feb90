//! Whoever waits for a lock watches that its word makes sense, and that it does not take too long.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::thread::futex;

use super::{LockError, OWNER, RobustLock};
use crate::sync::Ordering;

/// How long to sleep before looking again, whatever happens: peers are to be told of a death within
/// 100 milliseconds. (A fuzzer scribbles into locks all the time, and has no peers to be fair to.)
pub const RECHECK: Duration = Duration::from_micros(if cfg!(fuzzing) { 20 } else { 40_000 });

/// After how many looks at the word to look at the clock as well. Only a word that somebody scribbles
/// into changes so often without ever being free.
const MANY_LOOKS: u32 = 1024;

/// Looks after somebody who waits for a lock: that the word makes sense, and that it does not take
/// too long.
pub struct Watch<'a> {
    lock: &'a RobustLock,
    /// How long to wait for a living owner.
    patience: Duration,
    since: Instant,
    looks: u32,
    /// How often the word named a thread that did not exist.
    strikes: u32,
}

impl<'a> Watch<'a> {
    pub fn new(lock: &'a RobustLock, patience: Duration) -> Self {
        Self {
            lock,
            patience,
            since: Instant::now(),
            looks: 0,
            strikes: 0,
        }
    }

    /// How long to sleep now.
    pub fn nap(&self) -> Duration {
        RECHECK.min(self.patience.saturating_sub(self.since.elapsed()))
    }

    /// After each look at the word that did not give us the lock: whether to go on.
    pub fn look(&mut self, time_is_up: bool) -> Result<(), LockError> {
        self.looks += 1;
        if !time_is_up && !self.looks.is_multiple_of(MANY_LOOKS) {
            return Ok(());
        }
        let found = self.lock.word.load(Ordering::Relaxed);
        let owner = found & OWNER;
        // The kernel takes the owner off when it says that it died.
        if owner != 0 && found & futex::OWNER_DIED != 0 {
            return Err(LockError::Corrupted { found });
        }
        if owner != 0 && is_nobody(owner) && self.lock.word.load(Ordering::Relaxed) & OWNER == owner
        {
            // Twice, as a new thread may have got the id, and the lock, after we looked.
            self.strikes += 1;
            if self.strikes == 2 {
                return Err(LockError::Corrupted { found });
            }
            return Ok(());
        }
        if self.since.elapsed() >= self.patience {
            return Err(LockError::Held { owner });
        }
        Ok(())
    }
}

/// Whether there is no thread with this id. See kill(2): signal 0 only asks.
fn is_nobody(tid: u32) -> bool {
    let tid = Pid::from_raw(tid.cast_signed());
    tid.is_none_or(|tid| test_kill_process(tid) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_never_sleeps_is_timed_as_well() {
        let lock = RobustLock::default();
        let mut watch = Watch::new(&lock, Duration::ZERO);
        let ends = (1..=2 * MANY_LOOKS).find(|_| watch.look(false).is_err());
        assert_eq!(ends, Some(MANY_LOOKS));
    }
}
