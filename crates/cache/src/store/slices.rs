//! The memory of a lease, in parts.

use std::io::IoSliceMut;
use std::ops::Range;

use standpipe_shm::arena::Lease;

/// As many as one call takes (`IOV_MAX`).
const MOST_SLICES: usize = 1024;
/// As much as one call reads at most: the kernel stops below 2 GiB, and this is a multiple of any page.
const MOST_BYTES: usize = 1 << 30;

/// Memory for one call.
pub type Buffers<'a> = Vec<IoSliceMut<'a>>;

/// The part `range` of the lease's bytes, or as much of its beginning as one call takes.
pub fn cut(lease: &mut Lease, range: Range<usize>) -> Buffers<'_> {
    let (mut skip, mut left) = (range.start, range.len().min(MOST_BYTES));
    let mut buffers = Vec::new();
    for part in lease.parts_mut() {
        let skipped = skip.min(part.len());
        skip -= skipped;
        let len_bytes = (part.len() - skipped).min(left);
        left -= len_bytes;
        if len_bytes > 0 && buffers.len() < MOST_SLICES {
            buffers.push(IoSliceMut::new(&mut part[skipped..skipped + len_bytes]));
        }
    }
    buffers
}

#[cfg(test)]
mod tests {
    use super::*;
    use standpipe_shm::arena::Arena;

    #[test]
    fn a_range_is_cut_out_of_several_runs() {
        let arena = Arena::new(8).unwrap();
        // Every second page is taken, so that the lease has runs of one page.
        let mut pages = arena.take(8).unwrap().freeze();
        let mut at = 0;
        pages.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        let mut lease = arena.take(4).unwrap();
        let lengths = |lease: &mut Lease, range| -> Vec<usize> {
            cut(lease, range).iter().map(|slice| slice.len()).collect()
        };
        assert_eq!(lengths(&mut lease, 0..16384), [4096; 4]);
        assert_eq!(lengths(&mut lease, 4096..4097), [1]);
        assert_eq!(lengths(&mut lease, 5000..13000), [3192, 4096, 712]);
    }
}
