//! Waiting awake before sleeping.

mod common;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{into_the_lane, wait_asleep};
use rustix::thread::gettid;
use standpipe::completion::{Operation, Outcome, Ring};
use standpipe::end::End;
use standpipe::pipe::pipe;

const LONG: Duration = Duration::from_secs(60);

/// How often this thread went to sleep so far.
fn sleeps() -> i64 {
    // SAFETY: all bits zero are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes what it is given.
    let status = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(status, 0);
    usage.ru_nvcsw
}

/// A pipe that has a lane already.
fn lane() -> (End, End) {
    let (reader, writer) = pipe().unwrap();
    let (reader, writer) = (End::from(reader), End::from(writer));
    into_the_lane(&reader, &writer);
    (reader, writer)
}

/// Of some rounds with a peer that answers, how many were waited through awake.
fn rounds_awake(spin: Duration) -> usize {
    let (reader, mut writer) = lane();
    let (mut theirs, ours) = lane();
    let mut ring = Ring::new(8).unwrap();
    ring.set_spin(spin);
    let (reader, ours) = (ring.attach(reader), ring.attach(ours));
    let id = gettid().as_raw_nonzero().get();
    let peer = std::thread::spawn(move || {
        while theirs.read_exact(&mut [0]).is_ok() {
            if spin.is_zero() {
                wait_asleep(id);
            }
            writer.write_all(b"x").unwrap();
        }
    });
    let mut awake = 0;
    for _ in 0..20 {
        ring.submit(1, Operation::write(ours, b"x")).unwrap();
        ring.submit(2, Operation::read(reader, vec![0])).unwrap();
        let before = sleeps();
        let mut reaped = 0;
        while reaped < 2 {
            reaped += ring.wait(Some(LONG)).unwrap().count();
        }
        awake += usize::from(sleeps() == before);
    }
    drop(ring);
    peer.join().unwrap();
    awake
}

#[test]
fn it_stays_awake_as_long_as_it_is_told_to() {
    // A busy machine may take the processor away now and then.
    assert!(rounds_awake(LONG) > 0);
    assert_eq!(rounds_awake(Duration::ZERO), 0);
}

/// What ends a wait ends it.
#[test]
fn it_is_awake_for_no_longer_than_anything_is_to_wait_for() {
    let (reader, _writer) = pipe().unwrap();
    let mut ring = Ring::new(8).unwrap();
    ring.set_spin(Duration::MAX);
    let reader = ring.attach(reader);
    ring.submit(1, Operation::read(reader, vec![0])).unwrap();
    let soon = Duration::from_millis(1);
    assert_eq!(ring.wait(Some(soon)).unwrap().count(), 0);
    let after = soon;
    ring.submit(2, Operation::Timeout { after }).unwrap();
    let completion = ring.wait(None).unwrap().next().unwrap();
    assert!(matches!(completion.result, Ok(Outcome::Expired)));
    assert!(ring.cancel(1));
    assert_eq!(ring.wait(None).unwrap().count(), 1);
    assert_eq!(ring.wait(None).unwrap().count(), 0, "nothing is under way");
}

#[test]
fn room_sockets_and_pages_are_seen() {
    let mut ring = Ring::new(8).unwrap();
    ring.set_spin(LONG);
    let (mut reader, writer) = pipe().unwrap();
    let writer = ring.attach(writer);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    ring.submit(1, Operation::write(writer, vec![7; 1 << 20]))
        .unwrap();
    ring.submit(2, Operation::read(socket, vec![0])).unwrap();
    let peer = std::thread::spawn(move || {
        let mut all = vec![0; 1 << 20];
        reader.read_exact(&mut all).unwrap();
        theirs.write_all(b"x").unwrap();
        theirs
    });
    for token in [1, 2] {
        let completion = ring.wait(None).unwrap().next().unwrap();
        assert_eq!(completion.token, token);
    }
    peer.join().unwrap();
    #[cfg(feature = "file")]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        let file = standpipe::file::File::open(path.to_str().unwrap()).unwrap();
        let file = ring.attach_file(file).unwrap();
        ring.submit(3, Operation::read_at(file, 0, vec![0; 100]))
            .unwrap();
        let completion = ring.wait(None).unwrap().next().unwrap();
        assert_eq!(completion.into_bytes().0.unwrap(), 100);
    }
}
