//! How processes that hold ends of the same kernel pipe, and never heard of each other, meet: at an
//! abstract Unix socket that is named after the pipe.
//!
//! Whoever comes first binds the name and is the **host**; whoever comes later connects and is a
//! **guest**, who says who it is (the hello) and is handed the lane (the welcome) or told why not
//! (the refusal). Nobody waits here and no thread serves: the host looks ([`Host::serve`]) when it
//! would ask the kernel anyway, the guest ([`Guest::look`]) likewise, and both offer a descriptor to
//! sleep on.
//!
//! The kernel cleans up: the name is free as soon as the host is gone, however it went, and nothing
//! of this is in a file system.
//!
//! # Trust
//! - Whom both sides let in is the story of `peer`. The name alone proves nothing: anybody may
//!   bind it, so the guest looks at the host's credentials before it says a word.
//! - What arrives is checked field by field ([`message`]) and descriptor by descriptor
//!   (`descriptors`). Whatever is not exactly what was expected is closed, and the error says which
//!   it was.
//! - A stranger that connects and says nothing, or floods, costs the host a bounded number of
//!   descriptors (`host`).
//!
//! # Forks
//! Descriptors of a meeting are closed on exec, but a fork copies them. A forked child drops the
//! [`Meeting`] that it inherited, at once: as long as it does not, its parent's death neither frees
//! the name nor is heard by guests.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};

use crate::fork;
use crate::private_fd::PrivateFd;

mod descriptors;
mod guest;
mod host;
pub mod message;
mod peer;

pub use guest::{Answer, Guest};
pub use host::Host;
pub use message::{Malformed, Refusal};

use peer::Gate;

/// How often to try again when others bind and leave the name at the same moment.
const TRIES: usize = 4;

/// Which pipe: what `fstat` says on all of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PipeId {
    /// The file system that it lies in.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl PipeId {
    /// The pipe that `fd` is an end of.
    ///
    /// # Errors
    /// `InvalidInput` if it is no pipe or FIFO; else as fstat(2).
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
            let found = fd.as_raw_fd();
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("descriptor {found}: expected an end of a pipe or FIFO"),
            ));
        }
        Ok(Self::from_stat(&stat))
    }

    fn from_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// The abstract socket name, without its leading NUL.
    fn name(self) -> String {
        let Self { device, inode } = self;
        format!("standpipe/{}/{device}/{inode}", message::VERSION)
    }
}

/// What a participant does with the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// It holds a read end.
    pub reads: bool,
    /// It holds a write end.
    pub writes: bool,
    /// It has a lane of this pipe already, from a fork: a host without one lets it be the host.
    pub has_lane: bool,
}

/// This process's place at the rendezvous of a pipe.
#[derive(Debug)]
pub enum Meeting {
    /// The name is ours.
    Host(Host),
    /// Somebody else has it.
    Guest(Guest),
}

impl Meeting {
    /// Goes to the rendezvous of `pipe`, any end of it. Never blocks.
    ///
    /// # Errors
    /// Each means "as if nobody was there", now: `WouldBlock` if the host has too many callers
    /// waiting, `PermissionDenied` if whoever has the name is not to be trusted; else as the system
    /// calls.
    pub fn arrange(pipe: BorrowedFd<'_>, role: Role) -> io::Result<Self> {
        let id = PipeId::of(pipe)?;
        let gate = Gate::of(pipe, id)?;
        let pid_namespace = fork::pid_namespace().ok_or(io::ErrorKind::Unsupported)?;
        let address = SocketAddrUnix::new_abstract_name(id.name().as_bytes())?;
        for _ in 0..TRIES {
            let socket = new_socket()?;
            match connect(&socket, &address) {
                Ok(()) => {
                    let hello = message::Hello {
                        role,
                        pid_namespace,
                    };
                    return Guest::greet(socket, id, &gate, hello).map(Self::Guest);
                }
                Err(Errno::CONNREFUSED) => {}
                // EAGAIN: a host is there, and busy.
                Err(error) => return Err(error.into()),
            }
            match bind(&socket, &address) {
                Ok(()) => return Host::listen(socket, gate, pid_namespace).map(Self::Host),
                // Somebody else was quicker, and may not listen yet.
                Err(Errno::ADDRINUSE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl AsFd for Meeting {
    /// Readable when there is something to serve, or to hear.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Host(host) => host.as_fd(),
            Self::Guest(guest) => guest.as_fd(),
        }
    }
}

/// Keeps the borders of messages, so that each arrives whole or not at all.
fn new_socket() -> io::Result<PrivateFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok(socket.into())
}
