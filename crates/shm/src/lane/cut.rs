//! Where the lane may be cut: a piece of it that moves elsewhere never ends in the middle of a small
//! write. Else bytes of others could come between its two halves, in the kernel pipe or at a reader.
//!
//! Each block of `PIPE_BUF` stream positions has a word that says where the first and the last write
//! ended in it. A window of that length touches two blocks at most: the last end in the one and the
//! first in the other tell whether any write ended in it. If none did, the bytes belong to a write of
//! more than `PIPE_BUF` bytes, which may be cut anywhere.

use standpipe_core::size::PIPE_BUF;

#[cfg(not(loom))]
use super::Lane;
#[cfg(not(loom))]
use crate::memory::Ring;
use crate::sync::{AtomicU32, Ordering};

/// How many blocks the header remembers: those of any lane of up to a mebibyte, which touches one more than
/// it has where it does not begin with one. The rings of larger lanes have words of their own.
const BLOCKS: usize = 512;

const BLOCK_BYTES: u64 = PIPE_BUF as u64;

/// Bits of a word: which lap of the blocks it is of, the first end, the last end.
const LAP_SHIFT: u32 = 24;
const FIRST_SHIFT: u32 = 12;
const OFFSET: u32 = 0xfff;

const _: () = assert!(BLOCK_BYTES == OFFSET as u64 + 1);

/// The words. Stored to by who holds the write lock, and for positions below `tail` they stand.
#[repr(C)]
pub struct WriteEnds([AtomicU32; BLOCKS]);

impl Default for WriteEnds {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU32::default()))
    }
}

impl WriteEnds {
    /// All of them.
    #[inline]
    pub fn view(&self) -> Ends<'_> {
        Ends(&self.0)
    }
}

/// The words of a lane: more than it has blocks, and a power of two, so that a write needs no division.
#[derive(Clone, Copy)]
pub struct Ends<'a>(pub &'a [AtomicU32]);

impl Ends<'_> {
    /// A write ended before position `end`. Only for who holds the write lock.
    #[inline]
    pub fn note(self, end: u64) {
        let last = end.wrapping_sub(1);
        let block = last / BLOCK_BYTES;
        let offset = last as u32 & OFFSET;
        let word = self.word(block);
        let seen = word.load(Ordering::Relaxed);
        let lap = self.lap_of(block);
        let first = if seen >> LAP_SHIFT == lap {
            seen >> FIRST_SHIFT & OFFSET
        } else {
            offset
        };
        // Relaxed: before `tail` is stored again, which who looks has loaded.
        word.store(
            lap << LAP_SHIFT | first << FIRST_SHIFT | offset,
            Ordering::Relaxed,
        );
    }

    /// How many of `queued_bytes` from `head` make a piece: at least 1 if there are any, and at most
    /// `PIPE_BUF`.
    #[must_use]
    pub fn piece_bytes(self, head: u64, queued_bytes: usize) -> usize {
        if queued_bytes <= PIPE_BUF {
            return queued_bytes;
        }
        let block = head / BLOCK_BYTES;
        let next_block = head.wrapping_add(BLOCK_BYTES) / BLOCK_BYTES;
        let ends = [
            self.ends(block).map(|[_, last]| last),
            self.ends(next_block).map(|[first, _]| first),
        ];
        ends.into_iter()
            .flatten()
            .map(|end| end.wrapping_sub(head) as usize)
            .filter(|bytes| (1..=PIPE_BUF).contains(bytes))
            .max()
            .unwrap_or(PIPE_BUF)
    }

    /// The first and the last position of a block before which a write ended.
    fn ends(self, block: u64) -> Option<[u64; 2]> {
        let word = self.word(block).load(Ordering::Relaxed);
        let end = |offset| {
            let before = block.wrapping_mul(BLOCK_BYTES);
            before.wrapping_add(u64::from(offset & OFFSET) + 1)
        };
        (word >> LAP_SHIFT == self.lap_of(block)).then(|| [end(word >> FIRST_SHIFT), end(word)])
    }

    /// Notes for `to` what is known of the positions from `from` up to `end`.
    pub fn copy(self, to: Self, from: u64, end: u64) {
        if from == end {
            return;
        }
        let last_block = end.wrapping_sub(1) / BLOCK_BYTES;
        let mut at = from;
        loop {
            let block = at / BLOCK_BYTES;
            for end in self.ends(block).into_iter().flatten() {
                to.note(end);
            }
            if block == last_block {
                break;
            }
            at = at.wrapping_add(BLOCK_BYTES);
        }
    }

    #[inline]
    fn word(&self, block: u64) -> &AtomicU32 {
        &self.0[block as usize & (self.0.len() - 1)]
    }

    /// 1 to 255; a word that was never stored to is of lap 0.
    #[inline]
    fn lap_of(&self, block: u64) -> u32 {
        ((block >> self.0.len().trailing_zeros()) % 255) as u32 + 1
    }
}

