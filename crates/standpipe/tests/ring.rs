//! The completion ring: operations that complete, bad input, order, fairness, cancels.

mod common;

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use common::once_asleep;
use rustix::event::{PollFd, Timespec, poll};
use standpipe::completion::{
    Buffer, Buffers, Completion, EndId, Failure, Operation, Outcome, PollFlags, Ring, SubmitError,
};
use standpipe::end::End;
use standpipe::pipe::{Builder, pipe};

/// So long at most: longer than any machine takes.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn read(end: EndId, bytes: usize) -> Operation {
    Operation::read(end, vec![0; bytes])
}

fn write(end: EndId, bytes: &[u8]) -> Operation {
    Operation::write(end, bytes)
}

fn ring_with_pipe() -> (Ring, EndId, EndId) {
    let mut ring = Ring::new(64).unwrap();
    let (reader, writer) = pipe().unwrap();
    let (reader, writer) = (ring.attach(reader), ring.attach(writer));
    (ring, reader, writer)
}

/// All completions until nothing is under way.
fn finish(ring: &mut Ring) -> Vec<Completion> {
    let mut all = Vec::new();
    while ring.in_flight() > 0 {
        let before = all.len();
        all.extend(ring.wait(LONG).unwrap());
        assert!(all.len() > before, "nothing completes of {ring:?}");
    }
    all.extend(ring.reap().unwrap());
    all
}

fn one(ring: &mut Ring) -> Completion {
    let completion = ring.wait(LONG).unwrap().next();
    completion.expect("a completion")
}

fn bytes_of(completion: Completion) -> (u64, usize, Vec<u8>) {
    let token = completion.token;
    let (bytes, buffers) = completion.into_bytes();
    match buffers {
        Buffers::One(buffer) => (token, bytes.unwrap(), buffer.into_vec()),
        other => panic!("{other:?}"),
    }
}

fn is_readable(ring: &mut Ring) -> bool {
    let fd = ring.pollable().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn a_read_of_an_empty_pipe_completes_when_the_ring_writes() {
    let (mut ring, reader, writer) = ring_with_pipe();
    for round in 0..100_u8 {
        ring.submit(1, read(reader, 10)).unwrap();
        assert!(ring.reap().unwrap().next().is_none());
        ring.submit(2, write(writer, &[round; 3])).unwrap();
        let mut all: Vec<_> = finish(&mut ring).into_iter().map(bytes_of).collect();
        all.sort();
        assert_eq!(all[0].0, 1);
        assert_eq!((all[0].1, &all[0].2[..3]), (3, &[round; 3][..]));
        assert_eq!(all[1], (2, 3, vec![round; 3]));
    }
}

#[test]
fn a_read_completes_when_a_thread_writes() {
    let (reader, mut writer) = pipe().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let reader = ring.attach(reader);
    for round in 0..20_u8 {
        ring.submit(7, read(reader, 10)).unwrap();
        let completion = once_asleep(|| one(&mut ring), |_| writer.write_all(&[round]).unwrap());
        let (token, bytes, buffer) = bytes_of(completion);
        assert_eq!((token, bytes, buffer[0]), (7, 1, round));
    }
}

#[test]
fn a_write_of_more_than_fits_completes_when_a_thread_has_read() {
    let (mut reader, writer) = Builder::new().capacity_bytes(4096).build().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let writer = ring.attach(writer);
    let sent: Vec<u8> = (0..100_000).map(|i: u32| i as u8).collect();
    ring.submit(1, write(writer, &sent)).unwrap();
    assert_eq!(ring.in_flight(), 1);
    let mut received = vec![0; sent.len()];
    let completion = std::thread::scope(|scope| {
        let ring = scope.spawn(|| one(&mut ring));
        reader.read_exact(&mut received).unwrap();
        ring.join().unwrap()
    });
    assert_eq!(bytes_of(completion).1, sent.len());
    assert_eq!(received, sent);
}

#[test]
fn kernel_pipes_and_programs_without_the_lane() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut writer = File::from(writer);
    let mut ring = Ring::new(8).unwrap();
    let reader = ring.attach(End::from_fd(reader).unwrap());
    ring.submit(1, read(reader, 8)).unwrap();
    let completion = once_asleep(|| one(&mut ring), |_| writer.write_all(b"abc").unwrap());
    assert_eq!(bytes_of(completion).1, 3);
    // A blocking end of which others may have the description: its mode is theirs.
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut reader = File::from(reader);
    let writer = ring.attach(End::from_fd(writer).unwrap());
    ring.submit(2, write(writer, &vec![1; 200_000])).unwrap();
    let mut received = vec![0; 200_000];
    let completion = std::thread::scope(|scope| {
        let ring = scope.spawn(|| one(&mut ring));
        reader.read_exact(&mut received).unwrap();
        ring.join().unwrap()
    });
    assert_eq!(bytes_of(completion).1, 200_000);
    let end = ring.detach(writer).unwrap();
    assert!(
        !rustix::fs::fcntl_getfl(&end)
            .unwrap()
            .contains(rustix::fs::OFlags::NONBLOCK)
    );
}

