//! The guest: says who it is, and looks now and then for the answer.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};

use super::message::{DESCRIPTORS, Hello, MESSAGE_BYTES, Malformed, Refusal, Reply};
use super::peer::Gate;
use super::{PipeId, descriptors};
use crate::lane::Parts;
use crate::private_fd::PrivateFd;

/// A connection to a host.
#[derive(Debug)]
pub struct Guest {
    socket: PrivateFd,
    pipe: PipeId,
    welcomed: bool,
}

/// What there is to hear from the host.
#[derive(Debug)]
pub enum Answer {
    /// Nothing new.
    NotYet,
    /// The lane.
    Welcome(Parts),
    /// The host does not let us in. There is nothing more to hear: drop the guest.
    Refused(Refusal),
    /// The host, or whoever plays it, sent something that can't be right. Drop the guest.
    Malformed(Malformed),
    /// The host is gone, and the name is free. Whoever wants it drops the guest first.
    HostGone,
}

/// A message, with the descriptors that came with it.
struct Received {
    bytes: [u8; MESSAGE_BYTES + 1],
    len_bytes: usize,
    descriptors: Vec<OwnedFd>,
    cut: bool,
}

impl Guest {
    /// Says hello to the host at the other end of `socket`, if it is one to be trusted.
    pub(super) fn greet(
        socket: PrivateFd,
        pipe: PipeId,
        gate: &Gate,
        hello: Hello,
    ) -> io::Result<Self> {
        if !gate.admits(socket.as_fd()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        send(
            &socket,
            &hello.encode(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )?;
        Ok(Self {
            socket,
            pipe,
            welcomed: false,
        })
    }

    /// What the host says. Never blocks. After the welcome there is nothing to hear until the host
    /// goes away.
    pub fn look(&mut self) -> Answer {
        let received = match receive(self.socket.as_fd()) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Answer::NotYet,
            Err(_) => return Answer::HostGone,
        };
        // A host that talks on is none: there is one answer.
        if received.len_bytes == 0 || self.welcomed {
            return Answer::HostGone;
        }
        match self.understand(received) {
            Ok(answer) => answer,
            Err(malformed) => Answer::Malformed(malformed),
        }
    }

    fn understand(&mut self, received: Received) -> Result<Answer, Malformed> {
        if received.cut {
            return Err(Malformed::DescriptorsCut);
        }
        match Reply::parse(&received.bytes[..received.len_bytes])? {
            Reply::Welcome { size, wake } => {
                let parts = descriptors::check(self.pipe, size, wake, received.descriptors)?;
                self.welcomed = true;
                Ok(Answer::Welcome(parts))
            }
            Reply::Refusal(refusal) if received.descriptors.is_empty() => {
                Ok(Answer::Refused(refusal))
            }
            Reply::Refusal(_) => Err(Malformed::Descriptors {
                found: received.descriptors.len(),
                expected: 0,
            }),
        }
    }
}

impl AsFd for Guest {
    /// Readable when there is something to hear.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive(socket: BorrowedFd<'_>) -> Result<Received, Errno> {
    // One byte, and one descriptor, more than expected: so too many are seen to be too many.
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(Received {
        bytes,
        len_bytes: message.bytes,
        descriptors,
        cut: message.flags.contains(ReturnFlags::CTRUNC),
    })
}
