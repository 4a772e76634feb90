//! Reading: from the lane, and from the kernel pipe beside it.
//!
//! Two sources, one order. Once there are bytes in the kernel pipe, writers put nothing into the lane
//! any more that is younger (see `write`), so the lane goes first: bytes of the kernel pipe are taken
//! only if the lane was empty *after* they were seen there. Readers look at the two under the lane's
//! read lock, one at a time.
//!
//! Once bytes of the kernel pipe had their turn, all that were there by then are *due*: they come
//! before the lane, however small the reads. That matters for a writer that nobody announced.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use standpipe_shm::lane::{Lane, Mode, OnlyReader, Scatter, Side};
use standpipe_shm::sync::Ordering;

use super::ends::ReadEnd;
use super::kernel::{self, Input};
use super::shared::Shared;
use super::{handover, sleep};

/// What the kernel pipe beside the lane gave.
enum Beside {
    Bytes(usize),
    End,
    /// Nothing for now.
    Nothing,
    /// The lane has bytes, and it is their turn.
    Lane,
}

impl ReadEnd {
    /// A read of one or more slices that have room.
    pub(super) fn read_some(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if let Some(lane) = self.shared.lane() {
            let bytes = read_lane(&self.shared, lane, self.borrow(), slices)?;
            if bytes > 0 {
                return Ok(bytes);
            }
        }
        self.read_or_wait(slices)
    }

