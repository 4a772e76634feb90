//! What reads the files of this process: a ring, and threads for what a ring can't do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::job::Job;
use super::pool::Pool;
use super::ring::Ring;
use crate::store::process::PerProcess;

/// Its threads are started when there is work for them.
#[derive(Default)]
pub struct Engine {
    ring: OnceLock<Option<Ring>>,
    pool: Pool,
}

static ENGINE: PerProcess<Engine> = PerProcess::new();

impl Engine {
    /// This process's.
    pub fn get() -> &'static Self {
        ENGINE.get()
    }

    /// Whether the kernel lets us have a ring. Containers often don't.
    pub fn has_ring(&'static self) -> bool {
        self.ring().is_some()
    }

    /// Has a job done, by the ring if the file can be read directly: the kernel would do the copying of
    /// other reads in the ring's thread, one after the other.
    pub fn start(&'static self, job: Job, may_ring: bool) {
        match self.ring() {
            Some(ring) if may_ring && job.source().is_direct() => ring.push(job),
            _ => self.pool.push(job),
        }
    }

    pub(super) fn pool(&'static self) -> &'static Pool {
        &self.pool
    }

    fn ring(&'static self) -> Option<&'static Ring> {
        self.ring
            .get_or_init(|| Ring::start(self.pool()).ok())
            .as_ref()
    }
}

/// Runs what calls the code of others, whose panics (which have been reported by then) must not end a thread
/// that others rely on.
pub fn guard(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
