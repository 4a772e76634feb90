//! What `buffer` says at the end.

use std::collections::BTreeMap;

use serde::Serialize;

use super::reservoir::Waits;
use crate::units;

/// The outcome of one `buffer`.
#[derive(Debug, Serialize)]
pub struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub bytes: u64,
    pub seconds: f64,
    pub bytes_per_s: f64,
    /// Absent where bytes went from pipe to pipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservoir: Option<ReservoirSummary>,
    /// What came through the lane of a neighbour that speaks standpipe, and what left through one.
    pub lane_bytes_read: u64,
    pub lane_bytes_written: u64,
    pub checksums: BTreeMap<&'static str, String>,
    /// Whether every output got everything.
    pub complete: bool,
}

/// What the reservoir saw.
#[derive(Debug, Serialize)]
pub struct ReservoirSummary {
    pub capacity_bytes: usize,
    /// How often the reader found it full.
    pub times_full: u64,
    /// How often the writer found it empty.
    pub times_empty: u64,
}

impl ReservoirSummary {
    pub fn new(capacity_bytes: usize, waits: Waits) -> Self {
        Self {
            capacity_bytes,
            times_full: waits.full,
            times_empty: waits.empty,
        }
    }

    fn words(&self) -> String {
        format!(
            "; {} reservoir {} times full, {} times empty",
            units::binary(self.capacity_bytes),
            self.times_full,
            self.times_empty
        )
    }
}

impl Summary {
    /// For people, in a line.
    pub fn line(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("{name}: "));
        let reservoir = self.reservoir.as_ref().map(ReservoirSummary::words);
        format!(
            "{}{} in {}, {}/s{}",
            name.unwrap_or_default(),
            units::amount(self.bytes as f64),
            units::duration(self.seconds),
            units::amount(self.bytes_per_s),
            reservoir.unwrap_or_default(),
        )
    }
}
