//! Opening a FIFO, without a thread that waits in open(2).
//!
//! Who opens to read has it open at once, non-blocking: writers that wait in open(2) go on, as if it
//! waited there, too. Then it waits for a writer: inotify tells of each that opens, `tee(2)` whether
//! there is one now without taking a byte, and the hang-up whether there was one.
//!
//! Who opens to write can't: without a reader it is refused (`ENXIO`). To open both ways would let in
//! other writers whom nobody reads from, and break their pipe when it is closed again. So it tries
//! whenever somebody opens the FIFO; and, since a reader that waits in open(2) has not, now and then.
//!
//! Events in, actions out: who drives it tries when the watch or the time says so.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::inotify::{self, WatchFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use standpipe_shm::private_fd::PrivateFd;

use super::{Access, Options};
use crate::end::{End, kernel};

/// The FIFO that was at a path when it was looked up, whatever becomes of its name.
pub(crate) struct Place {
    path: PathBuf,
    access: Access,
    options: Options,
    /// Opens nothing (`O_PATH`).
    fd: PrivateFd,
}

impl Place {
    pub(crate) fn find(path: &Path, access: Access, options: Options) -> io::Result<Self> {
        let action = access.action();
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let fd = fd.map_err(|errno| super::explain(path, action, errno))?;
        let mode = rustix::fs::fstat(&fd)?.st_mode;
        if FileType::from_raw_mode(mode) != FileType::Fifo {
            return Err(super::not_a_fifo(path, action, mode));
        }
        let path = path.to_path_buf();
        Ok(Self {
            path,
            access,
            options,
            fd: fd.into(),
        })
    }

    /// Has `inotify` tell of each that opens it from now on.
    pub(crate) fn watch_opens(&self, inotify: impl AsFd) -> rustix::io::Result<i32> {
        inotify::add_watch(inotify, self.name(), WatchFlags::OPEN)
    }

    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    fn try_open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::open(self.name(), self.access.flags() | flags, Mode::empty())
    }

    fn explain(&self, errno: Errno) -> io::Error {
        super::explain(&self.path, self.access.action(), errno)
    }

    /// The end, in the mode in which open(2) would have returned it.
    fn adopt(&self, fd: OwnedFd) -> io::Result<End> {
        if !self.options.nonblocking {
            kernel::set_nonblocking(fd.as_fd(), false)?;
        }
        if self.options.inherit {
            rustix::io::fcntl_setfd(&fd, FdFlags::empty())?;
        }
        super::adopt(fd, &self.path, self.access.action())
    }
}

/// How long until the first look that nobody asked for, and between two of them at most: a try takes
/// two microseconds, a program that waits in open(2) was slower to start than this.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(16);

/// The same for who hears of every partner: but for one that is killed in the midst of its open(2), which
/// counts as having been there, and is told of by nobody.
const LAST_LOOK_OF_HEARERS: Duration = Duration::from_secs(1);

/// Waits for a partner. Dropped, it was never open.
pub(crate) struct Opening {
    place: Place,
    /// Of who opens to read, and waits for a writer.
    reader: Option<Reader>,
    next_look: Duration,
}

impl Opening {
    /// Begins, when opens are watched already: what happens from here on is heard of.
    pub(crate) fn begin(place: Place) -> io::Result<Self> {
        let waits = place.access == Access::Read && !place.options.nonblocking;
        Ok(Self {
            reader: waits.then(|| Reader::open(&place)).transpose()?,
            place,
            next_look: FIRST_LOOK,
        })
    }

    /// The end, if there is a partner, or was.
    pub(crate) fn attempt(&mut self) -> io::Result<Option<End>> {
        if let Some(reader) = &self.reader
            && !reader.has_met_writer()?
        {
            return Ok(None);
        }
        let fd = match self.reader.take() {
            Some(reader) => Ok(reader.fd),
            None => self.place.try_open(),
        };
        match fd {
            Ok(fd) => self.place.adopt(fd).map(Some),
            Err(Errno::NXIO) if !self.place.options.nonblocking => Ok(None),
            Err(errno) => Err(self.place.explain(errno)),
        }
    }

    /// When to try again, if nobody says so before.
    pub(crate) fn next_look(&mut self, is_watched: bool) -> Duration {
        let hears_of_all = is_watched && self.reader.is_some();
        let last = if hears_of_all {
            LAST_LOOK_OF_HEARERS
        } else {
            LAST_LOOK
        };
        let next = self.next_look;
        self.next_look = (next * 2).min(last);
        next
    }
}

/// A reader that has it open, non-blocking.
struct Reader {
    fd: OwnedFd,
    /// A pipe that is empty until a writer is met, and of which nothing is read.
    scratch: (PrivateFd, PrivateFd),
}

impl Reader {
    fn open(place: &Place) -> io::Result<Self> {
        let (unread, scratch) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            fd: place.try_open().map_err(|errno| place.explain(errno))?,
            scratch: (unread.into(), scratch.into()),
        })
    }

    /// Whether a writer is there, or was since it is open.
    fn has_met_writer(&self) -> io::Result<bool> {
        match tee(&self.fd, &self.scratch.1, 1, SpliceFlags::NONBLOCK) {
            Ok(0) => {
                let events = kernel::events(self.fd.as_fd(), PollFlags::empty())?;
                Ok(events.contains(PollFlags::HUP))
            }
            // Empty, but not at its end; or the scratch pipe has no room.
            Ok(_) | Err(Errno::AGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
