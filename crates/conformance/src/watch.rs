//! Waiting for events: poll, select, and epoll on the pollable descriptor.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFlags, Timespec, epoll};
use standpipe::poll;

use crate::ends::{EndOf, Slot};
use crate::engine::Engine;
use crate::fail::Fail;
use crate::raw::borrow;
use crate::setting::Setting;
use crate::through_ring;

/// What can be asked about in poll and select.
pub enum Watched {
    /// An end, through its engine.
    #[doc(hidden)]
    End(Arc<Slot>),
    /// A bare descriptor.
    Descriptor(RawFd),
}

impl<K> From<&EndOf<K>> for Watched {
    fn from(end: &EndOf<K>) -> Self {
        Self::End(end.slot())
    }
}

impl From<RawFd> for Watched {
    fn from(fd: RawFd) -> Self {
        Self::Descriptor(fd)
    }
}

impl Watched {
    fn fd(&self) -> RawFd {
        match self {
            Self::End(slot) => slot.fd(),
            Self::Descriptor(fd) => *fd,
        }
    }
}

/// A timeout for poll and select: not at all.
pub const NOW: Option<Duration> = Some(Duration::ZERO);

/// A timeout for poll and select: for ever.
pub const FOREVER: Option<Duration> = None;

impl Setting {
    /// Waits for events of several; how many have some, and which.
    ///
    /// # Errors
    /// What the engine's poll fails with.
    pub fn poll<const N: usize>(
        self,
        watched: [(Watched, PollFlags); N],
        timeout: Option<Duration>,
    ) -> Result<(usize, [PollFlags; N]), Fail> {
        match self.engine {
            Engine::Adopted => standpipe_poll(watched, timeout),
            Engine::Ring => ring_poll(watched, timeout),
            _ => kernel_poll(watched, timeout),
        }
    }

    /// Waits for `wanted` of one end; what came.
    ///
    /// # Errors
    /// What the engine's poll fails with.
    pub fn wait_for<K>(self, end: &EndOf<K>, wanted: PollFlags) -> Result<PollFlags, Fail> {
        let (_, [came]) = self.poll([(end.into(), wanted)], FOREVER)?;
        Ok(came)
    }

    /// Which of the three sets each is in after select: read, write, exceptional; and their number.
    ///
    /// # Errors
    /// What the engine's select fails with.
    pub fn select<const N: usize>(
        self,
        watched: [(Watched, [bool; 3]); N],
        timeout: Option<Duration>,
    ) -> Result<(usize, [[bool; 3]; N]), Fail> {
        match self.engine {
            Engine::Adopted | Engine::Ring => standpipe_select(watched, timeout),
            _ => kernel_select(watched, timeout),
        }
    }
}

