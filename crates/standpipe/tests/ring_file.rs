//! Files of the cache in a ring: reads complete when their pages arrive, splices when all is in the pipe.

#![cfg(feature = "file")]

// A store whose reads are done when a test says so.
#[path = "../../cache/tests/common/mod.rs"]
mod script;

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, epoll, poll};
use script::{PAGE, Script, expected};
use standpipe::completion::{
    Buffers, Completion, EndId, Failure, Operation, Outcome, PollFlags, Ring, SubmitError,
};
use standpipe::file::{File, Options, Policy};
use standpipe::pipe::{Builder, pipe};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// A file over the script, that is read alone, and no further than it is asked for.
fn open(store: &Arc<Script>, cache_pages: u64) -> File {
    let cache = script::cache(cache_pages);
    let options = Options::new().policy(Policy::Off).cache(&cache);
    options.over(Arc::clone(store) as _).unwrap()
}

fn ring_with(store: &Arc<Script>) -> (Ring, EndId) {
    let mut ring = Ring::new(64).unwrap();
    let file = ring.attach_file(open(store, 256)).unwrap();
    (ring, file)
}

#[track_caller]
fn one(ring: &mut Ring) -> Completion {
    let completion = ring.wait(LONG).unwrap().next();
    completion.expect("a completion")
}

#[track_caller]
fn nothing(ring: &mut Ring) {
    assert!(ring.reap().unwrap().next().is_none());
}

fn bytes_of(completion: Completion) -> (u64, Vec<u8>) {
    let token = completion.token;
    let (bytes, buffers) = completion.into_bytes();
    let mut all: Vec<u8> = match buffers {
        Buffers::None => panic!("no buffers"),
        Buffers::One(buffer) => buffer.into_vec(),
        Buffers::Many(buffers) => buffers.iter().flat_map(|buffer| buffer.to_vec()).collect(),
    };
    all.truncate(bytes.unwrap());
    (token, all)
}

fn splice(file: EndId, offset: Option<u64>, end: EndId, bytes: usize) -> Operation {
    Operation::Splice {
        file,
        offset,
        end,
        bytes,
    }
}