#[test]
fn the_modes_of_others_stay() {
    let (reader, mut writer) = pipe().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let id = ring.attach(reader);
    ring.submit(1, read(id, 1)).unwrap();
    let reader = ring.detach(id).unwrap();
    assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
    // It waits again.
    let mut byte = [0];
    once_asleep(
        || (&reader).read_exact(&mut byte).unwrap(),
        |_| writer.write_all(b"x").unwrap(),
    );
    assert_eq!(&byte, b"x");
}

#[test]
fn the_ends_of_a_stream() {
    let (mut ring, reader, writer) = ring_with_pipe();
    ring.submit(1, read(reader, 4)).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    drop(ring.detach(writer));
    assert_eq!(bytes_of(one(&mut ring)).1, 0);

    let (reader, writer) = Builder::new().capacity_bytes(4096).build().unwrap();
    let writer = ring.attach(writer);
    ring.submit(2, write(writer, &[0; 4096])).unwrap();
    one(&mut ring);
    ring.submit(3, write(writer, &[0; 1])).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    drop(reader);
    let (broken, buffers) = one(&mut ring).into_bytes();
    assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(buffers, Buffers::One(vec![0].into()));
}

#[test]
fn operations_on_one_end_keep_their_order() {
    let (reader, writer) = Builder::new().capacity_bytes(4096).build().unwrap();
    let mut ring = Ring::new(100).unwrap();
    let (reader, writer) = (ring.attach(reader), ring.attach(writer));
    // Large ones, that have to wait, and small ones behind, which would fit.
    for token in 0..10_u8 {
        let bytes = if token % 2 == 0 { 6000 } else { 10 };
        ring.submit(token.into(), write(writer, &vec![token; bytes]))
            .unwrap();
    }
    let mut received = Vec::new();
    while received.len() < 5 * 6010 {
        ring.submit(100, read(reader, 777)).unwrap();
        for (token, bytes, buffer) in finish_one(&mut ring, 100).into_iter().map(bytes_of) {
            if token == 100 {
                received.extend_from_slice(&buffer[..bytes]);
            }
        }
    }
    let expected: Vec<u8> = (0..10)
        .flat_map(|token| vec![token; if token % 2 == 0 { 6000 } else { 10 }])
        .collect();
    assert_eq!(received, expected);
}

/// Completions up to that of `token`.
fn finish_one(ring: &mut Ring, token: u64) -> Vec<Completion> {
    let mut all: Vec<Completion> = Vec::new();
    while all.iter().all(|completion| completion.token != token) {
        all.extend(ring.wait(LONG).unwrap());
    }
    all
}

#[test]
fn vectored_ones_fill_their_buffers_in_order() {
    let (mut ring, reader, writer) = ring_with_pipe();
    let room = [vec![0; 2], vec![], vec![0; 5]];
    ring.submit(1, Operation::read_vectored(reader, room))
        .unwrap();
    let parts = [&b"hel"[..], b"lo"];
    ring.submit(2, Operation::write_vectored(writer, parts))
        .unwrap();
    let mut all = finish(&mut ring);
    all.sort_by_key(|completion| completion.token);
    let (bytes, buffers) = all.remove(0).into_bytes();
    assert_eq!(bytes.unwrap(), 5);
    let expected = [&b"he"[..], b"", b"llo\0\0"];
    assert_eq!(buffers, Buffers::Many(expected.map(Buffer::from).into()));
}

