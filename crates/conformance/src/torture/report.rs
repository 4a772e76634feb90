//! What a run came to.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Told later than this is late.
const LATE: Duration = Duration::from_millis(100);

/// What a run came to.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Whose pipes.
    pub engine: &'static str,
    /// What the run can be repeated from, as far as random instants can.
    pub seed: u64,
    /// Rounds, each with a pipe of its own.
    pub rounds: u64,
    /// Children killed.
    pub kills: u64,
    /// Of these, writers.
    pub writers_killed: u64,
    /// Of these, readers.
    pub readers_killed: u64,
    /// Records that came and were checked.
    pub records: u64,
    /// How long it took.
    pub wall_s: f64,
    /// Survivors that were told of their last peer's death.
    pub survivors: u64,
    /// How long after it they were told: the median.
    pub told_p50_us: f64,
    /// The 99th percentile.
    pub told_p99_us: f64,
    /// The longest.
    pub told_max_us: f64,
    /// Survivors told later than after 100 ms.
    pub told_late: u64,
    /// What went wrong, with the round.
    pub faults: Vec<String>,
}

impl Summary {
    /// Takes in how long survivors waited, in nanoseconds.
    pub(super) fn set_told(&mut self, mut told_ns: Vec<u64>) {
        told_ns.sort_unstable();
        // The value that `percent` of all do not exceed.
        let at = |percent: usize| {
            let index = (told_ns.len() * percent).div_ceil(100).saturating_sub(1);
            told_ns.get(index).map_or(0.0, |&ns| ns as f64 / 1e3)
        };
        self.survivors = told_ns.len() as u64;
        self.told_late = told_ns
            .iter()
            .filter(|&&ns| u128::from(ns) > LATE.as_nanos())
            .count() as u64;
        self.told_p50_us = at(50);
        self.told_p99_us = at(99);
        self.told_max_us = at(100);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            engine,
            seed,
            rounds,
            kills,
            records,
            wall_s,
            ..
        } = self;
        for fault in &self.faults {
            writeln!(f, "FAULT: {fault}")?;
        }
        write!(
            f,
            "torture {engine}: {kills} kills ({} writers, {} readers) in {rounds} rounds, \
             {records} records checked, {wall_s:.1} s ({:.0} kills/s), seed {seed}\n\
             {} survivors told of their last peer's death after {:.0} us (median), {:.0} us (p99), \
             {:.0} us (longest), {} later than {LATE:?}\n{}",
            self.writers_killed,
            self.readers_killed,
            *kills as f64 / wall_s,
            self.survivors,
            self.told_p50_us,
            self.told_p99_us,
            self.told_max_us,
            self.told_late,
            if self.faults.is_empty() {
                "nothing lost, torn, doubled, hung or leaked"
            } else {
                "FAILED"
            },
        )
    }
}
