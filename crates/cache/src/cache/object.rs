//! The objects that a cache has pages of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use standpipe_shm::sync::{AtomicU64, Ordering};

use super::speed::Meter;
use crate::book::ObjectId;
use crate::store::{Store, Version};

/// So many objects that nobody reads are remembered, with what is still there of their pages.
const MOST_IDLE: usize = 4096;

/// An object, as the cache knows it.
pub struct Source {
    pub id: ObjectId,
    key: Key,
    /// Kept by those who read: what nobody reads keeps no file open.
    store: Mutex<Weak<dyn Store>>,
    /// As last seen.
    length_bytes: AtomicU64,
    /// How often somebody began to look at the length, and which of these looks was heeded last.
    looks: AtomicU64,
    heeded: AtomicU64,
    pub meter: Mutex<Meter>,
}

impl Source {
    pub fn new(id: ObjectId, store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            id,
            key: key_of(&**store),
            store: Mutex::new(Arc::downgrade(store)),
            length_bytes: AtomicU64::new(store.length_bytes()),
            looks: AtomicU64::new(0),
            heeded: AtomicU64::new(0),
            meter: Mutex::new(Meter::new(store.speed())),
        })
    }

    /// Where its bytes come from, as long as somebody reads it.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.upgrade()
    }

    /// Where its bytes come from: `store`, which is of the same version, if nobody else reads it.
    fn store_or(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let mut known = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            *known = Arc::downgrade(&store);
            store
        })
    }

    /// As last seen. Changed with the book, under its lock.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Relaxed)
    }

    /// A look at the length begins.
    pub fn look(&self) -> Look {
        Look(self.looks.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// It was this long. With the lock of the book held. False if that is known, or somebody looked later.
    pub fn note_length(&self, look: Look, length_bytes: u64) -> bool {
        if look.0 < self.heeded.load(Ordering::Relaxed) {
            return false;
        }
        self.heeded.store(look.0, Ordering::Relaxed);
        self.length_bytes.swap(length_bytes, Ordering::Relaxed) != length_bytes
    }
}

/// A look at the length of an object, which takes its time: what is seen may be old when it is told.
#[derive(Clone, Copy)]
pub struct Look(u64);

/// What an object is known by: two names of one file are two objects.
type Key = (String, Version);

struct Entry {
    source: Arc<Source>,
    readers: usize,
    /// When it last had a reader; of idle objects, the smallest goes first.
    idle_since: u64,
}

/// All of them.
#[derive(Default)]
pub struct Objects {
    by_key: HashMap<Key, Entry>,
    by_id: HashMap<ObjectId, Arc<Source>>,
    idle: usize,
    clock: u64,
}

impl Objects {
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn by_id(&self, id: ObjectId) -> Option<Arc<Source>> {
        self.by_id.get(&id).cloned()
    }

    /// One more reader of the object of this store, if it is known, and the store that it reads from.
    pub fn join(&mut self, store: &Arc<dyn Store>) -> Option<(Arc<Source>, Arc<dyn Store>)> {
        let entry = self.by_key.get_mut(&key_of(&**store))?;
        self.idle -= usize::from(entry.readers == 0);
        entry.readers += 1;
        let store = entry.source.store_or(Arc::clone(store));
        Some((Arc::clone(&entry.source), store))
    }

    /// A new object, with one reader.
    pub fn add(&mut self, source: &Arc<Source>) {
        let entry = Entry {
            source: Arc::clone(source),
            readers: 1,
            idle_since: 0,
        };
        self.by_key.insert(source.key.clone(), entry);
        self.by_id.insert(source.id, Arc::clone(source));
    }

    /// One reader less. Gives the objects that are to be forgotten for it.
    pub fn leave(&mut self, source: &Source) -> Option<Arc<Source>> {
        self.clock += 1;
        if let Some(entry) = self.by_key.get_mut(&source.key) {
            entry.readers -= 1;
            if entry.readers == 0 {
                entry.idle_since = self.clock;
                self.idle += 1;
            }
        }
        if self.idle <= MOST_IDLE {
            return None;
        }
        let idle = self.by_key.iter().filter(|(_, entry)| entry.readers == 0);
        let oldest = idle.min_by_key(|(_, entry)| entry.idle_since);
        let key = oldest.map(|(key, _)| key.clone())?;
        self.remove(&key)
    }

    /// Other versions of the object that nobody reads any more.
    pub fn outdated(&mut self, store: &dyn Store) -> Vec<Arc<Source>> {
        let is_outdated = |(name, version): &&Key, entry: &Entry| {
            entry.readers == 0 && name == store.name() && version != store.version()
        };
        let keys = self.by_key.iter();
        let keys: Vec<Key> = keys
            .filter(|(key, entry)| is_outdated(key, entry))
            .map(|(key, _)| key.clone())
            .collect();
        keys.iter().filter_map(|key| self.remove(key)).collect()
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<Source>> {
        let entry = self.by_key.remove(key)?;
        self.idle -= usize::from(entry.readers == 0);
        self.by_id.remove(&entry.source.id);
        Some(entry.source)
    }
}

fn key_of(store: &dyn Store) -> Key {
    (store.name().to_owned(), store.version().clone())
}