fn is_readable(ring: &mut Ring) -> bool {
    let fd = ring.pollable().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn what_is_cached_is_there_at_once_and_what_is_not_when_it_arrives() {
    let store = Script::new("a", 20 * PAGE as u64 + 100);
    let (mut ring, file) = ring_with(&store);
    store.hold();
    let read = |offset, bytes| Operation::read_at(file, offset, vec![0xEE; bytes]);
    ring.submit(1, read(5000, 10_000)).unwrap();
    nothing(&mut ring);
    assert_eq!(ring.in_flight(), 1);
    store.release_all();
    assert_eq!(bytes_of(one(&mut ring)), (1, expected(5000, 10_000)));
    store.hold();
    ring.submit(2, read(8000, 300)).unwrap();
    assert_eq!(ring.in_flight(), 0);
    assert_eq!(bytes_of(one(&mut ring)), (2, expected(8000, 300)));
    store.release_all();
    let length = 20 * PAGE as u64 + 100;
    for (offset, bytes, there) in [
        (length - 5, 10, 5),
        (length, 10, 0),
        (u64::MAX - 3, 10, 0),
        (0, 100_000, length as usize),
    ] {
        ring.submit(3, read(offset, bytes)).unwrap();
        assert_eq!(bytes_of(one(&mut ring)), (3, expected(offset, there)));
    }
}

/// The blocking call gives less only where the file ends; pages that are there don't complete a read.
#[test]
fn a_read_is_complete_when_all_of_it_has_arrived() {
    let store = Script::new("a", 64 * PAGE as u64);
    store.set_transfer(PAGE);
    let (mut ring, file) = ring_with(&store);
    store.hold();
    let read = Operation::read_at(file, 100, vec![0; 3 * PAGE]);
    ring.submit(1, read).unwrap();
    for _ in 0..4 {
        nothing(&mut ring);
        store.wait_for(1);
        store.release();
    }
    assert_eq!(bytes_of(one(&mut ring)), (1, expected(100, 3 * PAGE)));
}

#[test]
fn reads_at_offsets_wait_side_by_side() {
    let store = Script::new("a", 512 * PAGE as u64);
    let (mut ring, file) = ring_with(&store);
    store.hold();
    let at = |number: u64| number * 10 * PAGE as u64 + 7;
    for number in 0..16 {
        let read = Operation::read_at(file, at(number), vec![0; 100]);
        ring.submit(number, read).unwrap();
    }
    nothing(&mut ring);
    for number in 0..16 {
        store.release();
        assert_eq!(
            bytes_of(one(&mut ring)),
            (number, expected(at(number), 100))
        );
        nothing(&mut ring);
    }
}

#[test]
fn reads_at_the_position_follow_each_other() {
    let store = Script::new("a", 64 * PAGE as u64);
    let (mut ring, file) = ring_with(&store);
    store.hold();
    for token in 0..8 {
        let read = if token == 3 {
            let buffers = [vec![0; 1000], vec![], vec![0; 4000]];
            Operation::read_vectored(file, buffers)
        } else {
            Operation::read(file, vec![0; 5000])
        };
        ring.submit(token, read).unwrap();
    }
    nothing(&mut ring);
    // The first is cancelled: the next is where it would have been.
    assert!(ring.cancel(0));
    assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
    store.release_all();
    for token in 1..8 {
        let at = (token - 1) * 5000;
        assert_eq!(bytes_of(one(&mut ring)), (token, expected(at, 5000)));
    }
    let file = ring.detach_file(file).unwrap();
    assert_eq!((&*file).stream_position().unwrap(), 35_000);
    (&*file)
        .seek(SeekFrom::Start(64 * PAGE as u64 - 3))
        .unwrap();
    let file = ring.attach_file(file).unwrap();
    for rest in [3, 0] {
        ring.submit(1, Operation::read(file, vec![0; 10])).unwrap();
        assert_eq!(bytes_of(one(&mut ring)).1.len(), rest);
    }
}

#[test]
fn a_failure_is_told_to_whom_it_happened_and_breaks_the_link() {
    let store = Script::new("a", 64 * PAGE as u64);
    let (mut ring, file) = ring_with(&store);
    store.hold();
    store.fail(2);
    let read = |page: u64| Operation::read_at(file, page * PAGE as u64, vec![0; PAGE]);
    ring.submit_linked(vec![(1, read(1)), (2, read(2))])
        .unwrap();
    ring.submit(3, read(10)).unwrap();
    ring.submit_linked(vec![(4, read(20)), (5, read(21))])
        .unwrap();
    nothing(&mut ring);
    store.release_all();
    let mut all = BTreeMap::new();
    while all.len() < 5 {
        let completion = one(&mut ring);
        all.insert(completion.token, completion);
    }
    let text = |completion: &Completion| completion.result.as_ref().unwrap_err().to_string();
    assert_eq!(text(&all[&1]), "a, at offset 4096: as told");
    assert!(matches!(all[&2].result, Err(Failure::LinkBroken)));
    assert_eq!(text(&all[&3]), "a, at offset 40960: as told");
    for token in [4, 5] {
        let completion = all.remove(&token).unwrap();
        let at = (16 + token) * PAGE as u64;
        assert_eq!(bytes_of(completion), (token, expected(at, PAGE)));
    }
}

#[test]
fn cancelled_or_dropped_it_is_told_to_nobody() {
    let store = Script::new("a", 64 * PAGE as u64);
    store.set_transfer(PAGE);
    let (mut ring, file) = ring_with(&store);
    store.hold();
    let read = |at| Operation::read_at(file, at, vec![0; 2 * PAGE]);
    ring.submit(1, read(0)).unwrap();
    nothing(&mut ring);
    assert!(ring.cancel(1));
    assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
    // Half of this one is there.
    ring.submit(2, read(40 * PAGE as u64)).unwrap();
    for _ in 0..3 {
        store.wait_for(1);
        store.release();
    }
    nothing(&mut ring);
    assert!(ring.cancel(2));
    assert_eq!(
        bytes_of(one(&mut ring)),
        (2, expected(40 * PAGE as u64, PAGE))
    );
    store.release_all();
    nothing(&mut ring);
    store.hold();
    ring.submit(3, read(20 * PAGE as u64)).unwrap();
    let end = file;
    let events = PollFlags::PRI;
    ring.submit(4, Operation::Poll { end, events }).unwrap();
    nothing(&mut ring);
    let given_back = ring.detach_file(file).unwrap();
    assert!(ring.detach_file(file).is_none());
    for _ in 0..2 {
        assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
    }
    let refused = ring.submit(5, read(0)).unwrap_err();
    assert_eq!(refused.reason, SubmitError::NoSuchEnd);
    let file = ring.attach_file(given_back).unwrap();
    let read = Operation::read_at(file, 30 * PAGE as u64, vec![0; PAGE]);
    ring.submit(6, read).unwrap();
    drop(ring);
    store.release_all();
}

#[test]
fn what_fits_nothing_is_refused() {
    let store = Script::new("a", 64 * PAGE as u64);
    let (mut ring, file) = ring_with(&store);
    let (reader, writer) = pipe().unwrap();
    let (reader, writer) = (ring.attach(reader), ring.attach(writer));
    let mut refused = |operation| ring.submit(1, operation).unwrap_err().reason;
    assert_eq!(
        refused(Operation::write(file, b"x")),
        SubmitError::WrongDirection
    );
    let multishot = Operation::ReadMultishot {
        end: file,
        chunk_bytes: 1,
    };
    assert!(refused(multishot).to_string().contains("expected a stream"));
    let read = Operation::read_at(reader, 0, vec![0]);
    assert!(refused(read).to_string().contains("expected a file"));
    let nothing = Operation::read(file, vec![]);
    assert_eq!(refused(nothing), SubmitError::ZeroLength);
    let nothing = splice(file, None, writer, 0);
    assert_eq!(refused(nothing), SubmitError::ZeroLength);
    let to_reader = splice(file, None, reader, 1);
    assert_eq!(refused(to_reader), SubmitError::WrongDirection);
    let to_file = splice(file, None, file, 1);
    assert!(
        refused(to_file)
            .to_string()
            .contains("expected an end of a pipe")
    );
    let from_pipe = splice(reader, None, writer, 1);
    assert!(refused(from_pipe).to_string().contains("expected a file"));
    assert!(ring.detach(file).is_none());
    assert!(ring.detach_file(reader).is_none());
    ring.detach_file(file).unwrap();
    let gone = splice(file, None, writer, 1);
    assert_eq!(
        ring.submit(1, gone).unwrap_err().reason,
        SubmitError::NoSuchEnd
    );
}

#[test]
fn a_file_is_spliced_into_a_pipe_as_the_blocking_call_does() {
    let store = Script::new("a", 700 * PAGE as u64 + 17);
    let total = 700 * PAGE + 17;
    for capacity in [4096, 65_536, 1 << 20] {
        let (mut reader, writer) = Builder::new().capacity_bytes(capacity).build().unwrap();
        let (mut ring, file) = ring_with(&store);
        let writer = ring.attach(writer);
        ring.submit(1, Operation::write(writer, b"before")).unwrap();
        ring.submit(2, splice(file, Some(10), writer, 100_000))
            .unwrap();
        ring.submit(3, Operation::write(writer, b"between"))
            .unwrap();
        ring.submit(4, splice(file, None, writer, usize::MAX))
            .unwrap();
        ring.submit(5, splice(file, None, writer, 10)).unwrap();
        ring.submit(6, Operation::write(writer, b"behind")).unwrap();
        let mut received = Vec::new();
        let moved = std::thread::scope(|scope| {
            let driving = scope.spawn(move || {
                let moved: Vec<_> = (0..6)
                    .map(|_| one(&mut ring).into_bytes().0.unwrap())
                    .collect();
                drop(ring);
                moved
            });
            reader.read_to_end(&mut received).unwrap();
            driving.join().unwrap()
        });
        assert_eq!(moved, [6, 100_000, 7, total, 0, 6]);
        let mut sent = b"before".to_vec();
        sent.extend(expected(10, 100_000));
        sent.extend(b"between");
        sent.extend(expected(0, total));
        sent.extend(b"behind");
        assert!(received == sent);
    }
}

#[test]
fn a_splice_of_a_little_waits_for_room() {
    let store = Script::new("a", 10 * PAGE as u64);
    let (mut reader, writer) = Builder::new().capacity_bytes(4096).build().unwrap();
    let (mut ring, file) = ring_with(&store);
    let writer = ring.attach(writer);
    ring.submit(1, Operation::write(writer, vec![1; 4096]))
        .unwrap();
    assert_eq!(one(&mut ring).into_bytes().0.unwrap(), 4096);
    ring.submit(2, splice(file, Some(0), writer, 100)).unwrap();
    nothing(&mut ring);
    reader.read_exact(&mut [0; 4096]).unwrap();
    assert_eq!(one(&mut ring).into_bytes().0.unwrap(), 100);
}

#[test]
fn a_splice_waits_for_pages_and_is_cancelled_there() {
    let store = Script::new("a", 64 * PAGE as u64);
    let (mut reader, writer) = pipe().unwrap();
    let (mut ring, file) = ring_with(&store);
    let writer = ring.attach(writer);
    store.hold();
    ring.submit(1, splice(file, None, writer, 100)).unwrap();
    ring.submit(2, Operation::write(writer, b"next")).unwrap();
    nothing(&mut ring);
    assert!(ring.cancel(1));
    let mut all: Vec<_> = [one(&mut ring), one(&mut ring)].into();
    assert!(matches!(all.remove(0).result, Err(Failure::Cancelled)));
    assert!(matches!(all.remove(0).result, Ok(Outcome::Bytes(4))));
    store.release_all();
    nothing(&mut ring);
    let mut text = [0; 4];
    reader.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"next");
    // The position is where it was.
    ring.submit(3, splice(file, None, writer, 5)).unwrap();
    assert_eq!(one(&mut ring).into_bytes().0.unwrap(), 5);
    let mut bytes = [0; 5];
    reader.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[..], expected(0, 5));
    // And one that nobody waits for any more, with its file.
    store.hold();
    ring.submit(4, splice(file, Some(40 * PAGE as u64), writer, 5))
        .unwrap();
    nothing(&mut ring);
    ring.detach_file(file).unwrap();
    assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
    store.release_all();
}

