//! Moving what is queued into the kernel pipe, exactly once, whoever is killed meanwhile.
//!
//! Under the read lock, piece by piece: note where the piece begins, copy it into the stage, take it
//! off the lane, splice it on. `head` tells a successor how far that went: still at the note, then the
//! stage holds the piece's first bytes and the lane has them, too; beyond it, only the stage has them.

use std::io;
use std::os::fd::BorrowedFd;

use super::{By, Lane, LaneError, OnlyReader, Side};
use crate::stage::STAGE_BYTES;
use crate::sync::Ordering;

impl Lane {
    /// Moves what is queued into `pipe` (a write end), as far as it fits. Says whether the lane is
    /// empty.
    ///
    /// # Errors
    /// [`LaneError`]; `BrokenPipe`, with `SIGPIPE`, if nobody reads from `pipe`.
    pub fn empty_into(&self, pipe: BorrowedFd<'_>) -> io::Result<bool> {
        if self.queued_bytes() == 0 && !self.is_staged() {
            return Ok(true);
        }
        let guard = self.lock(Side::Reader)?;
        let start = self.header().head.0.load(Ordering::Relaxed);
        let outcome = self.empty_locked(pipe);
        let head = self.header().head.0.load(Ordering::Relaxed);
        let bytes = head.wrapping_sub(start) as usize;
        self.end_turn(By::Bell, Side::Reader, bytes, guard);
        outcome
    }

    fn empty_locked(&self, pipe: BorrowedFd<'_>) -> io::Result<bool> {
        self.repair_stage()?;
        loop {
            let head = self.header().head.0.load(Ordering::Relaxed);
            // What is in the kernel pipe by then is older than what is left here.
            self.mark_here(head);
            if self.is_staged() {
                if !self.stage.move_to(pipe)? {
                    return Ok(false);
                }
                self.set_staged_from(0);
            }
            if !self.stage_piece(head)? {
                return Ok(true);
            }
        }
    }

    /// Moves a piece from the lane to the stage, which is empty. Says whether there was one.
    fn stage_piece(&self, head: u64) -> io::Result<bool> {
        self.reserve_for_reading(STAGE_BYTES)?;
        let ring = self.current_ring()?;
        let mut piece = [0; STAGE_BYTES];
        let queued = self.next_read(ring, head).map_err(LaneError::from)?;
        let bytes = self.piece_bytes(ring, head, queued);
        if bytes == 0 {
            return Ok(false);
        }
        // SAFETY: `next_read` found these bytes queued, and the caller holds the read lock
        // (invariants 1 and 3).
        unsafe { ring.copy_out(head, &mut piece[..bytes]) }.map_err(LaneError::from)?;
        self.set_staged_from(head.wrapping_add(1));
        let staged = self.stage.put(&piece[..bytes])?;
        self.set_head(head.wrapping_add(staged as u64));
        Ok(staged > 0)
    }

    /// Finishes what somebody who was killed had begun: afterwards the bytes of the stage are not in
    /// the lane any more.
    fn repair_stage(&self) -> io::Result<()> {
        let staged_from = self.header().reader.0.staged_from.load(Ordering::Relaxed);
        let head = self.header().head.0.load(Ordering::Relaxed);
        if staged_from == 0 || staged_from.wrapping_sub(1) != head {
            return Ok(());
        }
        let staged = self.stage.queued_bytes()?;
        let queued = self
            .next_read(self.current_ring()?, head)
            .map_err(LaneError::from)?;
        self.set_head(head.wrapping_add(staged.min(queued) as u64));
        if staged == 0 {
            self.set_staged_from(0);
        }
        Ok(())
    }

    fn set_head(&self, head: u64) {
        // Release pairs with the Acquire in `next_write_step`: we are done with the bytes below.
        self.header().head.0.store(head, Ordering::Release);
    }

    fn set_staged_from(&self, word: u64) {
        let staged_from = &self.header().reader.0.staged_from;
        staged_from.store(word, Ordering::Relaxed);
    }
}

impl OnlyReader<'_> {
    /// Takes bytes of the stage, which are older than those of the lane. 0 if it was empty.
    ///
    /// # Errors
    /// Of the stage.
    pub fn take_staged(&self, slices: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.lane.repair_stage()?;
        let taken = match self.lane.stage.take(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            taken => taken?,
        };
        if self.lane.stage.queued_bytes()? == 0 {
            self.lane.set_staged_from(0);
        }
        Ok(taken)
    }
}
