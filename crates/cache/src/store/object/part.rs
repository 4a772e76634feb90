//! What one request asks for, and the memory that it goes to.

use std::ops::Range;

use standpipe_shm::arena::Lease;

/// A stretch of an object, and memory for it. What came stays when the request is made again.
pub struct Part<'a> {
    /// In the object.
    start_bytes: u64,
    len_bytes: usize,
    filled: usize,
    memory: Vec<&'a mut [u8]>,
}

/// More came than was asked for.
#[derive(Debug)]
pub struct TooMuch;

impl<'a> Part<'a> {
    /// Divides `range` of an object, which goes to the beginning of a lease, into parts.
    pub fn divide(lease: &'a mut Lease, range: Range<u64>, part_bytes: usize) -> Vec<Self> {
        let mut memory = Memory {
            rest: lease.parts_mut().collect::<Vec<_>>().into_iter(),
            slice: &mut [],
        };
        let starts = range.clone().step_by(part_bytes);
        let parts = starts.map(|start_bytes| {
            let len_bytes = (range.end - start_bytes).min(part_bytes as u64) as usize;
            Self {
                start_bytes,
                len_bytes,
                filled: 0,
                memory: memory.take(len_bytes),
            }
        });
        parts.collect()
    }

    /// The whole stretch.
    pub fn whole(&self) -> Range<u64> {
        self.start_bytes..self.start_bytes + self.len_bytes as u64
    }

    /// What is still to come.
    pub fn rest(&self) -> Range<u64> {
        self.start_bytes + self.filled as u64..self.whole().end
    }

    /// What has come.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Forgets what has come.
    pub fn restart(&mut self) {
        self.filled = 0;
    }

    /// Takes what comes next.
    pub fn fill(&mut self, mut bytes: &[u8]) -> Result<(), TooMuch> {
        if bytes.len() > self.len_bytes - self.filled {
            return Err(TooMuch);
        }
        let mut skip = self.filled;
        self.filled += bytes.len();
        for slice in &mut self.memory {
            if skip >= slice.len() {
                skip -= slice.len();
                continue;
            }
            let len_bytes = bytes.len().min(slice.len() - skip);
            let (now, later) = bytes.split_at(len_bytes);
            slice[skip..skip + len_bytes].copy_from_slice(now);
            (skip, bytes) = (0, later);
        }
        Ok(())
    }
}

/// The memory of a lease, being given away from its beginning on.
struct Memory<'a> {
    rest: std::vec::IntoIter<&'a mut [u8]>,
    slice: &'a mut [u8],
}

impl<'a> Memory<'a> {
    fn take(&mut self, len_bytes: usize) -> Vec<&'a mut [u8]> {
        let mut taken = Vec::new();
        let mut missing = len_bytes;
        while missing > 0 {
            if self.slice.is_empty() {
                self.slice = self.rest.next().expect("as long as what is read");
            }
            let slice = std::mem::take(&mut self.slice);
            let (head, tail) = slice.split_at_mut(missing.min(slice.len()));
            missing -= head.len();
            taken.push(head);
            self.slice = tail;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use standpipe_shm::arena::Arena;

    proptest! {
        #[test]
        fn what_comes_lands_in_its_place(
            len_bytes in 1..40_000_usize, part_bytes in 1..20_000_usize, chunk_bytes in 1..9000_usize,
        ) {
            let arena = Arena::new(20).unwrap();
            // Every second page is taken: runs of one page, and one of ten.
            let mut at = 0;
            let mut held = arena.take(20).unwrap().freeze();
            held.retain(|_| { at += 1; at % 2 == 0 && at < 10 });
            let mut lease = arena.take(10).unwrap();
            let start = 4096;
            let range = start..start + len_bytes as u64;
            let byte_at = |at: u64| (at * 31 % 251) as u8;
            let mut end = start;
            for mut part in Part::divide(&mut lease, range, part_bytes) {
                prop_assert_eq!(part.whole().start, end);
                end = part.whole().end;
                let bytes = part.whole().map(byte_at).collect::<Vec<_>>();
                for chunk in bytes.chunks(chunk_bytes) {
                    part.fill(chunk).unwrap();
                }
                prop_assert!(part.rest().is_empty());
                prop_assert!(part.fill(&[0]).is_err());
            }
            prop_assert_eq!(end, start + len_bytes as u64);
            let pages = lease.freeze();
            let bytes = pages.iter().flat_map(|page| page.iter().copied());
            prop_assert!(bytes.zip(start..end).all(|(byte, at)| byte == byte_at(at)));
        }
    }
}
