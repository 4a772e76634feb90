//! A limit of bytes per second.

use std::time::{Duration, Instant};

/// What passes at once: so long takes the time of a piece.
const PIECE: Duration = Duration::from_millis(50);

/// How long a stream that is behind may catch up: a busy machine lets nobody sleep on time, but a
/// source that paused shall not flood the sink.
const CATCH_UP: Duration = Duration::from_millis(250);

/// Holds a stream to a rate. Each byte takes its time; [`Pace::next`] is when the time of those that
/// passed is over.
#[derive(Clone, Debug)]
pub struct Pace {
    bytes_per_s: u64,
    next: Instant,
}

impl Pace {
    pub fn new(bytes_per_s: u64, now: Instant) -> Self {
        Self {
            bytes_per_s,
            next: now,
        }
    }

    /// How many of `bytes` may pass at once, at least one, so that slow streams flow evenly.
    pub fn admit(&self, bytes: usize) -> usize {
        let piece = self.bytes_per_s * PIECE.as_millis() as u64 / 1000;
        bytes.min(piece as usize).max(1)
    }

    /// So many bytes have passed; how long to wait before the next.
    pub fn after(&mut self, bytes: usize, now: Instant) -> Duration {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let took = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s as f64);
        self.next = self.next.max(earliest) + took;
        self.next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams for `seconds` of a clock that only waiting moves; how many bytes passed.
    fn stream(bytes_per_s: u64, seconds: u64) -> u64 {
        let start = Instant::now();
        let (mut now, mut bytes) = (start, 0);
        let mut pace = Pace::new(bytes_per_s, start);
        while now < start + Duration::from_secs(seconds) {
            let count = pace.admit(1 << 17);
            bytes += count as u64;
            now += pace.after(count, now);
        }
        bytes
    }

    #[test]
    fn a_stream_keeps_its_rate() {
        for rate in [3, 1000, 1 << 20, 3 << 30] {
            let expected = rate * 10;
            let bytes = stream(rate, 10);
            assert!(
                bytes.abs_diff(expected) <= expected / 50 + 1,
                "{rate}/s: {bytes}"
            );
        }
    }

    #[test]
    fn a_pause_is_not_caught_up() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, start);
        let later = start + Duration::from_secs(100);
        assert_eq!(pace.after(50, later), Duration::ZERO);
        assert_eq!(pace.after(1000, later), Duration::from_millis(800));
    }
}
