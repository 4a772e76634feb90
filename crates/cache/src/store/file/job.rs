//! One read of a file, on its way.

use std::io;
use std::sync::Arc;

use standpipe_shm::arena::Lease;

use super::progress::Progress;
use super::source::Source;
use crate::store::slices::{Buffers, cut};
use crate::store::{Done, Read, StoreError};

/// Belongs to whoever works on it, and ends by [`Job::note`] or [`Job::fail`].
pub struct Job {
    source: Arc<Source>,
    offset_bytes: u64,
    progress: Progress,
    lease: Lease,
    done: Done,
}

/// What to do with a job after a call.
pub enum Next {
    /// Nothing: it is over.
    Over,
    /// The next call.
    Again(Job),
}

impl Job {
    pub fn new(source: Arc<Source>, read: Read) -> Self {
        let wanted = read.len_bytes.min(read.lease.len_bytes());
        Self {
            source,
            offset_bytes: read.offset_bytes,
            progress: Progress::new(wanted),
            lease: read.lease,
            done: read.done,
        }
    }

    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Where in the file the next call begins, and the memory that it is for.
    pub fn call(&mut self) -> (u64, Buffers<'_>) {
        let range = self.progress.next(self.source.is_direct());
        let offset_bytes = self.offset_bytes + range.start as u64;
        (offset_bytes, cut(&mut self.lease, range))
    }

    /// That a call which began at this place of the file brought so many bytes.
    pub fn note(mut self, offset_bytes: u64, bytes: usize) -> Next {
        let start = (offset_bytes - self.offset_bytes) as usize;
        if !self.progress.note(start, bytes) {
            return Next::Again(self);
        }
        let filled = self.progress.filled();
        self.lease.zero_from(filled);
        (self.done)(self.lease, Ok(filled));
        Next::Over
    }

    /// That it can't be done.
    pub fn fail(self, error: io::Error) {
        let error = StoreError::io(
            self.source.name(),
            self.offset_bytes + self.progress.filled() as u64,
            error,
        );
        (self.done)(self.lease, Err(error));
    }
}
