//! What a page cache says of itself, for people and as JSON.

use std::fmt;

use serde::Serialize;
use standpipe::file::{Accounts, PAGE_BYTES};

use crate::units;

/// What became of the pages of a reader, or of a cache. `*_pages` are pages of 4096 bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CacheReport {
    /// Looks for a page that found it.
    pub hits: u64,
    /// Looks for a page that was neither there nor on its way.
    pub misses: u64,
    /// Looks for a page that was on its way.
    pub waits: u64,
    /// Hits of all looks.
    pub hit_rate: f64,
    /// Misses of a page that had been evicted not long before.
    pub refaults: u64,
    /// How often the policy was asked how far to read.
    pub readahead_calls: u64,
    /// Reads of the store.
    pub reads: u64,
    pub read_bytes: u64,
    pub avg_read_bytes: u64,
    /// Pages that came before anybody asked for them.
    pub prefetched_pages: u64,
    /// Those of them that were used.
    pub used_pages: u64,
    /// Those that came too late for somebody not to wait.
    pub late_pages: u64,
    /// Those that were dropped unread.
    pub wasted_pages: u64,
    /// Pages that could not be read.
    pub failed_pages: u64,
}

impl From<&Accounts> for CacheReport {
    fn from(accounts: &Accounts) -> Self {
        let read_bytes = accounts.read_pages * PAGE_BYTES as u64;
        Self {
            hits: accounts.hits,
            misses: accounts.misses,
            waits: accounts.waits,
            hit_rate: hit_rate(accounts),
            refaults: accounts.refaults,
            readahead_calls: accounts.readahead_calls,
            reads: accounts.reads,
            read_bytes,
            avg_read_bytes: read_bytes / accounts.reads.max(1),
            prefetched_pages: accounts.prefetched,
            used_pages: accounts.used,
            late_pages: accounts.late,
            wasted_pages: accounts.wasted,
            failed_pages: accounts.failed,
        }
    }
}

/// Looks for a page that found it, of all looks; 1 where nobody looked.
fn hit_rate(accounts: &Accounts) -> f64 {
    match accounts.hits + accounts.misses + accounts.waits {
        0 => 1.0,
        looks => accounts.hits as f64 / looks as f64,
    }
}

impl fmt::Display for CacheReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  store     {} of {} on average, {}",
            units::count(self.reads, "read"),
            units::binary(self.avg_read_bytes as usize),
            amount(self.read_bytes / PAGE_BYTES as u64),
        )?;
        writeln!(
            f,
            "  pages     {:.1} % hits: {} there, {} on their way, {} missing",
            self.hit_rate * 100.0,
            self.hits,
            self.waits,
            self.misses,
        )?;
        writeln!(
            f,
            "  ahead     {} read ahead: {} used, {} of it late, {} wasted",
            amount(self.prefetched_pages),
            amount(self.used_pages),
            amount(self.late_pages),
            amount(self.wasted_pages),
        )?;
        if self.failed_pages > 0 {
            writeln!(f, "  failed    {}", amount(self.failed_pages))?;
        }
        Ok(())
    }
}

/// So many pages as an amount of data.
fn amount(pages: u64) -> String {
    units::amount(pages as f64 * PAGE_BYTES as f64)
}
