//! Writing: into the lane, or into the kernel pipe when somebody without the lane takes part.
//!
//! Bytes never overtake others that were written before them. Into the lane they may go while the
//! kernel pipe is empty: then nothing older waits there. While it holds bytes of an unaware writer,
//! ours go behind them into the kernel pipe; the reader empties the lane first (see `read`), so our
//! earlier bytes stay ahead.

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
        let mode = lane.mode(Side::Writer);
        if mode != Mode::LANE && self.must_use_kernel(lane, mode)? {
            return self.write_kernel(slices);
        }
        let mut source = Gather::new(slices);
        if self.should_ask_for_readers(lane) && kernel::is_broken(self.borrow())? {
            return self.report_broken(&mut source);
        }
        self.write_lane(lane, &mut source)
    }

    /// In a pipe that is not the lane's alone: whether the next bytes belong into the kernel pipe.
    fn must_use_kernel(&self, lane: &Lane, mode: Mode) -> io::Result<bool> {
        if mode.has(Mode::KERNEL) {
            self.flush_lane(lane)?;
            return Ok(true);
        }
        Ok(kernel::unread_bytes(self.borrow())? > 0)
    }

    fn write_kernel(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = kernel::write(self.borrow(), slices)?;
        self.shared
            .writers
            .kernel_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }

    fn write_lane(&self, lane: &Lane, source: &mut Gather<'_>) -> io::Result<usize> {
        loop {
            let waited = match lane.try_write(source) {
                Ok(Written::All) => return Ok(source.done_bytes()),
                Ok(Written::KernelOnly) => return self.write_rest_to_kernel(lane, source),
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
        sleep::sleep(lane, Side::Writer, wanted_bytes, restarts, self.borrow())?;
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

    /// The read end was handed to a program without the lane while we were writing.
    fn write_rest_to_kernel(&self, lane: &Lane, source: &mut Gather<'_>) -> io::Result<usize> {
        let written = self.flush_lane(lane).and_then(|()| {
            // Only a blocking write has to go on to its end; more than one slice is as good as
            // one: a write may always be short.
            self.write_kernel(&[IoSlice::new(source.front())])
        });
        match written {
            Ok(bytes) => {
                source.take(bytes, |_, _| {});
                if source.remaining_bytes() > 0 && !self.ask_nonblocking()? {
                    return self.write_rest_to_kernel(lane, source);
                }
                Ok(source.done_bytes())
            }
            Err(_) if source.done_bytes() > 0 => Ok(source.done_bytes()),
            Err(error) => Err(error),
        }
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
