//! The book of a page cache: which pages are there, which are being read, which have to go.
//!
//! Events in, actions out: no I/O, no clock, no lock, no memory of pages. Whoever keeps the book
//! opens a *reader* on an *object* and tells of every page that a read [touches](Book::touch). The
//! book asks the reader's readahead policy, answers whether the page is there, and leaves the reads
//! that have to be started to be fetched with [`Book::next_io`]. When one is done, its pages are
//! brought in with [`Book::finish`].
//!
//! ```text
//!             touch: absent          next_io             finish
//!   absent ------------------> queued -------> being read -------> present, unread
//!     ^                          |                 |                  | touch
//!     |      close, seek, forget |  failed, forget |                  v
//!     +--------------------------+-----------------+<------------- present, used
//!                                                      eviction
//! ```
//!
//! # Invariants
//! 1. Pages present, queued, being read, and dropped while somebody held them: together never more
//!    than the budget.
//! 2. A page is in at most one I/O at a time, and is not read while it is present.
//! 3. A failed read leaves no page. Each reader that waited for one of its pages is told once, and
//!    its next touch reads the page again.
//! 4. Of the pages that were read ahead and arrived, each was used, or wasted, or is still unread.
//! 5. A page is not evicted while it is held, nor, as long as there is or will be another, while a
//!    reader waits for it; and nothing is read ahead while a reader finds no room. So no reader waits
//!    for ever; with a page for each reader and one more, it waits for a few reads at most.
//! 6. Streaming eviction: as long as a stream keeps to its share of the budget, what was read
//!    ahead for it is not evicted for what is read ahead for others. A stream is a reader with
//!    something read ahead in the last [`STREAM_NS`]; the share is the budget divided by the streams.

mod accounts;
mod audit;
mod drive;
mod evict;
mod flight;
mod ghosts;
mod lifetime;
mod object;
mod plan;
mod policy;
mod reader;
mod slots;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use slotmap::{Key, SlotMap};

pub use accounts::Accounts;
pub use standpipe_core::readahead::{PolicyKind, Speed};

use evict::Shelves;
use flight::Flights;
use ghosts::Ghosts;
use object::Object;
use reader::Reader;
use slots::Slots;

/// How long a reader counts as a stream after it used something read ahead: longer than a slow
/// consumer pauses, shorter than people wait for memory that a forgotten reader sits on.
pub const STREAM_NS: u64 = 30_000_000_000;

/// The memory of a page. `()` where only the book-keeping is of interest.
pub trait Body {
    /// Somebody outside the book uses it: evicting the page would not free its memory.
    fn is_held(&self) -> bool;
}

impl Body for () {
    fn is_held(&self) -> bool {
        false
    }
}

/// What a book is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most pages there may be (invariant 1); at least 1.
    pub budget_pages: u64,
    /// Which pages go first.
    pub eviction: Eviction,
}

/// Which pages go first when room is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// Fit for streaming: used pages of sequential readers go first, what was read ahead is kept
    /// until it is used or hopeless, what is used again is kept longest.
    #[default]
    Streaming,
    /// What kernels do: in the order of arrival, used or not, but for pages that were used twice.
    TwoLists,
}

slotmap::new_key_type! {
    /// An object whose pages are cached: one version of a file, say.
    pub struct ObjectId;

    /// A reader of an object: a stream, or a handle.
    pub struct ReaderId;

    /// A read of pages in a row.
    pub struct IoId;
}

/// A read to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// To be given to [`Book::finish`].
    pub id: IoId,
    /// What to read from.
    pub object: ObjectId,
    /// The first page.
    pub index: u64,
    /// How many pages.
    pub pages: u64,
    /// Nobody waits for any of them yet.
    pub is_ahead: bool,
}

/// What a touch comes to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Step<'a, P> {
    /// The page is there.
    Ready(&'a P),
    /// The page is being read, or will be when [`Book::next_io`] is called. Touch it again when the
    /// I/O is finished.
    Pending(IoId),
    /// The page could not be read. Being told clears it: the next touch tries again.
    Failed,
    /// Every page of the budget is held or being read. Touch it again when an I/O is finished or a
    /// page is released.
    NoRoom,
    /// The object has no such page: it ends before, or was forgotten.
    End,
}

/// What a reader says about what it is going to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing in particular; takes back the two below.
    Normal,
    /// From front to back: kernels' policies read twice as far ahead.
    Sequential,
    /// In no order: nothing is read ahead.
    Random,
    /// The range is going to be read: it is read now, as far as the reader's share goes.
    WillNeed,
    /// The range is not going to be read: its pages are dropped.
    DontNeed,
}

