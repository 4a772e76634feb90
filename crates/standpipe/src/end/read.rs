//! Reading: from the lane, and from the kernel pipe beside it.
//!
//! Two sources, one order. Bytes of the kernel pipe are taken at a mark, or if the lane was empty
//! *after* they were seen there; both under the lane's read lock (`docs/LANE_PROTOCOL.md`, P4).
//!
//! Once bytes of the kernel pipe have their turn, all that were there by then are *due*: they come
//! before the lane, however small the reads, so that a small write of somebody without the lane stays
//! in one piece.

use std::io::{self, IoSliceMut};

use rustix::event::PollFlags;
use standpipe_shm::lane::{Lane, OnlyReader, Scatter, Side, Turn};
use standpipe_shm::sync::Ordering;

use super::End;
use super::held::Patience;
use super::kernel::{self, Input};
use super::sleep::{self, Deadline};

/// What the sources beside the lane gave.
enum Beside {
    Bytes(usize),
    End,
    /// Nothing for now.
    Nothing,
    /// The lane has bytes, and it is their turn.
    Lane,
}

impl End {
    /// A read of one or more slices that have room.
    #[inline]
    pub(crate) fn read_some(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if let Some(lane) = self.shared.lane_to_read()
            && let Ok(bytes) = self.read_lane(lane, slices)
            && bytes > 0
        {
            return Ok(bytes);
        }
        let mut patience = Patience::default();
        loop {
            match self.read_or_wait(slices) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => self.bear(Side::Reader, error, &mut patience)?,
            }
        }
    }

    fn read_or_wait(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut deadline = Deadline::of(self);
        loop {
            let Some(lane) = self.shared.lane_to_read() else {
                match self.read_bare(slices, &mut deadline)? {
                    Some(bytes) => return Ok(bytes),
                    None => continue,
                }
            };
            if self.is_lane_done(lane) {
                return self.read_kernel(slices, &mut deadline);
            }
            if self.should_wait_awake(lane)
                && sleep::wait_awake(&self.shared, lane, Side::Reader, 1)
            {
                let bytes = self.read_lane(lane, slices)?;
                if bytes > 0 {
                    return Ok(bytes);
                }
            }
            match self.read_beside(lane, slices)? {
                Beside::Bytes(bytes) => return Ok(bytes),
                Beside::End => return Ok(0),
                Beside::Lane => {}
                Beside::Nothing => self.wait_for_bytes(lane, &mut deadline)?,
            }
            let bytes = self.read_lane(lane, slices)?;
            if bytes > 0 {
                return Ok(bytes);
            }
        }
    }

    fn wait_for_bytes(&self, lane: &Lane, deadline: &mut Deadline) -> io::Result<()> {
        if !self.ask_nonblocking()? {
            return sleep::sleep(self, lane, Side::Reader, 1, true, deadline);
        }
        if self.would_block(Side::Reader, 1)? {
            return Ok(());
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Without a lane so far. `None` if there is one now.
    fn read_bare(
        &self,
        slices: &mut [IoSliceMut<'_>],
        deadline: &mut Deadline,
    ) -> io::Result<Option<usize>> {
        if let Some(bytes) = self.read_alone(slices, deadline)? {
            self.look_around(Side::Reader, bytes);
            return Ok(Some(bytes));
        }
        match self.now.read(self.borrow(), slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            bytes => {
                let bytes = bytes?;
                self.count_kernel_bytes(bytes);
                self.look_around(Side::Reader, bytes);
                return Ok(Some(bytes));
            }
        }
        // About to wait: writers of this process can have a lane. (Those of a fork have it.)
        if !self.makes_lane_late()
            && self.shared.has_members_here()
            && self.shared.lane_or_make().is_some()
        {
            return Ok(None);
        }
        self.look_around(Side::Reader, 0);
        if self.ask_nonblocking()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.shared.has_members_here() && !self.shared.is_retired() {
            // Another thread was in the way: asleep here, we would not hear of the lane that it makes.
            std::thread::yield_now();
            return Ok(None);
        }
        sleep::until_bytes(self, deadline)?;
        Ok(None)
    }

    /// read(2), if nobody can have a lane with us as long as we are in it.
    fn read_alone(
        &self,
        slices: &mut [IoSliceMut<'_>],
        deadline: &mut Deadline,
    ) -> io::Result<Option<usize>> {
        if !deadline.is_none() || self.never_waits() || self.shared.has_members_here() {
            return Ok(None);
        }
        let Some(_alone) = self.shared.meetings.keep_away() else {
            return Ok(None);
        };
        let bytes = kernel::read(self.borrow(), slices)?;
        self.count_kernel_bytes(bytes);
        Ok(Some(bytes))
    }

    /// Whether to wait awake: bytes are expected in the lane. Bytes of unaware writers should not have
    /// to wait, nor the end of the stream, nor callers who do not want to.
    fn should_wait_awake(&self, lane: &Lane) -> bool {
        !self.is_nonblocking_hint()
            && lane.has_writers_inside()
            && !self.has_news_of_departures(lane)
    }

    fn has_news_of_departures(&self, lane: &Lane) -> bool {
        let seen = &self.shared.readers.departures_seen;
        let departures = lane.departures_seen_by(Side::Reader);
        seen.swap(departures, Ordering::Relaxed) != departures
    }

    /// In a pipe that does without its lane: whether the lane is empty for good.
    fn is_lane_done(&self, lane: &Lane) -> bool {
        if !self.shared.is_retired() {
            return false;
        }
        if self.shared.is_lane_done.load(Ordering::Relaxed) {
            return true;
        }
        // With the lock: no writer is inside, and those to come see the mode.
        let done = lane
            .as_only_writer(|| super::leave::is_empty(lane))
            .unwrap_or(false);
        self.shared.is_lane_done.store(done, Ordering::Relaxed);
        done
    }

    fn read_kernel(
        &self,
        slices: &mut [IoSliceMut<'_>],
        deadline: &mut Deadline,
    ) -> io::Result<usize> {
        if !deadline.is_none() && !self.ask_nonblocking()? {
            sleep::until(self.borrow(), PollFlags::IN, deadline)?;
        }
        let bytes = self.read_pipe(slices)?;
        self.count_kernel_bytes(bytes);
        Ok(bytes)
    }

    /// Whether a read should be tried, by a look that costs nothing: no if there is nothing in the lane,
    /// whatever may be beside it. Without a lane nothing is known.
    #[inline]
    pub(crate) fn may_have_bytes(&self) -> bool {
        self.shared.is_retired()
            || self
                .shared
                .lane_to_read()
                .is_none_or(|lane| lane.is_ready(Side::Reader, 1))
    }

    /// Takes what the lane has, without waiting. Now and then has a look at the kernel pipe, so that a
    /// lane that is never empty does not starve an unaware writer.
    #[inline]
    fn read_lane(&self, lane: &Lane, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let bytes = lane.try_read(&mut Scatter::new(slices))?;
        if bytes > 0 {
            self.note_read(lane, bytes);
        }
        Ok(bytes)
    }

    /// Bytes were taken from the lane.
    #[inline]
    pub(super) fn note_read(&self, lane: &Lane, bytes: usize) {
        if self.shared.readers.is_time_to_ask_after(bytes) {
            self.look_beside_now_and_then(lane);
        }
    }

    #[cold]
    fn look_beside_now_and_then(&self, lane: &Lane) {
        if !self.shared.is_open_to_strangers() {
            return;
        }
        if kernel::unread_bytes(self.borrow()).is_ok_and(|bytes| bytes > 0) {
            lane.note_unaware_bytes();
        }
        self.shared
            .meetings
            .look(&self.shared, self.borrow(), self.role());
    }

    /// Reads what comes before the lane's bytes, or what there is if the lane is empty.
    fn read_beside(&self, lane: &Lane, slices: &mut [IoSliceMut<'_>]) -> io::Result<Beside> {
        let beside = lane.as_only_reader(|only| self.look_beside(only, slices));
        let beside = beside.map_err(io::Error::from)??;
        if let Beside::Bytes(bytes) = beside {
            self.count_kernel_bytes(bytes);
            self.look_around(Side::Reader, bytes);
        }
        Ok(beside)
    }

    fn look_beside(
        &self,
        only: &OnlyReader<'_>,
        slices: &mut [IoSliceMut<'_>],
    ) -> io::Result<Beside> {
        loop {
            match only.turn(|| kernel::unread_bytes(self.borrow()))? {
                Turn::Kernel(due_bytes) => {
                    let taken = self.take_due(only, slices, due_bytes)?;
                    if taken > 0 {
                        return Ok(Beside::Bytes(taken));
                    }
                }
                Turn::Stage => {
                    let taken = only.take_staged(slices)?;
                    if taken > 0 {
                        return Ok(Beside::Bytes(taken));
                    }
                }
                Turn::Lane => break,
            }
        }
        let input = kernel::input(self.borrow())?;
        // After the look at the kernel pipe: a writer that left has published all it wrote.
        if only.has_bytes() {
            return Ok(Beside::Lane);
        }
        match input {
            Input::End => Ok(Beside::End),
            Input::Empty => Ok(Beside::Nothing),
            Input::Bytes(bytes) => match self.take_due(only, slices, bytes)? {
                0 => Ok(Beside::Nothing),
                taken => Ok(Beside::Bytes(taken)),
            },
        }
    }

    /// Takes at most `due_bytes` of the kernel pipe, and notes what is due after that. 0 if somebody
    /// without the lane was faster.
    fn take_due(
        &self,
        only: &OnlyReader<'_>,
        slices: &mut [IoSliceMut<'_>],
        due_bytes: usize,
    ) -> io::Result<usize> {
        let taken = match self.take(slices, due_bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            taken => taken?,
        };
        only.note_taken(if taken == 0 { usize::MAX } else { taken });
        only.set_kernel_due(if taken == 0 {
            0
        } else {
            due_bytes.saturating_sub(taken)
        });
        Ok(taken)
    }

    /// Fills the slices in order with at most `limit_bytes`.
    fn take(&self, slices: &mut [IoSliceMut<'_>], limit_bytes: usize) -> io::Result<usize> {
        let room: usize = slices.iter().map(|slice| slice.len()).sum();
        if room <= limit_bytes {
            return self.now.read(self.borrow(), slices);
        }
        let mut taken = 0;
        for slice in slices.iter_mut() {
            let part = slice.len().min(limit_bytes - taken);
            if part == 0 {
                continue;
            }
            match self
                .now
                .read(self.borrow(), &mut [IoSliceMut::new(&mut slice[..part])])
            {
                Ok(bytes) => taken += bytes,
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(taken)
    }

    fn count_kernel_bytes(&self, bytes: usize) {
        if let Some(lane) = self.shared.lane() {
            lane.count_kernel_bytes(Side::Reader, bytes);
        }
        let locals = &self.shared.readers;
        locals
            .kernel_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
