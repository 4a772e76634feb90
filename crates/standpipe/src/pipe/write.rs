//! Writing: into the lane, or into the kernel pipe when somebody without the lane takes part.
//!
//! Bytes never overtake others that were written before them. As long as nobody without the lane is
//! known to take part, all go into the lane. From then on ([`Mode::KERNEL`]) all go into the kernel
//! pipe, and what is left in the lane is older: readers that know it empty it first (see `read`), and
//! for those who don't it is moved over before anything is written behind it.

use std::io::{self, IoSlice};

use standpipe_shm::lane::{Gather, Lane, LaneError, Mode, Side, Written};
use standpipe_shm::sync::Ordering;

use super::ends::WriteEnd;
use super::{handover, kernel, sleep};

impl WriteEnd {
    /// A write of one or more slices that have bytes.
    pub(super) fn write_some(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(lane) = self.shared.lane_or_make() else {
            return self.write_kernel(slices);
        };
        if lane.mode(Side::Writer) != Mode::LANE {
            return self.write_beside(lane, slices);
        }
        let mut source = Gather::new(slices);
        if self.should_ask_for_readers(lane) && kernel::is_broken(self.borrow())? {
            return self.report_broken(&mut source);
        }
        self.write_lane(lane, &mut source, slices)
    }

    /// A write into the kernel pipe, behind what is in the lane.
    fn write_beside(&self, lane: &Lane, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if lane.mode(Side::Writer).has(Mode::BARE_READER) {
            self.flush_lane(lane)?;
        }
        self.write_kernel(slices)
    }

    fn write_kernel(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = kernel::write(self.borrow(), slices)?;
        self.shared
            .writers
            .kernel_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    fn write_lane(
        &self,
        lane: &Lane,
        source: &mut Gather<'_>,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        loop {
            let waited = match lane.try_write(source) {
                Ok(Written::All) => return Ok(source.done_bytes()),
                // As a whole, so that a small one stays in one piece.
                Ok(Written::KernelOnly) if source.done_bytes() == 0 => {
                    return self.write_beside(lane, slices);
                }
                Ok(Written::KernelOnly) => return self.write_rest_beside(lane, source),
                Ok(Written::Full(wanted_bytes)) => self.wait_for_room(lane, source, wanted_bytes),
                Err(error) => Err(LaneError::into(error)),
            };
            match waited {
                Ok(None) => {}
                Ok(Some(written)) => return Ok(written),
                // What is queued is queued: the call says so, the next one gets the error.
                Err(_) if source.done_bytes() > 0 => return Ok(source.done_bytes()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until `wanted_bytes` more may fit. `Some` ends the write.
    fn wait_for_room(
        &self,
        lane: &Lane,
        source: &mut Gather<'_>,
        wanted_bytes: usize,
    ) -> io::Result<Option<usize>> {
        let awake = !self.is_nonblocking_hint();
        if awake && sleep::wait_awake(&self.shared, lane, Side::Writer, wanted_bytes) {
            return Ok(None);
        }
        if kernel::is_broken(self.borrow())? {
            return self.report_broken(source).map(Some);
        }
        if self.ask_nonblocking()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // A write that has queued something is not restarted: it returns the count.
        let restarts = source.done_bytes() == 0;
        sleep::sleep(
            &self.shared,
            lane,
            Side::Writer,
            wanted_bytes,
            restarts,
            self.borrow(),
        )?;
        Ok(None)
    }

    /// Whether what is known of the readers is too old. A reader that closes its end says so; one
    /// that is killed does not.
    #[inline]
    fn should_ask_for_readers(&self, lane: &Lane) -> bool {
        let locals = &self.shared.writers;
        let departures = lane.departures_seen_by(Side::Writer);
        if departures != locals.departures_seen.load(Ordering::Relaxed) {
            locals.departures_seen.store(departures, Ordering::Relaxed);
            return true;
        }
        locals.is_time_to_ask()
    }

    /// No reader is left. The kernel is asked to say so: it raises SIGPIPE exactly as for any pipe.
    fn report_broken(&self, source: &mut Gather<'_>) -> io::Result<usize> {
        let done = source.done_bytes();
        match kernel::write(self.borrow(), &[IoSlice::new(&source.front()[..1])]) {
            // Somebody reopened the pipe for reading meanwhile.
            Ok(bytes) => Ok(done + bytes),
            Err(_) if done > 0 => Ok(done),
            Err(error) => Err(error),
        }
    }

    /// Somebody without the lane came in while we were writing.
    fn write_rest_beside(&self, lane: &Lane, source: &mut Gather<'_>) -> io::Result<usize> {
        while source.remaining_bytes() > 0 {
            match self.write_beside(lane, &[IoSlice::new(source.front())]) {
                Ok(bytes) => source.take(bytes, |_, _| {}),
                // What is queued is queued.
                Err(_) => break,
            }
            if self.ask_nonblocking()? {
                break;
            }
        }
        Ok(source.done_bytes())
    }

    /// Moves what is left in the lane into the kernel pipe, ahead of what we write next.
    fn flush_lane(&self, lane: &Lane) -> io::Result<()> {
        while !handover::flush(lane, self.borrow())? {
            if self.ask_nonblocking()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            kernel::wait_writable(self.borrow());
        }
        Ok(())
    }
}
