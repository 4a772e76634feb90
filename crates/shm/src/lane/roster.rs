//! Who takes part by name, so that a survivor can be told how its last peer left.

use super::{Lane, Side};
use crate::header::{Roster, add};
use crate::sync::Ordering;

/// How a process that had ends of a side stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has ends, or died having them.
    Open,
    /// It closed its last one.
    Closed,
    /// It cancelled.
    Cancelled,
}

impl Standing {
    fn bits(self) -> u64 {
        match self {
            Self::Open => 1,
            Self::Closed => 2,
            Self::Cancelled => 3,
        }
    }

    fn of(word: u64) -> Option<Self> {
        [Self::Open, Self::Closed, Self::Cancelled]
            .into_iter()
            .find(|standing| standing.bits() == word >> 32)
    }
}

fn word(pid: u32, standing: Standing) -> u64 {
    standing.bits() << 32 | u64::from(pid)
}

impl Lane {
    /// Process `pid` has ends of `side`.
    pub fn note_open(&self, side: Side, pid: u32) {
        let slots = &self.roster(side).slots;
        let is_ours = |word: u64| word as u32 == pid;
        let ours = slots
            .iter()
            .find(|slot| is_ours(slot.load(Ordering::Relaxed)));
        if let Some(slot) = ours {
            slot.store(word(pid, Standing::Open), Ordering::Relaxed);
            return;
        }
        // The first free one. All taken: then this one stays unknown.
        let _ = slots.iter().any(|slot| {
            slot.compare_exchange(
                0,
                word(pid, Standing::Open),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
        });
    }

    /// Process `pid` has no ends of `side` any more.
    pub fn note_closed(&self, side: Side, pid: u32, standing: Standing) {
        let roster = self.roster(side);
        for slot in &roster.slots {
            if slot.load(Ordering::Relaxed) == word(pid, Standing::Open) {
                slot.store(0, Ordering::Relaxed);
            }
        }
        roster
            .last_closed
            .store(word(pid, standing), Ordering::Relaxed);
    }

    /// Of a side that nobody has ends of any more: who left, and how. Whoever is still on the roster
    /// died.
    #[must_use]
    pub fn last_of(&self, side: Side) -> Option<(u32, Standing)> {
        let roster = self.roster(side);
        let died = roster.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        let last = || roster.last_closed.load(Ordering::Relaxed);
        let word = died.filter(|word| *word != 0).last().unwrap_or_else(last);
        Some((word as u32, Standing::of(word)?))
    }

    /// Members of `side` moved bytes through the kernel pipe.
    pub fn count_kernel_bytes(&self, side: Side, bytes: usize) {
        add(&self.roster(side).kernel_bytes, bytes as u64);
    }

    /// How many bytes members of `side` moved, whichever way.
    #[must_use]
    pub fn moved_bytes(&self, side: Side) -> u64 {
        let beside = self.roster(side).kernel_bytes.load(Ordering::Relaxed);
        self.stats(side).bytes.saturating_add(beside)
    }

    /// The capacity of the kernel pipe is `bytes`. Says whether the lane was told another before, or has
    /// another itself and was not told.
    pub fn note_kernel_capacity(&self, bytes: usize) -> bool {
        let noted = &self.header().kernel_capacity;
        let before = noted.load(Ordering::Relaxed);
        if before != bytes as u64 {
            noted.store(bytes as u64, Ordering::Relaxed);
        }
        match before {
            0 => self.size().capacity_bytes() != bytes,
            before => before != bytes as u64,
        }
    }

    pub(super) fn reset_rosters(&self) {
        self.header().readers.reset();
        self.header().writers.reset();
        self.header().kernel_capacity.store(0, Ordering::Relaxed);
    }

    fn roster(&self, side: Side) -> &Roster {
        match side {
            Side::Reader => &self.header().readers,
            Side::Writer => &self.header().writers,
        }
    }
}
