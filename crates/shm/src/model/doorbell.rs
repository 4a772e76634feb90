//! A doorbell made of a condition, and a set of them.

use std::io;
// Not loom's: what they hold is made before the first thread, and loom's are not for unwinding.
use std::sync::{Arc, OnceLock};

use loom::sync::{Condvar, Mutex};

/// The bell.
pub struct Doorbell {
    rings: Mutex<bool>,
    rung: Condvar,
    /// Who is told, and as whom, from before the first thread on.
    set: OnceLock<(Arc<Set>, u8)>,
}

impl Doorbell {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            rings: Mutex::new(false),
            rung: Condvar::new(),
            set: OnceLock::new(),
        })
    }

    pub fn ring(&self) {
        *self.rings.lock().unwrap() = true;
        self.rung.notify_all();
        if let Some((set, index)) = self.set.get() {
            set.tell(*index);
        }
    }

    pub fn silence(&self) -> bool {
        std::mem::take(&mut *self.rings.lock().unwrap())
    }

    /// Sleeps until it rings, as `ppoll` would. If it never does, loom reports a deadlock: that is
    /// the lost wake-up.
    pub fn wait(&self) {
        let mut rings = self.rings.lock().unwrap();
        while !*rings {
            rings = self.rung.wait(rings).unwrap();
        }
    }

    fn is_ringing(&self) -> bool {
        *self.rings.lock().unwrap()
    }
}

/// Bells that somebody waits for at once, by edges, as in an epoll set: one that was silenced before it
/// was looked at is no event.
#[derive(Default)]
pub struct Set {
    /// A bit for each bell that has rung since it was last looked at.
    edges: Mutex<u8>,
    told: Condvar,
}

impl Set {
    /// Tells of `bells` from now on. (One bell tells one set.)
    pub fn of<'a>(bells: impl IntoIterator<Item = &'a Doorbell>) -> Arc<Self> {
        let set = Arc::new(Self::default());
        for (index, bell) in (0..).zip(bells) {
            let told = bell.set.set((set.clone(), index));
            assert!(told.is_ok(), "a bell of another set");
        }
        set
    }

    fn tell(&self, index: u8) {
        *self.edges.lock().unwrap() |= 1 << index;
        self.told.notify_all();
    }

    /// Sleeps until one of `bells` rings anew.
    pub fn wait<'a>(&self, bells: impl Iterator<Item = &'a Doorbell> + Clone) {
        let mut edges = self.edges.lock().unwrap();
        loop {
            let rang = std::mem::take(&mut *edges);
            let mut told = (0..).zip(bells.clone()).filter(|(i, _)| rang & 1 << i != 0);
            if told.any(|(_, bell)| bell.is_ringing()) {
                return;
            }
            edges = self.told.wait(edges).unwrap();
        }
    }
}