#[test]
fn a_splice_that_is_cancelled_in_a_full_pipe_says_what_it_moved() {
    let store = Script::new("a", 640 * PAGE as u64);
    let (mut reader, writer) = Builder::new().capacity_bytes(65_536).build().unwrap();
    let (mut ring, file) = ring_with(&store);
    let writer = ring.attach(writer);
    let behind = Operation::Timeout {
        after: Duration::ZERO,
    };
    let links = vec![(1, splice(file, None, writer, 1 << 20)), (2, behind)];
    ring.submit_linked(links).unwrap();
    nothing(&mut ring);
    assert!(ring.cancel(1));
    let moved = one(&mut ring).into_bytes().0.unwrap();
    assert!((1..1 << 20).contains(&moved));
    assert!(matches!(one(&mut ring).result, Err(Failure::LinkBroken)));
    drop(ring.detach(writer));
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    assert!(received == expected(0, moved));
    let file = ring.detach_file(file).unwrap();
    assert_eq!((&*file).stream_position().unwrap(), moved as u64);
}

#[test]
fn a_splice_sees_the_pipe_break_and_the_store_fail() {
    let store = Script::new("a", 640 * PAGE as u64);
    let (reader, writer) = pipe().unwrap();
    let (mut ring, file) = ring_with(&store);
    let writer = ring.attach(writer);
    store.fail(1);
    ring.submit(1, splice(file, Some(0), writer, 100)).unwrap();
    let failure = one(&mut ring).result.unwrap_err();
    assert_eq!(failure.to_string(), "a, at offset 0: as told");
    ring.submit(2, splice(file, Some(0), writer, 1 << 20))
        .unwrap();
    nothing(&mut ring);
    drop(reader);
    let moved = one(&mut ring).into_bytes().0.unwrap();
    assert!((1..1 << 20).contains(&moved));
    ring.submit(3, splice(file, Some(0), writer, 100)).unwrap();
    let error = one(&mut ring).into_bytes().0.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn links_go_from_file_to_pipe() {
    let store = Script::new("a", 64 * PAGE as u64);
    let (mut reader, writer) = pipe().unwrap();
    let (mut ring, file) = ring_with(&store);
    let writer = ring.attach(writer);
    store.hold();
    let links = vec![
        (1, Operation::read_at(file, 0, vec![0; 10])),
        (2, Operation::write(writer, b"then ")),
        (3, splice(file, Some(20 * PAGE as u64), writer, 10)),
        (4, Operation::write(writer, b" and then")),
    ];
    ring.submit_linked(links).unwrap();
    nothing(&mut ring);
    store.release_all();
    for token in 1..=4 {
        assert_eq!(one(&mut ring).token, token);
    }
    drop(ring);
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    let sent = [b"then ", &expected(20 * PAGE as u64, 10)[..], b" and then"].concat();
    assert_eq!(received, sent);
}

#[test]
fn a_loop_that_polls_the_ring_hears_of_pages() {
    let store = Script::new("a", 640 * PAGE as u64);
    let (mut ring, file) = ring_with(&store);
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = epoll::EventData::new_u64(0);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&outer, ring.pollable().unwrap(), data, flags).unwrap();
    store.hold();
    for round in 0..10 {
        let read = Operation::read_at(file, round * 20 * PAGE as u64, vec![0; 10]);
        ring.submit(round, read).unwrap();
        while is_readable(&mut ring) {
            nothing(&mut ring);
        }
        store.release();
        let completion = loop {
            let mut events = Vec::with_capacity(4);
            epoll::wait(&outer, rustix::buffer::spare_capacity(&mut events), None).unwrap();
            if let Some(completion) = ring.reap().unwrap().next() {
                break completion;
            }
        };
        assert_eq!(
            bytes_of(completion).1,
            expected(round * 20 * PAGE as u64, 10)
        );
    }
}

