//! What happens at random.

use std::io::{self, Read, Write};
use std::time::Duration;

use standpipe::completion::{EndId, Operation, PollFlags, SubmitError};

use crate::model::{Op, Place, What};
use crate::run::{Run, TOKENS, transfer};

impl Run {
    pub fn step(&mut self) {
        match self.random.u8(0..100) {
            0..40 => self.submit(),
            40..48 => self.submit_links(),
            48..53 => self.cancel(),
            53..75 => self.peer_moves(),
            75..88 => {
                let ring = self.random.usize(0..2);
                let limit = [1, 3, usize::MAX][self.random.usize(0..3)];
                self.reap(ring, limit);
            }
            88..92 => self.bad_input(),
            92..96 => self.end_moves(),
            96..97 => self.end_closes(),
            _ => self.quiesce(),
        }
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        let most = [10, 5000, 20_000, 100_000][self.random.usize(0..4)];
        let count = self.random.usize(1..=most);
        std::iter::repeat_with(|| self.random.u8(..))
            .take(count)
            .collect()
    }

    /// An end of a pipe that `ring` has.
    fn attached(&mut self, ring: usize) -> Option<(usize, bool, EndId)> {
        let pipe = self.random.usize(0..self.pipes.len());
        let reads = self.random.bool();
        match self.pipes[pipe].place(reads) {
            Place::In(at, id) if *at == ring => Some((pipe, reads, *id)),
            _ => None,
        }
    }

    fn operation(&mut self, ring: usize) -> Option<(What, Operation)> {
        if self.random.u8(0..12) == 0 {
            return Some(self.operation_of_nobody());
        }
        let (pipe, reads, end) = self.attached(ring)?;
        let kind = self.random.u8(0..8);
        Some(match (kind, reads) {
            (0, _) => {
                let all = [PollFlags::IN, PollFlags::OUT, PollFlags::empty()];
                let events = all[self.random.usize(0..3)];
                let what = What::Poll {
                    pipe,
                    reads,
                    events,
                };
                (what, Operation::Poll { end, events })
            }
            (1, true) => {
                let chunk_bytes = self.random.usize(1..6000);
                let shots = Operation::ReadMultishot { end, chunk_bytes };
                (What::Shots { pipe }, shots)
            }
            (_, true) => {
                let room = vec![0; self.some_bytes().len()];
                let read = transfer(&mut self.random, end, &room, true);
                (What::Read { pipe }, read)
            }
            (_, false) => {
                let bytes = self.some_bytes();
                let write = transfer(&mut self.random, end, &bytes, false);
                (What::Write { pipe, bytes }, write)
            }
        })
    }

    fn operation_of_nobody(&mut self) -> (What, Operation) {
        let timeout = |after| Operation::Timeout { after };
        match self.random.u8(0..3) {
            0 => (What::AtOnce, timeout(Duration::ZERO)),
            1 => (What::Never, timeout(Duration::MAX)),
            _ => {
                let token = self.random.u64(0..TOKENS);
                (What::Cancel { token }, Operation::Cancel { token })
            }
        }
    }

    fn submit(&mut self) {
        let ring = self.random.usize(0..2);
        let Some((what, operation)) = self.operation(ring) else {
            return;
        };
        let token = self.random.u64(0..TOKENS);
        let is_full = self.rings[ring].free_places() == 0;
        let is_used = self.under_way.contains_key(&(ring, token));
        match self.rings[ring].submit(token, operation) {
            Ok(()) => {
                assert!(!is_full && !is_used);
                self.has_submitted(ring, token, what, None);
            }
            Err(rejected) => match rejected.reason {
                SubmitError::Full(_) => assert!(is_full),
                SubmitError::TokenInUse(of) => assert!(is_used && of == token),
                reason => panic!("{reason}"),
            },
        }
    }

    fn has_submitted(
        &mut self,
        ring: usize,
        token: u64,
        what: What,
        behind: Option<usize>,
    ) -> usize {
        let number = self.number();
        let target = match what {
            What::Cancel { token } if behind.is_none() => self.under_way.get(&(ring, token)),
            _ => None,
        };
        let op = Op {
            number,
            target: target.map(|target| target.number),
            what,
            behind,
            may_be_cancelled: false,
        };
        self.under_way.insert((ring, token), op);
        number
    }

