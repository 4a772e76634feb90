//! One clock for all processes of a benchmark.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock, which all processes of a machine share.
#[must_use]
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// `duration` in nanoseconds.
#[must_use]
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// When a writer stops: after at least so much time, and at least so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// The least time of a run.
    pub time: Duration,
    /// The fewest bytes of a run, over all writers.
    pub bytes: u64,
}

impl Stop {
    /// After `time`, however little that was.
    #[must_use]
    pub const fn after(time: Duration) -> Self {
        Self { time, bytes: 1 }
    }

    /// Whether `bytes` of this writer's share are enough, `start_ns` having been its begin.
    #[must_use]
    pub fn reached(self, start_ns: u64, now_ns: u64, bytes: u64, writers: usize) -> bool {
        now_ns - start_ns >= ns(self.time) && bytes * writers as u64 >= self.bytes
    }
}
