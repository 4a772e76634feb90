//! Many pipes with one peer, that is killed: each operation completes once, as it must.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use standpipe::completion::{Completion, EndId, Failure, Operation, Outcome, PollFlags, Ring};
use standpipe::pipe::{ReadEnd, WriteEnd, pipe};

use super::{LONG, child, kill};

const PIPES: usize = 40;

/// More than a pipe holds.
const MUCH: usize = 1 << 20;

fn pipes(count: usize) -> (Vec<ReadEnd>, Vec<WriteEnd>) {
    (0..count).map(|_| pipe().unwrap()).unzip()
}

/// All completions until nothing is under way, by token: one each.
fn finish(ring: &mut Ring) -> BTreeMap<u64, Completion> {
    let mut all = BTreeMap::new();
    while ring.in_flight() > 0 || ring.free_places() < ring.capacity() {
        let batch: Vec<_> = ring.wait(LONG).unwrap().collect();
        assert!(!batch.is_empty(), "nothing completes of {ring:?}");
        for completion in batch {
            assert!(completion.is_last, "{completion:?}");
            let twice = all.insert(completion.token, completion);
            assert!(twice.is_none(), "{twice:?} came twice");
        }
    }
    all
}

fn never() -> Operation {
    let after = Duration::MAX;
    Operation::Timeout { after }
}

/// What waits for a peer that writes, in pairs of tokens.
fn wait_for_bytes(ring: &mut Ring, end: EndId, index: usize) {
    let token = 10 * index as u64;
    let read = Operation::read(end, vec![0; 100]);
    let events = PollFlags::IN;
    let chunk_bytes = 50;
    match index % 4 {
        0 => ring.submit(token, read).unwrap(),
        1 => {
            let shots = Operation::ReadMultishot { end, chunk_bytes };
            ring.submit(token, shots).unwrap();
        }
        2 => ring.submit(token, Operation::Poll { end, events }).unwrap(),
        _ => {
            let links = vec![(token, read), (token + 1, never())];
            ring.submit_linked(links).unwrap();
        }
    }
}

fn assert_ended(all: &mut BTreeMap<u64, Completion>, index: usize) {
    let token = 10 * index as u64;
    let result = all.remove(&token).expect("a completion").result;
    match (index % 4, result) {
        (2, Ok(Outcome::Events(events))) => assert_eq!(events, PollFlags::HUP),
        (0 | 1 | 3, Ok(Outcome::Bytes(0))) => {}
        (_, other) => panic!("{index}: {other:?}"),
    }
    if index % 4 == 3 {
        let linked = all.remove(&(token + 1)).expect("a completion").result;
        assert!(matches!(linked, Err(Failure::LinkBroken)), "{linked:?}");
    }
}

/// What waits for a peer that reads.
fn wait_for_room(ring: &mut Ring, end: EndId, index: usize) {
    let token = 10 * (PIPES + index) as u64;
    let write = Operation::write(end, vec![1; MUCH]);
    let events = PollFlags::OUT;
    if index.is_multiple_of(3) {
        let links = vec![(token, write), (token + 1, never())];
        return ring.submit_linked(links).unwrap();
    }
    ring.submit(token, write).unwrap();
    let other = match index % 3 {
        1 => Operation::write(end, b"x"),
        _ => Operation::Poll { end, events },
    };
    ring.submit(token + 1, other).unwrap();
}

fn assert_broken(all: &mut BTreeMap<u64, Completion>, index: usize) {
    let token = 10 * (PIPES + index) as u64;
    let first = all.remove(&token).expect("a completion").into_bytes().0;
    assert!((1..MUCH).contains(first.as_ref().unwrap()), "{first:?}");
    let second = all.remove(&(token + 1)).expect("a completion").result;
    match (index % 3, second) {
        (0, Err(Failure::LinkBroken)) => {}
        (1, Err(Failure::Io(error))) => assert_eq!(error.kind(), ErrorKind::BrokenPipe),
        (2, Ok(Outcome::Events(events))) => assert!(events.contains(PollFlags::ERR)),
        (_, other) => panic!("{index}: {other:?}"),
    }
}

