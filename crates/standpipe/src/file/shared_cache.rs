//! The cache that all files of a process share.

use std::io;
use std::sync::OnceLock;

use standpipe_cache::cache::{Cache, Options};
use standpipe_cache::store::process::PerProcess;

use crate::units::bytes_of;

/// The environment variable that sets the budget of the process's cache: bytes, with a suffix `K`, `M` or
/// `G`.
pub const BUDGET_ENV: &str = "STANDPIPE_CACHE_BYTES";

static CACHE: PerProcess<OnceLock<Cache>> = PerProcess::new();

/// The cache of this process. It is made when it is first asked for; a forked child gets one of its own.
///
/// # Errors
/// `InvalidInput` if [`BUDGET_ENV`] is not a size; otherwise as [`Cache::new`].
pub fn cache() -> io::Result<Cache> {
    let slot = CACHE.get();
    if let Some(cache) = slot.get() {
        return Ok(cache.clone());
    }
    let made = Cache::new(Options {
        budget_bytes: budget_bytes()?,
        ..Options::default()
    })?;
    // Of two threads that come here first, one drops what it made.
    Ok(slot.get_or_init(|| made).clone())
}

fn budget_bytes() -> io::Result<u64> {
    let Some(text) = std::env::var_os(BUDGET_ENV) else {
        return Ok(Options::default().budget_bytes);
    };
    text.to_str().and_then(bytes_of).ok_or_else(|| {
        let text = format!(
            "{BUDGET_ENV}={}: expected bytes, as in 512M",
            text.display()
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}
