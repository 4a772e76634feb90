//! How long the windows of a stream are.

use crate::readahead::sizes::{init_pages, next_pages};
use crate::readahead::{Speed, View};
use crate::size::PAGE_BYTES;

/// What can be under way while a store turns to a request: a window of so many times that is
/// transferred for much longer than was waited for it, and keeps a store busy whose latency is
/// hidden by others. Four: at most a fifth of the time is lost to latency.
const LATENCIES_PER_WINDOW: u128 = 4;

/// A ramp ends here at the earliest: 256 KiB. Shorter windows save next to no memory, and a store
/// whose latency was not yet seen, or hides in its bandwidth, is not read in small pieces for ever.
const LEAST_WINDOW_PAGES: u64 = 64;

/// The longest first window of short reads: 128 KiB, as in kernels.
const FIRST_WINDOW_PAGES: u64 = 32;

/// Where bounding a thrashed window ends, if the share is less than four times that.
const LEAST_BOUND_PAGES: u64 = 4;

/// How far a stream may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// The longest window of a stream.
    pub window: u64,
    /// How far to be ahead of the reader, with windows of full length.
    pub ahead: u64,
    /// A window that is shorter than this was not shortened by thrashing.
    pub floor: u64,
    /// How long reads are.
    pub read: u64,
    /// The longest window of all, for reads that are no stream.
    pub most: u64,
}

impl Reach {
    /// As far as the store, the budget and the user's `max` let a stream of reads of `read` pages go.
    pub fn of(view: &dyn View, crowd: Crowd, max: u64, read: u64) -> Self {
        let all = view.share_pages().max(1);
        let share = crowd.share_of(all);
        let read = read.max(1);
        // A read should find all that it asks for, and in one window.
        let wanted = dominant_pages(view.speed())
            .max(LEAST_WINDOW_PAGES)
            .checked_next_multiple_of(read)
            .unwrap_or(u64::MAX);
        // One that is being read, and one on its way.
        let window = wanted.min(max).min((share / 2).max(1));
        let has_room = share >= 3 * window && !view.is_congested();
        Self {
            window,
            ahead: if has_room { 3 * window } else { 2 * window },
            floor: (share / 4).max(LEAST_BOUND_PAGES).min(window),
            read,
            most: max.min(all),
        }
    }
}

/// Who shares the budget of an object's readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// The readers that the budget is shared out to.
    pub readers: u64,
    /// The streams that they read.
    pub streams: u64,
}

impl Crowd {
    /// A stream's share, where a reader's is `share`: readers with several streams divide theirs.
    fn share_of(self, share: u64) -> u64 {
        let each = share.saturating_mul(self.readers) / self.streams.max(1);
        each.max(2 * LEAST_BOUND_PAGES).min(share)
    }
}

/// The window whose transfer dominates the latency of the store.
fn dominant_pages(speed: Speed) -> u64 {
    let per_latency = u128::from(speed.latency_ns) * u128::from(speed.bytes_per_s) / 1_000_000_000;
    let pages = LATENCIES_PER_WINDOW * per_latency / PAGE_BYTES as u128;
    u64::try_from(pages).unwrap_or(u64::MAX)
}

/// What a stream is told about its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A page was evicted before it was used.
    Lost,
    /// Somebody waited for a page that was on its way.
    Late,
}

/// The length of a stream's windows, as it changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// That of the last window.
    size: u64,
    /// What thrashing left of it.
    bound: u64,
    is_lost: bool,
    is_late: bool,
}

impl Pace {
    /// That of a stream that has read `size` pages.
    pub const fn of(size: u64) -> Self {
        Self {
            size,
            bound: u64::MAX,
            is_lost: false,
            is_late: false,
        }
    }

    /// The first window, for a read of `count` pages. It may be the last one as well, so it is not
    /// longer than with a kernel's sizes, or twice the read.
    pub fn first(&mut self, count: u64, reach: &Reach) -> u64 {
        let max = FIRST_WINDOW_PAGES.max(2 * count);
        self.size = init_pages(count, max.min(reach.window));
        self.size
    }

    /// The next window. A reader that had to wait for the last one ramps up faster.
    pub fn next(&mut self, reach: &Reach) -> u64 {
        let most = self.settle(reach);
        self.size = next_pages(self.size, most);
        if std::mem::take(&mut self.is_late) {
            self.size = next_pages(self.size, most);
        }
        self.size
    }

    /// The window that was lost, again.
    pub fn again(&mut self, reach: &Reach) -> u64 {
        self.size = self.size.min(self.settle(reach)).max(1);
        self.size
    }

    /// Whether the windows are as long as they can be.
    pub fn is_full(&self, reach: &Reach) -> bool {
        self.size >= reach.window
    }

    /// Remembers news until the next window.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Lost => self.is_lost = true,
            News::Late => self.is_late = true,
        }
    }

    /// The longest that the next window may be: half of one that was lost, or else an eighth more
    /// than before.
    fn settle(&mut self, reach: &Reach) -> u64 {
        let bound = if std::mem::take(&mut self.is_lost) {
            self.bound.min(self.size) / 2
        } else {
            self.bound.saturating_add(self.bound / 8)
        };
        self.bound = bound.max(reach.floor);
        reach.window.min(self.bound)
    }
}
