//! Opening a FIFO by a future: what tells it to try again, by one descriptor.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::inotify;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::reactor::{Reactor, Source, sealed::Sealed};
use crate::end::End;
use crate::fifo::opening::{Opening, Place};
use crate::fifo::{Access, Options};

/// Opens it when there is a partner.
pub async fn open<R: Reactor>(path: &Path, access: Access) -> io::Result<End> {
    let place = Place::find(path, access, Options::new())?;
    let waiting = R::watch(Waiting::new(&place)?)?;
    let mut opening = Opening::begin(place)?;
    let mut attempt = |waiting: &Waiting| {
        waiting.silence();
        match opening.attempt()? {
            Some(end) => Ok(end),
            None => waiting.look_after(opening.next_look(waiting.opens.is_some())),
        }
    };
    // At once, which sets the timer; and whenever it may be worth it.
    match attempt(R::source(&waiting)) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        done => return done,
    }
    poll_fn(|cx| R::poll(&waiting, cx, &mut attempt)).await
}

/// One descriptor that is readable when somebody opened the FIFO, or when it is time to look.
struct Waiting {
    set: OwnedFd,
    /// None where a user has no more of them (`max_user_instances`): then only the time tells.
    opens: Option<File>,
    timer: File,
}

impl Waiting {
    fn new(place: &Place) -> io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let opens = watch_opens(place).ok();
        let fds = opens.iter().chain([&timer]);
        for fd in fds {
            epoll::add(&set, fd, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self {
            set,
            opens: opens.map(File::from),
            timer: timer.into(),
        })
    }

    /// Before a try: what happens from here on is heard of.
    fn silence(&self) {
        let mut events = [0; 4096];
        if let Some(opens) = &self.opens {
            while (&*opens).read(&mut events).is_ok_and(|bytes| bytes > 0) {}
        }
        let _ = (&self.timer).read(&mut events[..8]);
    }

    /// Nobody there. Sets the timer, and says `WouldBlock`.
    fn look_after<O>(&self, time: Duration) -> io::Result<O> {
        let timer = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(time).map_err(io::Error::other)?,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn watch_opens(place: &Place) -> rustix::io::Result<OwnedFd> {
    let opens = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    place.watch_opens(&opens)?;
    Ok(opens)
}

impl Sealed for Waiting {}

impl Source for Waiting {}

impl AsFd for Waiting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl AsRawFd for Waiting {
    fn as_raw_fd(&self) -> RawFd {
        self.set.as_raw_fd()
    }
}
