//! Blocks of memory between the thread that reads and the thread that writes.
//!
//! A block is in one of four places: among the spare ones, in the reader's hands, in the queue, in
//! the writer's hands. There are never more than [`Reservoir::new`] was told. Spare blocks are taken
//! last in, first out: a reservoir that stays low stays in the processor's cache.
//!
//! *Marks.* A writer that finds the queue empty waits until it is filled to the high mark; a reader
//! that finds no spare block waits until the queue is down to the low one. Each wait is entered only
//! at its extreme and left at the latest at the other one, so the two never wait for each other.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Large enough that a system call is nothing beside the copying, small enough that what was read
/// is still in a processor's second-level cache when it is written.
const BLOCK_BYTES: usize = 128 << 10;

/// Fewer blocks would leave one side waiting while the other one works.
const FEWEST_BLOCKS: usize = 4;

const PAGE_BYTES: usize = 4096;

/// Between a reader and a writer.
#[derive(Debug)]
pub struct Reservoir {
    state: Mutex<State>,
    for_reader: Condvar,
    for_writer: Condvar,
    block_bytes: usize,
    blocks: usize,
    high_blocks: usize,
    low_blocks: usize,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "two of each side, independent"
)]
struct State {
    queue: VecDeque<Block>,
    spare: Vec<Block>,
    /// How many blocks exist.
    made: usize,
    /// The writer waits for the high mark.
    filling: bool,
    /// The reader waits for the low mark.
    draining: bool,
    /// The reader is done.
    ended: bool,
    /// The writer is done, though the reader is not.
    abandoned: bool,
    waits: Waits,
}

/// How often one side waited for the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The reader found the reservoir full.
    pub full: u64,
    /// The writer found it empty.
    pub empty: u64,
}

/// A piece of memory, filled up to a length.
#[derive(Debug)]
pub struct Block {
    memory: Box<[u8]>,
    length: usize,
}

