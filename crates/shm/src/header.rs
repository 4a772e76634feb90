//! What the processes that share a lane agree on: the first page of its memory.
//!
//! Who may touch what:
//! - `tail` and the [`WriterSide`] are stored to by the holder of the write lock only; `head` and
//!   the [`ReaderSide`] by the holder of the read lock only. Readers load `tail`, writers `head`.
//! - [`Notices`] are stored to by anybody, rarely, and loaded by everybody, all the time. They have
//!   cache lines of their own, which therefore stay shared while bytes flow.
//!
//! Nothing here is trusted: positions are checked before use, the rest can at most cost a wake-up.

use crate::lock::RobustLock;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A value alone on its cache line (and on the one that the prefetcher fetches with it).
#[repr(C, align(128))]
#[derive(Default)]
pub struct Alone<T>(pub T);

/// The shared page.
#[repr(C)]
#[derive(Default)]
pub struct Header {
    /// Bytes written so far: what is below may be read. The commit point of a write.
    pub tail: Alone<AtomicU64>,
    /// Bytes read so far: what is below may be overwritten. The commit point of a read.
    pub head: Alone<AtomicU64>,
    pub writer: Alone<WriterSide>,
    pub reader: Alone<ReaderSide>,
    /// Where the ring lies that counts (see `memory.rs`). Stored to by who holds both locks.
    pub ring: Alone<AtomicU64>,
    /// What writers look at after each transfer.
    pub for_writers: Alone<Notices>,
    /// What readers look at after each transfer.
    pub for_readers: Alone<Notices>,
    /// Who has write ends.
    pub writers: Roster,
    /// Who has read ends.
    pub readers: Roster,
    /// The capacity of the kernel pipe when that of the lane was last set by it; 0 before.
    pub kernel_capacity: AtomicU64,
    /// Where the last ring of each order lies, as in `ring`; 0 for none. Stored to by who holds both locks.
    #[cfg(not(loom))]
    pub places: [AtomicU64; standpipe_core::size::MAX_ORDER as usize + 1],
    /// Where writes ended (see `lane/cut.rs`).
    #[cfg(not(loom))]
    pub write_ends: crate::lane::WriteEnds,
}

/// The processes of one side, and how they left. Written by anybody, rarely; for information only.
#[repr(C)]
#[derive(Default)]
pub struct Roster {
    /// A process id and, from bit 32 on, its state (`lane/roster.rs`). 0 is free.
    pub slots: [AtomicU64; ROSTER_SLOTS],
    /// The slot's word of whoever closed last.
    pub last_closed: AtomicU64,
    /// Bytes that members of this side moved through the kernel pipe.
    pub kernel_bytes: AtomicU64,
}

/// How many processes of a side are known by name. Those beyond are not missed until somebody asks.
const ROSTER_SLOTS: usize = 24;

