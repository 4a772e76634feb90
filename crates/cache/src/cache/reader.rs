//! One who reads an object through the cache.

use std::io;
use std::ops::{Deref, Range};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use smallvec::SmallVec;
use standpipe_core::size::PAGE_BYTES;
use standpipe_shm::arena::Page;

use super::arrivals::Pending;
use super::bell::{Bell, Outcome};
use super::notice::RARELY_NS;
use super::object::Source;
use super::trace;
use super::{Cache, Shared, State};
use crate::book::{Accounts, Advice, ReaderId, Step};
use crate::store::{Store, StoreError};

/// So many pages are looked up at once; they are copied without the lock.
const BATCH_PAGES: usize = 64;

const PAGE: u64 = PAGE_BYTES as u64;

/// A reader of an object. Threads may share it: each of their reads is a read of its own.
pub struct Reader {
    shared: Arc<Shared>,
    source: Arc<Source>,
    store: Arc<dyn Store>,
    id: ReaderId,
    bell: Arc<Bell>,
    /// Of the read that it was last told of. Changed with the book, under its lock.
    outcome: Mutex<Outcome>,
    /// Where its reads are written down, if they are.
    stream: Option<trace::Stream>,
}

/// Why a read gave nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It would have had to wait. [`Reader::pollable`] tells when to try again.
    #[error("the page is not there yet")]
    WouldBlock,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This is a child that was forked from the process that opened the file.
    #[error("{name} was opened by the process that this one was forked from: open it again")]
    Forked {
        /// The object.
        name: String,
    },
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            ReadError::Store(error) => error.into(),
            ReadError::Forked { .. } => Self::new(io::ErrorKind::Unsupported, error),
        }
    }
}

/// Whether to wait for pages that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until they are.
    UntilThere,
    /// Not at all: what is there is given, and `WouldBlock` if that is nothing.
    Never,
}

/// Who waits for a page, and how.
struct Waiter<'a> {
    bell: &'a Arc<Bell>,
    wait: Wait,
    /// What came of the read of the store that it waits for.
    awaited: &'a mut Option<Outcome>,
}

