//! Waiting for the other side: awake for a moment, then asleep on the doorbell and the kernel pipe.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use standpipe_core::accounting::worth_waking_for_bytes;
use standpipe_shm::lane::{Lane, Side};
use standpipe_shm::{patience, signals};

use super::shared::Shared;

/// Waits awake until somebody of `side` should go on. Says whether that came true.
#[inline]
pub fn wait_awake(shared: &Shared, lane: &Lane, side: Side, wanted_bytes: usize) -> bool {
    let patience = &shared.locals(side).patience;
    patience.wait(lane.peer_runs_elsewhere(side), || {
        lane.is_ready(side, wanted_bytes)
    })
}

/// A peer that is killed between moving bytes and ringing for us leaves a sleeper that nobody rings
/// for, if others still hold its end and do nothing. So who sleeps beside other processes looks up
/// now and then.
const LOOK_UP: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// A writer of small pieces is woken when a page of them fits. If the reader stops in the middle of
/// one, what it wants may fit without anybody ringing.
const LOOK_UP_SMALL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

fn look_up(shared: &Shared, side: Side, wanted_bytes: usize) -> Option<&'static Timespec> {
    let is_small = side == Side::Writer && worth_waking_for_bytes(wanted_bytes) > wanted_bytes;
    if is_small {
        Some(&LOOK_UP_SMALL)
    } else {
        shared.is_forked().then_some(&LOOK_UP)
    }
}

/// Sleeps until somebody of `side` should look again: `wanted_bytes` can be moved, the kernel pipe
/// has bytes (for a reader), or the last peer is gone.
///
/// # Errors
/// `Interrupted` if a signal handler ran, unless the call `restarts` and the handler asks for it
/// (`SA_RESTART`).
pub fn sleep(
    shared: &Shared,
    lane: &Lane,
    side: Side,
    wanted_bytes: usize,
    restarts: bool,
    fd: BorrowedFd<'_>,
) -> io::Result<()> {
    // Its mask may have changed since the last sleep.
    patience::recount_processors();
    let Some(seat) = lane.take_seat(side, wanted_bytes, restarts)? else {
        return Ok(());
    };
    if !seat.arm(wanted_bytes) {
        return Ok(());
    }
    // The death of the last peer (HUP for a reader, ERR for a writer) needs no asking.
    let events = match side {
        Side::Reader => PollFlags::IN,
        Side::Writer => PollFlags::empty(),
    };
    let mut fds = [
        PollFd::from_borrowed_fd(fd, events),
        PollFd::new(seat.bell(), PollFlags::IN),
    ];
    let result = poll(&mut fds, look_up(shared, side, wanted_bytes));
    if fds[1].revents().contains(PollFlags::IN) {
        seat.bell().silence();
    }
    match result {
        Err(Errno::INTR) if !(restarts && signals::all_restart()) => {
            Err(io::ErrorKind::Interrupted.into())
        }
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
