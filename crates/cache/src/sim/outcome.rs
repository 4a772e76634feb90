//! What came of a scenario.

use standpipe_core::size::PAGE_BYTES;

use crate::book::Accounts;

/// What happened within a stretch of time, or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// How long.
    pub elapsed_ns: u64,
    /// Bytes that readers got.
    pub read_bytes: u64,
    /// Reads of the store, neighbours counted as one.
    pub ios: u64,
    /// Bytes of these.
    pub io_bytes: u64,
}

impl Sample {
    /// What readers got, in millions of bytes per second.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.read_bytes as f64 * 1e3 / self.elapsed_ns.max(1) as f64
    }

    /// The average size of a read of the store; 0 if there was none.
    #[must_use]
    pub fn avg_io_kib(&self) -> f64 {
        self.io_bytes as f64 / 1024.0 / self.ios.max(1) as f64
    }
}

/// What came of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// All of it, from the end of the warm-up on.
    pub total: Sample,
    /// One stretch of time after the other, from the very beginning; the last, unfinished one left
    /// out.
    pub samples: Vec<Sample>,
    /// Reads that readers made, from the end of the warm-up on.
    pub reads: u64,
    /// Those of them that had to wait for the store.
    pub waits: u64,
    /// What became of pages, from the end of the warm-up on.
    pub accounts: Accounts,
    /// The most pages that were taken at any time.
    pub most_pages: u64,
}

impl Outcome {
    /// How many of the touched pages were there.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        let accounts = &self.accounts;
        let touches = accounts.hits + accounts.misses + accounts.waits;
        accounts.hits as f64 / touches.max(1) as f64
    }

    /// Bytes that were read ahead for nothing.
    #[must_use]
    pub const fn wasted_bytes(&self) -> u64 {
        self.accounts.wasted * PAGE_BYTES as u64
    }

    /// The best throughput of a sample.
    #[must_use]
    pub fn max_mb_per_s(&self) -> f64 {
        let rates = self.samples.iter().map(Sample::mb_per_s);
        rates.fold(0.0, f64::max)
    }

    /// The smallest average size of a sample's I/Os; those without any are left out.
    #[must_use]
    pub fn min_avg_io_kib(&self) -> f64 {
        let busy = self.samples.iter().filter(|sample| sample.ios > 0);
        busy.map(Sample::avg_io_kib).fold(f64::INFINITY, f64::min)
    }
}
