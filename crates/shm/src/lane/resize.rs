//! Changing the capacity of a lane that is in use.

use standpipe_core::accounting::queued_bytes;
use standpipe_core::size::PipeSize;

use super::{Lane, LaneError, Side};
use crate::sync::Ordering;

impl Lane {
    /// Gives the lane another capacity. What is queued stays, in order; sleeping writers look again.
    ///
    /// # Errors
    /// [`LaneError::Busy`] if more is queued than fits, [`LaneError::Memory`] if the memory can't be had.
    /// Nothing changed then.
    pub fn resize(&self, size: PipeSize) -> Result<(), LaneError> {
        let capacity_bytes = size.capacity_bytes();
        // Writers before readers, here and everywhere.
        let writer = self.lock(Side::Writer)?;
        let reader = self.lock(Side::Reader)?;
        let now_bytes = self.current_ring()?.capacity_bytes();
        if now_bytes != capacity_bytes {
            let head = self.header().head.0.load(Ordering::Relaxed);
            let tail = self.header().tail.0.load(Ordering::Relaxed);
            let queued = queued_bytes(head, tail, now_bytes)?;
            if queued > capacity_bytes {
                return Err(LaneError::Busy {
                    queued_bytes: queued,
                    capacity_bytes,
                });
            }
            self.memory
                .replace(capacity_bytes, head, tail)
                .map_err(LaneError::Memory)?;
        }
        drop((reader, writer));
        for side in [Side::Writer, Side::Reader] {
            self.bell(side).ring();
        }
        Ok(())
    }
}
