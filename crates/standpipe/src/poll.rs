//! poll and select over standpipe ends and any other descriptors.
//!
//! They answer as poll(2) and select(2) do for kernel pipes, to the bit. An end handed to the kernel's
//! own poll would be asked about the kernel pipe alone, and its bytes may be in the lane.
//!
//! ```
//! use standpipe::poll::{Entry, PollFlags, poll};
//! # use {standpipe::end::End, std::io::Write};
//! # let (reader, writer) = rustix::pipe::pipe()?;
//! # let (reader, writer) = (End::from_fd(reader)?, End::from_fd(writer)?);
//! (&writer).write_all(b"x")?;
//! let mut entries = [Entry::new(&reader, PollFlags::IN), Entry::new(&writer, PollFlags::OUT)];
//! assert_eq!(poll(&mut entries, None, None)?, 2);
//! assert_eq!(entries[0].revents, PollFlags::IN);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How it waits
//! 1. **Look.** Ends are asked what they would report ([`End::events`]), all others in one ppoll(2)
//!    that doesn't wait. Something ready: done.
//! 2. **Sleep**, in one ppoll(2): on the others, and for each end on its [`End::pollable`] if it may
//!    become ready in its own direction. If only the loss of the last peer can come (nothing asked
//!    for, or the wrong direction), on the kernel pipe itself, which says exactly that.
//! 3. Look again, until something is ready or the time is up.
//!
//! Signals are held from the first look to the last, except while asleep: a handler that runs in a
//! call that had to wait ends it with `Interrupted`, never passes between two of its steps.
//! `SA_RESTART` changes nothing, as for poll(2).

mod select;
mod wait;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use standpipe_shm::watch::{self, pollfd};

pub use rustix::event::PollFlags;
pub use select::{Interest, SelectEntry, select};
pub use standpipe_shm::watch::sigset_t;

use crate::duplex::DuplexEnd;
use crate::end::End;
use wait::{Watch, wait};

/// What an entry is about.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// An end of a pipe or FIFO.
    End(&'a End),
    /// An end of a two-way pipe.
    Duplex(&'a DuplexEnd),
    /// Any other descriptor, by its number. A closed one gives `NVAL`; a negative one is skipped.
    Foreign(RawFd),
}

impl<'a> From<&'a End> for Source<'a> {
    fn from(end: &'a End) -> Self {
        Self::End(end)
    }
}

impl<'a> From<&'a DuplexEnd> for Source<'a> {
    fn from(end: &'a DuplexEnd) -> Self {
        Self::Duplex(end)
    }
}

impl<'a> From<BorrowedFd<'a>> for Source<'a> {
    fn from(fd: BorrowedFd<'a>) -> Self {
        Self::Foreign(fd.as_raw_fd())
    }
}

/// What [`poll`] is asked, and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// About whom.
    pub source: Source<'a>,
    /// Which events. `HUP`, `ERR` and `NVAL` come unasked.
    pub wanted: PollFlags,
    /// The answer.
    pub revents: PollFlags,
}

impl<'a> Entry<'a> {
    /// A question.
    pub fn new(source: impl Into<Source<'a>>, wanted: PollFlags) -> Self {
        Self {
            source: source.into(),
            wanted,
            revents: PollFlags::empty(),
        }
    }
}