/// Armed reads, writes, multishot reads, polls and links.
pub fn each_kind_is_completed() {
    let (readers, mut from_child) = pipes(PIPES);
    let (to_child, writers) = pipes(PIPES);
    let child = child(|| {
        for writer in &mut from_child {
            writer.write_all(b"last words").unwrap();
        }
    });
    drop((from_child, to_child));
    let mut ring = Ring::new(1000).unwrap();
    let readers: Vec<_> = readers.into_iter().map(|end| ring.attach(end)).collect();
    let writers: Vec<_> = writers.into_iter().map(|end| ring.attach(end)).collect();
    for (token, end) in (0..).zip(&readers) {
        let read = Operation::read(*end, vec![0; 100]);
        ring.submit(token, read).unwrap();
    }
    for (_, completion) in finish(&mut ring) {
        assert!(matches!(completion.result, Ok(Outcome::Bytes(10))));
    }
    for index in 0..PIPES {
        wait_for_bytes(&mut ring, readers[index], index);
        wait_for_room(&mut ring, writers[index], index);
    }
    let early = ring.reap().unwrap().next();
    assert!(early.is_none(), "{early:?}");
    kill(child);
    let mut all = finish(&mut ring);
    for index in 0..PIPES {
        assert_ended(&mut all, index);
        assert_broken(&mut all, index);
    }
    assert!(all.is_empty(), "{all:?}");
}

const BUSY: usize = 8;

/// The byte at a position.
fn byte_at(position: usize) -> u8 {
    (position % 251) as u8
}

/// Killed at any moment, in the midst of its writes.
pub fn what_a_killed_writer_wrote_comes_in_order(bytes_before: usize) {
    let (readers, mut from_child) = pipes(BUSY);
    let child = child(|| {
        let mut position = 0;
        loop {
            let bytes: Vec<u8> = (position..position + 777).map(byte_at).collect();
            for writer in &mut from_child {
                writer.write_all(&bytes).unwrap();
            }
            position += bytes.len();
        }
    });
    drop(from_child);
    // Some arrivals find no place.
    let mut ring = Ring::new(BUSY + 3).unwrap();
    for (token, reader) in (0..).zip(readers) {
        let end = ring.attach(reader);
        let chunk_bytes = 1000;
        let shots = Operation::ReadMultishot { end, chunk_bytes };
        ring.submit(token, shots).unwrap();
    }
    let mut living = Some(child);
    let mut received = [0; BUSY];
    while ring.in_flight() > 0 || ring.free_places() < ring.capacity() {
        let batch: Vec<_> = ring.wait(LONG).unwrap().collect();
        assert!(!batch.is_empty(), "nothing completes of {ring:?}");
        for completion in batch {
            let (of, is_last) = (completion.token as usize, completion.is_last);
            let (bytes, buffers) = completion.into_bytes();
            let buffer = buffers.into_first();
            assert_eq!(bytes.unwrap() == 0, is_last);
            assert!(!is_last || living.is_none(), "pipe {of} ended early");
            let at = received[of];
            let is_right = |(i, byte): (usize, &u8)| *byte == byte_at(at + i);
            assert!(buffer.iter().enumerate().all(is_right), "at {at} of {of}");
            received[of] += buffer.len();
        }
        if received.iter().sum::<usize>() >= bytes_before
            && let Some(child) = living.take()
        {
            kill(child);
        }
    }
}

/// Killed at any moment, in the midst of its reads.
pub fn what_a_killed_reader_took_is_said(bytes_before: usize) {
    let (mut to_child, writers) = pipes(BUSY);
    let child = child(|| {
        let mut room = [0; 999];
        loop {
            for reader in &mut to_child {
                reader.read_exact(&mut room).unwrap();
            }
        }
    });
    drop(to_child);
    let mut ring = Ring::new(BUSY).unwrap();
    let ends: Vec<_> = writers.into_iter().map(|end| ring.attach(end)).collect();
    let write = |ring: &mut Ring, of: usize| {
        let write = Operation::write(ends[of], vec![7; 5000]);
        ring.submit(of as u64, write).unwrap();
    };
    (0..BUSY).for_each(|of| write(&mut ring, of));
    let mut living = Some(child);
    let mut sent = 0;
    while ring.in_flight() > 0 || ring.free_places() < ring.capacity() {
        let batch: Vec<_> = ring.wait(LONG).unwrap().collect();
        assert!(!batch.is_empty(), "nothing completes of {ring:?}");
        for completion in batch {
            let of = completion.token as usize;
            match completion.into_bytes().0 {
                Ok(bytes) => {
                    assert!(bytes == 5000 || living.is_none(), "{bytes} bytes");
                    sent += bytes;
                    write(&mut ring, of);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                    assert!(living.is_none(), "pipe {of} broke early");
                }
            }
        }
        if sent >= bytes_before
            && let Some(child) = living.take()
        {
            kill(child);
        }
    }
}
