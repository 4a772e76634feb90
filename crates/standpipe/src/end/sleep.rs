//! Waiting for the other side: awake for a moment, then asleep on the doorbell and the kernel pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use standpipe_core::accounting::worth_waking_for_bytes;
use standpipe_shm::lane::{Lane, Mode, Side};
use standpipe_shm::{patience, signals};

use super::End;
use super::shared::Shared;

/// Until when a call waits at most. Begins with its first wait.
pub struct Deadline {
    timeout: Option<Duration>,
    at: Option<Instant>,
}

impl Deadline {
    /// As set for this end.
    #[inline]
    pub fn of(end: &End) -> Self {
        Self {
            timeout: end.timeout(),
            at: None,
        }
    }

    /// Whether the call waits for ever.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.timeout.is_none()
    }

    /// How much is left.
    ///
    /// # Errors
    /// `TimedOut` if nothing is.
    fn left(&mut self) -> io::Result<Option<Duration>> {
        let Some(timeout) = self.timeout else {
            return Ok(None);
        };
        let now = Instant::now();
        let at = *self.at.get_or_insert(now + timeout);
        match at.checked_duration_since(now) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

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
const LOOK_UP: Duration = Duration::from_secs(1);

/// A writer of small pieces is woken when a page of them fits. If the reader stops in the middle of
/// one, what it wants may fit without anybody ringing.
const LOOK_UP_SMALL: Duration = Duration::from_millis(50);

fn look_up(shared: &Shared, lane: &Lane, side: Side, wanted_bytes: usize) -> Option<Duration> {
    let is_small = side == Side::Writer && worth_waking_for_bytes(wanted_bytes) > wanted_bytes;
    if is_small {
        Some(LOOK_UP_SMALL)
    } else {
        (shared.is_met() || shared.has_grown(lane)).then_some(LOOK_UP)
    }
}

/// Sleeps until somebody of `side` should look again: `wanted_bytes` can be moved, the kernel pipe
/// has bytes (for a reader), the last peer is gone, the lane's last reader is (for a writer), or
/// somebody wants to join.
///
/// # Errors
/// `Interrupted` if a signal handler ran, unless the call `restarts` and the handler asks for it
/// (`SA_RESTART`). `TimedOut`.
pub fn sleep(
    end: &End,
    lane: &Lane,
    side: Side,
    wanted_bytes: usize,
    restarts: bool,
    deadline: &mut Deadline,
) -> io::Result<()> {
    let left = deadline.left()?;
    // Its mask may have changed since the last sleep.
    patience::recount_processors();
    let Some(seat) = lane.take_seat(side, wanted_bytes, restarts)? else {
        return Ok(());
    };
    if !seat.arm(wanted_bytes) {
        return Ok(());
    }
    let meeting = end.shared.meetings.fd();
    let fd = end.borrow();
    // The death of the last peer (HUP for a reader, ERR for a writer) needs no asking; for a writer, nor
    // does that of the lane's last reader.
    let (wanted, nobody) = match side {
        Side::Reader => (PollFlags::IN, fd),
        Side::Writer => (PollFlags::empty(), lane.presence()),
    };
    // No vector: a signal handler that writes must not allocate.
    let mut fds = [
        PollFd::new(seat.bell(), PollFlags::IN),
        PollFd::from_borrowed_fd(fd, wanted),
        PollFd::from_borrowed_fd(nobody, PollFlags::empty()),
        match &meeting {
            Some(meeting) => PollFd::new(meeting, PollFlags::IN),
            None => PollFd::from_borrowed_fd(fd, wanted),
        },
    ];
    let look_up = look_up(&end.shared, lane, side, wanted_bytes);
    // A reader that nothing woke for so long found its lane idle; a short time-out or a signal says
    // nothing of the kind.
    let idle_since = (side == Side::Reader && end.shared.has_grown(lane)).then(Instant::now);
    let slept = wait(&mut fds, shortest(left, look_up), restarts);
    if fds[0].revents().contains(PollFlags::IN) {
        seat.bell().silence();
        // Others wait for the bell on its own: it must go on ringing as long as there is a reason, and
        // ring again for the next, whether or not we come back.
        if lane.mode(side).has(Mode::POLLED) {
            let _ = lane.quieten(side, wanted_bytes);
        }
    }
    let is_idle = idle_since.is_some_and(|since| since.elapsed() >= LOOK_UP)
        && fds.iter().all(|fd| fd.revents().is_empty());
    let is_met = meeting.is_some() && !fds[3].revents().is_empty();
    drop(seat);
    if is_idle {
        end.shared.note_idle(lane);
    }
    if is_met {
        end.shared.meetings.look(&end.shared, fd, end.role());
    }
    slept
}

/// Sleeps until the kernel pipe has bytes or no writers, or somebody is met. For a reader without a
/// lane.
///
/// # Errors
/// As [`sleep`].
pub fn until_bytes(end: &End, deadline: &mut Deadline) -> io::Result<()> {
    let left = deadline.left()?;
    let meeting = end.shared.meetings.fd();
    let fd = end.borrow();
    let mut fds = [
        PollFd::from_borrowed_fd(fd, PollFlags::IN),
        PollFd::from_borrowed_fd(meeting.as_ref().map_or(fd, AsFd::as_fd), PollFlags::IN),
    ];
    wait(&mut fds, left, true)?;
    if meeting.is_some() && !fds[1].revents().is_empty() {
        end.shared.meetings.look(&end.shared, fd, end.role());
    }
    Ok(())
}

/// Sleeps until the kernel pipe of `fd` is ready for `events`.
///
/// # Errors
/// As [`sleep`].
pub fn until(fd: BorrowedFd<'_>, events: PollFlags, deadline: &mut Deadline) -> io::Result<()> {
    let left = deadline.left()?;
    wait(&mut [PollFd::from_borrowed_fd(fd, events)], left, true)
}

fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>, restarts: bool) -> io::Result<()> {
    let timeout = timeout.map(|left| Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(fds, timeout.as_ref()) {
        Err(Errno::INTR) if !(restarts && signals::all_restart()) => {
            Err(io::ErrorKind::Interrupted.into())
        }
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn shortest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