#[test]
fn a_file_is_always_ready_as_far_as_poll_goes() {
    let store = Script::new("a", 64 * PAGE as u64);
    let (mut ring, end) = ring_with(&store);
    let events = PollFlags::IN | PollFlags::OUT;
    ring.submit(1, Operation::Poll { end, events }).unwrap();
    let result = one(&mut ring).result;
    assert!(
        matches!(result, Ok(Outcome::Events(PollFlags::IN))),
        "{result:?}"
    );
}

/// Real files, through the store of local files, more than the cache holds.
#[test]
fn a_real_file_is_read_and_spliced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let bytes: Vec<u8> = (0..5 << 20)
        .map(|at: usize| (at / 3 + at / 4096) as u8)
        .collect();
    std::fs::write(&path, &bytes).unwrap();
    let cache = script::cache(256);
    let file = Options::new().cache(&cache).open(path.to_str().unwrap());
    let file = Arc::new(file.unwrap());
    let mut ring = Ring::new(64).unwrap();
    let id = ring.attach_file(Arc::clone(&file)).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut offsets = BTreeMap::new();
    let mut next = 0;
    while next < 200 || !offsets.is_empty() {
        while next < 200 && ring.free_places() > 0 {
            let (offset, len) = (random.usize(..bytes.len()), random.usize(1..40_000));
            let read = Operation::read_at(id, offset as u64, vec![0; len]);
            ring.submit(next, read).unwrap();
            offsets.insert(next, offset);
            next += 1;
        }
        for completion in ring.wait(LONG).unwrap() {
            let asked = match &completion.buffers {
                Buffers::One(buffer) => buffer.len(),
                other => panic!("{other:?}"),
            };
            let (token, got) = bytes_of(completion);
            let offset = offsets.remove(&token).unwrap();
            assert!(got == bytes[offset..bytes.len().min(offset + asked)]);
        }
    }
    let (mut reader, writer) = pipe().unwrap();
    let writer = ring.attach(writer);
    ring.submit(1, splice(id, None, writer, usize::MAX))
        .unwrap();
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        let driving = scope.spawn(move || {
            let moved = one(&mut ring).into_bytes().0.unwrap();
            drop(ring);
            moved
        });
        reader.read_to_end(&mut received).unwrap();
        assert_eq!(driving.join().unwrap(), bytes.len());
    });
    assert!(received == bytes);
    // The blocking calls of others who have it are as they were.
    let mut some = [0; 100];
    file.read_at(&mut some, 1000).unwrap();
    assert_eq!(some, bytes[1000..1100]);
}