impl Roster {
    /// As in a new lane.
    pub fn reset(&self) {
        let words = self
            .slots
            .iter()
            .chain([&self.last_closed, &self.kernel_bytes]);
        words.for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// What only the writer that holds the lock may touch.
#[repr(C)]
#[derive(Default)]
pub struct WriterSide {
    pub lock: RobustLock,
    /// A `head` seen earlier: room is at least what it says.
    pub seen_head: AtomicU64,
    /// Not zero if the last bytes of a member went into the lane, and none are known in the kernel
    /// pipe since. Set under the lock, cleared by anybody (see `lane/way.rs`).
    pub inside: AtomicU32,
    pub counts: Counts,
}

/// What only the reader that holds the lock may touch.
#[repr(C)]
#[derive(Default)]
pub struct ReaderSide {
    pub lock: RobustLock,
    /// A `tail` seen earlier: at least what it says is queued.
    pub seen_tail: AtomicU64,
    /// Bytes of the kernel pipe that come before those of the lane.
    pub kernel_due: AtomicU64,
    /// A position before which the kernel pipe is emptied, plus one; 0 for none. Writers put one
    /// where there is none, everything else happens under the lock.
    pub mark: AtomicU64,
    /// Not zero while a mark was taken off and the kernel pipe not yet asked what is due.
    pub serving: AtomicU32,
    /// Where the bytes in the stage begin, plus one; 0 if there are none.
    pub staged_from: AtomicU64,
    pub counts: Counts,
}

/// What the other side, or a peer in another process, wants to be seen.
#[repr(C)]
#[derive(Default)]
pub struct Notices {
    /// Sleepers of the *other* side, waiting for us.
    pub sleepers: Sleepers,
    /// Goes up each time that an end of the other side was closed by its owner: a hint to ask the
    /// kernel whether any is left.
    pub departures: AtomicU32,
    /// Bits of [`crate::lane::Mode`].
    pub mode: AtomicU32,
    /// For writers: bytes that were in the kernel pipe when they went inside, and are not read yet. They
    /// take room as if they were queued here.
    pub kernel_share: AtomicU64,
    /// For readers: not zero while writers are inside. A hint, for how to wait.
    pub writers_inside: AtomicU32,
    /// Where the other side's last turn ran.
    pub processor: AtomicU32,
    /// Held by whoever of this side sleeps for all of them.
    pub seat: RobustLock,
}

impl Notices {
    /// As in a new lane.
    pub fn reset(&self) {
        self.sleepers.0.store(0, Ordering::Relaxed);
        self.departures.store(0, Ordering::Relaxed);
        self.mode.store(0, Ordering::Relaxed);
        self.writers_inside.store(0, Ordering::Relaxed);
        self.kernel_share.store(0, Ordering::Relaxed);
    }
}

/// Statistics of one side. `bytes`, `operations`, `wakeups_saved` and `owner_deaths` are only
/// written under that side's lock, so plain loads and stores count exactly.
#[repr(C)]
#[derive(Default)]
pub struct Counts {
    pub bytes: AtomicU64,
    pub operations: AtomicU64,
    pub wakeups_saved: AtomicU64,
    pub owner_deaths: AtomicU64,
    pub wakeups_sent: AtomicU64,
    pub sleeps: AtomicU64,
    pub pages_populated_outside: AtomicU64,
    pub pages_populated_inside: AtomicU64,
}

impl Counts {
    /// As in a new lane.
    pub fn reset(&self) {
        let Self {
            bytes,
            operations,
            wakeups_saved,
            owner_deaths,
            wakeups_sent,
            sleeps,
            pages_populated_outside,
            pages_populated_inside,
        } = self;
        for count in [
            bytes,
            operations,
            wakeups_saved,
            owner_deaths,
            wakeups_sent,
            sleeps,
            pages_populated_outside,
            pages_populated_inside,
        ] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Adds to a count that only the holder of a lock writes.
pub fn add_locked(count: &AtomicU64, n: u64) {
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(n),
        Ordering::Relaxed,
    );
}

/// Adds to a count that anybody writes.
pub fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

/// Whether peers sleep, and for how many bytes the least demanding of them waits.
///
/// Bits 0 to 31: the bytes wanted, 0 when nobody sleeps. Bits 32 to 63: a count of arms, so that
/// [`Sleepers::rung`] clears what it saw and not an arm that came later.
#[repr(C)]
#[derive(Default)]
pub struct Sleepers(AtomicU64);

/// What [`Sleepers::look`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// Whether nobody was announced.
    pub fn is_nobody(self) -> bool {
        self.0 & WANTED == 0
    }
}

const WANTED: u64 = 0xffff_ffff;
const ONE_ARM: u64 = 1 << 32;

impl Sleepers {
    /// Announces a sleeper that waits for `wanted_bytes` (at least 1). Says what was announced before,
    /// and what is now.
    pub fn arm(&self, wanted_bytes: usize) -> (Seen, Seen) {
        let wanted = (wanted_bytes as u64).clamp(1, WANTED);
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let least = if seen & WANTED == 0 {
                wanted
            } else {
                wanted.min(seen & WANTED)
            };
            let armed = (seen & !WANTED).wrapping_add(ONE_ARM) | least;
            // Relaxed: the fence in Lane::arm orders it before the look at the positions.
            match self
                .0
                .compare_exchange(seen, armed, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return (Seen(seen), Seen(armed)),
                Err(now) => seen = now,
            }
        }
    }

    /// Whoever is announced now.
    pub fn look(&self) -> Option<(usize, Seen)> {
        // Relaxed: the fence in Lane::wake orders it after the store of the position.
        let word = self.0.load(Ordering::Relaxed);
        (word & WANTED != 0).then_some(((word & WANTED) as usize, Seen(word)))
    }

    /// The bell was rung for those seen. Who armed since stays announced.
    pub fn rung(&self, seen: Seen) {
        let _ = self.take_back(seen);
    }

    /// Those seen are announced no more. False if somebody armed in between, or rang for them.
    pub fn take_back(&self, Seen(word): Seen) -> bool {
        self.0
            .compare_exchange(word, word & !WANTED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_header_fits_its_page() {
        assert!(size_of::<Header>() <= standpipe_core::size::PAGE_BYTES);
    }

    #[test]
    fn the_least_demanding_sleeper_counts_and_a_later_one_is_kept() {
        let sleepers = Sleepers::default();
        assert!(sleepers.look().is_none());
        for wanted in [100, 40, 70] {
            sleepers.arm(wanted);
        }
        let (wanted, seen) = sleepers.look().unwrap();
        assert_eq!(wanted, 40);
        sleepers.arm(90);
        sleepers.rung(seen);
        assert_eq!(
            sleepers.look().unwrap().0,
            40,
            "armed after the look, must stay"
        );
        sleepers.rung(sleepers.look().unwrap().1);
        assert!(sleepers.look().is_none());
    }
}
