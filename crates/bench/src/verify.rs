//! Whether the bytes arrived as they were sent, checked cheaply enough not to disturb the figures.
//!
//! A writer sends blocks of one size. Each word of 8 bytes says whose it is and where it belongs in
//! its block, and carries a check of that; the first word of each page of a block (a *stamp*) also
//! says which block it is. A writer thus rewrites one word per page from block to block.
//! A reader looks at a few words of each read. Which ones, moves on from read to read, so that
//! a byte that is wrong in the same place of every block does not go unseen. The totals of bytes
//! are compared as well, by whoever has them all.
//!
//! With one writer and one reader each word is known in advance ([`Checker::exact`]). Where several
//! processes share an end, a read may hold blocks of any writer from any point on
//! ([`Checker::mixed`]): then a word must be one that some writer sends, and the blocks of one
//! writer must arrive in order.

use anyhow::{bail, ensure};

const WORD_BYTES: usize = 8;
/// Words from one stamp to the next: a page.
const STAMP_WORDS: usize = 512;
/// A reader looks at two words of so many bytes: eight of a read of 64 KiB, which takes some tens
/// of nanoseconds, where moving the bytes takes thousands.
const WINDOW_BYTES: usize = 16 << 10;
const BLOCK_MASK: u64 = 0xFF_FFFF;
const BODY_BITS: u32 = 48;

/// The word of a writer at a place of a block: 16 bits of check, 8 of writer, 16 of place, 24 of
/// block number.
fn word(writer: u8, place: usize, block: u64) -> u64 {
    let stamp = if place.is_multiple_of(STAMP_WORDS) {
        block & BLOCK_MASK
    } else {
        0
    };
    seal(u64::from(writer) << 40 | (place as u64 & 0xFFFF) << 24 | stamp)
}

fn seal(body: u64) -> u64 {
    let check = body.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> BODY_BITS;
    body | check << BODY_BITS
}

/// What a writer sends, again and again.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
    writer: u8,
}

impl Block {
    /// A block of `bytes` bytes of the given writer.
    ///
    /// # Panics
    /// If `bytes` is not a multiple of 8 of at most 512 KiB, which the words could not count.
    #[must_use]
    pub fn new(writer: u8, bytes: usize) -> Self {
        assert!(
            bytes.is_multiple_of(WORD_BYTES) && bytes <= WORD_BYTES << 16,
            "{bytes} bytes"
        );
        let words = (0..bytes / WORD_BYTES).flat_map(|place| word(writer, place, 0).to_ne_bytes());
        Self {
            bytes: words.collect(),
            writer,
        }
    }

    /// The block as it is sent the `number`-th time.
    pub fn stamped(&mut self, number: u64) -> &[u8] {
        for place in (0..self.bytes.len() / WORD_BYTES).step_by(STAMP_WORDS) {
            let at = place * WORD_BYTES;
            let stamp = word(self.writer, place, number).to_ne_bytes();
            self.bytes[at..at + WORD_BYTES].copy_from_slice(&stamp);
        }
        &self.bytes
    }
}

/// Checks what a reader gets.
#[derive(Debug)]
pub struct Checker {
    block_bytes: usize,
    order: Order,
    /// Moves on with each read.
    turn: usize,
}

#[derive(Debug)]
enum Order {
    /// One writer, one reader: the next byte is at this place of the stream.
    Exact { position: u64 },
    /// The newest block of each writer that was seen.
    Mixed { newest: Vec<u64> },
}