impl<'a> From<&'a mut Pending> for Waiter<'a> {
    fn from(pending: &'a mut Pending) -> Self {
        Self {
            bell: &pending.bell,
            wait: Wait::Never,
            awaited: &mut pending.awaited,
        }
    }
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        source: Arc<Source>,
        store: Arc<dyn Store>,
        id: ReaderId,
    ) -> Self {
        let stream = shared.trace.map(|trace| trace.stream(store.name()));
        Self {
            stream,
            shared,
            source,
            store,
            id,
            bell: Arc::default(),
            outcome: Mutex::default(),
        }
    }

    /// What is read from.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The cache that is read through.
    #[must_use]
    pub fn cache(&self) -> Cache {
        let shared = Arc::clone(&self.shared);
        Cache { shared }
    }

    /// How long the object is, in bytes. Asks the store.
    ///
    /// # Errors
    /// See [`Store::refresh`].
    pub fn length_bytes(&self) -> Result<u64, ReadError> {
        self.check_fork()?;
        let look = self.source.look();
        let length_bytes = self.store.refresh()?;
        let mut state = self.shared.lock();
        state.set_length(&self.source, look, length_bytes);
        Ok(length_bytes)
    }

    /// Reads up to `to.len()` bytes from `offset_bytes` on. Fewer come where the object ends, and none
    /// behind its end; and, without waiting, as many as are there.
    ///
    /// # Errors
    /// See [`ReadError`]. None if bytes were read before: the next read says it.
    pub fn read_at(
        &self,
        to: &mut [u8],
        offset_bytes: u64,
        wait: Wait,
    ) -> Result<usize, ReadError> {
        self.read_with(to, offset_bytes, &mut self.waiter(wait, &mut None))
    }

    /// Reads, without waiting, as [`read_at`](Self::read_at) does. After `WouldBlock` it is tried again, with
    /// the same `pending`, when that is called.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn try_read_at(
        &self,
        to: &mut [u8],
        offset_bytes: u64,
        pending: &mut Pending,
    ) -> Result<usize, ReadError> {
        self.read_with(to, offset_bytes, &mut Waiter::from(pending))
    }

    fn read_with(
        &self,
        to: &mut [u8],
        offset_bytes: u64,
        waiter: &mut Waiter<'_>,
    ) -> Result<usize, ReadError> {
        let began = self.began();
        let mut done = 0;
        while done < to.len() {
            let is_first = done == 0;
            let left = to.len() - done;
            let found = self.pages_at(offset_bytes + done as u64, left, is_first, waiter);
            let copied = match found {
                Ok(found) => found.copy_to(&mut to[done..]),
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
            if copied == 0 {
                break;
            }
            done += copied;
        }
        self.note(began, offset_bytes, done);
        Ok(done)
    }

    /// The cached pages from `offset_bytes` on, without a copy: what is there of `len_bytes`, at least a
    /// byte unless the object ends there. They stay in memory, and in the budget, until dropped.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn borrow_at(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        wait: Wait,
    ) -> Result<Borrowed, ReadError> {
        self.borrow_with(offset_bytes, len_bytes, &mut self.waiter(wait, &mut None))
    }

    /// The same, without waiting, as [`try_read_at`](Self::try_read_at).
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn try_borrow_at(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        pending: &mut Pending,
    ) -> Result<Borrowed, ReadError> {
        self.borrow_with(offset_bytes, len_bytes, &mut Waiter::from(pending))
    }

    fn borrow_with(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        waiter: &mut Waiter<'_>,
    ) -> Result<Borrowed, ReadError> {
        let began = self.began();
        let found = self.pages_at(offset_bytes, len_bytes, true, waiter)?;
        self.note(began, offset_bytes, found.len());
        Ok(found)
    }

    fn waiter<'a>(&'a self, wait: Wait, awaited: &'a mut Option<Outcome>) -> Waiter<'a> {
        Waiter {
            bell: &self.bell,
            wait,
            awaited,
        }
    }

    /// The time, if it is going to be written down.
    #[inline]
    fn began(&self) -> Option<SystemTime> {
        self.stream.is_some().then(SystemTime::now)
    }

    #[inline]
    fn note(&self, began: Option<SystemTime>, offset_bytes: u64, len_bytes: usize) {
        if let (Some(stream), Some(began)) = (&self.stream, began) {
            stream.note(began, offset_bytes, len_bytes);
        }
    }

    /// The first pages of a stretch: as many as are there without waiting once there is one.
    fn pages_at(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        is_first: bool,
        waiter: &mut Waiter<'_>,
    ) -> Result<Borrowed, ReadError> {
        self.check_fork()?;
        let mut found = Borrowed::new(Arc::clone(&self.shared));
        let Some(range) = self.within(offset_bytes, len_bytes)? else {
            return Ok(found);
        };
        let (first, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
        let mut state = self.shared.lock();
        let mut index = first;
        // The read that we wait for: the book knows of one for each reader, and threads share readers.
        let mut awaited = waiter.awaited.take();
        let mut now_ns = 0;
        while index < end && found.pages.len() < BATCH_PAGES {
            now_ns = self.shared.now_ns();
            let is_first = is_first && index == first;
            let step = state
                .book
                .touch(self.id, index, end - index, is_first, now_ns);
            let pending = match step {
                Step::Ready(page) => {
                    found.pages.push(page.clone());
                    index += 1;
                    continue;
                }
                Step::Failed if found.pages.is_empty() => {
                    return Err(self.failure(awaited.as_ref()));
                }
                Step::End | Step::Failed => break,
                Step::Pending(io) => Some((io, state.bells.outcome(io))),
                Step::NoRoom => None,
            };
            if let Some((_, outcome)) = &pending {
                *self.outcome() = Arc::clone(outcome);
            }
            if !found.pages.is_empty() {
                break;
            }
            if awaited
                .as_ref()
                .is_some_and(|outcome| outcome.get().is_some())
            {
                drop(self.start(state));
                return Err(self.failure(awaited.as_ref()));
            }
            match pending {
                Some((io, outcome)) => {
                    awaited = Some(outcome);
                    state.bells.when_done(io, waiter.bell);
                }
                None if self.shared.ask_for_room() => continue,
                None => state.bells.when_room(waiter.bell),
            }
            // The read may be done before we sleep.
            let rings = waiter.bell.rings();
            state = self.start(state);
            if waiter.wait == Wait::Never {
                *waiter.awaited = awaited;
                return Err(ReadError::WouldBlock);
            }
            state = waiter.bell.sleep(state, rings);
        }
        state.tell(now_ns, RARELY_NS);
        waiter.bell.end_silence();
        // It may have become shorter meanwhile. Under the lock: as it is for the pages that were found.
        let end = range.end.min(self.source.length_bytes());
        drop(self.start(state));
        let there = (first + found.pages.len() as u64) * PAGE;
        found.span = (range.start - first * PAGE) as usize
            ..(end.min(there).max(range.start) - first * PAGE) as usize;
        Ok(found)
    }

    /// Why a read failed, rather the one that was waited for.
    fn failure(&self, awaited: Option<&Outcome>) -> ReadError {
        let latest = self.outcome();
        let error = awaited.and_then(|outcome| outcome.get()).or(latest.get());
        error.cloned().expect("a read that failed said why").into()
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the reads that a touch led to.
    #[inline]
    fn start<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if !state.book.has_queued() {
            return state;
        }
        let wanted = self.shared.wanted(&mut state);
        if wanted.is_empty() {
            return state;
        }
        drop(state);
        self.shared.begin(wanted);
        self.shared.lock()
    }

    /// The part of a stretch that the object has. None if that is nothing.
    fn within(&self, offset_bytes: u64, len_bytes: usize) -> Result<Option<Range<u64>>, ReadError> {
        let mut length = self.source.length_bytes();
        let is_beyond = offset_bytes.saturating_add(len_bytes as u64) > length;
        if is_beyond && !self.store.has_fixed_length() {
            // It may have grown.
            length = self.length_bytes()?;
        }
        let end = offset_bytes.saturating_add(len_bytes as u64).min(length);
        Ok((offset_bytes < end).then_some(offset_bytes..end))
    }

    /// What will be read, and how: see [`Advice`]. `range` is in bytes.
    ///
    /// # Errors
    /// [`ReadError::Forked`].
    pub fn advise(&self, advice: Advice, range: Range<u64>) -> Result<(), ReadError> {
        self.check_fork()?;
        // Pages that are partly meant are meant to be read, but not to be dropped.
        let pages = match advice {
            Advice::DontNeed => range.start.div_ceil(PAGE)..self.last_page_meant(range.end),
            _ => range.start / PAGE..range.end.div_ceil(PAGE),
        };
        let mut state = self.shared.lock();
        state.book.advise(self.id, advice, pages);
        drop(self.start(state));
        Ok(())
    }

    /// The end of the pages that lie before `end` whole; the object's last one does.
    fn last_page_meant(&self, end: u64) -> u64 {
        if end >= self.source.length_bytes() {
            end.div_ceil(PAGE)
        } else {
            end / PAGE
        }
    }

    /// The reader goes on at `offset_bytes`: what was to be read elsewhere for it need not be any more.
    ///
    /// # Errors
    /// [`ReadError::Forked`].
    pub fn seek(&self, offset_bytes: u64) -> Result<(), ReadError> {
        self.check_fork()?;
        self.shared.lock().book.seek(self.id, offset_bytes / PAGE);
        Ok(())
    }

    /// A descriptor that is readable, for poll, epoll and select, unless the last read that would not wait
    /// got nothing, and what it lacked is still missing.
    ///
    /// # Errors
    /// As `eventfd(2)`; [`ReadError::Forked`].
    pub fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        self.check_fork()?;
        // Under the lock: no bell rings between a look and the descriptor.
        let _state = self.shared.lock();
        self.bell.fd()
    }

    /// What became of the pages that were read for it.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        if self.shared.is_forked() {
            return Accounts::default();
        }
        self.shared.lock().book.reader_accounts(self.id)
    }

    fn check_fork(&self) -> Result<(), ReadError> {
        if !self.shared.is_forked() {
            return Ok(());
        }
        let name = self.store.name().to_owned();
        Err(ReadError::Forked { name })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.check_fork().is_err() {
            // The book is the parent's, and its lock may have been held when we were forked.
            return;
        }
        let mut state = self.shared.lock();
        state.book.close(self.id);
        if let Some(forgotten) = state.objects.leave(&self.source) {
            state.book.forget(forgotten.id);
        }
        state.bells.room();
        state.tell(self.shared.now_ns(), 0);
        drop(self.start(state));
    }
}

/// Cached bytes, in place. They are the process's that borrowed them: under a forked child that looks at
/// them, they may change.
pub struct Borrowed {
    shared: Arc<Shared>,
    /// In place for the small reads, which are many.
    pages: SmallVec<[Page; 4]>,
    /// Which of their bytes are meant.
    span: Range<usize>,
}

impl Borrowed {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            pages: SmallVec::new(),
            span: 0..0,
        }
    }

    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.span.len()
    }

    /// The object ends here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    /// The bytes, a slice for each page.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let span = self.span.clone();
        self.pages.iter().enumerate().filter_map(move |(at, page)| {
            let start = at * PAGE_BYTES;
            let from = span.start.max(start) - start;
            let to = span.end.min(start + PAGE_BYTES).checked_sub(start)?;
            (from < to).then(|| &page.deref()[from..to])
        })
    }

    fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut copied = 0;
        for slice in self.slices() {
            to[copied..copied + slice.len()].copy_from_slice(slice);
            copied += slice.len();
        }
        copied
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if !self.pages.is_empty() {
            self.pages.clear();
            // Somebody may wait for memory that only we held.
            self.shared.tell_of_room();
        }
    }
}
