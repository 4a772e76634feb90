//! How fast a store is, as far as can be told from what it did.

use crate::book::Speed;

/// Bandwidth is measured over stretches of this much traffic at least.
const STRETCH_BYTES: u64 = 1 << 20;
/// And of this much time: reads that were under way together may arrive at one instant.
const STRETCH_NS: u64 = 1_000_000;

/// Measures while there is something to do.
///
/// The bandwidth is what arrived while at least one read was under way, over the time of that; of late, the
/// most. The latency is what a read took that found the store idle: with others before it, it would have
/// waited for them as well, and windows that grow with their own queue would grow for ever. So more reads at
/// once show more bandwidth as long as there is more, and no more latency.
#[derive(Debug)]
pub struct Meter {
    speed: Speed,
    under_way: u64,
    /// When the read began that found the store idle, if it is still under way.
    first_ns: Option<u64>,
    busy_since_ns: u64,
    busy_ns: u64,
    bytes: u64,
    has_latency: bool,
    has_bandwidth: bool,
}

impl Meter {
    /// Of a store that is taken to be so fast until it was seen.
    pub fn new(speed: Speed) -> Self {
        Self {
            speed,
            under_way: 0,
            first_ns: None,
            busy_since_ns: 0,
            busy_ns: 0,
            bytes: 0,
            has_latency: false,
            has_bandwidth: false,
        }
    }

    /// How many reads are under way.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// A read begins.
    pub fn start(&mut self, now_ns: u64) {
        if self.under_way == 0 {
            self.busy_since_ns = now_ns;
            self.first_ns = Some(now_ns);
        }
        self.under_way += 1;
    }

    /// A read that was begun at `began_ns` is done.
    pub fn finish(&mut self, bytes: u64, began_ns: u64, now_ns: u64) {
        self.under_way -= 1;
        self.bytes += bytes;
        self.busy_ns += now_ns - self.busy_since_ns;
        self.busy_since_ns = now_ns;
        if self.first_ns.take_if(|first| *first == began_ns).is_some() && bytes > 0 {
            self.note_latency(now_ns - began_ns);
        }
        if self.bytes >= STRETCH_BYTES && self.busy_ns >= STRETCH_NS {
            self.note_bandwidth();
        }
    }

    fn note_latency(&mut self, seen_ns: u64) {
        let known = self.speed.latency_ns;
        self.speed.latency_ns = if !self.has_latency || seen_ns < known {
            seen_ns.max(1000)
        } else {
            known + (seen_ns - known) / 8
        };
        self.has_latency = true;
    }

    fn note_bandwidth(&mut self) {
        let seen = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.busy_ns.max(1));
        let seen = u64::try_from(seen).unwrap_or(u64::MAX).max(1);
        let known = self.speed.bytes_per_s;
        self.speed.bytes_per_s = if !self.has_bandwidth || seen > known {
            seen
        } else {
            known - (known - seen) / 16
        };
        self.has_bandwidth = true;
        self.bytes = 0;
        self.busy_ns = 0;
    }

    /// As far as is known.
    pub fn speed(&self) -> Speed {
        self.speed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn meter() -> Meter {
        Meter::new(Speed {
            latency_ns: 1,
            bytes_per_s: 1,
        })
    }

    #[test]
    fn time_without_reads_counts_for_nothing() {
        let mut meter = meter();
        meter.start(0);
        meter.finish(1 << 20, 0, 10 * MS);
        meter.start(1000 * MS);
        meter.finish(1 << 20, 1000 * MS, 1010 * MS);
        assert_eq!(meter.speed().bytes_per_s, 100 << 20);
    }

    #[test]
    fn reads_under_way_together_count_together() {
        let mut meter = meter();
        for _ in 0..4 {
            meter.start(0);
        }
        for quarter in 1..=4 {
            meter.finish(1 << 20, 0, quarter * 10 * MS);
        }
        assert_eq!(meter.speed().bytes_per_s, 100 << 20);
        assert_eq!(meter.under_way(), 0);
    }

    #[test]
    fn latency_is_that_of_reads_that_found_the_store_idle() {
        let mut meter = meter();
        for began in [0, 1, 2] {
            meter.start(began);
        }
        meter.finish(4096, 0, 5 * MS);
        meter.finish(4096, 1, 50 * MS);
        meter.finish(4096, 2, 90 * MS);
        assert_eq!(meter.speed().latency_ns, 5 * MS);
    }

    /// As a disk would be that is asked for one more read each time, and serves one after the other.
    #[test]
    fn a_queue_is_no_latency() {
        let mut meter = meter();
        let mut now = 0;
        for depth in 1..20 {
            (0..depth).for_each(|_| meter.start(now));
            let began = now;
            for _ in 0..depth {
                now += 10 * MS;
                meter.finish(1 << 20, began, now);
            }
        }
        assert_eq!(meter.speed().latency_ns, 10 * MS);
        assert_eq!(meter.speed().bytes_per_s, 100 << 20);
    }

    #[test]
    fn a_store_that_became_slower_is_noticed() {
        let mut meter = meter();
        let mut now = 0;
        let mut read = |took: u64, times: u64| {
            for _ in 0..times {
                meter.start(now);
                meter.finish(1 << 20, now, now + took);
                now += took;
            }
            meter.speed()
        };
        let fast = read(MS, 50);
        let slow = read(200 * MS, 200);
        assert!(
            slow.bytes_per_s * 100 < fast.bytes_per_s,
            "{fast:?} {slow:?}"
        );
        assert!(slow.latency_ns > 100 * fast.latency_ns, "{fast:?} {slow:?}");
    }
}
