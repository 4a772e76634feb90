//! Writing: into the lane while a reader of it is present, else into the kernel pipe.
//!
//! Bytes never overtake others that were written before them. Who goes out of the lane empties it into
//! the kernel pipe first; who goes in puts a mark (`docs/LANE_PROTOCOL.md`, P1 to P3).

use std::io::{self, IoSlice};

use rustix::event::{PollFd, PollFlags, poll};
use standpipe_shm::lane::{Gather, Lane, LaneError, Side, Written};
use standpipe_shm::patience::AT_ONCE;
use standpipe_shm::sync::Ordering;

use super::held::Patience;
use super::sleep::{self, Deadline};
use super::{End, kernel, leave};

/// Which way the next bytes take.
enum Way {
    /// Into the lane, as of this many departures of readers.
    Lane(u32),
    /// Into the kernel pipe.
    Kernel,
    /// Nobody reads.
    Broken,
}

impl End {
    /// A write of one or more slices that have bytes.
    #[inline]
    pub(crate) fn write_some(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.shared.lane() {
            Some(lane) => self.write_as_member(lane, slices),
            None => self.write_bare(slices),
        }
    }

    /// Without a lane so far.
    fn write_bare(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = self.write_kernel(slices, &mut Deadline::of(self))?;
        // Another thread may have gone inside meanwhile: what we write next comes after this.
        if let Some(lane) = self.shared.lane() {
            lane.note_kernel_bytes();
        }
        self.look_around(Side::Writer, bytes);
        Ok(bytes)
    }

    fn write_as_member(&self, lane: &Lane, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut source = Gather::new(slices);
        let mut deadline = Deadline::of(self);
        let mut patience = Patience::default();
        loop {
            let step = match self.write_step(lane, slices, &mut source, &mut deadline) {
                Ok(Some(written)) => return Ok(written),
                Ok(None) => Ok(()),
                Err(error) => self.bear(Side::Writer, error, &mut patience),
            };
            match step {
                Ok(()) => {}
                // What is queued is queued: the call says so, the next one gets the error.
                Err(_) if source.done_bytes() > 0 => return Ok(source.done_bytes()),
                Err(error) => return Err(error),
            }
        }
    }

