//! Local files.
//!
//! Read around the kernel's page cache (`O_DIRECT`) by `io_uring` where the file system and the kernel allow
//! it, and otherwise by a few threads that call `preadv(2)`; [`access`](Store::access) tells which.
//!
//! As with the kernel, a file that is written, grows or is truncated while it is read is no error: a read
//! gives what is there when it is made, and [`refresh`](Store::refresh) tells the length. What was read and
//! kept before stays as it was. The file is the one that was opened: another that comes to be under its path
//! changes nothing.
//!
//! # Versions
//! The version of a file is its device, inode, times of birth, change and writing, and length: two who open it
//! share the pages that were read of it as long as nothing changed these in between. A file that was changed
//! so recently that the next change might leave the same time (50 ms; 2 s where whole seconds are kept) has
//! a version that is equal to no other, and so have block devices. Not seen are stores through a mapping that
//! was dirty already, which no time tells of.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use standpipe_core::size::PAGE_BYTES;
use standpipe_shm::sync::{AtomicU64, Ordering};

use super::{Options, Read, Store, StoreError, Version};

mod engine;
mod job;
mod pool;
mod progress;
mod ring;
mod source;
mod version;

use engine::Engine;
use job::Job;
use source::Source;

/// A file, or a block device, that was opened.
pub struct FileStore {
    source: Arc<Source>,
    version: Version,
    /// When it was last looked at. Relaxed: a number, nothing hangs on it.
    length_bytes: AtomicU64,
    may_ring: bool,
}

impl FileStore {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// It isn't there, may not be read, or is something that has no places to read at (a directory, a FIFO).
    pub fn open(path: &Path, options: &Options) -> Result<Self, StoreError> {
        Self::open_named(&path.display().to_string(), path, options)
    }

    /// Opens a file that the user calls by another name than its path.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_named(name: &str, path: &Path, options: &Options) -> Result<Self, StoreError> {
        let (source, statx) = Source::open(name, path, options.may_be_direct)?;
        let version = if source.is_regular() {
            version::of_file(&statx, SystemTime::now())
        } else {
            version::of_device(&statx)
        };
        let store = Self {
            source: Arc::new(source),
            version,
            length_bytes: AtomicU64::new(0),
            may_ring: options.may_ring,
        };
        store.refresh()?;
        Ok(store)
    }

    fn has_ring(&self) -> bool {
        self.may_ring && Engine::get().has_ring()
    }
}

impl Store for FileStore {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn access(&self) -> &'static str {
        match (self.source.is_direct(), self.has_ring()) {
            (true, true) => "io_uring, O_DIRECT",
            (true, false) => "pread, O_DIRECT",
            (false, _) => "pread",
        }
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Relaxed)
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        let length_bytes = self.source.length_bytes();
        let length_bytes = length_bytes.map_err(|error| StoreError::io(self.name(), 0, error))?;
        self.length_bytes.store(length_bytes, Ordering::Relaxed);
        Ok(length_bytes)
    }

    fn start(&self, read: Read) {
        debug_assert!(read.offset_bytes.is_multiple_of(PAGE_BYTES as u64));
        let job = Job::new(Arc::clone(&self.source), read);
        Engine::get().start(job, self.may_ring);
    }
}

#[cfg(test)]
mod tests;
