//! Peers that share nothing but ends, and how they come by them.
//!
//! Such a peer is a forked child all the same, so that a test can say in a closure what it does.
//! It forgets what it inherited of standpipe's state, as exec would make it forget, and then comes
//! by its ends as two programs do that never heard of each other: by the numbers of inherited
//! descriptors, by a message, or by a path.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::ends::{Held, Slot, Slots, all_but};
use crate::engine::open_again;
use crate::raw;
use crate::setting::PeerKind;
use crate::side::abandon;

/// Closes every end of this process but those in `keep`: what a forked peer does first.
pub(crate) fn keep_only(keep: &Slots) {
    for end in all_but(keep) {
        drop(end.take());
    }
}

/// Between a test and a stranger: the parent's and the child's end of a socket.
pub(crate) struct Meeting {
    kind: PeerKind,
    parents: UnixStream,
    childs: UnixStream,
}

impl Meeting {
    /// The meeting with a peer of this kind, if it is a stranger.
    pub(crate) fn of(kind: PeerKind) -> Option<Self> {
        kind.are_strangers().then(|| {
            let (parents, childs) = UnixStream::pair().expect("no sockets");
            Self {
                kind,
                parents,
                childs,
            }
        })
    }

    /// In the child: comes by the ends in a stranger's way.
    pub(crate) fn come_by(&self, given: &Slots) {
        for other in all_but(given).iter().filter_map(|end| end.take()) {
            drop(abandon(other.side));
        }
        standpipe::end::forget_inherited();
        let ends = given.get();
        let inherited: Vec<_> = ends
            .iter()
            .map(|end| end.take().expect("a given end"))
            .collect();
        let mut received = self.receive(inherited.len()).into_iter();
        for (slot, Held { side, engine, path }) in ends.iter().zip(inherited) {
            let inherited = abandon(side);
            let flags = rustix::io::fcntl_getfd(&inherited).expect("an open descriptor");
            let fd = match (self.kind, &path) {
                (PeerKind::Rights, _) => received.next().expect("as many as were sent"),
                (PeerKind::Fifo, Some(path)) => {
                    open_again(path, &inherited).expect("cannot open the FIFO again")
                }
                _ => inherited,
            };
            rustix::io::fcntl_setfd(&fd, flags).expect("an open descriptor");
            let side = engine.adopt(fd).expect("cannot adopt an end");
            slot.put(Held { side, engine, path });
        }
        (&self.childs).write_all(b".").expect("the parent waits");
    }

    /// In the parent: gives the child what it needs, and waits until it has its ends.
    pub(crate) fn see_it_done(self, ends: &[Arc<Slot>]) {
        let Self {
            kind,
            mut parents,
            childs,
        } = self;
        drop(childs);
        if kind == PeerKind::Rights && !ends.is_empty() {
            let fds: Vec<_> = ends.iter().map(|end| end.fd()).collect();
            raw::send_rights(&parents, &fds);
        }
        let came = parents.read_exact(&mut [0]);
        came.expect("the peer ended before it had its ends");
    }

    fn receive(&self, count: usize) -> Vec<OwnedFd> {
        if self.kind != PeerKind::Rights || count == 0 {
            return Vec::new();
        }
        raw::receive_rights(&self.childs)
    }
}
