//! One descriptor that tells when an end is ready, for poll, epoll and what is built on them.
//!
//! It is an epoll descriptor over everything that an end sleeps on: its kernel pipe, its side's
//! doorbell, for writers the presence of readers, for readers without a lane its coming. While somebody
//! polls a bell on its own, the bell is a level: who silences it looks afterwards, and rings it again if
//! there is a reason to. An end of a task does so only for others: the task announces itself, and looks,
//! before it waits (`task.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use standpipe_shm::lane::{Lane, Mode, Side};
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::sync::{AtomicBool, Ordering};

use super::{End, registry};

/// The descriptor.
pub struct Pollable {
    set: PrivateFd,
    side: Side,
    has_lane: AtomicBool,
    waits_for_kernel: AtomicBool,
}

const NO_DATA: EventData = EventData::new_u64(0);

impl Pollable {
    fn new(end: &End, side: Side) -> io::Result<Self> {
        let no_fork = registry::hold_forks();
        let set = PrivateFd::from(epoll::create(CreateFlags::CLOEXEC)?);
        epoll::add(&set, end.borrow(), NO_DATA, kernel_events(side, true))?;
        if side == Side::Reader && end.shared.lane().is_none() {
            let arrival = end.shared.await_lane(&no_fork)?;
            epoll::add(&set, arrival, NO_DATA, EventFlags::IN)?;
        }
        Ok(Self {
            set,
            side,
            has_lane: AtomicBool::new(false),
            waits_for_kernel: AtomicBool::new(true),
        })
    }

    /// Waits for the lane's bell as well, from now on: others must not silence it for us.
    fn add_lane(&self, lane: &Lane) -> io::Result<()> {
        if self.has_lane.load(Ordering::Relaxed) {
            return Ok(());
        }
        lane.add_mode_of(self.side, Mode::POLLED);
        self.add(lane.bell_fd(self.side), EventFlags::IN)?;
        self.has_lane.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A reader waits for the lane's bell, and for its coming no more.
    fn change_to_lane(&self, lane: &Lane, arrival: Option<&PrivateFd>) -> io::Result<()> {
        if self.has_lane.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.add_lane(lane)?;
        if let Some(arrival) = arrival {
            // Fails only if it was not there.
            let _ = epoll::delete(&self.set, arrival);
        }
        Ok(())
    }

    fn add(&self, fd: BorrowedFd<'_>, events: EventFlags) -> io::Result<()> {
        match epoll::add(&self.set, fd, NO_DATA, events) {
            Err(Errno::EXIST) => Ok(()),
            added => Ok(added?),
        }
    }

    /// A writer inside the lane waits for its bell, and for the last reader to leave it; one outside for
    /// room in the kernel pipe.
    fn wait_outside(&self, lane: &Lane, end: &End, yes: bool) -> io::Result<()> {
        if self.waits_for_kernel.load(Ordering::Relaxed) == yes {
            return Ok(());
        }
        epoll::modify(
            &self.set,
            end.borrow(),
            NO_DATA,
            kernel_events(self.side, yes),
        )?;
        if yes {
            self.has_lane.store(false, Ordering::Relaxed);
            for fd in [lane.presence(), lane.bell_fd(Side::Writer)] {
                // Fails only if it was not there.
                let _ = epoll::delete(&self.set, fd);
            }
        } else {
            self.add_lane(lane)?;
            self.add(lane.presence(), EventFlags::empty())?;
        }
        // Now that all is done: what failed is tried again by the next call.
        self.waits_for_kernel.store(yes, Ordering::Relaxed);
        Ok(())
    }
}

pub(super) fn kernel_events(side: Side, waits: bool) -> EventFlags {
    match side {
        Side::Reader => EventFlags::IN,
        Side::Writer if waits => EventFlags::OUT,
        Side::Writer => EventFlags::empty(),
    }
}

impl End {
    /// The side whose readiness the pollable descriptor tells: of an end that reads and writes, the
    /// reader's.
    pub(super) fn poll_side(&self) -> Side {
        if self.can_read() {
            Side::Reader
        } else {
            Side::Writer
        }
    }

