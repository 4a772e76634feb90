//! A run: the rings, what is under way, and what each completion has to be.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use fastrand::Rng;
use rustix::event::{PollFd, Timespec, poll};
use standpipe::completion::{
    Buffers, Completion, EndId, Failure, Operation, Outcome, PollFlags, Ring,
};
use standpipe::end::End;
use standpipe::pipe::Builder;

use crate::model::{Op, Pipe, Place, What};

const PIPES: usize = 24;

/// So many tokens of each ring: few, so that they meet.
pub const TOKENS: u64 = 40;

pub struct Run {
    pub random: Rng,
    pub rings: [Ring; 2],
    /// Of those that somebody polls, for whom everything is armed at once.
    descriptors: [Option<OwnedFd>; 2],
    pub pipes: Vec<Pipe>,
    /// By ring and token.
    pub under_way: HashMap<(usize, u64), Op>,
    /// Whether those that are complete have succeeded, by their number.
    succeeded: Vec<Option<bool>>,
}

impl Run {
    pub fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut rings = [(); 2].map(|()| Ring::new(random.usize(1..40)).unwrap());
        let descriptors = rings.each_mut().map(|ring| {
            let is_polled = random.bool();
            is_polled.then(|| ring.pollable().unwrap().try_clone_to_owned().unwrap())
        });
        let mut run = Self {
            random,
            rings,
            descriptors,
            pipes: Vec::new(),
            under_way: HashMap::new(),
            succeeded: Vec::new(),
        };
        for _ in 0..PIPES {
            let (reader, writer) = run.pipe();
            let (reader, writer) = (run.put(reader), run.put(writer));
            run.pipes.push(Pipe::new(reader, writer));
        }
        run
    }

    fn pipe(&mut self) -> (End, End) {
        match self.random.u8(0..4) {
            0 => {
                let (reader, writer) = rustix::pipe::pipe().unwrap();
                (End::from_fd(reader).unwrap(), End::from_fd(writer).unwrap())
            }
            1 => {
                let (reader, writer) = standpipe::pipe::pipe().unwrap();
                (reader.into(), writer.into())
            }
            order => {
                let pipe = Builder::new().capacity_bytes(1024 << order);
                let (reader, writer) = pipe.build().unwrap();
                (reader.into(), writer.into())
            }
        }
    }

    /// Gives an end to a ring, or to a peer.
    pub fn put(&mut self, end: End) -> Place {
        let index = self.random.usize(0..3);
        let Some(ring) = self.rings.get_mut(index) else {
            end.set_nonblocking(true).unwrap();
            return Place::Out(end);
        };
        // A ring's own calls do not wait, whatever the mode.
        end.set_nonblocking(self.random.bool()).unwrap();
        Place::In(index, ring.attach(end))
    }

    /// The number of an operation that was submitted.
    pub fn number(&mut self) -> usize {
        self.succeeded.push(None);
        self.succeeded.len() - 1
    }

    pub fn has_begun(&self, op: &Op) -> bool {
        op.behind
            .is_none_or(|other| self.succeeded[other] == Some(true))
    }

    /// Takes an end away from wherever it is.
    pub fn take(&mut self, pipe: usize, reads: bool) -> Option<End> {
        match std::mem::replace(self.pipes[pipe].place(reads), Place::Closed) {
            Place::Closed => None,
            Place::Out(end) => Some(end),
            Place::In(ring, id) => Some(self.detach(ring, id, (pipe, reads))),
        }
    }

    fn detach(&mut self, ring: usize, id: EndId, of: (usize, bool)) -> End {
        for ((_, _), op) in self.under_way.iter_mut().filter(|((at, _), _)| *at == ring) {
            op.may_be_cancelled |= op.what.end() == Some(of);
        }
        let end = self.rings[ring].detach(id).unwrap();
        assert!(self.rings[ring].detach(id).is_none());
        // What it moved so far comes before what is done with it from now on.
        self.reap(ring, usize::MAX);
        end
    }

    /// Reaps at most `limit` completions; how many there were.
    pub fn reap(&mut self, ring: usize, limit: usize) -> usize {
        let is_quiet = self.descriptors[ring].as_ref().is_some_and(is_quiet);
        let all: Vec<_> = self.rings[ring].reap().unwrap().take(limit).collect();
        let count = all.len();
        assert!(
            !is_quiet || count == 0 || self.looks_up(ring),
            "ring {ring} had {count} completions, and its descriptor told nobody"
        );
        for completion in all {
            self.note(ring, completion);
        }
        for pipe in 0..self.pipes.len() {
            if self.writes(pipe).next().is_none() {
                self.pipes[pipe].compare(pipe);
            }
        }
        count
    }

    /// A small write looks for room now and then, by the clock.
    fn looks_up(&self, ring: usize) -> bool {
        let mut ops = self.under_way.iter().filter(|((at, _), _)| *at == ring);
        ops.any(|(_, op)| matches!(op.what, What::Write { .. }))
    }

    /// Whether a write to the pipe is under way, as far as was reaped.
    pub fn is_written(&self, pipe: usize) -> bool {
        let mut writes = self.writes(pipe);
        writes.any(|op| self.has_begun(op))
    }

    fn writes(&self, pipe: usize) -> impl Iterator<Item = &Op> {
        let is_write =
            move |op: &&Op| matches!(op.what, What::Write { pipe: to, .. } if to == pipe);
        self.under_way.values().filter(is_write)
    }

    /// A completion comes: it must be one that can.
    fn note(&mut self, ring: usize, completion: Completion) {
        let at = (ring, completion.token);
        let op = self.under_way.remove(&at);
        let op = op.unwrap_or_else(|| panic!("of nothing under way: {completion:?}"));
        if !completion.is_last {
            self.note_arrival(&op, completion);
            self.under_way.insert(at, op);
            return;
        }
        let has_succeeded = self.note_last(ring, &op, completion);
        self.succeeded[op.number] = Some(has_succeeded);
    }

    fn note_arrival(&mut self, op: &Op, completion: Completion) {
        let What::Shots { pipe } = op.what else {
            panic!("{completion:?} is not the last of {op:?}");
        };
        let (bytes, buffers) = completion.into_bytes();
        let buffer = buffers.into_first();
        assert!(bytes.unwrap() == buffer.len() && !buffer.is_empty());
        self.pipes[pipe].received.extend_from_slice(&buffer);
    }

    /// Whether it has succeeded, as far as links go.
    fn note_last(&mut self, ring: usize, op: &Op, completion: Completion) -> bool {
        let before = op.behind.map(|other| self.succeeded[other]);
        match completion.result {
            Err(Failure::Cancelled) => {
                let is_target = |other: &Op| matches!(other.what, What::Cancel { token } if token == completion.token);
                let mut others = self.under_way.iter().filter(|((at, _), _)| *at == ring);
                let is_cancelled = others.any(|(_, other)| is_target(other));
                assert!(op.may_be_cancelled || is_cancelled, "by nobody: {op:?}");
                return false;
            }
            Err(Failure::LinkBroken) => {
                assert_eq!(before, Some(Some(false)), "{op:?}");
                return false;
            }
            _ => assert!(
                before.is_none_or(|was| was == Some(true)),
                "too early: {op:?}"
            ),
        }
        match &op.what {
            What::Read { pipe } | What::Shots { pipe } => self.note_read(*pipe, completion),
            What::Write { pipe, bytes } => self.note_write(ring, *pipe, bytes, op, completion),
            What::Poll { pipe, .. } => self.note_poll(*pipe, &completion),
            What::AtOnce => {
                assert!(matches!(completion.result, Ok(Outcome::Expired)));
                true
            }
            What::Never => panic!("never is over: {completion:?}"),
            What::Cancel { token } => match completion.result {
                Ok(Outcome::Cancelled) => {
                    let now = self.under_way.get(&(ring, *token));
                    let target = op.target.and(now.map(|now| now.number));
                    assert!(target.is_none() || target != op.target, "not cancelled");
                    true
                }
                Err(Failure::NotFound(of)) if of == *token => false,
                other => panic!("{other:?} of a cancel"),
            },
        }
    }

    fn note_read(&mut self, pipe: usize, completion: Completion) -> bool {
        let (bytes, buffers) = completion.into_bytes();
        let bytes = bytes.unwrap();
        let all = match buffers {
            Buffers::One(buffer) => buffer.into_vec(),
            Buffers::Many(buffers) => buffers.iter().flat_map(|part| part.to_vec()).collect(),
            Buffers::None => Vec::new(),
        };
        self.pipes[pipe].received.extend_from_slice(&all[..bytes]);
        if bytes == 0 {
            let of = &self.pipes[pipe];
            assert!(of.writer.is_closed(), "pipe {pipe} ended before its writer");
            assert!(of.is_all_read(), "pipe {pipe} ended before its bytes");
        }
        bytes > 0
    }

    fn note_write(
        &mut self,
        ring: usize,
        pipe: usize,
        bytes: &[u8],
        op: &Op,
        completion: Completion,
    ) -> bool {
        let token = completion.token;
        let (moved, buffers) = completion.into_bytes();
        let given_back = match buffers {
            Buffers::One(buffer) => buffer.into_vec(),
            Buffers::Many(buffers) => buffers.iter().flat_map(|part| part.to_vec()).collect(),
            Buffers::None => panic!("no buffer of {op:?}"),
        };
        assert!(given_back == bytes, "other bytes came back");
        let is_broken = self.pipes[pipe].reader.is_closed();
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
                assert!(is_broken, "pipe {pipe} has a reader");
                return false;
            }
        };
        let is_cancelled = op.may_be_cancelled
            || self.under_way.iter().any(|((at, _), other)| {
                *at == ring && matches!(other.what, What::Cancel { token: of } if of == token)
            });
        assert!(
            moved == bytes.len() || is_broken || is_cancelled,
            "cut short: {op:?}"
        );
        self.pipes[pipe].sent.extend_from_slice(&bytes[..moved]);
        moved == bytes.len()
    }

    fn note_poll(&mut self, pipe: usize, completion: &Completion) -> bool {
        let Ok(Outcome::Events(events)) = completion.result else {
            panic!("{completion:?} of a poll");
        };
        let of = &self.pipes[pipe];
        assert!(!events.is_empty());
        assert!(!events.contains(PollFlags::HUP) || of.writer.is_closed());
        assert!(!events.contains(PollFlags::ERR) || of.reader.is_closed());
        true
    }

    /// Cancels what is left, and reads what is.
    pub fn end(mut self) {
        self.quiesce();
        let left: Vec<_> = self.under_way.keys().copied().collect();
        for (ring, token) in left {
            let Some(op) = self.under_way.get_mut(&(ring, token)) else {
                continue;
            };
            op.may_be_cancelled = true;
            assert!(
                self.rings[ring].cancel(token),
                "{token} of ring {ring} is lost"
            );
            self.reap(ring, usize::MAX);
        }
        self.quiesce();
        assert!(self.under_way.is_empty(), "lost: {:?}", self.under_way);
        for ring in &self.rings {
            assert_eq!((ring.in_flight(), ring.free_places()), (0, ring.capacity()));
        }
        for pipe in 0..self.pipes.len() {
            drop(self.take(pipe, false));
            if let Some(reader) = self.take(pipe, true) {
                reader.set_nonblocking(false).unwrap();
                let of = &mut self.pipes[pipe];
                io::Read::read_to_end(&mut &reader, &mut of.received).unwrap();
                of.compare(pipe);
                assert!(of.is_all_read(), "pipe {pipe} lost bytes");
            }
        }
    }
}

fn is_quiet(descriptor: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(descriptor, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 0
}

/// A read of so many bytes, or a write of those, into one buffer or several.
pub fn transfer(random: &mut Rng, end: EndId, bytes: &[u8], reads: bool) -> Operation {
    let is_vectored = random.u8(0..4) == 0;
    let (first, second) = bytes.split_at(random.usize(0..=bytes.len()));
    match (reads, is_vectored) {
        (true, false) => Operation::read(end, bytes),
        (true, true) => Operation::read_vectored(end, [first, &[], second]),
        (false, false) => Operation::write(end, bytes),
        (false, true) => Operation::write_vectored(end, [first, second]),
    }
}
