//! Readahead: which pages to read before they are asked for.
//!
//! A [`Policy`] is asked at every page that a read touches, and answers with a [`Plan`]. It sees the
//! cache through a [`View`], and hears through [`Policy::note`] what came of earlier plans. Indexes and
//! counts are pages of one object.
//!
//! - [`PolicyKind`] names the policies and makes them.

mod adaptive;
mod context;
mod kind;
mod legacy;
mod off;
mod on_demand;
mod sizes;

#[cfg(test)]
mod harness;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod properties;

pub use adaptive::Adaptive;
pub use context::Context;
pub use kind::{PolicyKind, UnknownPolicy};
pub use legacy::Legacy;
pub use off::Off;
pub use on_demand::OnDemand;
pub use sizes::{init_pages, next_pages};

/// A page that a read touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The page.
    pub index: u64,
    /// How many pages the read still wants, this one included; at least 1.
    pub count: u64,
    /// This is the first page of a read.
    pub is_first: bool,
    /// It is in the cache, or being read.
    pub is_cached: bool,
    /// It carries the mark: the first page of the tail that was to be read before it is needed.
    pub is_marked: bool,
    /// Which of the object's readers asks; for policies that serve all of them.
    pub reader: u32,
}

/// Pages to read. The mark goes on the first page of the asynchronous tail, if that page is new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The first page.
    pub start: u64,
    /// How many; 0 is no window.
    pub size: u64,
    /// How many of them, at the end, are read before anybody waits for them.
    pub async_size: u64,
}

/// What a policy wants to be read: windows, each a transfer of its own, in this order. Most plans are
/// empty or one window; two-window readahead and strides have more.
///
/// Pages that are cached or being read already are not read again. A window may begin behind the page
/// that was accessed: if that page is missing and in none of them, it is read alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The windows; an empty window (size 0) does not occur.
    pub windows: Vec<Window>,
}

impl Plan {
    /// Nothing to read.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            windows: Vec::new(),
        }
    }

    /// One window, cut off at the `end` of the object.
    fn one(window: Window, end: u64) -> Self {
        let mut plan = Self::none();
        plan.push(window, end);
        plan
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.windows.is_empty()
    }

    /// Whether a page is in one of the windows.
    #[must_use]
    pub fn covers(&self, index: u64) -> bool {
        self.windows.iter().any(|window| window.covers(index))
    }

    /// Adds a window, cut off at the `end` of the object.
    fn push(&mut self, window: Window, end: u64) {
        let window = window.cut(end);
        if window.size > 0 {
            self.windows.push(window);
        }
    }
}

impl Window {
    /// What a read asked for, up to `max` pages, and nothing ahead.
    fn as_asked(access: &Access, max: u64) -> Self {
        Self {
            start: access.index,
            size: access.count.min(max),
            async_size: 0,
        }
    }

    /// The page behind the last one.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start + self.size
    }

    /// The page that is to carry the mark, if any.
    #[must_use]
    pub const fn mark(&self) -> Option<u64> {
        if self.async_size > 0 {
            Some(self.end() - self.async_size)
        } else {
            None
        }
    }

    /// Whether a page is in it.
    #[must_use]
    pub const fn covers(&self, index: u64) -> bool {
        self.start <= index && index < self.end()
    }

    /// What of it lies before `end`. The mark stays on its page, and is gone if that page is.
    const fn cut(self, end: u64) -> Self {
        let beyond = self.end().saturating_sub(end);
        Self {
            start: self.start,
            size: self.size.saturating_sub(beyond),
            async_size: self.async_size.saturating_sub(beyond),
        }
    }
}

/// What a policy may know of the cache and of the store.
pub trait View {
    /// The number of pages of the object: none at or behind it may be asked for.
    fn end(&self) -> u64;

    /// Whether a page is in the cache, or being read.
    fn is_cached(&self, index: u64) -> bool;

    /// How many pages right before `index` are cached without a hole; counts to `max` at most.
    fn run_before(&self, index: u64, max: u64) -> u64 {
        (1..=max.min(index))
            .take_while(|back| self.is_cached(index - back))
            .count() as u64
    }

    /// The first page behind `index` that is not cached, if it is less than `max` pages away.
    fn hole_after(&self, index: u64, max: u64) -> Option<u64> {
        (1..max)
            .map(|ahead| index + ahead)
            .find(|&page| !self.is_cached(page))
    }

    /// The store has more to do than it should: what can wait should not be asked for.
    fn is_congested(&self) -> bool;

    /// The pages of the budget that a stream of this object may count on.
    fn share_pages(&self) -> u64;

    /// How fast the store was lately.
    fn speed(&self) -> Speed;
}

/// How fast a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// From asking to the first byte.
    pub latency_ns: u64,
    /// From then on.
    pub bytes_per_s: u64,
}

/// What came of what was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The store failed.
    Failed,
    /// A page that was read ahead had to go before it was used.
    EvictedUnread {
        /// The page.
        index: u64,
    },
    /// A reader had to wait for a page that was already being read ahead.
    Late {
        /// The page.
        index: u64,
        /// How long.
        waited_ns: u64,
    },
    /// A reader is gone.
    Closed {
        /// Which.
        reader: u32,
    },
}

/// Decides what to read ahead, for one reader or for all readers of an object.
pub trait Policy: Send {
    /// A read touches a page.
    fn access(&mut self, access: &Access, view: &dyn View) -> Plan;

    /// Something came of an earlier plan.
    fn note(&mut self, event: &Event);
}
