//! Files and objects of stores, read through a page cache that reads ahead.
//!
//! ```no_run
//! use std::io::Read;
//! use standpipe::file::File;
//!
//! let mut file = File::open("s3://bucket/reads.fastq")?;
//! let mut line = vec![0; 65536];
//! let bytes = file.read(&mut line)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//! With `STANDPIPE_TRACE=FILE` in its environment, a process writes down what it reads, for
//! `standpipe trace replay FILE`.
//!
//! A name is a path, or a URL of an object store (`s3://`, `gs://`, `az://`, `http(s)://`, `file://`,
//! `memory://`). All files of a process share one [cache](cache()), unless one is given one of its own:
//! two readers of a file read it once, and never is more memory used than its budget.
//!
//! Without waiting (see [`File::set_nonblocking`]), a read that finds a page missing starts its I/O and
//! fails with `WouldBlock`; [`File::pollable`] is a descriptor that becomes readable when it has arrived.

use std::fmt;
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use standpipe_cache::cache::{Reader, Wait};
use standpipe_shm::sync::{AtomicBool, Ordering};

mod options;
mod pending;
mod shared_cache;

pub use options::Options;
pub(crate) use pending::Spliced;
pub use shared_cache::{BUDGET_ENV, cache};
pub use standpipe_cache::book::{Accounts, Advice, PolicyKind as Policy};
pub use standpipe_cache::cache::{Borrowed, Cache, Options as CacheOptions, Stat};
pub use standpipe_cache::cache::{notice, trace};
pub use standpipe_cache::store::{Options as StoreOptions, Store, StoreError, Version};
pub use standpipe_core::size::PAGE_BYTES;

/// So much is offered to a pipe at once.
const SPLICE_BYTES: usize = 256 << 10;

/// A file, or an object of a store, to be read. Threads may share it, as they may a descriptor: they then
/// share its position.
pub struct File {
    reader: Reader,
    position: Mutex<u64>,
    is_nonblocking: AtomicBool,
}

impl File {
    /// Opens a path or a URL for reading, with what [`Options`] are if nobody says otherwise.
    ///
    /// # Errors
    /// As `open(2)`; for URLs as the store says.
    pub fn open(name: &str) -> io::Result<Self> {
        Options::new().open(name)
    }

    fn over(reader: Reader, is_nonblocking: bool) -> Self {
        Self {
            reader,
            position: Mutex::new(0),
            is_nonblocking: AtomicBool::new(is_nonblocking),
        }
    }

    /// How long it is now, in bytes. Asks the store.
    ///
    /// # Errors
    /// What the store says.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.reader.length_bytes()?)
    }

    /// Whether it has no bytes. Asks the store.
    ///
    /// # Errors
    /// What the store says.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads from `offset` on, without a look at the position: as many bytes as `to` has room for, less
    /// only at the end, or, without waiting, as many as are there.
    ///
    /// # Errors
    /// `WouldBlock` without waiting; what the store says, never as data.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.reader.read_at(to, offset, self.wait())?)
    }

    /// Cached bytes from the position on, up to `len_bytes`, in place: at least one unless the file ends.
    /// The position is behind them afterwards. They take room of the cache's budget until they are dropped.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn borrow(&self, len_bytes: usize) -> io::Result<Borrowed> {
        let mut position = self.position();
        let bytes = self.borrow_at(*position, len_bytes)?;
        *position += bytes.len() as u64;
        Ok(bytes)
    }

    /// As [`File::borrow`], from `offset` on, without a look at the position.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn borrow_at(&self, offset: u64, len_bytes: usize) -> io::Result<Borrowed> {
        Ok(self.reader.borrow_at(offset, len_bytes, self.wait())?)
    }

    /// Moves up to `len_bytes` bytes from the position on into a pipe (or anything else): one copy, from
    /// the cached page to where they go. How many; 0 at the end of the file.
    ///
    /// Where either side would have to wait and must not, what was moved until then counts, and
    /// `WouldBlock` is told only if that is nothing. Everything moved is then behind the position, so trying
    /// again when [`File::pollable`] or the pipe is ready always gets on, to the end of the file. If `pollable`
    /// is readable after `WouldBlock`, it was the pipe that had no room.
    ///
    /// # Errors
    /// As [`File::read_at`], and what the pipe says. None if bytes were moved: the next call says it.
    pub fn splice(&self, to: &mut impl Write, len_bytes: u64) -> io::Result<u64> {
        let mut position = self.position();
        let mut moved = 0;
        while moved < len_bytes {
            let wanted = (len_bytes - moved).min(SPLICE_BYTES as u64) as usize;
            let step = self.splice_once(*position, to, wanted);
            let bytes = match step {
                Ok(0) => break,
                Ok(bytes) => bytes as u64,
                Err(_) if moved > 0 => break,
                Err(error) => return Err(error),
            };
            *position += bytes;
            moved += bytes;
        }
        Ok(moved)
    }

    fn splice_once(&self, at: u64, to: &mut impl Write, wanted: usize) -> io::Result<usize> {
        let bytes = self.borrow_at(at, wanted)?;
        let slices: Vec<IoSlice<'_>> = bytes.slices().map(IoSlice::new).collect();
        if slices.is_empty() {
            return Ok(0);
        }
        let written = to.write_vectored(&slices)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(written)
    }

    /// What will be read, and how: see [`Advice`]. `range` is in bytes.
    ///
    /// # Errors
    /// `Unsupported` in a forked child.
    pub fn advise(&self, advice: Advice, range: Range<u64>) -> io::Result<()> {
        Ok(self.reader.advise(advice, range)?)
    }

    /// From now on reads don't wait for pages that are not there, or do.
    pub fn set_nonblocking(&self, is_nonblocking: bool) {
        // Nothing else is told by it.
        self.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
    }

    /// A descriptor for poll, epoll, select and what is built on them: readable, unless the last read that
    /// must not wait got nothing, and what it lacked is still missing. It may be readable once more than
    /// there is something: when a page came and went again before it was read. Only to be polled.
    ///
    /// # Errors
    /// As `eventfd(2)`.
    pub fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        self.reader.pollable()
    }

    /// How its store is read, for people.
    #[must_use]
    pub fn access(&self) -> &'static str {
        self.reader.store().access()
    }

    /// As it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        self.reader.store().name()
    }

    /// Which version of it is read.
    #[must_use]
    pub fn version(&self) -> &Version {
        self.reader.store().version()
    }

    /// What became of the pages that were read for it.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        self.reader.accounts()
    }

    fn wait(&self) -> Wait {
        if self.is_nonblocking.load(Ordering::Relaxed) {
            Wait::Never
        } else {
            Wait::UntilThere
        }
    }

    fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for &File {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut position = self.position();
        let bytes = self.read_at(to, *position)?;
        *position += bytes as u64;
        Ok(bytes)
    }
}

impl Read for File {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut position = self.position();
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (*position, by),
            SeekFrom::End(by) => (self.len()?, by),
        };
        let at = from.checked_add_signed(by).ok_or_else(|| {
            let text = format!("seek to {from} {by:+}: expected a place from 0 on");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        if at != *position {
            self.reader.seek(at)?;
            *position = at;
        }
        Ok(at)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("name", &self.name())
            .field("access", &self.access())
            .finish_non_exhaustive()
    }
}
