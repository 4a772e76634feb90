//! A doorbell made of a condition.

use std::io;

use loom::sync::{Condvar, Mutex};

/// The bell.
pub struct Doorbell {
    rings: Mutex<bool>,
    rung: Condvar,
}

impl Doorbell {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            rings: Mutex::new(false),
            rung: Condvar::new(),
        })
    }

    pub fn ring(&self) {
        *self.rings.lock().unwrap() = true;
        self.rung.notify_all();
    }

    pub fn silence(&self) {
        *self.rings.lock().unwrap() = false;
    }

    /// Sleeps until it rings, as `ppoll` would. If it never does, loom reports a deadlock: that is
    /// the lost wake-up.
    pub fn wait(&self) {
        let mut rings = self.rings.lock().unwrap();
        while !*rings {
            rings = self.rung.wait(rings).unwrap();
        }
    }
}
