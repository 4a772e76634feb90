//! What parent and children tell each other: words in memory that they share, which outlive a
//! killed child.
//!
//! Each word has one writer at a time, but for the bits of records that came, which readers set
//! with an atomic or. What must be seen in order is ordered by the kernel: a record passes a pipe
//! between writer and reader, and the parent waits for its children.
#![expect(
    clippy::disallowed_types,
    reason = "the judge must not stand on the shim that it judges; nor is there a protocol here"
)]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// How many writers, and how many readers, a round may have one after another.
pub(super) const IDS: usize = 64;

/// How many records a writer may send; then it closes its end.
pub(super) const RECORDS: u64 = 1 << 17;

const BITMAP_WORDS: usize = (RECORDS / 64) as usize;
const FIELDS: usize = 4;
const SIDES_WORDS: usize = 2 * IDS * FIELDS;
const WORDS: usize = SIDES_WORDS + IDS * BITMAP_WORDS;

/// Which side of the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Writer,
    Reader,
}

/// What a child tells.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// Records of which the write was begun (writer).
    Attempted,
    /// Records of which the write returned (writer), or that came (reader).
    Done,
    /// When the last call was begun, in nanoseconds of the monotonic clock.
    CalledNs,
    /// When the child was told that its peers are gone; 0 until then.
    ToldNs,
}

/// The shared words.
pub(super) struct Board(ptr::NonNull<AtomicU64>);

impl Board {
    pub(super) fn new() -> std::io::Result<Self> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of nobody else.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), WORDS * 8, prot, MapFlags::SHARED) }?;
        Ok(Self(
            ptr::NonNull::new(base.cast()).expect("a mapping is not at 0"),
        ))
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS);
        // SAFETY: within the mapping.
        let word = unsafe { self.0.add(index) };
        // SAFETY: the mapping lives as long as `self`, is aligned and zeroed, and is accessed
        // through atomics only.
        unsafe { word.as_ref() }
    }

    fn field(&self, side: Side, id: usize, field: Field) -> &AtomicU64 {
        assert!(id < IDS);
        self.word((side as usize * IDS + id) * FIELDS + field as usize)
    }

    pub(super) fn get(&self, side: Side, id: usize, field: Field) -> u64 {
        self.field(side, id, field).load(Relaxed)
    }

    pub(super) fn set(&self, side: Side, id: usize, field: Field, value: u64) {
        self.field(side, id, field).store(value, Relaxed);
    }

    /// The sum over all children of a side.
    pub(super) fn total(&self, side: Side, field: Field) -> u64 {
        (0..IDS).map(|id| self.get(side, id, field)).sum()
    }

    /// Publishes that a record came; false if it had come before.
    #[must_use]
    pub(super) fn record_came(&self, writer: usize, number: u64) -> bool {
        let (word, bit) = self.bit(writer, number);
        word.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Whether a record came.
    pub(super) fn has_come(&self, writer: usize, number: u64) -> bool {
        let (word, bit) = self.bit(writer, number);
        word.load(Relaxed) & bit != 0
    }

    fn bit(&self, writer: usize, number: u64) -> (&AtomicU64, u64) {
        assert!(writer < IDS && number < RECORDS);
        let index = SIDES_WORDS + writer * BITMAP_WORDS + (number / 64) as usize;
        (self.word(index), 1 << (number % 64))
    }

    /// Wipes what a round left.
    pub(super) fn wipe(&self) {
        for writer in 0..IDS {
            let used = self
                .get(Side::Writer, writer, Field::Attempted)
                .div_ceil(64);
            for word in 0..used as usize {
                self.word(SIDES_WORDS + writer * BITMAP_WORDS + word)
                    .store(0, Relaxed);
            }
        }
        (0..SIDES_WORDS).for_each(|index| self.word(index).store(0, Relaxed));
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, to which no reference is left.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), WORDS * 8) };
        unmapped.expect("cannot unmap the board");
    }
}

/// Now, by the monotonic clock, which all processes share.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::try_from(now).expect("the monotonic clock starts at 0");
    now.as_nanos() as u64
}
