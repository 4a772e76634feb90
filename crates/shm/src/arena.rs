//! Pages with owners: memory that is filled once and then handed on by reference.
//!
//! ```text
//! pages:    | page 0 | page 1 | ...     a memfd, sealed: never shorter, and writable at home only
//! ledger:   | word 0 | word 1 | ...     a memfd: who else holds a page, a bit for each
//! ```
//! Pages are [taken](Arena::take) in bulk as a [`Lease`], which alone may write them; [frozen](Lease::freeze)
//! they are [`Page`]s, which nobody writes any more, and which are counted. The process that made the arena
//! (its *home*) counts its own references where nobody else can write. What it [lends](Page::lend) to another
//! process, an *owner*, is a bit in the ledger, which that process clears when it is done; if it dies before,
//! the home [takes them back](Arena::take_back). The home knows to whom it lent a page, and heeds no other bit.
//! So a hostile owner can keep what was lent for as long as those live to whom it was, or end the loan of
//! another, who then copies other bytes out; it can neither write a page nor keep one that was not lent.
//!
//! A page belongs to one of three at any time: the free ones, those held at home, those held by other owners
//! only. [`Arena::audit`] counts them.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::Pid;
use standpipe_core::free_map::FreeMap;
use standpipe_core::size::PAGE_BYTES;

use crate::mapping::Mapping;
use crate::private_fd::PrivateFd;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

mod guest;
mod lease;
mod ledger;
mod owner;
mod page;

pub use guest::Guest;
pub use lease::Lease;
pub use owner::OwnerId;
pub use page::Page;

use ledger::Ledger;
use owner::Owners;

/// Pages are populated in chunks of this many (1 MiB), when one of them is first taken.
const CHUNK_PAGES: u32 = 256;

/// Pages with owners. See the [module](self).
pub struct Arena {
    memory: Mapping,
    ledger: Ledger,
    file: PrivateFd,
    /// The references to each page that this process has.
    counts: Box<[AtomicU32]>,
    /// The owners that each page was lent to since it was last free, as bits: what the ledger says of others
    /// is not true. Relaxed: set by who has a reference, cleared under the lock when there is none, or when
    /// the owner is dead.
    lent_to: Box<[AtomicU64]>,
    state: Mutex<State>,
    home: Pid,
    /// See [`crate::fork::generation`].
    generation: u32,
}

struct State {
    free: FreeMap,
    /// Held by other owners only, when last looked at.
    lent: Vec<u32>,
    owners: Owners,
    /// Which chunks are populated.
    is_populated: Vec<bool>,
}

/// Why no pages could be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// There are not as many free.
    #[error("{wanted} pages were wanted, {free} of the arena's {pages} are free")]
    Full {
        /// How many were wanted.
        wanted: usize,
        /// How many are free.
        free: usize,
        /// How many there are.
        pages: usize,
    },
    /// The machine has no memory for them.
    #[error("the machine has no memory for {wanted} pages more")]
    Memory {
        /// How many were wanted.
        wanted: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// This is a child that was forked from the process that made the arena, and that alone gives pages out.
    #[error("the arena belongs to process {home}, which this one was forked from")]
    Forked {
        /// Whose arena it is.
        home: i32,
    },
}

/// Who holds how many pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Free, in pages.
    pub free: usize,
    /// Held by this process, and maybe by others too, in pages.
    pub home: usize,
    /// Held by other owners only, in pages.
    pub lent: usize,
}

/// A page that belongs to nobody, or to the free ones and to somebody.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "page {page} is {} free, has {references} references here, and is {} lent",
    if *is_free { "" } else { "not" },
    if *is_lent { "" } else { "not" },
)]
pub struct AuditError {
    /// The page.
    pub page: u32,
    /// Whether it is given out as free.
    pub is_free: bool,
    /// How often it is referred to at home.
    pub references: u32,
    /// Whether it is in the list of those that others hold.
    pub is_lent: bool,
}

