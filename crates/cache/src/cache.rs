//! The cache: a [book](crate::book), the memory of its pages, and the stores that fill them.
//!
//! ```text
//!  reader: read_at -- lock --> book: touch --> there: copy from the page, without the lock
//!                                   |
//!                                   +--> not there: wait, or WouldBlock
//!                                   +--> reads to be started --> store --> done -- lock --> book: finish
//!                                                                              wake who waits for it
//! ```
//! There is no thread of the cache: reads are started by those who read, and by what calls back when one
//! is done.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use standpipe_core::size::PAGE_BYTES;
use standpipe_shm::arena::{Arena, Page};
use standpipe_shm::sync::AtomicBool;

use crate::book::{Accounts, Body, Book, Eviction, IoId, ObjectId, PolicyKind, ReaderId, Room};
use crate::store::Store;

mod arrivals;
mod bell;
mod drive;
pub mod notice;
mod object;
mod reader;
mod speed;
pub mod trace;

pub use arrivals::{Arrivals, Pending};
pub use reader::{Borrowed, ReadError, Reader, Wait};

use bell::Bells;
use notice::Teller;
use object::{Objects, Source};
use trace::Trace;

impl Body for Page {
    fn is_held(&self) -> bool {
        self.is_shared()
    }
}

/// What a cache is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most memory that pages may take, those included that are being read; at least a page.
    pub budget_bytes: u64,
    /// Which pages go first.
    pub eviction: Eviction,
}

impl Default for Options {
    /// 256 MiB, for streaming.
    fn default() -> Self {
        Self {
            budget_bytes: 256 << 20,
            eviction: Eviction::default(),
        }
    }
}

/// How a reader reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// By which rules.
    pub policy: PolicyKind,
    /// How far at most, in bytes.
    pub max_bytes: u64,
}

/// Pages of objects in memory. A clone is the same cache.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

struct Shared {
    arena: Arc<Arena>,
    state: Mutex<State>,
    began: Instant,
    trace: Option<&'static Trace>,
    /// Somebody waits for a page that is held to be released. See [`Shared::tell_of_room`].
    is_room_wanted: AtomicBool,
    /// See [`standpipe_shm::fork::generation`].
    generation: u32,
}

/// What is behind the lock.
struct State {
    book: Book<Page>,
    bells: Bells,
    objects: Objects,
    /// Reads that were handed out and are not done, and when, in nanoseconds.
    started: HashMap<IoId, u64>,
    teller: Teller,
}

/// How a cache does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// What became of all pages.
    pub accounts: Accounts,
    /// How the budget is spent.
    pub room: Room,
    /// How many objects it has pages of, or readers.
    pub objects: usize,
}

impl Cache {
    /// An empty cache. It uses no memory until pages are read.
    ///
    /// # Errors
    /// As [`Arena::new`]; if the file that [`trace::TRACE_ENV`] names can't be written; `InvalidInput` if the budget is less than a page, or more than 16 TiB.
    pub fn new(options: Options) -> io::Result<Self> {
        let budget_pages = options.budget_bytes / PAGE_BYTES as u64;
        let pages = u32::try_from(budget_pages).ok().filter(|&pages| pages > 0);
        let pages = pages.ok_or_else(|| {
            let text = format!(
                "a cache of {} bytes: expected at least {PAGE_BYTES}, less than 16 TiB",
                options.budget_bytes
            );
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        standpipe_shm::fork::count();
        let shared = Shared {
            trace: Trace::of_process()?,
            arena: Arena::new(pages)?,
            state: Mutex::new(State::new(budget_pages, options.eviction)),
            began: Instant::now(),
            is_room_wanted: AtomicBool::new(false),
            generation: standpipe_shm::fork::generation(),
        };
        shared.lock().tell_now();
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Reads an object through the cache. Readers of one version of one object share its pages. (In a
    /// child that was forked since the cache was made, it can't be read: [`ReadError::Forked`].)
    #[must_use]
    pub fn open(&self, store: Arc<dyn Store>, ahead: Ahead) -> Reader {
        if self.shared.is_forked() {
            let source = Source::new(ObjectId::default(), &store);
            return Reader::new(Arc::clone(&self.shared), source, store, ReaderId::default());
        }
        let mut state = self.shared.lock();
        for outdated in state.objects.outdated(&*store) {
            state.book.forget(outdated.id);
        }
        let joined = state.objects.join(&store);
        let (source, store) = joined.unwrap_or_else(|| (state.add(&store), store));
        let max_pages = (ahead.max_bytes / PAGE_BYTES as u64).max(1);
        let reader = state.book.open(source.id, ahead.policy, max_pages);
        state.tell(self.shared.now_ns(), 0);
        drop(state);
        Reader::new(Arc::clone(&self.shared), source, store, reader)
    }

    /// How it does. Nothing in a child that was forked since it was made.
    #[must_use]
    pub fn stat(&self) -> Stat {
        if self.shared.is_forked() {
            return Stat::default();
        }
        let state = self.shared.lock();
        Stat {
            accounts: state.book.accounts(),
            room: state.book.room(),
            objects: state.objects.len(),
        }
    }

    /// The memory of its pages.
    #[must_use]
    pub fn arena(&self) -> &Arc<Arena> {
        &self.shared.arena
    }
}

impl Shared {
    /// Whether this is a child of the process that made the cache. Its pages are the parent's, who puts
    /// other bytes there, and what is behind the lock may have been locked, and half changed, when this
    /// process was forked.
    fn is_forked(&self) -> bool {
        standpipe_shm::fork::generation() != self.generation
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_forked() {
            let state = self.state.get_mut();
            let state = state.unwrap_or_else(std::sync::PoisonError::into_inner);
            std::mem::forget(std::mem::replace(state, State::new(1, Eviction::default())));
        }
    }
}

impl State {
    fn new(budget_pages: u64, eviction: Eviction) -> Self {
        Self {
            book: Book::new(crate::book::Options {
                budget_pages,
                eviction,
            }),
            bells: Bells::default(),
            objects: Objects::default(),
            started: HashMap::new(),
            teller: Teller::new(),
        }
    }

    fn add(&mut self, store: &Arc<dyn Store>) -> Arc<Source> {
        let end = store.length_bytes().div_ceil(PAGE_BYTES as u64);
        let id = self.book.add_object(end, store.speed());
        let most_bytes = store.transfer_bytes() as u64;
        self.book
            .set_most_of_a_read(id, most_bytes / PAGE_BYTES as u64);
        let source = Source::new(id, store);
        self.objects.add(&source);
        source
    }
}
