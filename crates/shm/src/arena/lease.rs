//! Pages that one has alone, to be written.

use std::io::IoSliceMut;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use standpipe_core::size::PAGE_BYTES;

use super::{Arena, Page};

/// Pages that nobody else sees, in order. Given back when dropped.
pub struct Lease {
    arena: Arc<Arena>,
    runs: Vec<Range<u32>>,
    pages: usize,
}

impl Lease {
    pub(super) fn new(arena: Arc<Arena>, runs: Vec<Range<u32>>, pages: usize) -> Self {
        Self { arena, runs, pages }
    }

    pub(super) fn runs(&self) -> &[Range<u32>] {
        &self.runs
    }

    /// How many pages.
    #[must_use]
    pub fn len_pages(&self) -> usize {
        self.pages
    }

    /// How many bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.pages * PAGE_BYTES
    }

    /// The memory, in as few slices as its runs allow.
    pub fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        self.parts_mut().map(IoSliceMut::new).collect()
    }

    /// As [`slices_mut`](Self::slices_mut), to be divided further.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.runs.iter().map(|run| {
            let len_bytes = run.len() * PAGE_BYTES;
            // SAFETY: these pages of the mapping, which lives as long as the arena, are in this lease only,
            // each in one run, and `self` is borrowed for as long as the slice; initialised, as all memory of
            // a file is.
            unsafe { slice::from_raw_parts_mut(self.arena.address(run.start), len_bytes) }
        })
    }

    /// Sets what lies behind the first `len_bytes` to zero.
    pub fn zero_from(&mut self, len_bytes: usize) {
        let mut skipped = len_bytes;
        for slice in &mut self.slices_mut() {
            let kept = skipped.min(slice.len());
            slice[kept..].fill(0);
            skipped -= kept;
        }
    }

    /// Keeps the first `pages` and gives the others back.
    pub fn truncate(&mut self, pages: usize) {
        let mut kept = 0;
        for run in &mut self.runs {
            let keep = run.len().min(pages - kept) as u32;
            self.arena.release(run.start + keep..run.end);
            run.end = run.start + keep;
            kept += keep as usize;
        }
        self.runs.retain(|run| !run.is_empty());
        self.pages = kept;
    }

    /// Lets them be seen, and never written again.
    #[must_use]
    pub fn freeze(mut self) -> Vec<Page> {
        let runs = std::mem::take(&mut self.runs);
        let pages = runs.into_iter().flatten();
        pages
            .map(|number| Page::new(Arc::clone(&self.arena), number))
            .collect()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        for run in std::mem::take(&mut self.runs) {
            self.arena.release(run);
        }
    }
}
