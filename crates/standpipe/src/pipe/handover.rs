//! Handing an end to a program that does not know the lane.
//!
//! For a write end that is simple: its bytes will come through the kernel pipe, and the others take
//! care of the order from now on. For a read end, what is queued in the lane has to move into the
//! kernel pipe first, and everything written later follows it there. Whoever comes by moves what
//! fits, holding both locks so that the order is kept; if the kernel pipe is too small for all of
//! it, a thread stays behind until it is done.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use standpipe_shm::lane::{Lane, Mode};
use standpipe_shm::signals;

use super::kernel;
use super::shared::Shared;

/// Somebody without the lane will read from `fd`.
pub fn give_reader_away(shared: &Arc<Shared>, fd: BorrowedFd<'_>) {
    shared.add_mode(Mode::KERNEL);
    kernel::grow(fd, shared.size().capacity_bytes());
    let Some(lane) = shared.lane() else { return };
    // A writer that is inside saw the old mode. Those after it see the new one.
    let _ = lane.as_only_writer(|| ());
    if flush(lane, fd).unwrap_or(true) {
        return;
    }
    if let Ok(pipe) = kernel::reopen_for_writing(fd) {
        let shared = shared.clone();
        std::thread::spawn(move || {
            // The program's end is no reason to end ours.
            signals::block_broken_pipe();
            let lane = shared.lane().expect("a lane stays");
            while matches!(flush_to(lane, pipe.as_fd()), Ok(false)) {
                kernel::wait_writable(pipe.as_fd());
            }
        });
    }
}

/// Somebody without the lane will write to the pipe.
pub fn give_writer_away(shared: &Shared) {
    shared.add_mode(Mode::MIXED);
}

/// Moves what is queued in the lane into the kernel pipe of `fd` (either end), as far as it fits.
/// Says whether the lane is empty.
///
/// # Errors
/// `BrokenPipe` if nobody reads any more.
pub fn flush(lane: &Lane, fd: BorrowedFd<'_>) -> io::Result<bool> {
    if lane.queued_bytes() == 0 {
        return Ok(true);
    }
    flush_to(lane, kernel::reopen_for_writing(fd)?.as_fd())
}

/// As [`flush`], with a non-blocking descriptor to write to.
fn flush_to(lane: &Lane, pipe: BorrowedFd<'_>) -> io::Result<bool> {
    lane.drain(|bytes| kernel::write(pipe, &[IoSlice::new(bytes)]))
}
