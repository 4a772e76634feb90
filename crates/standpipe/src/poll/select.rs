//! select(2): three questions, each with its own idea of ready.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use standpipe_shm::watch::{self, FdSet, pollfd, sigset_t};

use super::wait::{Watch, wait};
use super::{READABLE, Source, WRITABLE, answer, look_at_others, look_up, wakers};

/// Membership in the three sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// The read set. In the answer: a read would not block, be it for the end of the stream; and an
    /// error, so that a write end without readers is in here too.
    pub read: bool,
    /// The write set. In the answer: a write would not block, be it for having no readers.
    pub write: bool,
    /// The set of exceptional conditions, of which pipes have none.
    pub except: bool,
}

impl Interest {
    fn count(self) -> usize {
        usize::from(self.read) + usize::from(self.write) + usize::from(self.except)
    }

    /// The same as bits of poll.
    fn wanted(self) -> PollFlags {
        let mut wanted = PollFlags::empty();
        wanted.set(READABLE | PollFlags::RDBAND, self.read);
        wanted.set(WRITABLE | PollFlags::WRBAND, self.write);
        wanted.set(PollFlags::PRI, self.except);
        wanted
    }

    /// Which of these the `events` answer.
    fn answered_by(self, events: PollFlags) -> Self {
        let read = READABLE | PollFlags::RDBAND | PollFlags::HUP | PollFlags::ERR;
        let write = WRITABLE | PollFlags::WRBAND | PollFlags::ERR;
        Self {
            read: self.read && events.intersects(read),
            write: self.write && events.intersects(write),
            except: self.except && events.contains(PollFlags::PRI),
        }
    }
}

/// What [`select`] is asked, and its answer.
#[derive(Clone, Copy, Debug)]
pub struct SelectEntry<'a> {
    /// About whom.
    pub source: Source<'a>,
    /// In which sets it is.
    pub wanted: Interest,
    /// In which it would be left.
    pub ready: Interest,
}

impl<'a> SelectEntry<'a> {
    /// A question.
    pub fn new(source: impl Into<Source<'a>>, wanted: Interest) -> Self {
        Self {
            source: source.into(),
            wanted,
            ready: Interest::default(),
        }
    }
}

/// Waits until at least one entry is ready; returns the number of members of the three sets together.
/// See pselect(2). Timeout and mask as for [`poll`](super::poll). Numbers of descriptors have no bound
/// such as `FD_SETSIZE`.
///
/// # Errors
/// As [`poll`](super::poll), and `EBADF` for a foreign descriptor that is closed.
pub fn select(
    entries: &mut [SelectEntry<'_>],
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> io::Result<usize> {
    let fds = Vec::with_capacity(entries.len());
    wait(&mut Selected { entries, fds }, timeout, mask)
}

struct Selected<'e, 'a> {
    entries: &'e mut [SelectEntry<'a>],
    fds: Vec<pollfd>,
}

impl Watch for Selected<'_, '_> {
    fn look(&mut self) -> io::Result<usize> {
        let questions = self
            .entries
            .iter()
            .map(|entry| (entry.source, entry.wanted.wanted()));
        let others = look_at_others(&mut self.fds, questions);
        for (entry, fd) in self.entries.iter_mut().zip(&self.fds) {
            let events = answer(entry.source, entry.wanted.wanted(), *fd)?;
            if events.contains(PollFlags::NVAL) && entry.wanted != Interest::default() {
                return Err(Errno::BADF.into());
            }
            entry.ready = entry.wanted.answered_by(events);
        }
        match self.entries.iter().map(|entry| entry.ready.count()).sum() {
            // Of the others something that does not matter to select may be ready.
            0 => others.map(|_| 0),
            ready => Ok(ready),
        }
    }

    fn look_up(&self) -> Option<Duration> {
        self.entries
            .iter()
            .find_map(|entry| look_up(entry.source, entry.wanted.wanted()))
    }

    /// With the kernel's select: its poll would not sleep on a hang-up that does not matter here.
    fn sleep(&mut self, timeout: Option<Duration>, mask: Option<&sigset_t>) -> io::Result<usize> {
        let mut sets = <[FdSet; 3]>::default();
        for entry in self.entries.iter() {
            let wanted = entry.wanted;
            if let Source::Foreign(fd) = entry.source {
                insert(&mut sets, fd, wanted);
                continue;
            }
            for (fd, events) in wakers(entry.source, wanted.wanted())?.into_iter().flatten() {
                // For the loss of the last peer the kernel has the read set. To somebody who wants
                // to write to a read end it means nothing.
                let is_loss = events.is_empty() && wanted.read;
                let read = is_loss || events.intersects(READABLE);
                let write = events.intersects(WRITABLE);
                insert(
                    &mut sets,
                    fd,
                    Interest {
                        read,
                        write,
                        except: false,
                    },
                );
            }
        }
        watch::pselect(&mut sets, timeout, mask)
    }
}

fn insert([read, write, except]: &mut [FdSet; 3], fd: RawFd, interest: Interest) {
    for (set, is_member) in [
        (read, interest.read),
        (write, interest.write),
        (except, interest.except),
    ] {
        if is_member {
            set.insert(fd);
        }
    }
}
