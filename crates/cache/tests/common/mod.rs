//! A store whose reads are done when the test says so, and what the tests of the cache share.
#![allow(dead_code)]

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use standpipe_cache::book::{Eviction, PolicyKind};
use standpipe_cache::cache::{Ahead, Cache, Options};
use standpipe_cache::store::{Read, Store, StoreError, Version};

pub const PAGE: usize = 4096;

/// The byte at a place, so that pages differ.
pub fn byte_at(offset: u64) -> u8 {
    (offset / 7 + offset / 4096 * 13) as u8
}

pub fn expected(offset: u64, len_bytes: usize) -> Vec<u8> {
    (offset..).take(len_bytes).map(byte_at).collect()
}

#[derive(Default)]
struct Inside {
    length_bytes: u64,
    held: Vec<Read>,
    /// First page and pages of each read that was started.
    started: Vec<(u64, usize)>,
    is_held: bool,
    failures: u32,
    transfer_bytes: Option<usize>,
}

/// Bytes of [`byte_at`].
pub struct Script {
    name: String,
    version: Version,
    inside: Mutex<Inside>,
    arrived: Condvar,
}

impl Script {
    pub fn new(name: &str, length_bytes: u64) -> Arc<Self> {
        Self::of_version(name, length_bytes, "1")
    }

    pub fn of_version(name: &str, length_bytes: u64, version: &str) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            version: Version(version.to_owned()),
            inside: Mutex::new(Inside {
                length_bytes,
                ..Inside::default()
            }),
            arrived: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap()
    }

    /// From now on reads are done when [`Script::release`] says so.
    pub fn hold(&self) {
        self.lock().is_held = true;
    }

    /// No read is of more.
    pub fn set_transfer(&self, bytes: usize) {
        self.lock().transfer_bytes = Some(bytes);
    }

    /// So many reads fail.
    pub fn fail(&self, reads: u32) {
        self.lock().failures = reads;
    }

    pub fn set_length(&self, length_bytes: u64) {
        self.lock().length_bytes = length_bytes;
    }

    /// First page and pages of each read so far.
    pub fn started(&self) -> Vec<(u64, usize)> {
        self.lock().started.clone()
    }

    /// Waits until so many reads are held.
    pub fn wait_for(&self, reads: usize) {
        let mut inside = self.lock();
        while inside.held.len() < reads {
            inside = self.arrived.wait(inside).unwrap();
        }
    }

    /// Does the oldest read that is held.
    pub fn release(&self) {
        let read = self.lock().held.remove(0);
        self.finish(read);
    }

    /// Does all that are held, and from now on each at once.
    pub fn release_all(&self) {
        let held = {
            let mut inside = self.lock();
            inside.is_held = false;
            std::mem::take(&mut inside.held)
        };
        for read in held {
            self.finish(read);
        }
    }

    fn finish(&self, read: Read) {
        let Read {
            offset_bytes,
            len_bytes,
            mut lease,
            done,
        } = read;
        let mut inside = self.lock();
        if inside.failures > 0 {
            inside.failures -= 1;
            drop(inside);
            let error = StoreError::Io {
                name: self.name.clone(),
                offset_bytes,
                error: Arc::new(std::io::Error::other("as told")),
            };
            return done(lease, Err(error));
        }
        let there = inside.length_bytes.saturating_sub(offset_bytes);
        drop(inside);
        let bytes = len_bytes.min(there as usize);
        let mut at = offset_bytes;
        for slice in &mut lease.slices_mut() {
            for byte in slice.iter_mut() {
                *byte = byte_at(at);
                at += 1;
            }
        }
        lease.zero_from(bytes);
        done(lease, Ok(bytes));
    }
}

impl Store for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn access(&self) -> &'static str {
        "script"
    }

    fn version(&self) -> &Version {
        &self.version
    }

    fn length_bytes(&self) -> u64 {
        self.lock().length_bytes
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        Ok(self.length_bytes())
    }

    fn transfer_bytes(&self) -> usize {
        self.lock().transfer_bytes.unwrap_or(1 << 20)
    }

    fn start(&self, read: Read) {
        let mut inside = self.lock();
        inside
            .started
            .push((read.offset_bytes / PAGE as u64, read.lease.len_pages()));
        if inside.is_held {
            inside.held.push(read);
            self.arrived.notify_all();
        } else {
            drop(inside);
            self.finish(read);
        }
    }
}

pub fn cache(pages: u64) -> Cache {
    Cache::new(Options {
        budget_bytes: pages * PAGE as u64,
        eviction: Eviction::default(),
    })
    .unwrap()
}

pub const OFF: Ahead = Ahead {
    policy: PolicyKind::Off,
    max_bytes: 1 << 20,
};

pub const ADAPTIVE: Ahead = Ahead {
    policy: PolicyKind::Adaptive,
    max_bytes: 1 << 20,
};