/// Does something with all of them as standpipe's own poll and select take them.
fn with_sources<const N: usize, T>(
    watched: &[Watched; N],
    f: impl FnOnce([poll::Source<'_>; N]) -> T,
) -> T {
    let held = watched.each_ref().map(|watched| match watched {
        Watched::End(slot) => Some(slot.read()),
        Watched::Descriptor(_) => None,
    });
    let source = |i: usize| {
        let held = held[i].as_ref().and_then(|held| held.as_ref());
        match held.and_then(|held| held.side.as_end()) {
            Some(end) => poll::Source::End(end),
            None => poll::Source::Foreign(watched[i].fd()),
        }
    };
    f(std::array::from_fn(source))
}

fn standpipe_poll<const N: usize>(
    watched: [(Watched, PollFlags); N],
    timeout: Option<Duration>,
) -> Result<(usize, [PollFlags; N]), Fail> {
    let wanted = watched.each_ref().map(|(_, wanted)| *wanted);
    with_sources(&watched.map(|(watched, _)| watched), |sources| {
        let mut wanted = wanted.into_iter();
        let mut entries = sources.map(|source| poll::Entry {
            source,
            wanted: wanted.next().expect("one for each"),
            revents: PollFlags::empty(),
        });
        let count = poll::poll(&mut entries, timeout, None)?;
        Ok((count, entries.map(|entry| entry.revents)))
    })
}

/// Bare descriptors are no business of the ring.
fn ring_poll<const N: usize>(
    watched: [(Watched, PollFlags); N],
    timeout: Option<Duration>,
) -> Result<(usize, [PollFlags; N]), Fail> {
    let is_end = |(watched, _): &(Watched, _)| matches!(watched, Watched::End(_));
    if !watched.iter().all(is_end) {
        return standpipe_poll(watched, timeout);
    }
    let wanted = watched.each_ref().map(|(_, wanted)| *wanted);
    with_sources(&watched.map(|(watched, _)| watched), |sources| {
        let mut wanted = wanted.into_iter();
        let ends = sources.map(|source| {
            let poll::Source::End(end) = source else {
                unreachable!("all are ends");
            };
            (end, wanted.next().expect("one for each"))
        });
        Ok(through_ring::poll(ends, timeout)?)
    })
}

fn standpipe_select<const N: usize>(
    watched: [(Watched, [bool; 3]); N],
    timeout: Option<Duration>,
) -> Result<(usize, [[bool; 3]; N]), Fail> {
    let wanted = watched.each_ref().map(|(_, wanted)| *wanted);
    with_sources(&watched.map(|(watched, _)| watched), |sources| {
        let mut wanted = wanted.into_iter();
        let mut entries = sources.map(|source| {
            let [read, write, except] = wanted.next().expect("one for each");
            poll::SelectEntry {
                source,
                wanted: poll::Interest {
                    read,
                    write,
                    except,
                },
                ready: poll::Interest::default(),
            }
        });
        let count = poll::select(&mut entries, timeout, None)?;
        let ready = entries.map(|entry| [entry.ready.read, entry.ready.write, entry.ready.except]);
        Ok((count, ready))
    })
}

fn kernel_poll<const N: usize>(
    watched: [(Watched, PollFlags); N],
    timeout: Option<Duration>,
) -> Result<(usize, [PollFlags; N]), Fail> {
    let mut fds = watched.map(|(watched, wanted)| libc::pollfd {
        fd: watched.fd(),
        events: wanted.bits().cast_signed(),
        revents: 0,
    });
    let timeout = timeout.map_or(-1, |t| i32::try_from(t.as_millis()).expect("milliseconds"));
    // SAFETY: `fds` is `N` valid entries.
    let count = unsafe { libc::poll(fds.as_mut_ptr(), N as libc::nfds_t, timeout) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let came = fds.map(|fd| PollFlags::from_bits_retain(fd.revents.cast_unsigned()));
    Ok((count, came))
}

fn kernel_select<const N: usize>(
    watched: [(Watched, [bool; 3]); N],
    timeout: Option<Duration>,
) -> Result<(usize, [[bool; 3]; N]), Fail> {
    // SAFETY: all-zero bytes are an empty set.
    let mut sets: [libc::fd_set; 3] = unsafe { std::mem::zeroed() };
    let mut past = 0;
    let watched = watched.map(|(watched, wanted)| (watched.fd(), wanted));
    for (fd, wanted) in watched {
        past = past.max(fd + 1);
        for (set, _) in sets.iter_mut().zip(wanted).filter(|(_, wanted)| *wanted) {
            // SAFETY: a test has fewer than FD_SETSIZE descriptors.
            unsafe { libc::FD_SET(fd, set) };
        }
    }
    let mut timeout = timeout.map(|t| libc::timeval {
        tv_sec: t.as_secs().cast_signed(),
        tv_usec: t.subsec_micros().into(),
    });
    let timeout = timeout
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let [read, write, except] = &mut sets;
    // SAFETY: the sets are valid, and the timeout is valid or absent.
    let count = unsafe { libc::select(past, read, write, except, timeout) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let member = |fd| {
        // SAFETY: as above.
        [0, 1, 2].map(|i: usize| unsafe { libc::FD_ISSET(fd, &raw const sets[i]) })
    };
    Ok((count, watched.map(|(fd, _)| member(fd))))
}

/// An epoll instance.
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A new one.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn new() -> Self {
        Self(epoll::create(epoll::CreateFlags::CLOEXEC).expect("no epoll"))
    }

    /// Registers a descriptor; its number comes with its events.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub fn add(&self, fd: RawFd, events: epoll::EventFlags) -> Result<(), Fail> {
        Ok(epoll::add(&self.0, borrow(fd), number(fd), events)?)
    }

    /// Registers it anew.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub fn modify(&self, fd: RawFd, events: epoll::EventFlags) -> Result<(), Fail> {
        Ok(epoll::modify(&self.0, borrow(fd), number(fd), events)?)
    }

    /// What there is now, by descriptor.
    ///
    /// # Panics
    /// If it cannot be asked.
    #[must_use]
    pub fn now(&self) -> Vec<(RawFd, epoll::EventFlags)> {
        self.wait(NOW).expect("cannot ask epoll")
    }

    /// Waits for something.
    ///
    /// # Errors
    /// As `epoll_wait(2)`.
    ///
    /// # Panics
    /// If the timeout is longer than the kernel can count.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Vec<(RawFd, epoll::EventFlags)>, Fail> {
        let timeout = timeout.map(|t| Timespec::try_from(t).expect("seconds"));
        let mut events = Vec::with_capacity(8);
        epoll::wait(
            &self.0,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        )?;
        let events = events.into_iter();
        Ok(events
            .map(|event| (event.data.u64() as RawFd, event.flags))
            .collect())
    }

    /// What there is now for one registered descriptor.
    #[must_use]
    pub fn of(&self, fd: RawFd) -> epoll::EventFlags {
        let events = self.now().into_iter().filter(|(of, _)| *of == fd);
        events.fold(epoll::EventFlags::empty(), |all, (_, events)| all | events)
    }
}

impl Default for Epoll {
    fn default() -> Self {
        Self::new()
    }
}

fn number(fd: RawFd) -> epoll::EventData {
    epoll::EventData::new_u64(u64::try_from(fd).expect("a descriptor"))
}
