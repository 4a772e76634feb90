//! Reads that don't wait, told of by one descriptor however many they are.
//!
//! Each is a [`Pending`] with a number. What it lacks rings its bell when it comes, as for a thread that
//! sleeps; the bell leaves the number with the [`Arrivals`], whose descriptor is readable until the numbers
//! are taken. So who polls it tries again those alone whose pages came.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::EventfdFlags;
use standpipe_shm::private_fd::PrivateFd;

use super::bell::{Bell, Outcome};

/// The numbers of reads that are to be tried again, and a descriptor that is readable while there are any.
#[derive(Debug)]
pub struct Arrivals {
    eventfd: PrivateFd,
    numbers: Mutex<Vec<u64>>,
}

impl Arrivals {
    /// Nothing has arrived.
    ///
    /// # Errors
    /// As `eventfd(2)`.
    pub fn new() -> io::Result<Arc<Self>> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Arc::new(Self {
            eventfd: rustix::event::eventfd(0, flags)?.into(),
            numbers: Mutex::default(),
        }))
    }

    /// Which reads are to be tried again; perhaps some that were done or dropped meanwhile.
    #[must_use]
    pub fn take(&self) -> Vec<u64> {
        // First: what comes after the look makes it readable again.
        let _ = rustix::io::read(&self.eventfd, &mut [0_u8; 8]);
        std::mem::take(&mut *self.lock())
    }

    /// Whether there are none to be taken, by a look that costs no system call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Has a read tried again for another reason.
    pub fn call(&self, number: u64) {
        let mut numbers = self.lock();
        numbers.push(number);
        if numbers.len() == 1 {
            // It can't be full: it is written once for each time that the numbers are taken.
            let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Arrivals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// A read that doesn't wait, from its first try to its last: what it lacked is kept from one to the next, as
/// a thread would that sleeps. Many may be under way on one reader.
pub struct Pending {
    pub(super) bell: Arc<Bell>,
    /// What came of the read of the store that it waits for.
    pub(super) awaited: Option<Outcome>,
}

impl Pending {
    /// One that was not tried yet. `arrivals` gets `number` when it is worth another try.
    #[must_use]
    pub fn new(arrivals: &Arc<Arrivals>, number: u64) -> Self {
        Self {
            bell: Arc::new(Bell::calling(arrivals, number)),
            awaited: None,
        }
    }
}