impl Checker {
    /// For the one reader of one writer.
    #[must_use]
    pub fn exact(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            order: Order::Exact { position: 0 },
            turn: 0,
        }
    }

    /// For one of several readers, or several writers. All transfers and the pipe's capacity must
    /// be multiples of 8, so that words stay whole.
    #[must_use]
    pub fn mixed(block_bytes: usize, writers: usize) -> Self {
        Self {
            block_bytes,
            order: Order::Mixed {
                newest: vec![0; writers],
            },
            turn: 0,
        }
    }

    /// Checks the bytes of one read.
    ///
    /// # Errors
    /// When a word is not what was sent, naming the place and both words.
    pub fn check(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let skipped = self.bytes_to_next_word(data.len())?;
        let words = data.len().saturating_sub(skipped) / WORD_BYTES;
        let window_words = WINDOW_BYTES / WORD_BYTES;
        self.turn = self.turn.wrapping_add(1);
        for first in (0..words).step_by(window_words) {
            let span = window_words.min(words - first);
            // an odd stride visits each place of a window in turn
            let moving = first + self.turn.wrapping_mul(61) % span;
            for index in [first, moving] {
                let at = skipped + index * WORD_BYTES;
                let mut bytes = [0; WORD_BYTES];
                bytes.copy_from_slice(&data[at..at + WORD_BYTES]);
                self.check_word(at, u64::from_ne_bytes(bytes))?;
            }
        }
        if let Order::Exact { position } = &mut self.order {
            *position += data.len() as u64;
        }
        Ok(())
    }

    fn bytes_to_next_word(&self, read_bytes: usize) -> anyhow::Result<usize> {
        match self.order {
            Order::Exact { position } => Ok(position
                .next_multiple_of(WORD_BYTES as u64)
                .wrapping_sub(position) as usize),
            Order::Mixed { .. } => {
                ensure!(
                    read_bytes.is_multiple_of(WORD_BYTES),
                    "a read of {read_bytes} bytes, where all transfers are of whole words"
                );
                Ok(0)
            }
        }
    }

    fn check_word(&mut self, at: usize, found: u64) -> anyhow::Result<()> {
        match &mut self.order {
            Order::Exact { position } => {
                let place = *position + at as u64;
                let (block, offset) = (
                    place / self.block_bytes as u64,
                    place as usize % self.block_bytes,
                );
                let expected = word(0, offset / WORD_BYTES, block);
                if found != expected {
                    bail!(
                        "byte {place} of the stream: expected {expected:#018x}, got {found:#018x}"
                    );
                }
            }
            Order::Mixed { newest } => {
                let [writer, place] =
                    [found >> 40 & 0xFF, found >> 24 & 0xFFFF].map(|x| x as usize);
                let block = found & BLOCK_MASK;
                let sealed = seal(found & ((1 << BODY_BITS) - 1)) == found;
                let possible = writer < newest.len() && place < self.block_bytes / WORD_BYTES;
                if !sealed || !possible {
                    bail!("byte {at} of a read: {found:#018x} is not a word that was sent");
                }
                if place.is_multiple_of(STAMP_WORDS) {
                    ensure!(
                        block >= newest[writer],
                        "writer {writer}: block {block} arrived after block {}",
                        newest[writer]
                    );
                    newest[writer] = block;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 64 << 10;

    /// `count` blocks of writer 0, one after the other.
    fn stream(block_bytes: usize, count: u64) -> Vec<u8> {
        let mut block = Block::new(0, block_bytes);
        (0..count)
            .flat_map(|number| block.stamped(number).to_vec())
            .collect()
    }

    fn check_all(checker: &mut Checker, data: &[u8], read_bytes: usize) -> anyhow::Result<()> {
        data.chunks(read_bytes)
            .try_for_each(|read| checker.check(read))
    }

    #[test]
    fn an_intact_stream_passes_in_reads_of_any_size() {
        for block_bytes in [2048, 6144, BLOCK] {
            let data = stream(block_bytes, 8);
            for read_bytes in [1, 7, 8, 100, 4096, 6144, 65536, 1 << 20] {
                check_all(&mut Checker::exact(block_bytes), &data, read_bytes).unwrap();
            }
            check_all(&mut Checker::mixed(block_bytes, 1), &data, 4096).unwrap();
        }
    }

    /// The canary: a byte flipped in one read where the checker looks is seen at once.
    #[test]
    fn a_flipped_byte_is_an_error() {
        for byte in 0..WORD_BYTES {
            let mut data = stream(BLOCK, 4);
            data[2 * BLOCK + byte] ^= 1;
            for mut checker in [Checker::exact(BLOCK), Checker::mixed(BLOCK, 1)] {
                let error = check_all(&mut checker, &data, BLOCK).unwrap_err();
                assert!(error.to_string().contains("0x"), "byte {byte}: {error}");
            }
        }
    }

    #[test]
    fn a_byte_wrong_in_every_block_is_found_wherever_it_is() {
        for at in [9, 5000, 16383, 40001, BLOCK - 1] {
            let mut data = stream(BLOCK, 1);
            data[at] ^= 0x80;
            for mut checker in [Checker::exact(BLOCK), Checker::mixed(BLOCK, 1)] {
                let found = (0..3000).any(|_| {
                    if let Order::Exact { position } = &mut checker.order {
                        *position = 0;
                    }
                    checker.check(&data).is_err()
                });
                assert!(found, "byte {at}");
            }
        }
    }

    #[test]
    fn a_block_lost_or_sent_twice_is_an_error() {
        let data = stream(BLOCK, 3);
        let lost = [&data[..BLOCK], &data[2 * BLOCK..]].concat();
        assert!(check_all(&mut Checker::exact(BLOCK), &lost, BLOCK).is_err());
        let twice = [&data[..2 * BLOCK], &data[..BLOCK]].concat();
        assert!(check_all(&mut Checker::exact(BLOCK), &twice, BLOCK).is_err());
        assert!(check_all(&mut Checker::mixed(BLOCK, 1), &twice, BLOCK).is_err());
    }

    #[test]
    fn a_writer_that_does_not_exist_is_an_error() {
        let mut block = Block::new(3, BLOCK);
        assert!(Checker::mixed(BLOCK, 4).check(block.stamped(1)).is_ok());
        assert!(Checker::mixed(BLOCK, 3).check(block.stamped(1)).is_err());
    }

    #[test]
    fn torn_words_are_an_error_where_ends_are_shared() {
        let data = stream(BLOCK, 1);
        assert!(Checker::mixed(BLOCK, 1).check(&data[..100]).is_err());
        assert!(Checker::mixed(BLOCK, 1).check(&data[4..12]).is_err());
    }
}