    fn submit_links(&mut self) {
        let ring = self.random.usize(0..2);
        let count = self.random.usize(2..5);
        let mut submitted = Vec::new();
        let mut whats = Vec::new();
        for _ in 0..count {
            let token = self.random.u64(0..TOKENS);
            let Some((what, operation)) = self.operation(ring) else {
                continue;
            };
            submitted.push((token, operation));
            whats.push((token, what));
        }
        let is_used = |(index, (token, _)): (usize, &(u64, What))| {
            let is_twice = whats[..index].iter().any(|(other, _)| other == token);
            is_twice || self.under_way.contains_key(&(ring, *token))
        };
        let is_refused =
            self.rings[ring].free_places() < whats.len() || whats.iter().enumerate().any(is_used);
        let before = self.rings[ring].in_flight();
        if let Err(rejected) = self.rings[ring].submit_linked(submitted) {
            assert!(is_refused, "{rejected}");
            assert_eq!(rejected.links.len(), whats.len());
            assert_eq!(self.rings[ring].in_flight(), before);
            return;
        }
        assert!(!is_refused);
        let mut behind = None;
        for (token, what) in whats {
            behind = Some(self.has_submitted(ring, token, what, behind));
        }
    }

    fn cancel(&mut self) {
        let (ring, token) = (self.random.usize(0..2), self.random.u64(0..TOKENS));
        let was_under_way = self.rings[ring].cancel(token);
        let op = self.under_way.get_mut(&(ring, token));
        match op {
            Some(op) => op.may_be_cancelled |= was_under_way,
            None => assert!(!was_under_way),
        }
    }

    /// Somebody outside reads or writes, without waiting.
    fn peer_moves(&mut self) {
        let pipe = self.random.usize(0..self.pipes.len());
        let bytes = self.some_bytes();
        let of = &mut self.pipes[pipe];
        if let Place::Out(writer) = &of.writer {
            match (&*writer).write(&bytes) {
                Ok(moved) => of.sent.extend_from_slice(&bytes[..moved]),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    assert!(of.reader.is_closed(), "pipe {pipe} has a reader");
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        if let Place::Out(reader) = &of.reader {
            let mut room = bytes;
            match (&*reader).read(&mut room) {
                Ok(0) => assert!(of.writer.is_closed(), "pipe {pipe} has a writer"),
                Ok(moved) => of.received.extend_from_slice(&room[..moved]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    fn bad_input(&mut self) {
        let ring = self.random.usize(0..2);
        let token = self.random.u64(TOKENS..2 * TOKENS);
        let Some((_, reads, end)) = self.attached(ring) else {
            return;
        };
        let (operation, expected) = match self.random.u8(0..4) {
            0 if reads => (Operation::write(end, b"x"), SubmitError::WrongDirection),
            0 => (Operation::read(end, b"x"), SubmitError::WrongDirection),
            1 if reads => (Operation::read(end, b""), SubmitError::ZeroLength),
            1 => (Operation::write(end, b""), SubmitError::ZeroLength),
            2 => (
                Operation::write_vectored(end, vec![b"x"; 1025]),
                if reads {
                    SubmitError::WrongDirection
                } else {
                    SubmitError::TooManyBuffers(1025)
                },
            ),
            _ => (
                Operation::Poll {
                    end: EndId::default(),
                    events: PollFlags::IN,
                },
                SubmitError::NoSuchEnd,
            ),
        };
        let is_full = self.rings[ring].free_places() == 0;
        let reason = self.rings[ring]
            .submit(token, operation)
            .unwrap_err()
            .reason;
        if is_full {
            assert!(matches!(reason, SubmitError::Full(_)), "{reason}");
        } else {
            assert_eq!(reason, expected);
        }
    }

    fn end_moves(&mut self) {
        let pipe = self.random.usize(0..self.pipes.len());
        let reads = self.random.bool();
        if let Some(end) = self.take(pipe, reads) {
            let place = self.put(end);
            *self.pipes[pipe].place(reads) = place;
        }
    }

    fn end_closes(&mut self) {
        let pipe = self.random.usize(0..self.pipes.len());
        let reads = self.random.bool();
        drop(self.take(pipe, reads));
    }
}
