//! Versions that nothing is equal to.

use standpipe_shm::sync::{AtomicU64, Ordering};

use super::Version;

/// A version that no other is equal to.
pub fn unique(prefix: &str) -> Version {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Version(format!("{prefix} #{number}"))
}