/// Waits until at least one entry has something to report; returns how many do. See ppoll(2).
///
/// `None` as timeout waits for ever, zero does not wait. The mask, if any, holds for as long as it
/// waits.
///
/// # Errors
/// `Interrupted` if a signal handler ran and nothing was ready. Else as ppoll(2), and as
/// [`End::events`].
pub fn poll(
    entries: &mut [Entry<'_>],
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> io::Result<usize> {
    let fds = Vec::with_capacity(entries.len());
    wait(&mut Polled { entries, fds }, timeout, mask)
}

struct Polled<'e, 'a> {
    entries: &'e mut [Entry<'a>],
    /// One for each entry, then the second ones of two-way ends.
    fds: Vec<pollfd>,
}

impl Watch for Polled<'_, '_> {
    fn look(&mut self) -> io::Result<usize> {
        let questions = self
            .entries
            .iter()
            .map(|entry| (entry.source, entry.wanted));
        let others = look_at_others(&mut self.fds, questions);
        for (entry, fd) in self.entries.iter_mut().zip(&self.fds) {
            entry.revents = answer(entry.source, entry.wanted, *fd)?;
        }
        match self
            .entries
            .iter()
            .filter(|entry| !entry.revents.is_empty())
            .count()
        {
            0 => others,
            ready => Ok(ready),
        }
    }

    fn look_up(&self) -> Option<Duration> {
        self.entries
            .iter()
            .find_map(|entry| look_up(entry.source, entry.wanted))
    }

    fn sleep(&mut self, timeout: Option<Duration>, mask: Option<&sigset_t>) -> io::Result<usize> {
        self.fds.truncate(self.entries.len());
        for (i, entry) in self.entries.iter().enumerate() {
            let [first, second] = wakers(entry.source, entry.wanted)?;
            if let Some((fd, events)) = first {
                self.fds[i] = question(fd, events);
            }
            self.fds
                .extend(second.map(|(fd, events)| question(fd, events)));
        }
        watch::ppoll(&mut self.fds, timeout, mask)
    }
}

const ABSENT: pollfd = pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

fn question(fd: RawFd, wanted: PollFlags) -> pollfd {
    pollfd {
        fd,
        events: wanted.bits().cast_signed(),
        revents: 0,
    }
}

/// Asks those that are not ours, without waiting; one of `fds` for each question.
fn look_at_others<'a>(
    fds: &mut Vec<pollfd>,
    questions: impl Iterator<Item = (Source<'a>, PollFlags)>,
) -> io::Result<usize> {
    fds.clear();
    fds.extend(questions.map(|(source, wanted)| match source {
        Source::Foreign(fd) => question(fd, wanted),
        Source::End(_) | Source::Duplex(_) => ABSENT,
    }));
    if fds.iter().all(|fd| fd.fd < 0) {
        return Ok(0);
    }
    watch::ppoll(fds, Some(Duration::ZERO), None)
}

/// What a source reports: one of ours now, the others when they were asked.
fn answer(source: Source<'_>, wanted: PollFlags, asked: pollfd) -> io::Result<PollFlags> {
    match source {
        Source::End(end) => end.events(wanted),
        Source::Duplex(end) => end.events(wanted),
        Source::Foreign(_) => Ok(PollFlags::from_bits_retain(asked.revents.cast_unsigned())),
    }
}

/// Room in the lane of an end that reads as well: nothing in poll(2)'s reach tells of it, so who waits
/// for that looks up now and then. (Somebody else's reads of a FIFO that is open for both.)
const LOOK_UP: Duration = Duration::from_millis(10);

/// How long at most to sleep on that.
fn look_up(source: Source<'_>, wanted: PollFlags) -> Option<Duration> {
    let Source::End(end) = source else {
        return None;
    };
    let is_told = !end.can_read() || !end.can_write() || end.shared.lane().is_none();
    (!is_told && wanted.intersects(WRITABLE)).then_some(LOOK_UP)
}

/// What to sleep on, and for which events.
type Waker = (RawFd, PollFlags);

const READABLE: PollFlags = PollFlags::IN.union(PollFlags::RDNORM);
const WRITABLE: PollFlags = PollFlags::OUT.union(PollFlags::WRNORM);

/// What wakes somebody who wants that of `source`.
fn wakers(source: Source<'_>, wanted: PollFlags) -> io::Result<[Option<Waker>; 2]> {
    Ok(match source {
        Source::End(end) => [Some(waker(end, wanted)?), None],
        Source::Duplex(end) => [
            Some(waker(end.reader().as_end(), wanted)?),
            Some(waker(end.writer().as_end(), wanted)?),
        ],
        Source::Foreign(fd) => [Some((fd, wanted)), None],
    })
}

fn waker(end: &End, wanted: PollFlags) -> io::Result<Waker> {
    let mut wanted = wanted;
    wanted.remove(if end.can_read() {
        PollFlags::empty()
    } else {
        READABLE
    });
    wanted.remove(if end.can_write() {
        PollFlags::empty()
    } else {
        WRITABLE
    });
    if !wanted.intersects(READABLE | WRITABLE) {
        return Ok((end.as_raw_fd(), PollFlags::empty()));
    }
    if end.can_read() && wanted.intersects(WRITABLE) {
        // Its pollable tells of bytes, not of room.
        let wanted = if end.shared.lane().is_none() {
            wanted
        } else {
            PollFlags::empty()
        };
        return Ok((end.as_raw_fd(), wanted));
    }
    let pollable = end.pollable()?.as_raw_fd();
    // Without a lane an end offers itself.
    let events = if pollable == end.as_raw_fd() {
        wanted
    } else {
        PollFlags::IN
    };
    Ok((pollable, events))
}
