//! The host: has the name, and serves whoever came when it looks.
//!
//! A connection is a **stranger** until its hello has come, which is as a rule before the host looks
//! at all, and then a **guest**, whose connection is kept so that it hears when the host goes away.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    accept_with, listen, recv, sendmsg, shutdown,
};

use super::message::{DESCRIPTORS, Hello, MESSAGE_BYTES, Malformed, Refusal, Reply, VERSION};
use super::peer::Gate;
use crate::lane::BorrowedParts;
use crate::private_fd::PrivateFd;

/// Most connections that wait for the host to look. Who comes then is told to come again.
const BACKLOG: i32 = 64;
/// Most strangers. An honest one sends its hello with the connection, so the longest silent is the
/// least likely to be one: it has to go.
const MOST_STRANGERS: usize = 16;
/// Most guests: as many descriptors are open for them.
const MOST_GUESTS: usize = 64;

/// The name of a pipe, held.
#[derive(Debug)]
pub struct Host {
    listener: PrivateFd,
    /// An epoll over the listener and the strangers.
    events: PrivateFd,
    /// Whether `events` tells of connections.
    is_awake: bool,
    gate: Gate,
    pid_namespace: u64,
    has_lane: bool,
    has_yielded: bool,
    strangers: VecDeque<PrivateFd>,
    guests: Vec<PrivateFd>,
}

/// What a stranger said.
enum Heard {
    Nothing,
    Hello(Hello),
    OtherVersion,
    /// Nonsense, or good-bye.
    Gone,
}

impl Host {
    /// Listens on `listener`, which has the name.
    pub(super) fn listen(listener: PrivateFd, gate: Gate, pid_namespace: u64) -> io::Result<Self> {
        let events = PrivateFd::from(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        watch(&events, &listener)?;
        listen(&listener, BACKLOG)?;
        Ok(Self {
            listener,
            events,
            is_awake: true,
            gate,
            pid_namespace,
            has_lane: true,
            has_yielded: false,
            strangers: VecDeque::new(),
            guests: Vec::new(),
        })
    }

    /// Whether there is a lane to give already (so it is taken to be). If not, a guest that has one is
    /// refused, and [yielded](Self::has_yielded) to.
    pub fn note_lane(&mut self, has_lane: bool) {
        self.has_lane = has_lane;
    }

    /// Whether a guest came that had better be the host: drop this one.
    #[must_use]
    pub fn has_yielded(&self) -> bool {
        self.has_yielded
    }

    /// Serves all who wait now, and returns how many were let in. Never blocks.
    ///
    /// `parts` is called at most once, and only if there is somebody to let in; `None` refuses.
    pub fn serve<'a>(&mut self, parts: impl FnOnce() -> Option<BorrowedParts<'a>>) -> usize {
        self.accept_all();
        let parts = LazyCell::new(parts);
        let mut welcomed = 0;
        for stranger in std::mem::take(&mut self.strangers) {
            let hello = match hear(stranger.as_fd()) {
                Heard::Nothing => {
                    self.strangers.push_back(stranger);
                    continue;
                }
                Heard::Hello(hello) => Ok(hello),
                Heard::OtherVersion => Err(Refusal::Version { host: VERSION }),
                Heard::Gone => {
                    self.hang_up(&stranger);
                    continue;
                }
            };
            let offer = hello
                .and_then(|hello| self.judge(hello, stranger.as_fd()))
                .and_then(|()| parts.as_ref().ok_or(Refusal::NoLane));
            // One that can't be told has gone, or this user has too many descriptors under way: then
            // it hears that we hung up.
            if answer(stranger.as_fd(), offer).is_ok() && offer.is_ok() {
                self.unwatch(&stranger);
                self.guests.push(stranger);
                welcomed += 1;
            } else {
                self.hang_up(&stranger);
            }
        }
        welcomed
    }

