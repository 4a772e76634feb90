//! Leaving the lane: what is queued there moves into the kernel pipe, where everybody finds it.
//!
//! A reader leaves when its last end in the process closes, when it is handed to a program, and before
//! a fork if programs would inherit it. A writer leaves when its last end in the process closes. See
//! `docs/LANE_PROTOCOL.md`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use standpipe_shm::lane::Lane;
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::signals;
use standpipe_shm::sync::Ordering;

use super::registry::Live;
use super::shared::Shared;
use super::{kernel, registry};

/// Whether everything that was queued is in the kernel pipe now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Moved {
    /// Yes.
    All,
    /// It did not fit.
    Partly,
}

impl From<bool> for Moved {
    fn from(all: bool) -> Self {
        if all { Self::All } else { Self::Partly }
    }
}

/// A child is about to be made, which may turn into a program that inherits the ends: what was written so
/// far comes before what it writes, and what was not read is for it to read.
///
/// # Errors
/// When bytes are queued in the lane, and the kernel pipe could not be opened to move them there.
pub fn before_fork(shared: &Shared) -> io::Result<()> {
    let had_entered = shared.leave();
    shared.writers.ask_next();
    let has_writers = shared.writers.ends.load(Ordering::Relaxed) > 0;
    if let Some(lane) = shared.lane()
        && (had_entered || has_writers)
    {
        return match empty(shared, lane) {
            // Another thread is just closing the last end: there is nothing to inherit.
            Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => Ok(()),
            moved => moved.map(drop),
        };
    }
    Ok(())
}

/// The last read end of this process is about to be closed.
///
/// # Errors
/// As [`before_fork`].
pub fn as_last_reader(shared: &Shared, fd: BorrowedFd<'_>) -> io::Result<Moved> {
    let had_entered = shared.leave();
    match shared.lane() {
        // Strangers and programs look for it in the kernel pipe.
        Some(lane) if had_entered && shared.is_open_to_strangers() && !is_empty(lane) => {
            let _no_fork = registry::hold_forks();
            let pipe = kernel::reopen_for_writing(fd)?;
            empty_with_room(lane, pipe.as_fd())
        }
        _ => Ok(Moved::All),
    }
}

/// The last write end of this process is about to be closed: what it wrote shall not depend on readers
/// that know the lane.
pub fn as_last_writer(shared: &Shared, fd: BorrowedFd<'_>) {
    if let Some(lane) = shared.lane()
        && shared.is_open_to_strangers()
        && !is_empty(lane)
    {
        // A closing end has no way to report, and no reason to: readers of the lane find what stays.
        let _ = empty_with_room(lane, fd);
    }
}

/// Somebody who may not know the lane will write to the pipe: behind what is written so far. `stays` if
/// there are other write ends, here or in other members: they stay outside from now on, so that what
/// is written before and after the program's bytes keeps its place.
///
/// # Errors
/// When bytes are queued in the lane, and the kernel pipe could not be opened to move them there.
pub fn to_writing_program(shared: &Arc<Shared>, stays: bool) -> io::Result<()> {
    shared.open_to_strangers();
    shared.writers.ask_next();
    if stays {
        shared.keep_writers_outside();
    }
    match shared.lane() {
        Some(lane) => empty_for_certain(shared, lane),
        None => Ok(()),
    }
}

/// Somebody who may not know the lane will read from the pipe. `stays` if there are other read ends in
/// this process: then nothing goes through the lane any more, since what it reads there is missing
/// elsewhere.
///
/// # Errors
/// When bytes are queued in the lane, and the kernel pipe could not be opened to move them there.
pub fn to_reading_program(shared: &Arc<Shared>, stays: bool) -> io::Result<()> {
    shared.open_to_strangers();
    if stays {
        shared.retire();
    } else {
        shared.leave();
    }
    match shared.lane() {
        Some(lane) => empty_for_certain(shared, lane),
        None => Ok(()),
    }
}