impl Arena {
    /// An arena of `pages` pages. It uses no memory until they are taken.
    ///
    /// # Errors
    /// As `memfd_create(2)` and `mmap(2)`.
    ///
    /// # Panics
    /// If `pages` is 0.
    pub fn new(pages: u32) -> io::Result<Arc<Self>> {
        assert!(pages > 0, "an arena without pages");
        crate::fork::count();
        let len_bytes = pages as usize * PAGE_BYTES;
        let file = memfd("standpipe-arena", len_bytes)?;
        let memory = Mapping::reserve(len_bytes)?;
        memory.map(&file, 0, 0, len_bytes)?;
        // From now on nobody else gets a mapping that can be written.
        seal(&file, SealFlags::FUTURE_WRITE)?;
        Ok(Arc::new(Self {
            memory,
            ledger: Ledger::new(pages)?,
            file,
            counts: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            lent_to: (0..pages).map(|_| AtomicU64::new(0)).collect(),
            state: Mutex::new(State {
                free: FreeMap::new(pages),
                lent: Vec::new(),
                owners: Owners::default(),
                is_populated: vec![false; pages.div_ceil(CHUNK_PAGES) as usize],
            }),
            home: rustix::process::getpid(),
            generation: crate::fork::generation(),
        }))
    }

    /// How many pages it has.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.counts.len() as u32
    }

    /// How many are free.
    #[must_use]
    pub fn free_pages(&self) -> u32 {
        self.lock().free.free()
    }

    /// Takes `pages` pages, all or none. Their contents are what the last user left.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take(self: &Arc<Self>, pages: usize) -> Result<Lease, TakeError> {
        if rustix::process::getpid() != self.home || self.is_forked() {
            let home = self.home.as_raw_nonzero().get();
            return Err(TakeError::Forked { home });
        }
        let runs = self.take_runs(pages)?;
        let lease = Lease::new(Arc::clone(self), runs, pages);
        // Outside the lock: this is what takes time.
        self.populate(lease.runs())
            .map_err(|source| TakeError::Memory {
                wanted: pages,
                source,
            })?;
        Ok(lease)
    }

    fn take_runs(&self, pages: usize) -> Result<Vec<Range<u32>>, TakeError> {
        let mut state = self.lock();
        if (state.free.free() as usize) < pages {
            self.sweep(&mut state);
        }
        let mut runs = Vec::new();
        let full = TakeError::Full {
            wanted: pages,
            free: state.free.free() as usize,
            pages: self.counts.len(),
        };
        let Ok(wanted) = u32::try_from(pages) else {
            return Err(full);
        };
        if !state.free.take(wanted, &mut runs) {
            return Err(full);
        }
        for page in runs.iter().cloned().flatten() {
            self.counts[page as usize].store(1, Ordering::Relaxed);
        }
        Ok(runs)
    }

    fn populate(&self, runs: &[Range<u32>]) -> io::Result<()> {
        for run in runs {
            for chunk in run.start / CHUNK_PAGES..=(run.end - 1) / CHUNK_PAGES {
                if !self.lock().is_populated[chunk as usize] {
                    let start = chunk * CHUNK_PAGES;
                    let end = (start + CHUNK_PAGES).min(self.pages());
                    let len_bytes = (end - start) as usize * PAGE_BYTES;
                    self.memory
                        .populate(start as usize * PAGE_BYTES, len_bytes)?;
                    self.lock().is_populated[chunk as usize] = true;
                }
            }
        }
        Ok(())
    }

    /// One reference less to each page of a run.
    fn release(&self, run: Range<u32>) {
        for page in run {
            self.release_page(page);
        }
    }

    fn release_page(&self, page: u32) {
        let count = &self.counts[page as usize];
        let mut references = count.load(Ordering::Relaxed);
        while references > 1 {
            // Release pairs with the Acquire below: what was read from the page was read before it is
            // somebody else's.
            match count.compare_exchange(
                references,
                references - 1,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => references = now,
            }
        }
        if self.is_forked() {
            // A forked child gives nothing out, and the lock may have been held when it was forked.
            return;
        }
        // The last one, maybe: under the lock, so that an audit never sees a page between two.
        let mut state = self.lock();
        if count.fetch_sub(1, Ordering::AcqRel) == 1 {
            if self.is_lent(page) {
                state.lent.push(page);
            } else {
                self.give_back(&mut state.free, page);
            }
        }
    }

    /// Whether an owner holds a page that it was lent.
    fn is_lent(&self, page: u32) -> bool {
        self.ledger.holders(page) & self.lent_to[page as usize].load(Ordering::Relaxed) != 0
    }

    /// Makes a page free that nobody holds.
    fn give_back(&self, free: &mut FreeMap, page: u32) {
        self.lent_to[page as usize].store(0, Ordering::Relaxed);
        free.give_back(page..page + 1);
    }

    /// Makes free what other owners have given back.
    fn sweep(&self, state: &mut State) {
        let State { free, lent, .. } = state;
        lent.retain(|&page| {
            let is_lent = self.is_lent(page);
            if !is_lent {
                self.give_back(free, page);
            }
            is_lent
        });
    }

    /// Lets a process be lent pages. What it needs for that is in [`Arena::for_owner`].
    ///
    /// # Errors
    /// As `pidfd_open(2)`; `EMFILE` if there are 64 owners already.
    pub fn admit(&self, pid: Pid) -> io::Result<OwnerId> {
        self.lock().owners.admit(pid)
    }

    /// The descriptors that a process attaches a [`Guest`] with: the pages and the ledger.
    #[must_use]
    pub fn for_owner(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        (self.file.as_fd(), self.ledger.as_fd())
    }

    /// Takes back what was lent to owners that are dead, and forgets these. How many pages that were.
    pub fn take_back(&self) -> usize {
        let mut state = self.lock();
        let dead = state.owners.remove_dead();
        let taken = (0..self.pages()).filter(|&page| {
            let lent_to = self.lent_to[page as usize].fetch_and(!dead, Ordering::Relaxed);
            self.ledger.clear(page, dead) & lent_to & dead != 0
        });
        let pages = taken.count();
        self.sweep(&mut state);
        pages
    }

    /// Who holds how many pages.
    ///
    /// # Errors
    /// A page of which the books don't agree. That is a bug of this process: nobody else can write them.
    pub fn audit(&self) -> Result<Census, AuditError> {
        let mut state = self.lock();
        self.sweep(&mut state);
        let mut census = Census::default();
        let mut is_lent = vec![false; self.counts.len()];
        for &page in &state.lent {
            is_lent[page as usize] = true;
        }
        for (page, is_lent) in (0..).zip(is_lent) {
            let is_free = state.free.is_free(page);
            let references = self.counts[page as usize].load(Ordering::Relaxed);
            match (is_free, references > 0, is_lent) {
                (true, false, false) => census.free += 1,
                (false, true, false) => census.home += 1,
                (false, false, true) => census.lent += 1,
                _ => {
                    return Err(AuditError {
                        page,
                        is_free,
                        references,
                        is_lent,
                    });
                }
            }
        }
        Ok(census)
    }

    /// Whether this is a child, by `fork`, of the process that made it. It may have the same number, in another
    /// namespace.
    fn is_forked(&self) -> bool {
        crate::fork::generation() != self.generation
    }

    /// Where a page is.
    fn address(&self, page: u32) -> *mut u8 {
        assert!(page < self.pages());
        let at = page as usize * PAGE_BYTES;
        // SAFETY: lies within the mapping (checked).
        unsafe { self.memory.base().as_ptr().add(at) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked inside found that the books don't agree: an audit shall be able to say how.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A file in memory of this length for ever.
pub(crate) fn memfd(name: &str, len_bytes: usize) -> io::Result<PrivateFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file: OwnedFd = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, len_bytes as u64)?;
    seal(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file.into())
}

pub(crate) fn seal(file: impl AsFd, seals: SealFlags) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

#[cfg(test)]
mod tests;