#[cfg(not(loom))]
impl Lane {
    /// A writer that holds the lock is done, `tail` being stored; or was killed, and somebody else
    /// took over the lock.
    #[inline]
    pub(super) fn note_write_end(&self, tail: u64) {
        // If the ring can't be followed, the call fails that found it so.
        if let Ok(ring) = self.current_ring() {
            self.memory.write_ends(ring).note(tail);
        }
    }

    /// How many of the `queued_bytes` in `ring` may go elsewhere in one piece.
    pub(super) fn piece_bytes(&self, ring: &Ring, head: u64, queued_bytes: usize) -> usize {
        let ends = self.memory.write_ends(ring);
        ends.piece_bytes(head, queued_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cuts a stream of writes, of which all are queued, into pieces.
    fn pieces(start: u64, writes: &[usize]) -> Vec<u64> {
        let words = WriteEnds::default();
        let ends = words.view();
        let mut tail = start;
        for &bytes in writes {
            tail = tail.wrapping_add(bytes as u64);
            ends.note(tail);
        }
        let mut head = start;
        let mut cuts = Vec::new();
        while head != tail {
            let queued = tail.wrapping_sub(head) as usize;
            let bytes = ends.piece_bytes(head, queued);
            assert!((1..=PIPE_BUF.min(queued)).contains(&bytes));
            head = head.wrapping_add(bytes as u64);
            cuts.push(head);
        }
        cuts
    }

    #[test]
    fn pieces_end_where_writes_did_and_are_as_large_as_that_allows() {
        assert_eq!(pieces(0, &[3000, 3000, 1000]), [3000, 7000]);
        assert_eq!(pieces(100, &[4096, 4096]), [4196, 8292]);
        assert_eq!(pieces(0, &[10_000, 10]), [4096, 8192, 10_010]);
    }

    /// It touches one block more than it has bytes for: the newest must not take the oldest one's word.
    #[test]
    fn no_write_is_cut_in_a_full_lane_of_a_mebibyte() {
        for start in [1, 1000, 4095] {
            let small = 1675;
            let mut writes = vec![small; (1 << 20) / small];
            writes.push((1 << 20) % small);
            let mut ends = std::collections::BTreeSet::from([0]);
            let mut at = 0;
            for bytes in &writes {
                at += *bytes as u64;
                ends.insert(at);
            }
            for cut in pieces(start, &writes) {
                assert!(ends.contains(&(cut - start)), "{start}: cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_known_goes_with_the_bytes_to_a_ring_of_another_size() {
        for start in [7, 3_000_000, 100_u64.wrapping_neg()] {
            let (small, large) = (WriteEnds::default(), words(1024));
            let (small, large) = (small.view(), Ends(&large));
            let mut tail = start;
            for _ in 0..300 {
                tail = tail.wrapping_add(3001);
                small.note(tail);
            }
            small.copy(large, start, tail);
            let mut head = start;
            while head != tail {
                let queued = tail.wrapping_sub(head) as usize;
                let piece = large.piece_bytes(head, queued);
                assert_eq!(piece, small.piece_bytes(head, queued), "{start}");
                assert_eq!(piece, 3001, "{start}");
                head = head.wrapping_add(piece as u64);
            }
        }
    }

    fn words(count: usize) -> Vec<AtomicU32> {
        (0..count).map(|_| AtomicU32::default()).collect()
    }

    #[test]
    fn positions_may_begin_anew() {
        let start = 1545_u64.wrapping_neg();
        assert_eq!(pieces(start, &[1546, 2552, 1]), [1, 2554]);
    }

    proptest! {
        #[test]
        fn no_small_write_is_cut(
            start in prop_oneof![0..u64::MAX, u64::MAX - 9000..u64::MAX, 0..9000_u64],
            // Together fewer than are remembered.
            writes in prop::collection::vec(prop_oneof![1..200_usize, 1..=4096_usize, 1..20_000_usize], 1..50),
        ) {
            let cuts = pieces(start, &writes);
            let mut from = 0_u64;
            for bytes in writes {
                let to = from + bytes as u64;
                let cut = cuts.iter().any(|&at| (from + 1..to).contains(&at.wrapping_sub(start)));
                prop_assert!(!cut || bytes > PIPE_BUF, "{from}..{to} is cut: {cuts:?}");
                from = to;
            }
        }

        #[test]
        fn nonsense_gives_pieces_all_the_same(
            words in prop::collection::vec(any::<u32>(), BLOCKS), head: u64, queued in 1..100_000_usize
        ) {
            let ends = WriteEnds::default();
            for (place, word) in ends.0.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
            let bytes = ends.view().piece_bytes(head, queued);
            prop_assert!((1..=PIPE_BUF.min(queued)).contains(&bytes));
        }
    }
}
