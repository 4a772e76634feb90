//! How much memory the lanes of this process may have.
//!
//! The kernel's own limits (`pipe-max-size`, `pipe-user-pages-soft` and `-hard`, see pipe(7)) hold for
//! the kernel pipe that each lane belongs to, so they bound a user's lanes as well: one lane for each
//! pipe, as large as the pipe is as a rule. What goes beyond that, large capacities that a user without
//! privileges could not have of the kernel, is bounded here, for each process.

use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::process::Resource;
use standpipe_shm::lane::Lane;
use standpipe_shm::sync::{AtomicBool, AtomicU64, Ordering};

use crate::units::bytes_of;

/// The environment variables that set the limits of a process: bytes, with a suffix `K`, `M` or `G`.
pub const SOFT_LIMIT_ENV: &str = "STANDPIPE_LANE_BYTES_SOFT";
/// See [`SOFT_LIMIT_ENV`].
pub const HARD_LIMIT_ENV: &str = "STANDPIPE_LANE_BYTES_HARD";

/// How many bytes the lanes of this process may hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Beyond it no lane grows, and asking for more fails with `EPERM`, as beyond
    /// `pipe-user-pages-soft`.
    pub soft_bytes: u64,
    /// Beyond it there are no new lanes: the kernel pipe carries the bytes.
    pub hard_bytes: u64,
}

impl Limits {
    /// What holds if nobody says otherwise: none.
    pub const NONE: Self = Self {
        soft_bytes: u64::MAX,
        hard_bytes: u64::MAX,
    };

    /// Those of the environment.
    fn from_environment() -> Self {
        let get = |name| std::env::var(name).ok().and_then(|text| bytes_of(&text));
        Self {
            soft_bytes: get(SOFT_LIMIT_ENV).unwrap_or(u64::MAX),
            hard_bytes: get(HARD_LIMIT_ENV).unwrap_or(u64::MAX),
        }
    }
}

static SOFT_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
static HARD_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
static IS_SET: AtomicBool = AtomicBool::new(false);
static USED_BYTES: AtomicU64 = AtomicU64::new(0);

/// The limits of this process.
#[must_use]
pub fn limits() -> Limits {
    if !IS_SET.load(Ordering::Relaxed) {
        set_limits(Limits::from_environment());
    }
    Limits {
        soft_bytes: SOFT_BYTES.load(Ordering::Relaxed),
        hard_bytes: HARD_BYTES.load(Ordering::Relaxed),
    }
}

/// Sets the limits of this process. Lanes that are there stay.
pub fn set_limits(limits: Limits) {
    SOFT_BYTES.store(limits.soft_bytes, Ordering::Relaxed);
    HARD_BYTES.store(limits.hard_bytes, Ordering::Relaxed);
    IS_SET.store(true, Ordering::Relaxed);
}

/// How many bytes the lanes of this process may hold now.
#[must_use]
pub fn used_lane_bytes() -> u64 {
    USED_BYTES.load(Ordering::Relaxed)
}

/// A new lane of this capacity. False: not within the hard limit.
pub(crate) fn take_lane(bytes: usize) -> bool {
    let bytes = bytes as u64;
    let before = USED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let fits = before.saturating_add(bytes) <= limits().hard_bytes;
    if !fits {
        USED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
    fits
}

/// Whether this new lane leaves the process a quarter of its descriptors: a lane takes several, and a
/// process that has thousands of pipes needs them for pipes. The lowest free number (but see `PrivateFd`)
/// is given out first, so that of a new one tells how many are taken.
pub(crate) fn leaves_descriptors(lane: &Lane) -> bool {
    let most = rustix::process::getrlimit(Resource::Nofile).current;
    let taken = u64::from(lane.presence().as_raw_fd().unsigned_abs());
    most.is_none_or(|most| taken < most / 4 * 3)
}

/// A lane is about to change its capacity.
pub(crate) fn change_lane(from_bytes: usize, to_bytes: usize) -> io::Result<()> {
    let (from, to) = (from_bytes as u64, to_bytes as u64);
    let before = USED_BYTES.fetch_add(to, Ordering::Relaxed);
    if to > from && before.saturating_add(to - from) > limits().soft_bytes {
        USED_BYTES.fetch_sub(to, Ordering::Relaxed);
        return Err(Errno::PERM.into());
    }
    USED_BYTES.fetch_sub(from, Ordering::Relaxed);
    Ok(())
}

/// A lane of this capacity is gone.
pub(crate) fn give_lane_back(bytes: usize) {
    USED_BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        for (text, bytes) in [("4096", 4096), ("64K", 65536), (" 1g\n", 1 << 30)] {
            assert_eq!(bytes_of(text), Some(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1T", "99999999999G"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }
}
