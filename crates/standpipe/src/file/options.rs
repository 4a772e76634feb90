//! How a file is opened.

use std::io;
use std::sync::Arc;

use standpipe_cache::cache::{Ahead, Cache};
use standpipe_cache::store::{self, Store};

use super::{File, Policy, cache};

/// How a file is opened.
#[derive(Clone)]
pub struct Options {
    cache: Option<Cache>,
    ahead: Ahead,
    max_reads: Option<u64>,
    is_nonblocking: bool,
    store: store::Options,
}

impl Options {
    /// The cache of the process, the [adaptive](Policy::Adaptive) policy, at most 64 MiB ahead, waiting.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cache: None,
            ahead: Ahead {
                policy: Policy::Adaptive,
                max_bytes: 64 << 20,
            },
            max_reads: None,
            is_nonblocking: false,
            store: store::Options::default(),
        }
    }

    /// Through this cache.
    #[must_use]
    pub fn cache(mut self, cache: &Cache) -> Self {
        self.cache = Some(cache.clone());
        self
    }

    /// Reads ahead by these rules.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.ahead.policy = policy;
        self
    }

    /// Reads at most so far ahead, in bytes.
    #[must_use]
    pub fn max_ahead_bytes(mut self, max_bytes: u64) -> Self {
        self.ahead.max_bytes = max_bytes;
        self
    }

    /// Reads at most so far ahead that this many reads are under way at once, of the size that the store
    /// [likes](Store::transfer_bytes). Overrules [`Options::max_ahead_bytes`].
    #[must_use]
    pub fn max_reads(mut self, max_reads: u64) -> Self {
        self.max_reads = Some(max_reads);
        self
    }

    /// Doesn't wait for pages that are not there, from the beginning on.
    #[must_use]
    pub fn nonblocking(mut self, is_nonblocking: bool) -> Self {
        self.is_nonblocking = is_nonblocking;
        self
    }

    /// How the store is reached.
    #[must_use]
    pub fn store(mut self, store: store::Options) -> Self {
        self.store = store;
        self
    }

    /// Opens a path or a URL.
    ///
    /// # Errors
    /// As `open(2)`; for URLs as the store says; `STANDPIPE_CACHE_BYTES` if it is no size.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let store = store::open(name, &self.store)?;
        self.over(store)
    }

    /// Opens what is in a store already.
    ///
    /// # Errors
    /// If there is no cache yet, and no memory for one.
    pub fn over(&self, store: Arc<dyn Store>) -> io::Result<File> {
        let mut ahead = self.ahead;
        if let Some(max_reads) = self.max_reads {
            ahead.max_bytes = max_reads.saturating_mul(store.transfer_bytes() as u64);
        }
        let reader = match &self.cache {
            Some(cache) => cache.open(store, ahead),
            None => cache()?.open(store, ahead),
        };
        Ok(File::over(reader, self.is_nonblocking))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