/// Random reads, cancels and arrivals, against what each byte must be.
#[test]
fn whatever_happens_bytes_are_right_and_nothing_is_lost() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let store = Script::new("a", 300 * PAGE as u64 + 9);
        store.set_transfer(PAGE << random.u32(0..5));
        let mut ring = Ring::new(32).unwrap();
        let file = ring.attach_file(open(&store, 64)).unwrap();
        let mut asked = BTreeMap::new();
        let mut submitted = 0;
        while submitted < 300 || ring.in_flight() > 0 {
            if submitted < 300 && ring.free_places() > 0 && random.bool() {
                let (offset, len) = (random.u64(..1_240_000), random.usize(1..50_000));
                let read = Operation::read_at(file, offset, vec![0; len]);
                ring.submit(submitted, read).unwrap();
                asked.insert(submitted, (offset, len));
                submitted += 1;
            }
            match random.u8(..8) {
                0 => store.hold(),
                1 => store.release_all(),
                2 => _ = ring.cancel(random.u64(..=submitted)),
                _ => {}
            }
            if submitted == 300 || ring.free_places() == 0 {
                store.release_all();
            }
            for completion in ring.reap().unwrap() {
                let (offset, len) = asked.remove(&completion.token).unwrap();
                if matches!(completion.result, Err(Failure::Cancelled)) {
                    continue;
                }
                let (_, got) = bytes_of(completion);
                assert!(got.len() <= len);
                assert!(got == expected(offset, got.len()));
            }
        }
        assert!(asked.is_empty(), "{asked:?}");
    }
}