    /// One step of a write. `Some` ends it.
    #[inline]
    fn write_step(
        &self,
        lane: &Lane,
        slices: &[IoSlice<'_>],
        source: &mut Gather<'_>,
        deadline: &mut Deadline,
    ) -> io::Result<Option<usize>> {
        let departures = match self.way(lane)? {
            Way::Lane(departures) => departures,
            Way::Kernel => return self.write_outside(lane, slices, source, deadline).map(Some),
            Way::Broken => return self.report_broken(slices, source).map(Some),
        };
        match lane.try_write(source, departures, || self.unread_beside()) {
            Ok(Written::All) => Ok(Some(source.done_bytes())),
            Ok(Written::Ask) => {
                self.shared.writers.ask_next();
                Ok(None)
            }
            Ok(Written::Full(wanted_bytes)) => {
                if lane.waits_for_kernel_bytes() {
                    // Somebody without the lane may have taken them.
                    lane.limit_kernel_share(kernel::unread_bytes(self.borrow())?);
                }
                self.wait_for_room(lane, slices, source, wanted_bytes, deadline)
            }
            Err(error) => Err(LaneError::into(error)),
        }
    }

    /// How many bytes are in the kernel pipe.
    pub(super) fn unread_beside(&self) -> usize {
        kernel::unread_bytes(self.borrow()).unwrap_or(usize::MAX)
    }

    /// Which way to go, by what is known, which is asked again now and then.
    #[inline]
    fn way(&self, lane: &Lane) -> io::Result<Way> {
        let locals = &self.shared.writers;
        let mode = lane.mode(Side::Writer);
        let departures = lane.departures_seen_by(Side::Writer);
        // What this process knows by itself it does not ask.
        let is_read_here = self.shared.is_read_here();
        if departures != locals.departures_seen.load(Ordering::Relaxed)
            || !is_read_here && locals.is_time_to_ask()
        {
            locals.departures_seen.store(departures, Ordering::Relaxed);
            if self.ask(lane)? {
                return Ok(Way::Broken);
            }
        }
        let is_lane_read = is_read_here || locals.is_lane_read.load(Ordering::Relaxed);
        Ok(if is_lane_read && mode.is_open() {
            Way::Lane(departures)
        } else {
            Way::Kernel
        })
    }

    /// Whether the next bytes go into the lane.
    pub(super) fn is_lane_way(&self, lane: &Lane) -> io::Result<bool> {
        Ok(matches!(self.way(lane)?, Way::Lane(_)))
    }

    /// As of how many departures they do, if they do.
    #[cfg(any(feature = "tokio", feature = "futures"))]
    #[inline]
    pub(super) fn way_inside(&self, lane: &Lane) -> Option<u32> {
        match self.way(lane) {
            Ok(Way::Lane(departures)) => Some(departures),
            _ => None,
        }
    }

    /// Asks the kernel who is there: whether the pipe is broken, whether the lane has readers, whether
    /// somebody without the lane wrote; and serves whoever wants to join.
    #[cold]
    fn ask(&self, lane: &Lane) -> io::Result<bool> {
        let presence = lane.presence();
        let mut fds = [
            PollFd::from_borrowed_fd(self.borrow(), PollFlags::empty()),
            PollFd::from_borrowed_fd(presence, PollFlags::empty()),
        ];
        poll(&mut fds, Some(&AT_ONCE))?;
        let is_lane_read = !fds[1].revents().contains(PollFlags::HUP);
        let locals = &self.shared.writers;
        locals.is_lane_read.store(is_lane_read, Ordering::Relaxed);
        if self.shared.is_open_to_strangers() {
            if is_lane_read && kernel::unread_bytes(self.borrow())? > 0 {
                lane.note_kernel_bytes();
            }
            self.shared
                .meetings
                .look(&self.shared, self.borrow(), self.role());
        }
        Ok(fds[0].revents().contains(PollFlags::ERR))
    }

    /// Into the kernel pipe, behind what is in the lane.
    fn write_outside(
        &self,
        lane: &Lane,
        slices: &[IoSlice<'_>],
        source: &mut Gather<'_>,
        deadline: &mut Deadline,
    ) -> io::Result<usize> {
        self.empty_lane(lane, deadline)?;
        if source.done_bytes() == 0 {
            // As a whole, so that a small one stays in one piece.
            let bytes = self.write_kernel(slices, deadline)?;
            lane.note_kernel_bytes();
            return Ok(bytes);
        }
        while source.remaining_bytes() > 0 {
            let bytes = self.write_kernel(&[IoSlice::new(source.front())], deadline)?;
            lane.note_kernel_bytes();
            source.take(bytes, |_, _| {});
            if self.ask_nonblocking()? {
                break;
            }
        }
        Ok(source.done_bytes())
    }

    /// Moves what is left in the lane into the kernel pipe, ahead of what we write next.
    fn empty_lane(&self, lane: &Lane, deadline: &mut Deadline) -> io::Result<()> {
        while !leave::is_empty(lane) {
            // Into a broken pipe nothing can be moved: the write says so, and signals.
            if kernel::is_broken(self.borrow())? || lane.empty_into(self.borrow())? {
                break;
            }
            if self.ask_nonblocking()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            sleep::until(self.borrow(), PollFlags::OUT, deadline)?;
        }
        Ok(())
    }

    /// writev(2), but for the deadline.
    fn write_kernel(&self, slices: &[IoSlice<'_>], deadline: &mut Deadline) -> io::Result<usize> {
        let bytes = if deadline.is_none() || self.ask_nonblocking()? {
            self.write_pipe(slices)?
        } else {
            self.write_kernel_until(slices, deadline)?
        };
        let locals = &self.shared.writers;
        locals
            .kernel_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(lane) = self.shared.lane() {
            lane.count_kernel_bytes(Side::Writer, bytes);
        }
        Ok(bytes)
    }

    fn write_kernel_until(
        &self,
        slices: &[IoSlice<'_>],
        deadline: &mut Deadline,
    ) -> io::Result<usize> {
        let mut source = Gather::new(slices);
        while source.remaining_bytes() > 0 {
            let written = if source.done_bytes() == 0 {
                self.now.write(self.borrow(), slices)
            } else {
                self.now
                    .write(self.borrow(), &[IoSlice::new(source.front())])
            };
            let waited = match written {
                Ok(bytes) => {
                    source.take(bytes, |_, _| {});
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep::until(self.borrow(), PollFlags::OUT, deadline)
                }
                Err(error) => Err(error),
            };
            match waited {
                Err(_) if source.done_bytes() > 0 => break,
                waited => waited?,
            }
        }
        Ok(source.done_bytes())
    }

    /// Waits until `wanted_bytes` more may fit. `Some` ends the write.
    fn wait_for_room(
        &self,
        lane: &Lane,
        slices: &[IoSlice<'_>],
        source: &mut Gather<'_>,
        wanted_bytes: usize,
        deadline: &mut Deadline,
    ) -> io::Result<Option<usize>> {
        let awake = !self.is_nonblocking_hint();
        if awake && sleep::wait_awake(&self.shared, lane, Side::Writer, wanted_bytes) {
            return Ok(None);
        }
        if kernel::is_broken(self.borrow())? {
            return self.report_broken(slices, source).map(Some);
        }
        if self.ask_nonblocking()? {
            if self.would_block(Side::Writer, wanted_bytes)? {
                return Ok(None);
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.shared.note_pressure(lane) {
            return Ok(None);
        }
        // A write that has queued something is not restarted: it returns the count.
        let restarts = source.done_bytes() == 0;
        sleep::sleep(self, lane, Side::Writer, wanted_bytes, restarts, deadline)?;
        self.shared.writers.ask_next();
        Ok(None)
    }

    /// No reader is left. The kernel is asked to say so: it raises SIGPIPE exactly as for any pipe.
    fn report_broken(&self, slices: &[IoSlice<'_>], source: &mut Gather<'_>) -> io::Result<usize> {
        let done = source.done_bytes();
        let written = if done == 0 {
            self.write_pipe(slices)
        } else {
            self.write_pipe(&[IoSlice::new(&source.front()[..1])])
        };
        match written {
            // Somebody opened the pipe for reading meanwhile.
            Ok(bytes) => {
                if let Some(lane) = self.shared.lane() {
                    lane.note_kernel_bytes();
                }
                Ok(done + bytes)
            }
            Err(_) if done > 0 => Ok(done),
            Err(error) => Err(error),
        }
    }
}