    /// A descriptor that becomes *readable* when a read or write of this end would not block, or when
    /// the last peer is gone; for poll, epoll (level or edge), mio, tokio, Python's selectors. (Of an
    /// end that reads and writes: when a read would not.)
    ///
    /// It never misses an event. It may report a readiness that the next read or write answers with
    /// `WouldBlock`, once: that call looks again, and from then on the descriptor is quiet until
    /// something happens.
    ///
    /// # Errors
    /// As `epoll_create(2)`.
    pub fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        self.pollable_of(self.poll_side())
    }

    /// The same for either side of an end that reads and writes.
    pub(crate) fn pollable_of(&self, side: Side) -> io::Result<BorrowedFd<'_>> {
        let place = &self.pollables[side as usize];
        let pollable = if let Some(pollable) = place.get() {
            pollable
        } else {
            let new = Pollable::new(self, side)?;
            place.get_or_init(|| new)
        };
        self.quieten(pollable, wanted_bytes(side))?;
        Ok(pollable.set.as_fd())
    }

    /// The end is not ready, and whoever polls it is to hear of it when it is. True: look again, it is
    /// ready after all.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`: nobody would hear of it.
    pub(crate) fn would_block(&self, side: Side, wanted_bytes: usize) -> io::Result<bool> {
        match self.pollables[side as usize].get() {
            Some(pollable) => self.quieten(pollable, wanted_bytes),
            None => Ok(false),
        }
    }

    /// Whether the pollable descriptor tells of the bell of `side`.
    #[cfg(any(feature = "tokio", feature = "futures"))]
    pub(super) fn hears_bell(&self, side: Side) -> bool {
        let pollable = self.pollables[side as usize].get();
        pollable.is_some_and(|pollable| pollable.has_lane.load(Ordering::Relaxed))
    }

    /// Lowers the bell, unless there is a reason for it to ring. Says whether there is.
    fn quieten(&self, pollable: &Pollable, wanted_bytes: usize) -> io::Result<bool> {
        let Some(lane) = self.shared.lane() else {
            return Ok(false);
        };
        match pollable.side {
            Side::Reader => pollable.change_to_lane(lane, self.shared.arrival())?,
            Side::Writer => {
                let is_outside = !self.is_lane_way(lane)?;
                pollable.wait_outside(lane, self, is_outside)?;
                if is_outside {
                    return Ok(false);
                }
            }
        }
        if self.is_in_task.load(Ordering::Relaxed) {
            // It may have rung for another end, of this process or of one that has the lane.
            let has_company = || self.has_others(pollable.side) || self.shared.is_met();
            return Ok(lane.quieten_in_task(pollable.side, wanted_bytes, has_company));
        }
        Ok(lane.quieten(pollable.side, wanted_bytes))
    }
}

/// For how much a poller waits: a writer for room for any write that is atomic.
pub(super) fn wanted_bytes(side: Side) -> usize {
    match side {
        Side::Reader => 1,
        Side::Writer => standpipe_core::size::PIPE_BUF,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::event::{PollFd, PollFlags, poll};
    use standpipe_shm::patience::AT_ONCE;

    use super::*;

    fn is_ringing(fd: BorrowedFd<'_>) -> bool {
        poll(
            &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
            Some(&AT_ONCE),
        )
        .unwrap()
            > 0
    }

    /// Another reader of the process makes the lane: bytes may come in there from now on.
    #[test]
    fn a_reader_that_is_polled_hears_of_the_coming_of_a_lane_once() {
        let (reader, _writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let end = End::from_fd(reader).unwrap();
        let pollable = end.pollable().unwrap();
        assert!(!is_ringing(pollable));
        end.shared.make_lane_held(&registry::hold_forks()).unwrap();
        assert!(is_ringing(pollable));
        let error = (&end).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!is_ringing(pollable));
    }
}