#[test]
fn bad_input_is_refused_and_given_back() {
    let (mut ring, reader, writer) = ring_with_pipe();
    let mut refused = |token, operation| {
        let rejected = ring.submit(token, operation).unwrap_err();
        assert_eq!(ring.in_flight(), 0);
        (rejected.reason, rejected.operation)
    };
    let (reason, operation) = refused(1, write(reader, b"abc"));
    assert_eq!(reason, SubmitError::WrongDirection);
    assert!(matches!(operation, Operation::Write { buffer, .. } if buffer == b"abc"));
    assert_eq!(refused(1, read(writer, 1)).0, SubmitError::WrongDirection);
    assert_eq!(refused(1, read(reader, 0)).0, SubmitError::ZeroLength);
    assert_eq!(refused(1, write(writer, b"")).0, SubmitError::ZeroLength);
    let many = Operation::WriteVectored {
        end: writer,
        buffers: vec![vec![1]; 1025].into_iter().map(Into::into).collect(),
    };
    assert_eq!(refused(1, many).0, SubmitError::TooManyBuffers(1025));
    ring.submit(1, read(reader, 1)).unwrap();
    let again = ring.submit(1, write(writer, b"x")).unwrap_err();
    assert_eq!(again.reason, SubmitError::TokenInUse(1));
    ring.submit(2, write(writer, b"x")).unwrap();
    // Complete, but not reaped.
    let again = ring.submit(2, write(writer, b"x")).unwrap_err();
    assert_eq!(again.reason, SubmitError::TokenInUse(2));
    finish(&mut ring);
    ring.submit(2, write(writer, b"x")).unwrap();
    drop(ring.detach(reader));
    let gone = ring.submit(3, read(reader, 1)).unwrap_err();
    assert_eq!(gone.reason, SubmitError::NoSuchEnd);
    assert_eq!(
        Ring::new(0).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    let mut ring = Ring::new(4).unwrap();
    let (reader, writer) = pipe().unwrap();
    let (reader, writer) = (ring.attach(reader), ring.attach(writer));
    for token in 0..4 {
        ring.submit(token, write(writer, &[token as u8])).unwrap();
    }
    assert_eq!(ring.free_places(), 0);
    let full = ring.submit(9, write(writer, b"x")).unwrap_err();
    assert_eq!(full.reason, SubmitError::Full(4));
    // One is looked at: the others stay.
    assert_eq!(ring.reap().unwrap().next().unwrap().token, 0);
    assert_eq!(ring.free_places(), 1);
    ring.submit(4, read(reader, 100)).unwrap();
    let all: Vec<_> = finish(&mut ring).into_iter().map(bytes_of).collect();
    assert_eq!(all.iter().map(|of| of.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(all[3].2[..all[3].1], [0, 1, 2, 3]);
}

#[test]
fn a_cancelled_read_took_nothing() {
    let (mut ring, reader, writer) = ring_with_pipe();
    ring.submit(1, read(reader, 4)).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    ring.submit(2, Operation::Cancel { token: 1 }).unwrap();
    ring.submit(3, write(writer, b"kept")).unwrap();
    let all: Vec<_> = ring.reap().unwrap().collect();
    assert!(matches!(all[0].result, Err(Failure::Cancelled)));
    assert_eq!(all[0].buffers, Buffers::One(vec![0; 4].into()));
    assert_eq!(all[1].result.as_ref().unwrap(), &Outcome::Cancelled);
    ring.submit(1, read(reader, 10)).unwrap();
    assert_eq!(&bytes_of(one(&mut ring)).2[..4], b"kept");
    // Complete, never there, itself.
    for token in [3, 77, 5] {
        ring.submit(5, Operation::Cancel { token }).unwrap();
        let failure = one(&mut ring).result.unwrap_err();
        assert!(matches!(failure, Failure::NotFound(of) if of == token));
    }
}

#[test]
fn a_cancelled_write_says_what_it_wrote() {
    let (reader, writer) = Builder::new().capacity_bytes(4096).build().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let writer = ring.attach(writer);
    ring.submit(1, write(writer, &[1; 10_000])).unwrap();
    ring.submit(2, write(writer, &[2; 10])).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    for token in [1, 2] {
        ring.submit(8, Operation::Cancel { token }).unwrap();
        let mut all: Vec<_> = ring.reap().unwrap().collect();
        let cancelled = all.remove(all.iter().position(|of| of.token == token).unwrap());
        match token {
            1 => assert_eq!(bytes_of(cancelled).1, 4096),
            _ => assert!(matches!(cancelled.result, Err(Failure::Cancelled))),
        }
    }
    drop(ring);
    let mut all = Vec::new();
    (&reader).read_to_end(&mut all).unwrap();
    assert_eq!(all, vec![1; 4096]);
}

#[test]
fn a_cancel_lets_the_next_one_go() {
    let (mut reader, writer) = Builder::new().capacity_bytes(8192).build().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let writer = ring.attach(writer);
    ring.submit(1, write(writer, &[1; 5000])).unwrap();
    // Must go in as a whole, and does not fit; what is behind it would.
    ring.submit(2, write(writer, &[2; 4000])).unwrap();
    ring.submit(3, write(writer, &[3; 100])).unwrap();
    assert_eq!(ring.reap().unwrap().count(), 1);
    assert!(ring.reap().unwrap().next().is_none());
    ring.submit(4, Operation::Cancel { token: 2 }).unwrap();
    let tokens: Vec<_> = finish(&mut ring).iter().map(|of| of.token).collect();
    assert_eq!(tokens, [2, 4, 3]);
    drop(ring);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert_eq!(all, [vec![1; 5000], vec![3; 100]].concat());
}

#[test]
fn a_ring_full_of_what_waits_can_be_cancelled() {
    let mut ring = Ring::new(1).unwrap();
    let (reader, _writer) = pipe().unwrap();
    let reader = ring.attach(reader);
    ring.submit(1, read(reader, 1)).unwrap();
    let full = ring.submit(2, Operation::Cancel { token: 1 }).unwrap_err();
    assert_eq!(full.reason, SubmitError::Full(1));
    assert!(ring.cancel(1));
    assert!(!ring.cancel(1));
    assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
}

#[test]
fn dropping_the_ring_cancels() {
    let (mut ring, reader, writer) = ring_with_pipe();
    ring.submit(1, read(reader, 1)).unwrap();
    let writer = ring.detach(writer).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    drop(ring);
    let broken = (&writer).write(b"x").unwrap_err();
    assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_busy_pipe_starves_nobody() {
    const BUSY: u64 = 200;
    let mut ring = Ring::new(512).unwrap();
    let mut busy_pipe = || {
        let (reader, writer) = pipe().unwrap();
        (ring.attach(reader), writer)
    };
    // The first and the last to be ready.
    let (first, last) = (busy_pipe(), busy_pipe());
    let others: Vec<_> = (0..10)
        .map(|_| {
            let (reader, writer) = pipe().unwrap();
            (ring.attach(reader), writer)
        })
        .collect();
    for token in 0..BUSY {
        ring.submit(token, read(first.0, 1)).unwrap();
        ring.submit(BUSY + token, read(last.0, 1)).unwrap();
    }
    for (token, (reader, _)) in (1000..).zip(&others) {
        ring.submit(token, read(*reader, 1)).unwrap();
    }
    // All are armed.
    assert!(ring.reap().unwrap().next().is_none());
    (&first.1).write_all(&[0; BUSY as usize]).unwrap();
    for (_, writer) in &others {
        (&*writer).write_all(b"x").unwrap();
    }
    (&last.1).write_all(&[0; BUSY as usize]).unwrap();
    let all = finish(&mut ring);
    let last_other = all.iter().rposition(|of| of.token >= 1000).unwrap();
    // One of each busy pipe's for each turn of the others.
    assert!(last_other <= 3 * others.len(), "at {last_other}");
}

#[test]
fn who_is_served_from_outside_is_not_starved_by_ends_that_serve_each_other() {
    let (mut ring, reader, writer) = ring_with_pipe();
    let (outside, mut thread) = pipe().unwrap();
    let outside = ring.attach(outside);
    ring.submit(1, read(outside, 1)).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    thread.write_all(b"x").unwrap();
    let mut reaps = 0;
    loop {
        ring.submit(2, read(reader, 1)).unwrap();
        ring.submit(3, write(writer, b"y")).unwrap();
        reaps += 1;
        if ring.reap().unwrap().any(|completion| completion.token == 1) {
            break;
        }
        assert!(reaps < 16, "starved");
    }
}

#[test]
fn the_descriptor_is_readable_when_there_is_something_to_reap() {
    let (mut ring, reader, writer) = ring_with_pipe();
    assert!(!is_readable(&mut ring));
    ring.submit(1, write(writer, b"x")).unwrap();
    assert!(is_readable(&mut ring));
    assert_eq!(ring.reap().unwrap().count(), 1);
    // A reap that gives nothing makes it quiet.
    assert_eq!(ring.reap().unwrap().count(), 0);
    assert!(!is_readable(&mut ring));
    // A reader that nobody asked to read keeps nobody awake.
    ring.submit(2, read(reader, 1)).unwrap();
    assert_eq!(ring.reap().unwrap().count(), 1);
    assert_eq!(ring.reap().unwrap().count(), 0);
    ring.submit(3, read(reader, 1)).unwrap();
    let mut thread = ring.detach(writer).unwrap();
    while is_readable(&mut ring) {
        assert_eq!(ring.reap().unwrap().count(), 0);
    }
    thread.write_all(b"y").unwrap();
    assert!(is_readable(&mut ring));
    // Not all is looked at: it stays readable.
    assert_eq!(ring.reap().unwrap().next().unwrap().token, 3);
    ring.submit(
        4,
        Operation::Timeout {
            after: Duration::ZERO,
        },
    )
    .unwrap();
    let fd = ring.pollable().unwrap();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
    assert_eq!(ring.reap().unwrap().next().unwrap().token, 4);
}

#[test]
fn bytes_that_nobody_asked_for_keep_nobody_awake() {
    let (reader, mut writer) = pipe().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let reader = ring.attach(reader);
    ring.pollable().unwrap();
    ring.submit(1, read(reader, 1)).unwrap();
    assert!(ring.cancel(1));
    writer.write_all(b"x").unwrap();
    assert_eq!(ring.reap().unwrap().count(), 1);
    // What was armed may be told once.
    assert_eq!(ring.reap().unwrap().count(), 0);
    assert!(!is_readable(&mut ring));
    ring.submit(2, read(reader, 1)).unwrap();
    assert_eq!(ring.reap().unwrap().next().unwrap().token, 2);
}

#[test]
fn who_polls_is_woken_without_asking_again() {
    let (reader, mut writer) = pipe().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let reader = ring.attach(reader);
    let fd = ring.pollable().unwrap().try_clone_to_owned().unwrap();
    for _ in 0..20 {
        ring.submit(1, read(reader, 1)).unwrap();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        once_asleep(
            || while poll(&mut fds, None).unwrap() == 0 {},
            |_| writer.write_all(b"x").unwrap(),
        );
        assert_eq!(ring.reap().unwrap().count(), 1);
        assert_eq!(ring.reap().unwrap().count(), 0);
    }
}

/// A read waits for the kernel pipe alone; another reader of the process makes a lane, and what is written
/// then goes there.
#[test]
fn a_lane_that_comes_while_a_read_waits_is_heard_of() {
    let (reader, mut writer) = pipe().unwrap();
    let other = End::from_fd(rustix::io::dup(&reader).unwrap()).unwrap();
    let mut ring = Ring::new(8).unwrap();
    let reader = ring.attach(reader);
    ring.pollable().unwrap();
    ring.submit(1, read(reader, 1)).unwrap();
    assert!(!is_readable(&mut ring));
    make_lane(&other);
    assert!(is_readable(&mut ring), "there is a lane now");
    assert_eq!(ring.reap().unwrap().count(), 0);
    assert!(!is_readable(&mut ring), "it was heard of");
    writer.write_all(b"x").unwrap();
    assert!(is_readable(&mut ring), "bytes in the lane");
    assert_eq!(ring.reap().unwrap().count(), 1);
}

#[test]
fn a_nested_ring_wakes() {
    use rustix::event::epoll;
    let (reader, mut writer) = pipe().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let reader = ring.attach(reader);
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = epoll::EventData::new_u64(5);
    epoll::add(
        &outer,
        ring.pollable().unwrap(),
        data,
        epoll::EventFlags::IN,
    )
    .unwrap();
    ring.submit(1, read(reader, 1)).unwrap();
    let wait = || {
        let mut events = Vec::with_capacity(4);
        epoll::wait(&outer, rustix::buffer::spare_capacity(&mut events), None).unwrap()
    };
    once_asleep(wait, |_| writer.write_all(b"x").unwrap());
    assert_eq!(ring.reap().unwrap().next().unwrap().token, 1);
}

#[test]
fn polls_complete_with_the_events() {
    let (mut ring, reader, writer) = ring_with_pipe();
    let events = PollFlags::IN;
    ring.submit(
        1,
        Operation::Poll {
            end: reader,
            events,
        },
    )
    .unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    ring.submit(2, write(writer, b"x")).unwrap();
    let all = finish(&mut ring);
    let of_poll = all.iter().find(|of| of.token == 1).unwrap();
    assert_eq!(
        of_poll.result.as_ref().unwrap(),
        &Outcome::Events(PollFlags::IN)
    );
    // The loss of the last peer comes unasked.
    let events = PollFlags::empty();
    ring.submit(
        1,
        Operation::Poll {
            end: reader,
            events,
        },
    )
    .unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    drop(ring.detach(writer));
    let completion = one(&mut ring);
    assert!(
        matches!(completion.result, Ok(Outcome::Events(events)) if events.contains(PollFlags::HUP))
    );
}

#[test]
fn timeouts_expire_in_their_order() {
    let mut ring = Ring::new(8).unwrap();
    let start = Instant::now();
    for (token, ms) in [(1, 30), (2, 10), (3, 20)] {
        let after = Duration::from_millis(ms);
        ring.submit(token, Operation::Timeout { after }).unwrap();
    }
    let after = Duration::MAX;
    ring.submit(4, Operation::Timeout { after }).unwrap();
    ring.submit(5, Operation::Cancel { token: 4 }).unwrap();
    let tokens: Vec<_> = finish(&mut ring).iter().map(|of| of.token).collect();
    assert_eq!(tokens, [4, 5, 2, 3, 1]);
    assert!(start.elapsed() >= Duration::from_millis(30));
}

#[test]
fn waiting_ends_when_its_time_is_up() {
    let (mut ring, reader, _) = ring_with_pipe();
    // Nothing to wait for.
    assert_eq!(ring.wait(None).unwrap().count(), 0);
    ring.submit(1, read(reader, 1)).unwrap();
    let start = Instant::now();
    let time = Duration::from_millis(20);
    assert_eq!(ring.wait(Some(time)).unwrap().count(), 0);
    assert!(start.elapsed() >= time);
}

#[test]
fn a_multishot_read_gives_each_arrival_and_keeps_within_the_places() {
    const PLACES: usize = 4;
    let mut ring = Ring::new(PLACES).unwrap();
    let (reader, mut writer) = pipe().unwrap();
    let reader = ring.attach(reader);
    let shots = Operation::ReadMultishot {
        end: reader,
        chunk_bytes: 10,
    };
    ring.submit(1, shots).unwrap();
    let sent: Vec<u8> = (0..200).collect();
    writer.write_all(&sent).unwrap();
    drop(writer);
    let mut received = Vec::new();
    loop {
        let batch: Vec<_> = ring.wait(LONG).unwrap().collect();
        assert!(batch.len() <= PLACES);
        let is_last = batch.last().unwrap().is_last;
        for completion in batch {
            let (bytes, buffers) = completion.into_bytes();
            if let Buffers::One(buffer) = buffers {
                assert_eq!(buffer.len(), bytes.unwrap());
                received.extend_from_slice(&buffer);
            }
        }
        if is_last {
            break;
        }
    }
    assert_eq!(received, sent);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_multishot_read_gets_on_where_all_other_places_wait_for_it() {
    let mut ring = Ring::new(1).unwrap();
    let (reader, mut writer) = pipe().unwrap();
    let end = ring.attach(reader);
    let chunk_bytes = 4;
    ring.submit(1, Operation::ReadMultishot { end, chunk_bytes })
        .unwrap();
    for _ in 0..3 {
        writer.write_all(b"abcd").unwrap();
        let completion = one(&mut ring);
        assert!(!completion.is_last);
        assert_eq!(bytes_of(completion).2, b"abcd");
    }
}

#[test]
fn links_go_one_after_another() {
    let (mut ring, reader, writer) = ring_with_pipe();
    let after = Duration::from_millis(5);
    let links = vec![
        (1, read(reader, 1)),
        (2, Operation::Timeout { after }),
        (3, read(reader, 1)),
    ];
    ring.submit_linked(links).unwrap();
    ring.submit(4, write(writer, b"ab")).unwrap();
    let tokens: Vec<_> = finish(&mut ring).iter().map(|of| of.token).collect();
    assert_eq!(tokens, [4, 1, 2, 3]);
    // One that fails takes the rest with it, as a cancelled one does.
    let links = vec![
        (1, read(reader, 1)),
        (2, write(writer, b"never")),
        (3, write(writer, b"never")),
    ];
    ring.submit_linked(links).unwrap();
    ring.submit(4, Operation::Cancel { token: 2 }).unwrap();
    ring.submit(5, Operation::Cancel { token: 1 }).unwrap();
    let all = finish(&mut ring);
    let brief: Vec<_> = all
        .iter()
        .map(|of| (of.token, matches!(of.result, Err(Failure::LinkBroken))))
        .collect();
    assert_eq!(
        brief,
        [(2, false), (3, true), (4, false), (1, false), (5, false)]
    );
    // Refused as a whole.
    let links = vec![(1, read(reader, 1)), (1, read(reader, 1))];
    let rejected = ring.submit_linked(links).unwrap_err();
    assert_eq!(rejected.reason, SubmitError::TokenInUse(1));
    assert_eq!((rejected.index, rejected.links.len()), (1, 2));
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_long_chain_does_not_take_a_long_stack() {
    const LINKS: u64 = 50_000;
    let mut ring = Ring::new(LINKS as usize).unwrap();
    let after = Duration::ZERO;
    let links = (0..LINKS).map(|token| (token, Operation::Cancel { token: LINKS }));
    let mut links: Vec<_> = links.collect();
    links[0].1 = Operation::Timeout { after };
    // Quadratic checks of the tokens of a chain would take minutes.
    ring.submit_linked(links).unwrap();
    assert_eq!(finish(&mut ring).len(), LINKS as usize);
}

#[test]
fn both_ways_through_a_fifo() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    standpipe::fifo::create(&path, 0o600).unwrap();
    let both = standpipe::fifo::open_both(&path).unwrap();
    let mut ring = Ring::new(8).unwrap();
    let both = ring.attach(both);
    ring.submit(1, read(both, 300_000)).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    let sent: Vec<u8> = (0..300_000_u32).map(|i| (i / 7) as u8).collect();
    ring.submit(2, write(both, &sent)).unwrap();
    let mut received = Vec::new();
    while received.len() < sent.len() {
        for completion in finish_one(&mut ring, 1) {
            if completion.token == 1 {
                let (_, bytes, buffer) = bytes_of(completion);
                received.extend_from_slice(&buffer[..bytes]);
            }
        }
        if received.len() < sent.len() {
            ring.submit(1, read(both, 300_000)).unwrap();
        }
    }
    assert_eq!(received, sent);
}

#[test]
fn who_polls_hears_of_a_read_that_had_found_no_place() {
    let mut ring = Ring::new(3).unwrap();
    let (reader, mut writer) = pipe().unwrap();
    let end = ring.attach(reader);
    let descriptor = ring.pollable().unwrap().try_clone_to_owned().unwrap();
    let is_told = || {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    };
    writer.write_all(b"abcdefgh").unwrap();
    let chunk_bytes = 4;
    ring.submit(1, Operation::ReadMultishot { end, chunk_bytes })
        .unwrap();
    // Both places are taken: it is not tried again until they are free.
    assert_eq!(ring.reap().unwrap().count(), 2);
    assert!(!is_told());
    writer.write_all(b"late").unwrap();
    assert!(is_told());
    assert_eq!(bytes_of(one(&mut ring)).2, b"late");
}

#[test]
fn what_is_linked_behind_a_write_that_was_cut_short_is_not_begun() {
    let (_reader, writer) = Builder::new().capacity_bytes(4096).build().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let writer = ring.attach(writer);
    let after = Duration::ZERO;
    let links = vec![
        (1, Operation::write(writer, vec![1; 10_000])),
        (2, Operation::Timeout { after }),
    ];
    ring.submit_linked(links).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    assert!(ring.cancel(1));
    let all = finish(&mut ring);
    assert!(matches!(all[0].result, Ok(Outcome::Bytes(4096))));
    assert!(matches!(all[1].result, Err(Failure::LinkBroken)));
}

/// A lane comes that none of the rings made: before it waits, a reader has made one, whoever else is at it.
fn make_lane(mut reader: &End) {
    reader.set_timeout(Some(Duration::from_millis(1)));
    let error = reader.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn two_rings_that_wait_for_the_same_kernel_pipe_both_hear_of_its_lane() {
    let (reader, mut writer) = pipe().unwrap();
    let reader = End::from(reader);
    let mut rings = [(); 2].map(|()| Ring::new(8).unwrap());
    for ring in &mut rings {
        let end = ring.attach(reader.try_clone().unwrap());
        ring.submit(1, read(end, 1)).unwrap();
        assert!(!is_readable(ring));
    }
    make_lane(&reader);
    for ring in &mut rings {
        assert!(is_readable(ring));
        assert_eq!(ring.reap().unwrap().len(), 0);
        assert!(!is_readable(ring));
    }
    // Into the lane: what waits for the kernel pipe alone does not hear of it.
    writer.write_all(b"ab").unwrap();
    for ring in &mut rings {
        assert!(is_readable(ring));
        assert_eq!(ring.reap().unwrap().len(), 1);
    }
}

#[test]
fn an_end_hears_of_a_lane_when_another_one_of_its_pipe_does_not_wait_any_more() {
    let (reader, mut writer) = pipe().unwrap();
    let reader = End::from(reader);
    let mut ring = Ring::new(8).unwrap();
    let [stays, goes] = [1, 2].map(|token| {
        let end = ring.attach(reader.try_clone().unwrap());
        ring.submit(token, read(end, 1)).unwrap();
        end
    });
    assert!(!is_readable(&mut ring));
    drop(ring.detach(goes).unwrap());
    assert_eq!(one(&mut ring).token, 2);
    assert!(!is_readable(&mut ring));
    make_lane(&reader);
    writer.write_all(b"a").unwrap();
    assert!(is_readable(&mut ring));
    assert_eq!(ring.reap().unwrap().next().unwrap().token, 1);
    drop(ring.detach(stays).unwrap());
}

/// What of it waits for room is not told of by its descriptor.
#[test]
fn who_polls_hears_of_room_in_an_end_that_reads_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    standpipe::fifo::create(&path, 0o600).unwrap();
    let both = standpipe::fifo::open_both(&path).unwrap();
    both.set_nonblocking(true).unwrap();
    common::fill(&both);
    let mut program = File::open(&path).unwrap();
    let mut ring = Ring::new(8).unwrap();
    let end = ring.attach(both);
    let descriptor = ring.pollable().unwrap().try_clone_to_owned().unwrap();
    let events = PollFlags::OUT;
    ring.submit(1, Operation::Poll { end, events }).unwrap();
    assert_eq!(ring.reap().unwrap().count(), 0);
    assert!(program.read(&mut vec![0; 65536]).unwrap() > 0);
    let a_minute = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    let completion = loop {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        assert!(poll(&mut fds, Some(&a_minute)).unwrap() > 0, "not told");
        if let Some(completion) = ring.reap().unwrap().next() {
            break completion;
        }
    };
    assert_eq!(completion.result.unwrap(), Outcome::Events(events));
}

#[test]
fn a_multishot_read_of_any_size_takes_memory_for_what_may_come() {
    let (mut ring, end, writer) = ring_with_pipe();
    let chunk_bytes = usize::MAX;
    ring.submit(1, Operation::ReadMultishot { end, chunk_bytes })
        .unwrap();
    ring.submit(2, write(writer, b"hello")).unwrap();
    let arrived = |completion: &Completion| completion.token == 1;
    let arrival = ring.wait(LONG).unwrap().find(arrived).unwrap();
    assert_eq!(bytes_of(arrival).2, b"hello");
}

/// However much one pipe has: whoever reaps is told of others, and of the time, in between.
#[test]
fn a_reap_ends_after_so_many_turns() {
    const READS: u64 = 10_000;
    let (reader, mut writer) = pipe().unwrap();
    let mut ring = Ring::new(READS as usize).unwrap();
    let reader = ring.attach(reader);
    for token in 0..READS {
        ring.submit(token, read(reader, 1)).unwrap();
    }
    assert_eq!(ring.reap().unwrap().count(), 0);
    writer.write_all(&[0; READS as usize]).unwrap();
    let mut tokens = 0..READS;
    let first: Vec<_> = ring.wait(LONG).unwrap().collect();
    assert!(first.len() < READS as usize / 2, "all at once");
    for completion in first.into_iter().chain(finish(&mut ring)) {
        assert_eq!(Some(completion.token), tokens.next());
    }
    assert_eq!(tokens.next(), None);
}

/// Others had a lane made, and wrote there. When the ring hears of it they are gone, and all ends its own.
#[test]
fn what_others_wrote_who_are_gone_is_heard_of() {
    let (reader, writer) = pipe().unwrap();
    let other_reader = End::from(reader.try_clone().unwrap());
    let mut other_writer = writer.try_clone().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let (reader, _writer) = (ring.attach(reader), ring.attach(writer));
    let descriptor = ring.pollable().unwrap().try_clone_to_owned().unwrap();
    ring.submit(1, read(reader, 1)).unwrap();
    assert_eq!(ring.reap().unwrap().count(), 0);
    make_lane(&other_reader);
    other_writer.write_all(b"y").unwrap();
    assert_eq!(other_writer.stats().bytes, 1, "not in the lane");
    drop((other_reader, other_writer));
    let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
    assert!(poll(&mut fds, Some(&Timespec::default())).unwrap() > 0);
    let completion = ring.reap().unwrap().next().expect("a completion");
    assert_eq!(bytes_of(completion).2, b"y");
}
