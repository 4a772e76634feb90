//! How far a read has come, and what to ask for next: pure.

use std::ops::Range;

use standpipe_core::size::PAGE_BYTES;

/// A read of `wanted` bytes into whole pages, which may take several calls: a call may be cut short by a
/// signal, and one that goes around the kernel's page cache has to begin at a page again.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    wanted: usize,
    filled: usize,
}

impl Progress {
    /// Nothing has come yet.
    pub fn new(wanted: usize) -> Self {
        Self { wanted, filled: 0 }
    }

    /// What has come.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// What to ask for now, in bytes of the read. Direct reads are of whole pages.
    pub fn next(&self, is_direct: bool) -> Range<usize> {
        if is_direct {
            let start = self.filled / PAGE_BYTES * PAGE_BYTES;
            start..self.wanted.next_multiple_of(PAGE_BYTES)
        } else {
            self.filled..self.wanted
        }
    }

    /// That so many bytes came from `start` on. Whether that was all there will be: what was wanted, or up
    /// to the end of the file, which shows in that asking again brings nothing new.
    #[must_use]
    pub fn note(&mut self, start: usize, bytes: usize) -> bool {
        let end = (start + bytes).min(self.wanted);
        let is_new = end > self.filled;
        // Less than before: the file was truncated in the meantime.
        self.filled = end;
        !is_new || end == self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads from a file of `length` bytes that gives at most `most` bytes a call.
    fn read(wanted: usize, length: usize, most: usize, is_direct: bool) -> (usize, usize) {
        let mut progress = Progress::new(wanted);
        for calls in 1.. {
            let range = progress.next(is_direct);
            let most = if is_direct {
                most.next_multiple_of(PAGE_BYTES)
            } else {
                most
            };
            let end = range.end.min(length).min(range.start + most);
            if progress.note(range.start, end.saturating_sub(range.start)) {
                return (progress.filled(), calls);
            }
        }
        unreachable!()
    }

    #[test]
    fn the_tail_takes_one_call() {
        assert_eq!(read(5000, 5000, usize::MAX / 2, true), (5000, 1));
        assert_eq!(read(5000, 5000, usize::MAX / 2, false), (5000, 1));
    }

    #[test]
    fn a_file_that_grew_gives_what_was_wanted() {
        assert_eq!(read(5000, 6000, usize::MAX / 2, true), (5000, 1));
    }

    #[test]
    fn a_file_that_was_cut_ends_where_it_was_seen_last() {
        let mut progress = Progress::new(3 * PAGE_BYTES);
        assert!(!progress.note(0, PAGE_BYTES + 900));
        assert_eq!(progress.next(true).start, PAGE_BYTES);
        assert!(progress.note(PAGE_BYTES, 100));
        assert_eq!(progress.filled(), PAGE_BYTES + 100);
    }

    proptest! {
        #[test]
        fn reads_to_the_end_in_any_steps(
            wanted in 1..40_000_usize, length in 0..40_000_usize, most in 1..9000_usize, is_direct: bool,
        ) {
            let (filled, calls) = read(wanted, length, most, is_direct);
            prop_assert_eq!(filled, wanted.min(length));
            prop_assert!(calls <= filled / most + 2);
        }
    }
}
