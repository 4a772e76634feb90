//! Waiting awake, for a while, before the ring sleeps.
//!
//! What is looked at is memory: lanes, what the kernel completed, pages that came. As long as nothing is
//! armed for it, a peer that moves bytes rings no bell either. Between two looks the processor is offered to
//! others: a peer that was put on the same one would not get on before the time is up.

use std::io;
use std::time::{Duration, Instant};

use standpipe_core::size::PIPE_BUF;
use standpipe_shm::lane::Side;

use super::attached::{Attached, Look};
use super::{EndId, Ring};

/// With more ends than this, a look at all of them takes as long as the sleep that it may avoid.
const MOST_ENDS: usize = 128;

impl Ring {
    /// How long [`wait`](Self::wait) looks again and again before it sleeps (unless set: not at all). Worth
    /// while if what is waited for comes within microseconds, and this thread has nothing better to do: to be
    /// put to sleep and woken takes several.
    ///
    /// It sees the lanes of pipes, completions of foreign descriptors, and pages of files. What is known to
    /// the kernel alone is seen when the time is up. A ring with more than 128 ends sleeps at once, and so does
    /// one that waits for a pipe without a lane, as each is until bytes have gone through it for a while.
    pub fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// Waits awake until something is complete, or due, but no longer than is set, or than `deadline`.
    pub(super) fn wait_awake(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        if self.spin.is_zero() || self.ends.len() > MOST_ENDS {
            return Ok(());
        }
        self.run_turns();
        let waiting = self.ends.iter().filter(|(_, end)| !end.is_idle());
        let waiting: Vec<EndId> = waiting.map(|(id, _)| id).collect();
        if waiting.iter().any(|id| !self.ends[*id].end.has_lane()) {
            // Of a pipe without a lane only the kernel knows.
            return Ok(());
        }
        let limits = [
            Instant::now().checked_add(self.spin),
            deadline,
            self.timers.next(),
        ];
        let until = limits.into_iter().flatten().min();
        let is_time = || until.is_none_or(|until| Instant::now() < until);
        while self.done.is_empty() && !self.flights.is_empty() && is_time() {
            rustix::thread::sched_yield();
            for &id in &waiting {
                if self.ends.get(id).is_some_and(|end| self.has_work_for(end)) {
                    self.give_turn(id, Look::Lane);
                }
            }
            #[cfg(feature = "file")]
            if self
                .arrivals
                .as_ref()
                .is_some_and(|arrivals| !arrivals.is_empty())
            {
                self.hear_arrivals();
            }
            self.run_kernel()?;
            self.run_turns();
        }
        Ok(())
    }

    /// Whether its lane has bytes, or room, for what waits on an end.
    pub(super) fn has_work_for(&self, attached: &Attached) -> bool {
        let has_bytes = !attached.reads.is_empty() && attached.end.is_lane_ready(Side::Reader, 1);
        has_bytes
            || attached.writes.front().is_some_and(|id| {
                let wanted_bytes = self.flights[*id].rest_bytes().clamp(1, PIPE_BUF);
                attached.end.is_lane_ready(Side::Writer, wanted_bytes)
            })
    }
}
