//! Pipes that a ring has all ends of: nothing is armed for what it moves itself, and whatever comes from
//! elsewhere is heard of all the same.

use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use standpipe::completion::{EndId, Operation, Outcome, Ring};
use standpipe::end::End;
use standpipe::pipe::pipe;

fn is_readable(ring: &mut Ring) -> bool {
    let fd = ring.pollable().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

/// A pipe whose lane is in use, and a descriptor of its write end that nobody knows of.
struct Own {
    ring: Ring,
    reader: EndId,
    writer: EndId,
    unknown: OwnedFd,
}

impl Own {
    fn new() -> Self {
        let mut ring = Ring::new(8).unwrap();
        let (reader, writer) = pipe().unwrap();
        let unknown = rustix::io::dup(&writer).unwrap();
        let (reader, writer) = (ring.attach(reader), ring.attach(writer));
        let mut own = Self {
            ring,
            reader,
            writer,
            unknown,
        };
        (0..1000).for_each(|_| own.pass());
        own
    }

    fn pass(&mut self) {
        self.wait_for_one_byte();
        self.ring
            .submit(2, Operation::write(self.writer, b"x"))
            .unwrap();
        while self.ring.in_flight() > 0 {
            self.ring.wait(None).unwrap().for_each(drop);
        }
        self.ring.reap().unwrap().for_each(drop);
    }

    fn wait_for_one_byte(&mut self) {
        let read = Operation::read(self.reader, vec![0]);
        self.ring.submit(1, read).unwrap();
        assert_eq!(self.ring.reap().unwrap().count(), 0);
    }

    fn expect_one_byte(&mut self) {
        assert!(is_readable(&mut self.ring));
        let completions: Vec<_> = self.ring.reap().unwrap().collect();
        assert_eq!(completions.len(), 1);
        assert_eq!(*completions[0].result.as_ref().unwrap(), Outcome::Bytes(1));
    }
}

#[test]
fn a_ring_rings_no_bell_for_itself() {
    let mut own = Own::new();
    let writer = own.ring.detach(own.writer).unwrap();
    let stats = writer.stats();
    assert!(stats.bytes > 100, "most went through the lane: {stats:?}");
    assert_eq!(stats.wakeups_sent, 0);
}

#[test]
fn bytes_beside_the_lane_complete_a_read_that_waits() {
    let mut own = Own::new();
    own.ring.pollable().unwrap();
    own.wait_for_one_byte();
    assert!(!is_readable(&mut own.ring));
    rustix::io::write(&own.unknown, b"y").unwrap();
    own.expect_one_byte();
}

#[test]
fn bytes_that_came_beside_the_lane_while_nobody_read_are_found() {
    let mut own = Own::new();
    own.ring.pollable().unwrap();
    rustix::io::write(&own.unknown, b"y").unwrap();
    // The ring is told, and has nothing to do with it.
    assert_eq!(own.ring.reap().unwrap().count(), 0);
    let read = Operation::read(own.reader, vec![0]);
    own.ring.submit(1, read).unwrap();
    own.expect_one_byte();
}

#[test]
fn an_end_that_comes_later_wakes_the_ring() {
    let mut own = Own::new();
    own.ring.pollable().unwrap();
    own.wait_for_one_byte();
    assert!(!is_readable(&mut own.ring));
    let mut end = End::from_fd(own.unknown.try_clone().unwrap()).unwrap();
    assert!(is_readable(&mut own.ring), "somebody else may write now");
    assert_eq!(own.ring.reap().unwrap().count(), 0);
    assert!(!is_readable(&mut own.ring));
    end.write_all(b"y").unwrap();
    own.expect_one_byte();
}

#[test]
fn an_end_that_is_detached_wakes_the_ring() {
    let mut own = Own::new();
    own.wait_for_one_byte();
    let mut writer = own.ring.detach(own.writer).unwrap();
    own.ring.pollable().unwrap();
    assert!(!is_readable(&mut own.ring));
    writer.write_all(b"y").unwrap();
    own.expect_one_byte();
    own.wait_for_one_byte();
    drop((writer, std::mem::replace(&mut own.unknown, devnull())));
    assert!(is_readable(&mut own.ring));
    let end = own.ring.reap().unwrap().next().unwrap();
    assert_eq!(end.result.unwrap(), Outcome::Bytes(0));
}

fn devnull() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}
