//! Tasks of this process that wait for a side, and are woken without a bell.
//!
//! A task is announced as any sleeper is (`wake.rs`): whoever makes a difference to it sees the
//! announcement, and rings the bell, which its runtime waits for. Beside that, this process lists the
//! task's waker, and remembers the announcement for as long as it is that of listed tasks *alone*. An end
//! of this process that may run wakers compares: if nobody else is announced, it takes the announcement
//! back and wakes those on the list, and no bell rings. If somebody else is (a thread that sleeps, a
//! poller, another process), the bell rings for all of them.
//!
//! So nothing is known of tasks outside this process, nothing has to be changed when others come to share
//! the lane, and a signal handler that writes runs no waker and takes no lock of this list.
//!
//! The race between waiting and waking is that of all sleepers, and closed by the same two fences: the
//! task is listed and announced, fence, looks; the waker stores a position, fence, looks for the
//! announcement. That list and announcement belong together is kept by the list's lock: the announcement
//! is made and taken back under it, and an announcement that it does not know (made in between, merged
//! with another) is rung for.

use std::task::Waker;

use super::{By, Lane, Side};
use crate::header::{Seen, add};
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, full_fence};

/// The tasks of one side.
pub struct Tasks {
    list: Mutex<List>,
    /// In a forked child: they are the parent's, and so is whoever holds the lock.
    is_inherited: AtomicBool,
}

#[derive(Default)]
struct List {
    /// Each with whom it belongs to.
    wakers: Vec<(u64, Waker)>,
    /// The announcement, while it is theirs alone.
    alone: Option<Seen>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            list: Mutex::new(List::default()),
            is_inherited: AtomicBool::new(false),
        }
    }
}

impl Tasks {
    /// As in a new lane.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// In a forked child.
    pub fn leave_to_parent(&self) {
        self.is_inherited.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> Option<MutexGuard<'_, List>> {
        if self.is_inherited.load(Ordering::Relaxed) {
            return None;
        }
        // Nothing panics under it but an allocation that fails.
        self.list.lock().ok()
    }
}

impl List {
    /// Returns a waker whose place it takes. To be dropped outside the lock: with the last waker goes the
    /// task, and all it has, which may be ends that wait here.
    #[must_use]
    fn note(&mut self, key: u64, waker: &Waker) -> Option<Waker> {
        match self.wakers.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if known.will_wake(waker) => None,
            Some((_, known)) => Some(std::mem::replace(known, waker.clone())),
            None => {
                self.wakers.push((key, waker.clone()));
                None
            }
        }
    }
}

impl Lane {
    /// A task of `side` is about to wait until `wanted_bytes` can be moved. Says whether to wait: if not,
    /// there is something to do already. Each end waits under a `key` of its own; one that waits again
    /// under the same takes the place of the former.
    ///
    /// It hears of whatever happens by its waker, or by the bell.
    #[must_use]
    pub fn await_in_task(&self, side: Side, wanted_bytes: usize, key: u64, waker: &Waker) -> bool {
        self.announce_task(side, wanted_bytes, key, waker);
        // Pairs with those in `end_turn` and `look_for_sleeper`.
        full_fence();
        !self.is_ready(side, wanted_bytes)
    }

    /// A task of `side` found nothing to do, and will [wait](Self::await_in_task). Silences the bell, so
    /// that it can ring for the task again. If it rang, it may have rung for somebody else: `has_company`
    /// says whether that can be. Says whether there is something to do after all.
    #[must_use]
    pub fn quieten_in_task(
        &self,
        side: Side,
        wanted_bytes: usize,
        has_company: impl FnOnce() -> bool,
    ) -> bool {
        self.bell(side).silence() && has_company() && self.quieten(side, wanted_bytes)
    }

    fn announce_task(&self, side: Side, wanted_bytes: usize, key: u64, waker: &Waker) {
        let sleepers = self.sleepers(side);
        let wanted_bytes = self.worth_waking_for(side, wanted_bytes);
        let Some(mut list) = self.tasks(side).lock() else {
            sleepers.arm(wanted_bytes);
            return;
        };
        let replaced = list.note(key, waker);
        let (before, now) = sleepers.arm(wanted_bytes);
        let is_alone = before.is_nobody() || list.alone == Some(before);
        list.alone = is_alone.then_some(now);
        drop(list);
        drop(replaced);
    }

    /// Whoever waited under `key` does so no more.
    pub fn forget_task(&self, side: Side, key: u64) {
        let Some(mut list) = self.tasks(side).lock() else {
            return;
        };
        let place = list.wakers.iter().position(|(known, _)| *known == key);
        let waker = place.map(|place| list.wakers.swap_remove(place));
        drop(list);
        // Outside the lock, as in `List::note`.
        drop(waker);
    }

    /// Tells a sleeper of `side` that was seen. For who holds no lock.
    #[inline]
    pub(super) fn tell(&self, by: By, side: Side, sleeper: Option<Seen>) {
        if by == By::Waker && sleeper.is_some() && self.wake_tasks(side) {
            return;
        }
        self.ring(side, sleeper);
    }

    /// Wakes the tasks on the list, if they are announced and nobody else is.
    fn wake_tasks(&self, side: Side) -> bool {
        let Some(mut list) = self.tasks(side).lock() else {
            return false;
        };
        let is_theirs = list
            .alone
            .is_some_and(|alone| self.sleepers(side).take_back(alone));
        if !is_theirs {
            return false;
        }
        list.alone = None;
        add(&self.counts(side.other()).wakeups_sent, 1);
        let woken = std::mem::take(&mut list.wakers);
        drop(list);
        for (_, waker) in woken {
            waker.wake();
        }
        true
    }

    fn tasks(&self, side: Side) -> &Tasks {
        match side {
            Side::Reader => &self.reading_tasks,
            Side::Writer => &self.writing_tasks,
        }
    }
}