    fn read_or_wait(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            if self.has_kernel_pipe_only() {
                return self.read_kernel(slices);
            }
            if self.should_wait_awake()
                && let Some(lane) = self.shared.lane_or_make()
                && sleep::wait_awake(&self.shared, lane, Side::Reader, 1)
            {
                let bytes = read_lane(&self.shared, lane, self.borrow(), slices)?;
                if bytes > 0 {
                    return Ok(bytes);
                }
            }
            match self.read_beside(slices)? {
                Beside::Bytes(bytes) => return Ok(bytes),
                Beside::End => return Ok(0),
                Beside::Nothing if self.ask_nonblocking()? => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Beside::Nothing => {
                    if let Some(lane) = self.shared.lane_or_make() {
                        sleep::sleep(&self.shared, lane, Side::Reader, 1, true, self.borrow())?;
                    }
                }
                Beside::Lane => {}
            }
            if let Some(lane) = self.shared.lane() {
                let bytes = read_lane(&self.shared, lane, self.borrow(), slices)?;
                if bytes > 0 {
                    return Ok(bytes);
                }
            }
        }
    }

    /// Bytes of unaware writers should not have to wait, nor the end of the stream, nor callers who
    /// do not want to.
    fn should_wait_awake(&self) -> bool {
        !self.is_nonblocking_hint()
            && self.shared.mode(Side::Reader) == Mode::LANE
            && !self.has_news_of_departures()
    }

    fn has_news_of_departures(&self) -> bool {
        let seen = &self.shared.readers.departures_seen;
        let departures = self
            .shared
            .lane()
            .map_or(0, |lane| lane.departures_seen_by(Side::Reader));
        seen.swap(departures, Ordering::Relaxed) != departures
    }

    /// Whether nothing will come through the lane any more.
    fn has_kernel_pipe_only(&self) -> bool {
        let shared = &self.shared;
        shared.is_lane_done.load(Ordering::Relaxed)
            || shared.mode(Side::Reader).has(Mode::BARE_READER)
            || (!shared.may_have_lane_writers() && is_lane_empty(shared))
            || (shared.mode(Side::Reader).has(Mode::KERNEL) && self.is_lane_done())
    }

    /// In a pipe whose writers all use the kernel pipe: whether the lane is empty for good.
    fn is_lane_done(&self) -> bool {
        let Some(lane) = self.shared.lane() else {
            // None will be made any more.
            return true;
        };
        // With the lock: no writer is inside, and those to come see the mode.
        let done = lane
            .as_only_writer(|| lane.queued_bytes() == 0)
            .unwrap_or(false);
        self.shared.is_lane_done.store(done, Ordering::Relaxed);
        done
    }

    fn read_kernel(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            if let Some(lane) = self.shared.lane() {
                handover::flush(lane, self.borrow())?;
            }
            let bytes = kernel::read(self.borrow(), slices)?;
            self.count_kernel_bytes(bytes);
            // At the end, a writer may have left something in the lane since the look.
            if bytes > 0 || self.is_lane_done() {
                return Ok(bytes);
            }
        }
    }

    fn read_beside(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<Beside> {
        let fd = self.borrow();
        let beside = match self.shared.lane() {
            Some(lane) => lane.as_only_reader(|only| {
                look_beside(
                    fd,
                    slices,
                    lane.kernel_due_bytes(),
                    Some(only),
                    &self.shared,
                )
            }),
            None => Ok(look_beside(fd, slices, 0, None, &self.shared)),
        };
        let beside = beside.map_err(io::Error::from)??;
        if let Beside::Bytes(bytes) = beside {
            self.count_kernel_bytes(bytes);
            // Who wrote them may do so again: from now on all write there.
            if !self.shared.mode(Side::Reader).has(Mode::KERNEL) {
                self.shared.add_mode(Mode::KERNEL);
            }
        }
        Ok(beside)
    }

    fn count_kernel_bytes(&self, bytes: usize) {
        self.shared
            .readers
            .kernel_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn is_lane_empty(shared: &Shared) -> bool {
    shared.lane().is_none_or(|lane| lane.queued_bytes() == 0)
}

/// Takes what the lane has, without waiting. Now and then has a look at the kernel pipe, so that a
/// lane that is never empty does not starve an unaware writer.
#[inline]
fn read_lane(
    shared: &Shared,
    lane: &Lane,
    fd: BorrowedFd<'_>,
    slices: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    if lane.mode(Side::Reader).has(Mode::BARE_READER) || lane.kernel_due_bytes() > 0 {
        return Ok(0);
    }
    let bytes = lane.try_read(&mut Scatter::new(slices))?;
    if bytes > 0 && shared.readers.is_time_to_ask_after(bytes) {
        notice_unaware_writers(shared, lane, fd);
    }
    Ok(bytes)
}

fn notice_unaware_writers(shared: &Shared, lane: &Lane, fd: BorrowedFd<'_>) {
    let is_known = lane.mode(Side::Reader).has(Mode::KERNEL);
    if !is_known && kernel::unread_bytes(fd).is_ok_and(|bytes| bytes > 0) {
        shared.add_mode(Mode::KERNEL);
    }
}

/// Takes bytes from the kernel pipe if it is their turn: those that are due, and others once the lane
/// is empty. What is seen there at such a moment becomes due, so that a small write of somebody
/// without the lane stays in one piece, even if it is read in several.
fn look_beside(
    fd: BorrowedFd<'_>,
    slices: &mut [IoSliceMut<'_>],
    due_bytes: usize,
    only: Option<&OnlyReader<'_>>,
    shared: &Shared,
) -> io::Result<Beside> {
    let turn = if due_bytes > 0 {
        Input::Bytes(due_bytes)
    } else {
        kernel::input(fd)?
    };
    // After the look at the kernel pipe: a writer that left has published all it wrote.
    // (And the lane itself may have come since.)
    if due_bytes == 0 && !is_lane_empty(shared) {
        return Ok(Beside::Lane);
    }
    let Input::Bytes(bytes) = turn else {
        return Ok(if turn == Input::End {
            Beside::End
        } else {
            Beside::Nothing
        });
    };
    let taken = match take(fd, slices, bytes) {
        // Somebody without the lane reads as well.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        taken => taken?,
    };
    if let Some(only) = only {
        only.set_kernel_due(if taken == 0 { 0 } else { bytes - taken });
    }
    Ok(if taken == 0 {
        Beside::Nothing
    } else {
        Beside::Bytes(taken)
    })
}

/// Fills the slices in order with at most `limit` bytes, all of which are there.
fn take(fd: BorrowedFd<'_>, slices: &mut [IoSliceMut<'_>], limit: usize) -> io::Result<usize> {
    let mut taken = 0;
    for slice in slices.iter_mut() {
        let room = slice.len().min(limit - taken);
        if room == 0 {
            continue;
        }
        match kernel::read_now(fd, &mut slice[..room]) {
            Ok(bytes) => taken += bytes,
            Err(error) if taken == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(taken)
}