/// The book. `P` is the memory of a page.
pub struct Book<P: Body> {
    options: Options,
    slots: Slots<P>,
    shelves: Shelves,
    ghosts: Ghosts,
    objects: SlotMap<ObjectId, Object>,
    readers: SlotMap<ReaderId, Reader>,
    flights: Flights,
    /// Slots of pages that are on their way.
    absent_pages: u64,
    /// Pages that were dropped while they were held.
    gone: Vec<P>,
    /// Accounts of readers that are closed.
    closed: Accounts,
    /// Readers that count as streams.
    streams: u64,
    /// Readers that found no room for the page that they wait for.
    starved: u64,
    /// When streams were last counted.
    census_ns: u64,
    /// The reader that was last found to have more than its share.
    greedy: ReaderId,
    /// So many pages later, another use of a page is a sign that there will be more.
    apart_pages: u64,
    /// The pages of a read that is being put together.
    run: Vec<u32>,
}

impl<P: Body> Book<P> {
    /// An empty book.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let options = Options {
            budget_pages: options.budget_pages.clamp(1, u64::from(u32::MAX)),
            ..options
        };
        Self {
            options,
            slots: Slots::new(),
            shelves: Shelves::default(),
            ghosts: Ghosts::new(options.budget_pages),
            objects: SlotMap::with_key(),
            readers: SlotMap::with_key(),
            flights: Flights::default(),
            absent_pages: 0,
            gone: Vec::new(),
            closed: Accounts::default(),
            streams: 0,
            starved: 0,
            census_ns: 0,
            greedy: ReaderId::default(),
            apart_pages: match options.eviction {
                Eviction::Streaming => options.budget_pages / 16,
                Eviction::TwoLists => 0,
            },
            run: Vec::new(),
        }
    }

    /// Whether a page is there or on its way; changes nothing.
    #[must_use]
    pub fn is_cached(&self, object: ObjectId, index: u64) -> bool {
        let object = self.objects.get(object);
        object.is_some_and(|object| object.table.get(index).is_some())
    }

    /// What became of all pages.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        let mut sum = self.closed;
        for reader in self.readers.values() {
            sum += reader.accounts;
        }
        sum
    }

    /// What became of the pages of a reader; nothing once it is closed.
    #[must_use]
    pub fn reader_accounts(&self, reader: ReaderId) -> Accounts {
        let reader = self.readers.get(reader);
        reader.map_or_else(Accounts::default, |reader| reader.accounts)
    }

    /// How the budget is spent now.
    #[must_use]
    pub fn room(&self) -> Room {
        let sums = self.accounts();
        let present_pages = self.slots.len() - self.absent_pages;
        Room {
            budget_pages: self.options.budget_pages,
            present_pages,
            unread_pages: sums.prefetched - sums.used - sums.wasted,
            in_flight_pages: self.absent_pages + self.flights.orphans,
            held_pages: self.gone.len() as u64,
            streams: self.streams,
        }
    }

    /// As [`Book::room`], from what is known of all pages: in time proportional to the reads under way.
    #[must_use]
    pub fn room_by(&self, accounts: &Accounts) -> Room {
        let in_flight_pages = self.flights.pages();
        let held_pages = self.gone.len() as u64;
        Room {
            budget_pages: self.options.budget_pages,
            present_pages: self.taken_pages() - in_flight_pages - held_pages,
            // invariant 4
            unread_pages: accounts.prefetched - accounts.used - accounts.wasted,
            in_flight_pages,
            held_pages,
            streams: self.streams,
        }
    }

    /// How many readers there are.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Pages of the budget that are taken (invariant 1).
    #[must_use]
    pub fn taken_pages(&self) -> u64 {
        self.slots.len() + self.flights.orphans + self.gone.len() as u64
    }

    /// The accounts of a reader, or of those that are closed.
    fn accounts_of(&mut self, reader: ReaderId) -> &mut Accounts {
        match self.readers.get_mut(reader) {
            Some(reader) => &mut reader.accounts,
            None => &mut self.closed,
        }
    }
}

/// The number of a key, which is unique among those alive.
fn key_index<K: Key>(key: K) -> u32 {
    key.data().as_ffi() as u32
}

/// A number that is unique among all keys there ever were.
fn key_bits<K: Key>(key: K) -> u64 {
    key.data().as_ffi()
}

/// How the budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The most there may be.
    pub budget_pages: u64,
    /// Pages that are there.
    pub present_pages: u64,
    /// Of those, read ahead and not yet used.
    pub unread_pages: u64,
    /// Pages queued or being read, those included that nobody wants any more.
    pub in_flight_pages: u64,
    /// Pages that were dropped while somebody held them, as far as known.
    pub held_pages: u64,
    /// Readers that count as streams.
    pub streams: u64,
}

impl<P: Body> fmt::Debug for Book<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book")
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}
