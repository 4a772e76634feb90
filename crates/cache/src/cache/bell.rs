//! Who waits for which read, and how they are woken.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, MutexGuard, OnceLock};

use rustix::event::EventfdFlags;
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::sync::{AtomicBool, AtomicU64, Ordering, full_fence};

use super::arrivals::Arrivals;
use super::{Shared, State};
use crate::book::IoId;
use crate::store::StoreError;

/// Wakes a reader: those of its threads that sleep, and those who poll its descriptor. Or a read alone.
#[derive(Default)]
pub struct Bell {
    condvar: Condvar,
    /// How often it rang. Changed and looked at under the lock only.
    rings: AtomicU64,
    eventfd: OnceLock<PrivateFd>,
    /// It was silenced, and has not rung since. As `rings`.
    is_silent: AtomicBool,
    /// Who is told that it rang, and by which number.
    called: Option<(Arc<Arrivals>, u64)>,
}

impl Bell {
    /// The bell of a read.
    pub fn calling(arrivals: &Arc<Arrivals>, number: u64) -> Self {
        Self {
            called: Some((Arc::clone(arrivals), number)),
            ..Self::default()
        }
    }

    /// A descriptor that is readable unless a read would block. With the lock held.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        if self.eventfd.get().is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let is_ready = !self.is_silent.load(Ordering::Relaxed);
            let eventfd: OwnedFd = rustix::event::eventfd(is_ready.into(), flags)?;
            let _ = self.eventfd.set(eventfd.into());
        }
        Ok(self.eventfd.get().expect("just set").as_fd())
    }

    /// With the lock held, before the bell is put among those to be rung.
    fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
        if let Some(eventfd) = self.eventfd.get() {
            // Nothing to read is silence as well.
            let _ = rustix::io::read(eventfd, &mut [0_u8; 8]);
        }
    }

    fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Relaxed);
        let was_silent = self.is_silent.swap(false, Ordering::Relaxed);
        self.condvar.notify_all();
        if was_silent && let Some((arrivals, number)) = &self.called {
            arrivals.call(*number);
        }
        if let Some(eventfd) = self.eventfd.get() {
            // It can't be full: nobody adds more than one between two silences that matters.
            let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
        }
    }

    /// A read got something. With the lock held.
    #[inline]
    pub fn end_silence(&self) {
        if self.called.is_some() {
            // Whose read it is knows.
            self.is_silent.store(false, Ordering::Relaxed);
        } else if self.is_silent.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// How often it rang until now.
    pub fn rings(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// Sleeps until it has rung more often than `rings` times.
    pub fn sleep<'a>(&self, state: MutexGuard<'a, State>, rings: u64) -> MutexGuard<'a, State> {
        let has_not = |_: &mut State| self.rings() == rings;
        let woken = self.condvar.wait_while(state, has_not);
        woken.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What came of a read: why it failed, once it did.
pub type Outcome = Arc<OnceLock<StoreError>>;

/// The bells to be rung.
#[derive(Default)]
pub struct Bells {
    for_reads: HashMap<IoId, ForRead>,
    for_room: Vec<Arc<Bell>>,
}

#[derive(Default)]
struct ForRead {
    bells: Vec<Arc<Bell>>,
    outcome: Outcome,
}

impl Bells {
    /// Has `bell` rung when the read is done.
    pub fn when_done(&mut self, io: IoId, bell: &Arc<Bell>) {
        bell.silence();
        add(&mut self.for_reads.entry(io).or_default().bells, bell);
    }

    /// Where it will be told what came of a read that is not done.
    pub fn outcome(&mut self, io: IoId) -> Outcome {
        Arc::clone(&self.for_reads.entry(io).or_default().outcome)
    }

    /// Has `bell` rung when there may be room again.
    pub fn when_room(&mut self, bell: &Arc<Bell>) {
        bell.silence();
        add(&mut self.for_room, bell);
    }

    /// The read is done: with it, there may be room as well.
    pub fn done(&mut self, io: IoId, failure: Option<StoreError>) {
        let ForRead { bells, outcome } = self.for_reads.remove(&io).unwrap_or_default();
        if let Some(error) = failure {
            // Told once.
            let _ = outcome.set(error);
        }
        for bell in bells {
            bell.ring();
        }
        self.room();
    }

    /// There may be room.
    pub fn room(&mut self) {
        for bell in self.for_room.drain(..) {
            bell.ring();
        }
    }
}

impl Shared {
    /// Asks to be told when a page is released that somebody held. Who asks has to look once more: it may
    /// have been just before. False if that was asked for already.
    pub fn ask_for_room(&self) -> bool {
        if self.is_room_wanted.load(Ordering::Relaxed) {
            return false;
        }
        self.is_room_wanted.store(true, Ordering::Relaxed);
        // Pairs with the fence in `tell_of_room`: either it sees the flag, or we see the page released.
        full_fence();
        true
    }

    /// A page was released.
    pub fn tell_of_room(&self) {
        if self.is_forked() {
            return;
        }
        // Pairs with the fence in `ask_for_room`.
        full_fence();
        if self.is_room_wanted.load(Ordering::Relaxed) {
            let mut state = self.lock();
            self.is_room_wanted.store(false, Ordering::Relaxed);
            state.bells.room();
        }
    }
}

fn add(bells: &mut Vec<Arc<Bell>>, bell: &Arc<Bell>) {
    if !bells.iter().any(|other| Arc::ptr_eq(other, bell)) {
        bells.push(Arc::clone(bell));
    }
}
