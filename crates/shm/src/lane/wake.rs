//! Going to sleep, and whom to wake.

use std::io;

use standpipe_core::accounting::{completes_segment, worth_waking_for_bytes};

use super::{Lane, LaneError, Side, Wake};
use crate::doorbell::Doorbell;
use crate::header::{Seen, add, add_locked};
use crate::lock::{Guard, LockError};
#[cfg(not(loom))]
use crate::sync::Ordering;
use crate::sync::full_fence;

impl Lane {
    /// Takes the seat of `side`, to sleep until `wanted_bytes` can be moved. `None` means: look
    /// again first. The caller then [arms](Seat::arm), and sleeps if told so.
    ///
    /// # Errors
    /// `Interrupted` if a signal handler ran, unless the call `restarts` and the handler asks for it.
    pub fn take_seat(
        &self,
        side: Side,
        wanted_bytes: usize,
        restarts: bool,
    ) -> io::Result<Option<Seat<'_>>> {
        let guard = self.seat(side).lock_patiently(restarts, || {
            // The sentinel may be waiting for more than we do. It leaves the seat when it wakes, so
            // an arm made after we were seen waiting is not lost.
            self.arm(side, wanted_bytes);
            !self.is_ready(side, wanted_bytes)
        });
        let guard = guard.map_err(|error| name_seat(side, error))?;
        Ok(guard.map(|guard| Seat {
            lane: self,
            side,
            guard: Some(guard),
        }))
    }

    /// Announces that somebody of `side` waits for its bell, and silences it, unless there is a reason
    /// for it to ring. Says whether there is.
    #[must_use]
    pub fn quieten(&self, side: Side, wanted_bytes: usize) -> bool {
        self.bell(side).silence();
        self.arm(side, wanted_bytes);
        let is_ready = self.is_ready(side, wanted_bytes);
        if is_ready {
            // Others may have looked while it was silent.
            self.bell(side).ring();
        }
        is_ready
    }

    pub(super) fn arm(&self, side: Side, wanted_bytes: usize) {
        let wanted_bytes = self.worth_waking_for(side, wanted_bytes);
        self.sleepers(side).arm(wanted_bytes);
        // Pairs with the fence in `look_for_sleeper`.
        full_fence();
    }

    /// How much somebody is woken for who wants `wanted_bytes`.
    pub(super) fn worth_waking_for(&self, side: Side, wanted_bytes: usize) -> usize {
        match side {
            Side::Reader => 1,
            Side::Writer => worth_waking_for_bytes(wanted_bytes).min(self.capacity()),
        }
    }

    /// Whether somebody of `side` sleeps and should be woken.
    #[inline]
    pub(super) fn look_for_sleeper(&self, side: Side) -> Option<Seen> {
        // Pairs with the fence in `arm`: either we see the sleeper, or it sees our position.
        full_fence();
        self.sleeper(side)
    }

    /// The same behind a fence of the caller's.
    #[inline]
    fn sleeper(&self, side: Side) -> Option<Seen> {
        let (wanted_bytes, seen) = self.sleepers(side).look()?;
        self.is_ready(side, wanted_bytes).then_some(seen)
    }

    /// The end of a turn of `side`: it is counted, the lock is given back, and who sleeps is woken. Also if
    /// nothing was moved: somebody may have moved bytes and been killed before it could ring.
    #[inline]
    pub(super) fn end_turn(&self, by: By, side: Side, moved_bytes: usize, guard: Guard<'_>) {
        if moved_bytes > 0 {
            self.count_turn(side, moved_bytes);
        }
        // Pairs with the fence in `arm`: either we see the sleeper, or it sees our position.
        guard.release_with_fence();
        let sleeper = self.sleeper(side.other());
        self.tell(by, side.other(), sleeper);
    }

    #[inline]
    fn count_turn(&self, side: Side, moved_bytes: usize) {
        let counts = self.counts(side);
        add_locked(&counts.bytes, moved_bytes as u64);
        add_locked(&counts.operations, 1);
        #[cfg(not(loom))]
        self.note_processor(side);
        // A hint: the look that counts comes when the lock is given back.
        if self.sleepers(side.other()).look().is_none() {
            add_locked(&counts.wakeups_saved, 1);
        }
    }

    /// Tells the other side where this one runs; stores only what is new, since they all look at it.
    #[cfg(not(loom))]
    #[inline]
    fn note_processor(&self, side: Side) {
        let place = &self.notices(side.other()).processor;
        let processor = crate::patience::processor();
        if place.load(Ordering::Relaxed) != processor {
            place.store(processor, Ordering::Relaxed);
        }
    }

    /// Rings for a sleeper of `side` that was seen.
    #[inline]
    pub(super) fn ring(&self, side: Side, sleeper: Option<Seen>) {
        if let Some(seen) = sleeper {
            // First the bell, then the note that it rang: killed in between, somebody else rings.
            self.bell(side).ring();
            self.sleepers(side).rung(seen);
            add(&self.counts(side.other()).wakeups_sent, 1);
        }
    }

    #[inline]
    pub(super) fn wakes_midway(&self, by: By, from: u64, to: u64) -> bool {
        by == By::Bell
            && self.wake == Wake::PerSegment
            && completes_segment(from, to, self.segment_bytes())
    }
}

/// How a transfer tells whoever waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By the bell: from anywhere, signal handlers included.
    Bell,
    /// Tasks of this process by their wakers, at the end of the transfer; others by the bell. From where
    /// wakers may run.
    Waker,
}

/// Says which lock it was.
fn name_seat(side: Side, error: io::Error) -> io::Error {
    let field = match side {
        Side::Reader => "sleeping readers' lock",
        Side::Writer => "sleeping writers' lock",
    };
    match error.downcast::<LockError>() {
        Ok(error) => LaneError::Lock { field, error }.into(),
        Err(error) => error,
    }
}

/// The right to sleep for a side. Left when dropped, and somebody else who waits is told.
pub struct Seat<'a> {
    lane: &'a Lane,
    side: Side,
    guard: Option<Guard<'a>>,
}

impl Seat<'_> {
    /// Announces the sleeper, and says whether to sleep: nothing has changed that would let it move
    /// `wanted_bytes`.
    #[must_use]
    pub fn arm(&self, wanted_bytes: usize) -> bool {
        self.lane.arm(self.side, wanted_bytes);
        let sleep = !self.lane.is_ready(self.side, wanted_bytes);
        if sleep {
            add(&self.lane.counts(self.side).sleeps, 1);
        }
        sleep
    }

    /// The bell to sleep on.
    #[must_use]
    pub fn bell(&self) -> &Doorbell {
        self.lane.bell(self.side)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            match self.side {
                // Each reader wants the same, a byte: one wakes the next.
                Side::Reader => drop(guard),
                // Writers want different amounts, and their arms were used up by one ring.
                Side::Writer => guard.release_to_all(),
            }
        }
    }
}
