//! Files through the page cache: positions, splicing into pipes, polling.

#![cfg(feature = "file")]

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::thread;

use rustix::event::{PollFd, PollFlags};
use standpipe::file::{Cache, CacheOptions, File, Options, Policy};

struct Fixture {
    _dir: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Fixture {
    fn new(len_bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let bytes: Vec<u8> = (0..len_bytes)
            .map(|at| (at / 3 + at / 4096 * 7) as u8)
            .collect();
        std::fs::write(&path, &bytes).unwrap();
        Self {
            _dir: dir,
            path,
            bytes,
        }
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    fn open(&self) -> File {
        Self::options().open(self.name()).unwrap()
    }

    /// With a cache of its own, of 1 MiB.
    fn options() -> Options {
        let cache = Cache::new(CacheOptions {
            budget_bytes: 1 << 20,
            ..CacheOptions::default()
        });
        Options::new().cache(&cache.unwrap())
    }
}

#[test]
fn it_is_read_like_any_file() {
    let fixture = Fixture::new((3 << 20) + 17);
    let mut file = fixture.open();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, fixture.bytes);
    assert_eq!(
        file.seek(SeekFrom::End(-5)).unwrap(),
        bytes.len() as u64 - 5
    );
    let mut tail = [0; 10];
    assert_eq!(file.read(&mut tail).unwrap(), 5);
    assert_eq!(tail[..5], bytes[bytes.len() - 5..]);
    assert_eq!(
        file.seek(SeekFrom::Current(-6)).unwrap(),
        bytes.len() as u64 - 6
    );
    let error = file
        .seek(SeekFrom::Start(3))
        .and_then(|_| file.seek(SeekFrom::Current(-4)));
    assert_eq!(
        error.unwrap_err().to_string(),
        "seek to 3 -4: expected a place from 0 on"
    );
    assert_eq!(file.stream_position().unwrap(), 3);
    let mut some = [0; 4];
    assert_eq!(file.read_at(&mut some, 100_000).unwrap(), 4);
    assert_eq!(some, bytes[100_000..100_004]);
    assert_eq!(file.stream_position().unwrap(), 3);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = File::open("/nonexistent/data").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("/nonexistent/data"), "{error}");
}

#[test]
fn borrowed_bytes_stay_while_others_come_and_go() {
    let fixture = Fixture::new(4 << 20);
    let file = fixture.open();
    let borrowed = file.borrow_at(5000, 10_000).unwrap();
    let kept: Vec<u8> = borrowed.slices().flatten().copied().collect();
    assert!(!borrowed.is_empty());
    let mut rest = Vec::new();
    (&file).read_to_end(&mut rest).unwrap();
    let now: Vec<u8> = borrowed.slices().flatten().copied().collect();
    assert_eq!(kept, now);
    assert_eq!(now, fixture.bytes[5000..5000 + now.len()]);
}

#[test]
fn it_is_spliced_into_a_pipe() {
    let fixture = Fixture::new((5 << 20) + 123);
    let (mut reader, mut writer) = standpipe::pipe::pipe().unwrap();
    let drain = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    let file = fixture.open();
    let first = file.splice(&mut writer, 10).unwrap();
    assert_eq!(first, 10);
    let mut moved = first;
    while let bytes @ 1.. = file.splice(&mut writer, 3 << 20).unwrap() {
        moved += bytes;
    }
    drop(writer);
    assert_eq!(moved, fixture.bytes.len() as u64);
    assert_eq!(drain.join().unwrap().unwrap(), fixture.bytes);
}

/// The bug of 2007: after the first page that was not there, EAGAIN on every retry, for ever.
#[test]
fn a_nonblocking_splice_always_gets_to_the_end_of_the_file() {
    let fixture = Fixture::new((7 << 20) + 5);
    let (mut reader, mut writer) = standpipe::pipe::pipe().unwrap();
    let drain = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    for policy in [Policy::Off, Policy::OnDemand, Policy::Adaptive] {
        let file = Fixture::options()
            .policy(policy)
            .nonblocking(true)
            .open(fixture.name())
            .unwrap();
        loop {
            match file.splice(&mut writer, 1 << 20) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    let fd = file.pollable().unwrap();
                    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                    rustix::event::poll(&mut fds, None).unwrap();
                }
            }
        }
    }
    drop(writer);
    assert!(drain.join().unwrap().unwrap() == fixture.bytes.repeat(3));
}

#[test]
fn what_a_full_pipe_did_not_take_is_taken_later() {
    let fixture = Fixture::new(1 << 20);
    let (mut reader, mut writer) = standpipe::pipe::pipe().unwrap();
    writer.set_nonblocking(true).unwrap();
    let file = fixture.open();
    let mut moved = 0;
    let mut bytes = Vec::new();
    while moved < 1 << 20 {
        match file.splice(&mut writer, u64::MAX) {
            Ok(count) => moved += count,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                let mut some = [0; 5000];
                let count = reader.read(&mut some).unwrap();
                bytes.extend_from_slice(&some[..count]);
            }
        }
    }
    drop(writer);
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == fixture.bytes);
}

/// A consumer that stalls stops the reading: what is in memory stays within the budget.
#[test]
fn a_stalled_pipe_stops_reading_ahead_at_the_budget() {
    let fixture = Fixture::new(16 << 20);
    let cache = Cache::new(CacheOptions {
        budget_bytes: 1 << 20,
        ..CacheOptions::default()
    });
    let cache = cache.unwrap();
    let file = Options::new().cache(&cache).open(fixture.name()).unwrap();
    let (reader, mut writer) = standpipe::pipe::pipe().unwrap();
    writer.set_nonblocking(true).unwrap();
    while file.splice(&mut writer, 1 << 20).is_ok() {}
    let room = cache.stat().room;
    assert!(room.present_pages + room.in_flight_pages <= 256, "{room:?}");
    assert!(
        cache.stat().accounts.read_pages <= 256,
        "{:?}",
        cache.stat().accounts
    );
    drop(reader);
    let error = file.splice(&mut writer, 1).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_forked_child_is_told_to_open_it_again() {
    let fixture = Fixture::new(10_000);
    let file = fixture.open();
    let mut bytes = [0; 10];
    file.read_at(&mut bytes, 0).unwrap();
    // SAFETY: the child makes system calls and exits; it takes no lock that another thread may hold.
    match unsafe { libc::fork() } {
        0 => {
            let is_told = file
                .read_at(&mut bytes, 0)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::Unsupported);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_told)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for our child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 10);
}

#[test]
fn writes_to_the_file_are_seen_when_it_is_opened_again() {
    let fixture = Fixture::new(10_000);
    let options = Fixture::options();
    let mut bytes = [0; 3];
    options
        .open(fixture.name())
        .unwrap()
        .read_at(&mut bytes, 0)
        .unwrap();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(&fixture.path)
        .unwrap();
    file.write_all(b"new").unwrap();
    drop(file);
    options
        .open(fixture.name())
        .unwrap()
        .read_at(&mut bytes, 0)
        .unwrap();
    assert_eq!(&bytes, b"new");
}
