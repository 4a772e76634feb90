//! What a policy may see of the book.

use standpipe_core::readahead::{Speed, View};

use super::table::Table;

/// What a policy sees.
pub(super) struct Sight<'a> {
    pub table: &'a Table,
    pub end: u64,
    pub is_congested: bool,
    pub budget_pages: u64,
    pub streams: u64,
    pub speed: Speed,
}

impl View for Sight<'_> {
    fn end(&self) -> u64 {
        self.end
    }

    fn is_cached(&self, index: u64) -> bool {
        self.table.get(index).is_some()
    }

    fn run_before(&self, index: u64, max: u64) -> u64 {
        self.table.run_before(index, max)
    }

    fn hole_after(&self, index: u64, max: u64) -> Option<u64> {
        self.table.hole_after(index, max)
    }

    fn is_congested(&self) -> bool {
        self.is_congested
    }

    fn share_pages(&self) -> u64 {
        share_pages(self.budget_pages, self.streams)
    }

    fn speed(&self) -> Speed {
        self.speed
    }
}

/// The pages that each of so many streams may count on. With less than four, one cannot be read
/// while another is used, so streams then have to be served one after the other.
pub(super) fn share_pages(budget_pages: u64, streams: u64) -> u64 {
    (budget_pages / streams.max(1)).max(4).min(budget_pages)
}
