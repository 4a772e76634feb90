//! Who reads what, from what, with what.

use standpipe_core::readahead::PolicyKind;

use super::{Pattern, Preset};
use crate::book::Eviction;

/// A file of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it begins on the store. Files lie in one piece.
    pub start_bytes: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A reader of a scenario, with a handle of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Which of the files.
    pub file: usize,
    /// What it reads.
    pub pattern: Pattern,
    /// When it begins, at the earliest.
    pub start_ns: u64,
    /// It begins only when this other reader is done.
    pub after: Option<usize>,
    /// When it stops, if it has not read all by then.
    pub stop_ns: Option<u64>,
    /// It reads no faster than this. Being late once, it does not catch up.
    pub bytes_per_s: Option<u64>,
    /// So many reads before it is measured.
    pub warm_up_reads: u64,
}

/// How a cache is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What reads ahead.
    pub policy: PolicyKind,
    /// How far, at most.
    pub max_ahead_bytes: u64,
    /// Which pages go first.
    pub eviction: Eviction,
}

impl Setup {
    /// As kernels do it, with windows of so many bytes at most.
    #[must_use]
    pub const fn kernel(policy: PolicyKind, max_ahead_bytes: u64) -> Self {
        Self {
            policy,
            max_ahead_bytes,
            eviction: Eviction::TwoLists,
        }
    }

    /// As standpipe does it.
    #[must_use]
    pub const fn standpipe() -> Self {
        Self {
            policy: PolicyKind::Adaptive,
            // what the policy learns of the store and of its share decides long before this
            max_ahead_bytes: 8 << 20,
            eviction: Eviction::Streaming,
        }
    }
}

/// A workload, and what it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The store.
    pub store: Preset,
    /// The budget of the cache.
    pub memory_bytes: u64,
    /// How the cache is run.
    pub setup: Setup,
    /// What a reader does with a page, at least.
    pub page_ns: u64,
    /// The files.
    pub files: Vec<File>,
    /// Those who read them.
    pub readers: Vec<Reader>,
    /// What random orders come from.
    pub seed: u64,
    /// The time that a [`Sample`](super::Sample) spans.
    pub sample_ns: u64,
}
