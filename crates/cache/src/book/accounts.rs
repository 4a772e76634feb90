//! What became of pages.

use std::ops::AddAssign;

/// The fields, so that sums and differences leave none out.
macro_rules! each_field {
    ($sum:ident $op:tt $other:ident: $($field:ident)+) => {
        $($sum.$field $op $other.$field;)+
    };
    ($sum:ident $op:tt $other:ident) => {
        each_field!(
            $sum $op $other: hits misses waits refaults readahead_calls reads read_pages prefetched
            used late wasted evicted_unread failed
        );
    };
}

/// What became of pages; of one reader, or of all together.
///
/// Each touch is one of `hits`, `misses` and `waits`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Touches that found the page.
    pub hits: u64,
    /// Touches that found it neither present nor on its way.
    pub misses: u64,
    /// Touches that found it on its way.
    pub waits: u64,
    /// Misses of a page that had been evicted not long before.
    pub refaults: u64,
    /// How often the policy was asked because a page was missing or carried the mark.
    pub readahead_calls: u64,
    /// I/Os that were handed out to be started.
    pub reads: u64,
    /// The pages of these.
    pub read_pages: u64,
    /// Pages that arrived without having been asked for.
    pub prefetched: u64,
    /// Prefetched pages that were touched at last.
    pub used: u64,
    /// Prefetched pages that a reader touched when they were still on their way.
    pub late: u64,
    /// Prefetched pages that were dropped unread.
    pub wasted: u64,
    /// Those of them that had to make room.
    pub evicted_unread: u64,
    /// Pages that could not be read.
    pub failed: u64,
}

impl AddAssign for Accounts {
    fn add_assign(&mut self, other: Self) {
        each_field!(self += other);
    }
}

impl Accounts {
    /// What has come in since they were `earlier`.
    #[must_use]
    pub const fn since(mut self, earlier: &Self) -> Self {
        each_field!(self -= earlier);
        self
    }
}