    /// Takes in all who have connected, at most as many as could wait.
    fn accept_all(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..=BACKLOG {
            match accept_with(&self.listener, flags) {
                Ok(stranger) => self.take_in(stranger.into()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return self.stay_awake(true),
                // No descriptor or memory left: whoever waits will have to, and must not keep us
                // from sleeping meanwhile. We look again whenever we are asked to serve.
                Err(_) => return self.stay_awake(false),
            }
        }
    }

    fn take_in(&mut self, stranger: PrivateFd) {
        if self.strangers.len() == MOST_STRANGERS
            && let Some(oldest) = self.strangers.pop_front()
        {
            self.hang_up(&oldest);
        }
        if watch(&self.events, &stranger).is_ok() {
            self.strangers.push_back(stranger);
        }
    }

    /// Whether a guest that said this may come in.
    fn judge(&mut self, hello: Hello, guest: BorrowedFd<'_>) -> Result<(), Refusal> {
        if hello.pid_namespace != self.pid_namespace {
            return Err(Refusal::Namespace);
        }
        if !self.gate.admits(guest) {
            return Err(Refusal::Credentials);
        }
        if hello.role.has_lane && !self.has_lane {
            self.has_yielded = true;
        }
        if self.has_yielded {
            return Err(Refusal::NoLane);
        }
        self.guests.retain(is_connected);
        if self.guests.len() == MOST_GUESTS {
            return Err(Refusal::Full);
        }
        Ok(())
    }

    /// Whether `events` is to tell of connections.
    fn stay_awake(&mut self, yes: bool) {
        if self.is_awake != yes {
            let flags = if yes {
                epoll::EventFlags::IN
            } else {
                epoll::EventFlags::empty()
            };
            self.is_awake = epoll::modify(&self.events, &self.listener, NO_DATA, flags)
                .map_or(self.is_awake, |()| yes);
        }
    }

    /// Says so, and does not leave it to closing: a forked child may still hold a copy.
    fn hang_up(&self, connection: &PrivateFd) {
        self.unwatch(connection);
        // Fails only if the other side has hung up.
        let _ = shutdown(connection, Shutdown::Both);
    }

    fn unwatch(&self, connection: &PrivateFd) {
        // Fails only if it was not watched.
        let _ = epoll::delete(&self.events, connection);
    }
}

impl AsFd for Host {
    /// Readable when there is somebody to serve.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// We ask everybody in turn, not whom epoll names.
const NO_DATA: epoll::EventData = epoll::EventData::new_u64(0);

fn watch(events: &PrivateFd, connection: &PrivateFd) -> io::Result<()> {
    Ok(epoll::add(
        events,
        connection,
        NO_DATA,
        epoll::EventFlags::IN,
    )?)
}

/// What a stranger has said. Descriptors that it may have sent along are never received: without
/// room for them, the kernel closes them.
fn hear(stranger: BorrowedFd<'_>) -> Heard {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    match recv(stranger, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, len_bytes)) => match Hello::parse(&bytes[..len_bytes.min(bytes.len())]) {
            Ok(hello) => Heard::Hello(hello),
            Err(Malformed::Version { .. }) => Heard::OtherVersion,
            Err(_) => Heard::Gone,
        },
        Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
        Err(_) => Heard::Gone,
    }
}

fn answer(guest: BorrowedFd<'_>, offer: Result<&BorrowedParts<'_>, Refusal>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let reply = match offer {
        Ok(parts) => {
            let fits = control.push(SendAncillaryMessage::ScmRights(&parts.fds));
            debug_assert!(fits);
            Reply::Welcome {
                size: parts.size,
                wake: parts.wake,
            }
        }
        Err(refusal) => Reply::Refusal(refusal),
    };
    sendmsg(
        guest,
        &[IoSlice::new(&reply.encode())],
        &mut control,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

fn is_connected(guest: &PrivateFd) -> bool {
    let mut fds = [PollFd::new(guest, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().contains(PollFlags::HUP)
}
