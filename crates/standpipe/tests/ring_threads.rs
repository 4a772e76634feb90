//! No thread is ever started, whatever is submitted and however long it waits. (Alone in its program:
//! others' tests have threads.)

use std::io::{Read, Write};
use std::time::Duration;

use standpipe::completion::{EndId, Operation, PollFlags, Ring};
use standpipe::end::End;
use standpipe::pipe::pipe;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// A pipe of ours, the kernel's, and a FIFO.
fn pipes() -> Vec<(End, End)> {
    let (reader, writer) = pipe().unwrap();
    let (bare_reader, bare_writer) = rustix::pipe::pipe().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    standpipe::fifo::create(&path, 0o600).unwrap();
    let both = standpipe::fifo::open_both(&path).unwrap();
    let fifo_reader = standpipe::fifo::open_read(&path).unwrap();
    let fifo_writer = standpipe::fifo::open_write(&path).unwrap();
    drop(both);
    vec![
        (reader.into(), writer.into()),
        (
            End::from_fd(bare_reader).unwrap(),
            End::from_fd(bare_writer).unwrap(),
        ),
        (fifo_reader, fifo_writer),
    ]
}

/// Every operation that an end which reads knows.
fn reads(end: EndId) -> Vec<Operation> {
    let chunk_bytes = 10;
    let events = PollFlags::IN;
    vec![
        Operation::Poll { end, events },
        Operation::read(end, vec![0; 10]),
        Operation::read_vectored(end, [vec![0; 4], vec![0; 6]]),
        Operation::ReadMultishot { end, chunk_bytes },
    ]
}

/// And one that writes.
fn writes(end: EndId) -> Vec<Operation> {
    let events = PollFlags::OUT;
    vec![
        Operation::write(end, vec![1; 1 << 20]),
        Operation::write_vectored(end, [vec![2; 1 << 20], vec![3; 10]]),
        Operation::Poll { end, events },
    ]
}

/// Submits all, each with a token of its own, and the last two linked to a time-out.
fn submit(ring: &mut Ring, tokens: &mut std::ops::RangeFrom<u64>, operations: Vec<Operation>) {
    for operation in operations {
        ring.submit(tokens.next().unwrap(), operation).unwrap();
    }
    let after = Duration::from_millis(1);
    let timeouts = [after, Duration::MAX].map(|after| Operation::Timeout { after });
    let links = tokens.by_ref().zip(timeouts).collect();
    ring.submit_linked(links).unwrap();
}

/// Reaps, asleep in between, until nothing has come for a while; no thread has come either.
fn settle(ring: &mut Ring, threads_before: usize) {
    let short = Duration::from_millis(2);
    while ring.wait(Some(short)).unwrap().count() > 0 {}
    assert_eq!(threads(), threads_before);
}

fn no_operation_takes_a_thread() {
    let before = threads();
    let mut ring = Ring::new(512).unwrap();
    let mut tokens = 0..;
    for (reader, writer) in pipes() {
        let id = ring.attach(reader);
        submit(&mut ring, &mut tokens, reads(id));
        settle(&mut ring, before);
        (&writer).write_all(&[b'x'; 100]).unwrap();
        settle(&mut ring, before);

        let writer = ring.attach(writer);
        let reader = ring.detach(id).unwrap();
        submit(&mut ring, &mut tokens, writes(writer));
        settle(&mut ring, before);
        ring.pollable().unwrap();
        (&reader).read_exact(&mut [0; 10_000]).unwrap();
        settle(&mut ring, before);
    }
    let last = tokens.next().unwrap();
    assert!((0..last).filter(|token| ring.cancel(*token)).count() > 0);
    let cancel = Operation::Cancel { token: 0 };
    ring.submit(last, cancel).unwrap();
    settle(&mut ring, before);
    assert_eq!(ring.in_flight(), 0);
}

fn waiting_for_many_takes_no_thread() {
    let before = threads();
    let mut ring = Ring::new(512).unwrap();
    let mut writers = Vec::new();
    for token in 0..128 {
        let (reader, writer) = pipe().unwrap();
        let end = ring.attach(reader);
        ring.submit(token, Operation::read(end, vec![0; 16]))
            .unwrap();
        writers.push(writer);
    }
    assert!(ring.reap().unwrap().next().is_none());
    ring.pollable().unwrap();
    assert_eq!(threads(), before);
    for writer in &mut writers {
        writer.write_all(b"x").unwrap();
    }
    assert_eq!(ring.wait(None).unwrap().count(), 128);
    assert_eq!(threads(), before);
}

/// One after the other, since they count the same threads.
#[test]
fn the_ring_starts_no_thread() {
    no_operation_takes_a_thread();
    waiting_for_many_takes_no_thread();
}
