//! Handing an end to a program that does not know the lane.
//!
//! All writers use the kernel pipe from then on ([`Mode::KERNEL`]). For a write end that is all: the
//! lane's bytes are older, and readers that know it take them first. For a read end, they have to
//! move into the kernel pipe, ahead of what is there already. It is made large enough for all of
//! them; if the user's limits do not allow that, a thread stays behind and moves the rest, and writers
//! that know the lane wait until it is empty.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use standpipe_shm::lane::{Lane, Mode};
use standpipe_shm::signals;

use super::kernel;
use super::shared::{self, Shared};

/// Somebody without the lane will write to the pipe.
pub fn give_writer_away(shared: &Shared) {
    shared.add_mode(Mode::KERNEL);
}

/// Somebody without the lane will read from `fd`.
///
/// # Errors
/// When bytes are queued in the lane, and the kernel pipe could not be opened to move them there.
pub fn give_reader_away(shared: &Arc<Shared>, fd: BorrowedFd<'_>) -> io::Result<()> {
    shared.add_mode(Mode::KERNEL);
    kernel::grow(fd, shared.size().capacity_bytes());
    let Some(lane) = shared.lane() else {
        return Ok(());
    };
    // A writer that is inside saw the old mode. Those after it see the new one.
    lane.as_only_writer(|| ())?;
    if kernel::unread_bytes(fd)? == 0 {
        // Nothing to get ahead of. Said first: should we be killed halfway, the other ends move the
        // rest behind what is there.
        shared.add_mode(Mode::BARE_READER);
    }
    if lane.queued_bytes() > 0 {
        move_to_front(shared, lane, fd)?;
    }
    shared.add_mode(Mode::BARE_READER);
    Ok(())
}

/// Moves the bytes of the lane into the kernel pipe, ahead of those that are there.
fn move_to_front(shared: &Arc<Shared>, lane: &Lane, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut no_fork = shared::hold_forks();
    let pipe = kernel::reopen_for_writing(fd)?;
    let mut younger = vec![0; kernel::unread_bytes(fd)?];
    let taken = if younger.is_empty() {
        0
    } else {
        kernel::read_now(fd, &mut younger)?
    };
    younger.truncate(taken);
    kernel::grow(fd, lane.queued_bytes() + younger.len());
    let mut rest = Rest { pipe, younger };
    if !rest.try_move(lane)? {
        shared::close_in_children(&mut no_fork, &rest.pipe);
        rest.leave_to_thread(shared.clone());
    }
    Ok(())
}

/// What is left to move.
struct Rest {
    /// Non-blocking, to write to.
    pipe: OwnedFd,
    /// Bytes that come behind those of the lane.
    younger: Vec<u8>,
}

impl Rest {
    /// Moves what fits; says whether that was all.
    fn try_move(&mut self, lane: &Lane) -> io::Result<bool> {
        if !drain(lane, self.pipe.as_fd())? {
            return Ok(false);
        }
        while !self.younger.is_empty() {
            match kernel::write(self.pipe.as_fd(), &[IoSlice::new(&self.younger)]) {
                Ok(bytes) => drop(self.younger.drain(..bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn leave_to_thread(mut self, shared: Arc<Shared>) {
        std::thread::spawn(move || {
            // The program's end is no reason to end ours.
            signals::block_broken_pipe();
            let lane = shared.lane().expect("a lane stays");
            while matches!(self.try_move(lane), Ok(false)) {
                kernel::wait_writable(self.pipe.as_fd());
            }
            let mut no_fork = shared::hold_forks();
            shared::closes(&mut no_fork, &self.pipe);
            drop(self.pipe);
        });
    }
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
    // A child must not inherit the descriptor: it would keep the end of the stream from the readers.
    let _no_fork = shared::hold_forks();
    let pipe = kernel::reopen_for_writing(fd)?;
    drain(lane, pipe.as_fd())
}

fn drain(lane: &Lane, pipe: BorrowedFd<'_>) -> io::Result<bool> {
    lane.drain(|bytes| kernel::write(pipe, &[IoSlice::new(bytes)]))
}
