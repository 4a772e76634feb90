//! How much a pipe holds: asked for, set, and, for pipes that nobody configured, as it turns out.
//!
//! # Growing and shrinking by itself
//! A pipe of the default size whose writers had to sleep [`PRESSURE`] times because the lane was full
//! doubles, up to [`GROWS_TO_BYTES`]. One that has grown and is found empty by a reader that slept for a
//! second goes back to where it began. [`crate::pipe::Builder::fixed`], or any explicit size, turns that
//! off.

use std::io;

use rustix::io::Errno;
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{Lane, LaneError};
use standpipe_shm::sync::{AtomicBool, AtomicU32, Ordering};

use super::shared::Shared;
use super::{End, kernel};

/// How often writers sleep before the lane doubles: a stream that is merely faster than its reader for a
/// moment does not get there.
const PRESSURE: u32 = 64;

/// The largest that a lane becomes by itself: what `pipe-max-size` of Linux allows by default.
const GROWS_TO_BYTES: usize = 1 << 20;

/// The capacity of a pipe, as this process has to do with it.
pub struct Capacity {
    order: AtomicU32,
    segment_shift: u8,
    adapts: AtomicBool,
    begun_order: u8,
    pressure: AtomicU32,
}

impl Capacity {
    /// To begin with. `adapts`: it may change by itself.
    pub fn new(size: PipeSize, adapts: bool) -> Self {
        Self {
            order: AtomicU32::new(size.order().into()),
            segment_shift: size.segment_shift(),
            adapts: AtomicBool::new(adapts),
            begun_order: size.order(),
            pressure: AtomicU32::new(0),
        }
    }

    /// Now.
    pub fn size(&self) -> PipeSize {
        let order = self.order.load(Ordering::Relaxed) as u8;
        PipeSize::new(order, self.segment_shift.min(order)).unwrap_or_default()
    }

    fn set(&self, size: PipeSize) {
        self.order.store(size.order().into(), Ordering::Relaxed);
    }

    fn set_by_hand(&self, size: PipeSize) {
        self.adapts.store(false, Ordering::Relaxed);
        self.set(size);
    }
}

impl Shared {
    /// A writer is about to sleep because the lane is full. True: it grew, look again.
    pub fn note_pressure(&self, lane: &Lane) -> bool {
        let capacity = &self.capacity;
        if !capacity.adapts.load(Ordering::Relaxed) {
            return false;
        }
        let pressure = capacity.pressure.load(Ordering::Relaxed) + 1;
        capacity
            .pressure
            .store(pressure % PRESSURE, Ordering::Relaxed);
        let size = lane.size();
        let larger = PipeSize::new(size.order() + 1, size.segment_shift());
        match larger {
            Ok(larger) if pressure == PRESSURE && larger.capacity_bytes() <= GROWS_TO_BYTES => {
                // What can't be had is not missed.
                self.resize(lane, larger).is_ok()
            }
            _ => false,
        }
    }

    /// Whether a lane that grew by itself has to be looked after.
    pub fn has_grown(&self, lane: &Lane) -> bool {
        self.capacity.adapts.load(Ordering::Relaxed)
            && lane.size().order() > self.capacity.begun_order
    }

    /// A reader slept long: an empty lane goes back to the size it began with.
    pub fn note_idle(&self, lane: &Lane) {
        let size = self.capacity.size();
        if self.has_grown(lane)
            && lane.queued_bytes() == 0
            && let Ok(begun) = PipeSize::new(
                self.capacity.begun_order,
                size.segment_shift().min(self.capacity.begun_order),
            )
        {
            // A writer that was faster keeps what it has.
            let _ = self.resize(lane, begun);
        }
    }

    fn resize(&self, lane: &Lane, size: PipeSize) -> io::Result<()> {
        let before = lane.size().capacity_bytes();
        self.count_lane(size.capacity_bytes())?;
        let resized = lane.resize(size).map_err(|error| match error {
            LaneError::Busy { .. } => Errno::BUSY.into(),
            error => io::Error::from(error),
        });
        match resized {
            Ok(()) => self.capacity.set(size),
            Err(_) => self.count_lane(before)?,
        }
        resized
    }
}

impl End {
    /// How many bytes the pipe holds (`F_GETPIPE_SZ`).
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn capacity_bytes(&self) -> io::Result<usize> {
        let in_kernel = kernel::capacity_bytes(self.borrow())?;
        let Some(lane) = self.shared.lane() else {
            return Ok(in_kernel);
        };
        if lane.note_kernel_capacity(in_kernel)
            && let Ok(size) = PipeSize::from_bytes(in_kernel, None)
        {
            // Somebody without the lane set it, which is a wish as well. A lane that holds more goes on as
            // it is.
            if self.shared.resize(lane, size).is_ok() {
                self.shared.capacity.set_by_hand(size);
            }
        }
        Ok(lane.size().capacity_bytes())
    }

    /// Sets how many bytes the pipe holds (`F_SETPIPE_SZ`), for all its ends; returns what it became: the
    /// next power of two of pages. Data stays, in order; growing wakes writers. A pipe between ends that
    /// know standpipe may be larger than the kernel allows this user.
    ///
    /// # Errors
    /// `EBUSY` if more is queued, `EINVAL` above 2 GiB, `EPERM` above the limits (the kernel's if there
    /// is no lane, else those of [`crate::pipe::limits`]).
    pub fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        let shift = self.shared.capacity.segment_shift;
        let size = PipeSize::from_bytes(bytes, None)
            .and_then(|size| PipeSize::new(size.order(), shift.min(size.order())))
            .map_err(|_| Errno::INVAL)?;
        let capacity = size.capacity_bytes();
        let before = self.shared.lane().map(Lane::size);
        if let Some(lane) = self.shared.lane() {
            self.shared.resize(lane, size)?;
        }
        let set = rustix::pipe::fcntl_setpipe_size(self.borrow(), capacity);
        match (set, self.shared.lane(), before) {
            // More than the kernel gives this user: within the lane.
            (Err(Errno::PERM | Errno::NOMEM), Some(_), _) | (Ok(_), _, _) => {}
            (Err(error), Some(lane), Some(before)) => {
                self.shared.resize(lane, before)?;
                return Err(error.into());
            }
            (Err(error), _, _) => return Err(error.into()),
        }
        if let (Some(lane), Ok(now)) = (self.shared.lane(), kernel::capacity_bytes(self.borrow())) {
            lane.note_kernel_capacity(now);
        }
        self.shared.capacity.set_by_hand(size);
        Ok(capacity)
    }
}
