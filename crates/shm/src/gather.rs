//! Where the bytes of a transfer come from or go to: a list of slices, used up from the front.

use std::io::{IoSlice, IoSliceMut};

/// The source of a write.
pub struct Gather<'a> {
    slices: &'a [IoSlice<'a>],
    /// Bytes of the first slice that are used up.
    offset: usize,
    done_bytes: usize,
    total_bytes: usize,
}

impl<'a> Gather<'a> {
    /// All bytes of `slices`, in order.
    #[inline]
    #[must_use]
    pub fn new(slices: &'a [IoSlice<'a>]) -> Self {
        let total_bytes = slices.iter().map(|slice| slice.len()).sum();
        Self {
            slices,
            offset: 0,
            done_bytes: 0,
            total_bytes,
        }
    }

    /// How many bytes there were.
    #[inline]
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// How many are used up.
    #[inline]
    #[must_use]
    pub fn done_bytes(&self) -> usize {
        self.done_bytes
    }

    /// How many are left.
    #[inline]
    #[must_use]
    pub fn remaining_bytes(&self) -> usize {
        self.total_bytes - self.done_bytes
    }

    /// The first stretch of what is left.
    #[must_use]
    pub fn front(&self) -> &[u8] {
        let mut slices = self.slices.iter();
        let first = slices.next().map_or(&[][..], |slice| &slice[self.offset..]);
        if first.is_empty() {
            slices.find(|slice| !slice.is_empty()).map_or(&[], |s| s)
        } else {
            first
        }
    }

    /// Uses up `bytes` bytes, handing each stretch to `each` with its distance from the first.
    #[inline]
    pub fn take(&mut self, bytes: usize, mut each: impl FnMut(usize, &[u8])) {
        let mut taken = 0;
        while taken < bytes {
            let rest = &self.slices[0][self.offset..];
            let part = &rest[..rest.len().min(bytes - taken)];
            each(taken, part);
            taken += part.len();
            self.offset += part.len();
            if self.offset == self.slices[0].len() && self.slices.len() > 1 {
                self.slices = &self.slices[1..];
                self.offset = 0;
            }
        }
        self.done_bytes += bytes;
    }
}

/// The target of a read.
pub struct Scatter<'a, 'b> {
    slices: &'a mut [IoSliceMut<'b>],
    /// The slice that is being filled, and how far.
    index: usize,
    offset: usize,
    remaining_bytes: usize,
}

impl<'a, 'b> Scatter<'a, 'b> {
    /// All room of `slices`, in order.
    #[inline]
    #[must_use]
    pub fn new(slices: &'a mut [IoSliceMut<'b>]) -> Self {
        let remaining_bytes = slices.iter().map(|slice| slice.len()).sum();
        Self {
            slices,
            index: 0,
            offset: 0,
            remaining_bytes,
        }
    }

    /// How much room is left.
    #[inline]
    #[must_use]
    pub fn remaining_bytes(&self) -> usize {
        self.remaining_bytes
    }

    /// Fills `bytes` bytes, handing each stretch to `each` with its distance from the first.
    #[inline]
    pub fn take(&mut self, bytes: usize, mut each: impl FnMut(usize, &mut [u8])) {
        let mut taken = 0;
        while taken < bytes {
            let rest = &mut self.slices[self.index][self.offset..];
            let len = rest.len().min(bytes - taken);
            each(taken, &mut rest[..len]);
            taken += len;
            self.offset += len;
            if self.offset == self.slices[self.index].len() {
                self.index += 1;
                self.offset = 0;
            }
        }
        self.remaining_bytes -= bytes;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slices_are_used_up_in_order_and_empty_ones_are_skipped() {
        let slices = [&b""[..], b"ab", b"", b"cdef", b""].map(IoSlice::new);
        let mut gather = Gather::new(&slices);
        let mut seen = vec![0; 6];
        for bytes in [1, 3, 2] {
            let done = gather.done_bytes();
            assert_eq!(gather.front()[0], b"abcdef"[done]);
            gather.take(bytes, |at, part| {
                seen[done + at..][..part.len()].copy_from_slice(part);
            });
        }
        assert_eq!(seen, b"abcdef");
        assert_eq!((gather.total_bytes(), gather.remaining_bytes()), (6, 0));
        assert!(gather.front().is_empty());
    }

    #[test]
    fn targets_are_filled_in_order_and_empty_ones_are_skipped() {
        let (mut a, mut b, mut c) = ([0; 2], [0; 0], [0; 3]);
        let mut slices = [
            IoSliceMut::new(&mut a),
            IoSliceMut::new(&mut b),
            IoSliceMut::new(&mut c),
        ];
        let mut scatter = Scatter::new(&mut slices);
        let mut next = b"abcde".iter();
        for bytes in [1, 3, 1] {
            scatter.take(bytes, |_, part| part.fill_with(|| *next.next().unwrap()));
        }
        assert_eq!(scatter.remaining_bytes(), 0);
        assert_eq!((&a, &c), (b"ab", b"cde"));
    }
}