impl Block {
    /// All of it, to be filled from the beginning.
    pub fn memory(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// So much of it is filled.
    pub fn filled(mut self, length: usize) -> Self {
        self.length = length;
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    /// Takes in the bytes of `other` if there is room for them.
    fn absorb(&mut self, other: &Self) -> bool {
        let room = self.memory[self.length..].get_mut(..other.length);
        room.is_some_and(|room| {
            room.copy_from_slice(other.bytes());
            self.length += other.length;
            true
        })
    }
}

impl Reservoir {
    /// One of about `bytes`, with its marks in percent.
    pub fn new(bytes: usize, high_percent: u8, low_percent: u8) -> Self {
        let block_bytes = (bytes / FEWEST_BLOCKS).clamp(PAGE_BYTES, BLOCK_BYTES);
        let block_bytes = block_bytes / PAGE_BYTES * PAGE_BYTES;
        let blocks = (bytes / block_bytes).max(FEWEST_BLOCKS);
        Self {
            state: Mutex::default(),
            for_reader: Condvar::new(),
            for_writer: Condvar::new(),
            block_bytes,
            blocks,
            high_blocks: (blocks * usize::from(high_percent)).div_ceil(100).max(1),
            low_blocks: (blocks * usize::from(low_percent) / 100).min(blocks - 1),
        }
    }

    /// How much it holds.
    pub fn capacity_bytes(&self) -> usize {
        self.blocks * self.block_bytes
    }

    /// How full it is, from 0 to 1.
    pub fn level(&self) -> f64 {
        self.state().queue.len() as f64 / self.blocks as f64
    }

    pub fn waits(&self) -> Waits {
        self.state().waits
    }

    /// The reader's: a block to fill, when there is one; `None` if nobody wants it any more.
    pub fn empty_block(&self) -> Option<Block> {
        let mut state = self.state();
        loop {
            if state.abandoned {
                return None;
            }
            if state.queue.len() <= self.low_blocks {
                state.draining = false;
            }
            if !state.draining {
                if let Some(block) = state.spare.pop() {
                    return Some(block);
                }
                if state.made < self.blocks {
                    state.made += 1;
                    return Some(Block {
                        memory: vec![0; self.block_bytes].into(),
                        length: 0,
                    });
                }
                state.draining = true;
                state.waits.full += 1;
            }
            state = self
                .for_reader
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The reader's: a filled block. Small pieces are put together while the writer is behind, so
    /// that a trickle fills the reservoir with bytes and not with half-empty blocks.
    pub fn put(&self, block: Block) {
        let mut state = self.state();
        if state
            .queue
            .back_mut()
            .is_some_and(|last| last.absorb(&block))
        {
            state.spare.push(block);
        } else {
            state.queue.push_back(block);
        }
        if state.filling && state.queue.len() >= self.high_blocks {
            self.for_writer.notify_one();
        }
    }

    /// The reader's: there will be no more.
    pub fn end(&self) {
        self.state().ended = true;
        self.for_writer.notify_one();
    }

    /// The writer's: the next block, when it may be written; `None` at the end.
    pub fn full_block(&self) -> Option<Block> {
        let mut state = self.state();
        loop {
            if state.ended || state.queue.len() >= self.high_blocks {
                state.filling = false;
            }
            if !state.filling {
                if let Some(block) = state.queue.pop_front() {
                    return Some(block);
                }
                if state.ended {
                    return None;
                }
                state.filling = true;
                state.waits.empty += 1;
            }
            state = self
                .for_writer
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The writer's: a block whose bytes are written.
    pub fn give_back(&self, block: Block) {
        let mut state = self.state();
        state.spare.push(block);
        if state.draining && state.queue.len() <= self.low_blocks {
            self.for_reader.notify_one();
        }
    }

    /// The writer's: nothing more will be written.
    pub fn abandon(&self) {
        self.state().abandoned = true;
        self.for_reader.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn put(reservoir: &Reservoir, byte: u8, length: usize) {
        let mut block = reservoir.empty_block().unwrap();
        block.memory()[..length].fill(byte);
        reservoir.put(block.filled(length));
    }

    fn take(reservoir: &Reservoir) -> Option<Vec<u8>> {
        let block = reservoir.full_block()?;
        let bytes = block.bytes().to_vec();
        reservoir.give_back(block);
        Some(bytes)
    }

    #[test]
    fn bytes_come_out_in_order_and_then_the_end() {
        let reservoir = Reservoir::new(64 << 10, 0, 100);
        for byte in 0..3 {
            put(&reservoir, byte, 16 << 10);
        }
        reservoir.end();
        for byte in 0..3 {
            assert_eq!(take(&reservoir), Some(vec![byte; 16 << 10]));
        }
        assert_eq!(take(&reservoir), None);
        assert_eq!(reservoir.waits(), Waits::default());
    }

    #[test]
    fn a_trickle_fills_whole_blocks() {
        let reservoir = Reservoir::new(64 << 10, 0, 100);
        // three blocks; the fourth is the one that the reader reads into
        let pieces = 0..3 * 1638_usize;
        for piece in pieces.clone() {
            put(&reservoir, piece as u8, 10);
        }
        assert_eq!(reservoir.state().queue.len(), 3);
        reservoir.end();
        let bytes: Vec<u8> = std::iter::from_fn(|| take(&reservoir)).flatten().collect();
        assert!(
            bytes
                == pieces
                    .flat_map(|piece| [piece as u8; 10])
                    .collect::<Vec<_>>()
        );
    }

    #[test]
    fn it_holds_what_it_was_made_for_and_never_more() {
        for bytes in [1, 5000, 100_000, 1 << 20, 5_000_000] {
            let reservoir = Reservoir::new(bytes, 0, 100);
            let capacity = reservoir.capacity_bytes();
            let wanted = bytes.max(FEWEST_BLOCKS * PAGE_BYTES);
            assert!(
                capacity <= wanted && capacity * 10 >= wanted * 7,
                "{bytes}: {capacity}"
            );
        }
    }

    /// A writer may begin only at the high mark, a reader go on only at the low one.
    #[test]
    fn the_marks_hold_both_sides_back() {
        let reservoir = Reservoir::new(64 << 10, 75, 25);
        let (tell, heard) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(bytes) = take(&reservoir) {
                    tell.send(bytes[0]).unwrap();
                }
                drop(tell);
            });
            while reservoir.waits().empty == 0 {
                thread::yield_now();
            }
            put(&reservoir, 1, 16 << 10);
            put(&reservoir, 2, 16 << 10);
            assert!(reservoir.state().filling);
            assert_eq!(heard.try_recv(), Err(mpsc::TryRecvError::Empty));
            put(&reservoir, 3, 16 << 10);
            assert_eq!(heard.recv(), Ok(1));
            reservoir.end();
            assert_eq!(heard.iter().collect::<Vec<_>>(), [2, 3]);
        });

        let reservoir = Reservoir::new(64 << 10, 0, 25);
        (0..4).for_each(|byte| put(&reservoir, byte, 16 << 10));
        thread::scope(|scope| {
            let reader = scope.spawn(|| reservoir.empty_block().is_some());
            while reservoir.waits().full == 0 {
                thread::yield_now();
            }
            take(&reservoir);
            take(&reservoir);
            assert!(reservoir.state().draining && !reader.is_finished());
            take(&reservoir);
            assert!(reader.join().unwrap());
        });
    }

    #[test]
    fn a_reader_whose_writer_is_done_stops() {
        let reservoir = Reservoir::new(16 << 10, 0, 100);
        (0..4).for_each(|byte| put(&reservoir, byte, 4096));
        thread::scope(|scope| {
            let reader = scope.spawn(|| reservoir.empty_block().is_none());
            reservoir.abandon();
            assert!(reader.join().unwrap());
        });
    }
}