/// From now on, and for good, this process does without the lane.
///
/// # Errors
/// As [`to_reading_program`].
pub fn for_good(shared: &Arc<Shared>) -> io::Result<()> {
    shared.retire();
    match shared.lane() {
        Some(lane) => empty_for_certain(shared, lane),
        None => Ok(()),
    }
}

/// Whether nothing is left in the lane, or on its way out of it.
pub fn is_empty(lane: &Lane) -> bool {
    lane.queued_bytes() == 0 && !lane.is_staged()
}

fn empty(shared: &Shared, lane: &Lane) -> io::Result<Moved> {
    if is_empty(lane) {
        return Ok(Moved::All);
    }
    // A child must not inherit the descriptor: it would keep the end of the stream from the readers.
    let live = registry::hold_forks();
    let pipe = registry::reopen_for_writing(&live, shared)?;
    empty_with_room(lane, pipe.as_fd())
}

/// Empties the lane. The kernel pipe is made large enough for all; if the user's limits do not allow
/// that, a thread stays behind and moves the rest.
fn empty_for_certain(shared: &Arc<Shared>, lane: &Lane) -> io::Result<()> {
    if is_empty(lane) {
        return Ok(());
    }
    let mut live = registry::hold_forks();
    let pipe = registry::reopen_for_writing(&live, shared)?;
    if empty_with_room(lane, pipe.as_fd())? == Moved::Partly {
        return leave_to_thread(&mut live, shared.clone(), pipe);
    }
    Ok(())
}

/// Empties the lane into `pipe`, which is made as large as it takes, or as the user's limits allow.
/// Where nobody reads there is nothing to move: what is in a broken pipe is lost, wherever it lies.
fn empty_with_room(lane: &Lane, pipe: BorrowedFd<'_>) -> io::Result<Moved> {
    if kernel::is_broken(pipe)? {
        return Ok(Moved::All);
    }
    make_room(lane, pipe);
    loop {
        match signals::without_broken_pipe(|| lane.empty_into(pipe)) {
            Ok(true) => return Ok(Moved::All),
            // Each piece takes a page of the kernel pipe, however short it is.
            Ok(false) if kernel::double(pipe) => note_capacity(lane, pipe),
            Ok(false) => return Ok(Moved::Partly),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Moved::All),
            Err(error) => return Err(error),
        }
    }
}

/// Has the kernel pipe hold what is queued in the lane as well, as far as the user's limits allow. What
/// it holds already may be spread over all of its pages.
fn make_room(lane: &Lane, pipe: BorrowedFd<'_>) {
    let held = match kernel::unread_bytes(pipe) {
        Ok(0) => 0,
        _ => kernel::capacity_bytes(pipe).unwrap_or(0),
    };
    let moving = lane.unread_bytes().unwrap_or(0);
    kernel::grow(pipe, held + moving);
    note_capacity(lane, pipe);
}

/// What was made larger for a while is no capacity that somebody asked for.
fn note_capacity(lane: &Lane, pipe: BorrowedFd<'_>) {
    if let Ok(now) = kernel::capacity_bytes(pipe) {
        lane.note_kernel_capacity(now);
    }
}

/// Called while forks are held.
fn leave_to_thread(live: &mut Live, shared: Arc<Shared>, pipe: PrivateFd) -> io::Result<()> {
    let number = pipe.as_raw_fd();
    let move_rest = move || {
        // The program's end is no reason to end ours.
        signals::block_broken_pipe();
        let lane = shared.lane().expect("a lane stays");
        while matches!(lane.empty_into(pipe.as_fd()), Ok(false)) {
            // An interruption is as good as an event: we look again.
            let _ = kernel::wait_writable(pipe.as_fd());
        }
        let mut live = registry::hold_forks();
        registry::closes(&mut live, &pipe);
        drop(pipe);
    };
    // Without a thread the pipe is closed here.
    std::thread::Builder::new().spawn(move_rest)?;
    registry::close_in_children(live, &number);
    Ok(())
}
