//! An end that belongs to a task: what it moves and waits for without asking the kernel.
//!
//! Where both sides are tasks of one process, and the lane flows, there is no system call at all: they
//! wake each other by their wakers. For all else (the end of the stream, others without the lane, peers in
//! other processes) there is the pollable descriptor, which the runtime waits for.

use std::io::{self, IoSlice, IoSliceMut};
use std::task::Waker;

use rustix::event::PollFlags;
use standpipe_shm::lane::{By, Gather, Lane, Scatter, Side, Written};
use standpipe_shm::sync::{AtomicU64, Ordering};

use super::End;
use super::pollable::wanted_bytes;

impl End {
    /// From now on no call waits, and what would is woken by [`await_in_task`](Self::await_in_task); or
    /// calls wait as the mode says.
    pub(crate) fn set_in_task(&self, yes: bool) {
        self.set_never_waits(yes);
        self.is_in_task.store(yes, Ordering::Relaxed);
    }

    /// Takes what the lane has. `None` if it has nothing, or if others come first.
    #[inline]
    pub(crate) fn read_in_task(&self, slices: &mut [IoSliceMut<'_>]) -> Option<usize> {
        if !self.role.reads {
            return None;
        }
        let lane = self.shared.lane_to_read()?;
        let bytes = lane
            .try_read_by(By::Waker, &mut Scatter::new(slices))
            .ok()?;
        if bytes == 0 {
            return None;
        }
        self.note_read(lane, bytes);
        Some(bytes)
    }

    /// Brings into the lane what it has room for. `None` if it has none, or if the way is another.
    #[inline]
    pub(crate) fn write_in_task(&self, slices: &[IoSlice<'_>]) -> Option<usize> {
        if !self.role.writes {
            return None;
        }
        let lane = self.shared.lane()?;
        let departures = self.way_inside(lane)?;
        let mut source = Gather::new(slices);
        match lane.try_write_by(By::Waker, &mut source, departures, || self.unread_beside()) {
            Ok(Written::Ask) => self.shared.writers.ask_next(),
            Ok(Written::All | Written::Full(_)) | Err(_) => {}
        }
        (source.done_bytes() > 0).then_some(source.done_bytes())
    }

    /// Whether a transfer would do something, by a look at the lane.
    pub(crate) fn is_ready_in_task(&self, side: Side) -> bool {
        let is_ready = |lane: &Lane| lane.is_ready(side, wanted_bytes(side));
        let Some(lane) = self.shared.lane() else {
            return false;
        };
        match side {
            Side::Reader => is_ready(lane),
            Side::Writer => self.way_inside(lane).is_some() && is_ready(lane),
        }
    }

    /// The same by a look everywhere.
    ///
    /// # Errors
    /// `WouldBlock` if it would not; the runtime tells when it may. As poll(2).
    pub(crate) fn check_ready(&self, side: Side) -> io::Result<()> {
        let wanted = match side {
            Side::Reader => PollFlags::IN,
            Side::Writer => PollFlags::OUT,
        };
        if self.events(wanted)?.is_empty() && !self.would_block(side, wanted_bytes(side))? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    /// The task of `waker` is about to wait until `wanted_bytes` can be moved. Says whether to: if not,
    /// there may be something to do already.
    ///
    /// A try has failed since the runtime last told of the pollable descriptor.
    pub(crate) fn await_in_task(
        &self,
        side: Side,
        wanted_bytes: usize,
        key: TaskKey,
        waker: &Waker,
    ) -> bool {
        let Some(lane) = self.shared.lane() else {
            return true;
        };
        // Else the runtime would not hear of the bell; it will tell of the lane's coming, or of room outside.
        if !self.hears_bell(side) {
            return true;
        }
        lane.await_in_task(side, wanted_bytes, key.0, waker)
    }

    /// The task waits no more.
    pub(crate) fn leave_task(&self, side: Side, key: TaskKey) {
        if let Some(lane) = self.shared.lane() {
            lane.forget_task(side, key.0);
        }
    }
}

/// Under which a task is known to wait.
#[derive(Clone, Copy, Debug)]
pub struct TaskKey(u64);

impl TaskKey {
    /// Another than all others of this process.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
