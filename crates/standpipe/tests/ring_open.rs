//! FIFOs opened by the ring: as open(2) does, but nothing waits in it.

mod common;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use common::wait_asleep;
use rustix::event::{PollFd, Timespec, epoll, poll};
use standpipe::completion::{Completion, EndId, Failure, Operation, Outcome, PollFlags, Ring};
use standpipe::fifo::{self, Access, FifoError, Options};
use tempfile::TempDir;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// The token of what the test itself reads and writes.
const TEXT: u64 = u64::MAX;

fn named() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    (dir, path)
}

fn one(ring: &mut Ring) -> Completion {
    let completion = ring.wait(LONG).unwrap().next();
    completion.expect("a completion")
}

fn opened(completion: &Completion) -> EndId {
    match completion.result {
        Ok(Outcome::Opened(end)) => end,
        ref other => panic!("{other:?}"),
    }
}

fn open_now(options: Options, path: &Path, access: Access) -> Operation {
    let path = path.into();
    Operation::OpenFifo {
        path,
        access,
        options: options.nonblocking(true),
    }
}

/// Reads to the end of the stream.
fn text(ring: &mut Ring, end: EndId) -> String {
    let mut text = Vec::new();
    loop {
        ring.submit(TEXT, Operation::read(end, vec![0; 100]))
            .unwrap();
        let (bytes, buffers) = one(ring).into_bytes();
        match bytes.unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            bytes => text.extend_from_slice(&buffers.into_first()[..bytes]),
        }
    }
}

fn write(ring: &mut Ring, end: EndId, text: &str) {
    ring.submit(TEXT, Operation::write(end, text.as_bytes()))
        .unwrap();
    assert_eq!(one(ring).into_bytes().0.unwrap(), text.len());
}

/// Whether nobody has it open to read, as far as the kernel knows.
fn has_no_reader(path: &Path) -> bool {
    let error = Options::new().nonblocking(true).open_write(path);
    error.is_err_and(|error| error.to_string().contains("nobody has it open to read"))
}

/// The same; but for a moment the programs that other tests start have what this process has open.
#[track_caller]
fn expect_no_reader(path: &Path) {
    let start = std::time::Instant::now();
    while !has_no_reader(path) {
        assert!(start.elapsed() < LONG.unwrap(), "somebody has it open");
        std::thread::yield_now();
    }
}

fn is_readable(ring: &mut Ring) -> bool {
    let fd = ring.pollable().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn readers_and_writers_of_one_ring_meet_whoever_comes_first() {
    for order in [[Access::Read, Access::Write], [Access::Write, Access::Read]] {
        let (_dir, path) = named();
        let mut ring = Ring::new(8).unwrap();
        for access in order {
            let open = Operation::open_fifo(&path, access);
            ring.submit(access as u64, open).unwrap();
            if access == order[0] {
                assert!(ring.reap().unwrap().next().is_none());
            }
        }
        let mut all: Vec<_> = [one(&mut ring), one(&mut ring)].into();
        all.sort_by_key(|completion| completion.token);
        assert_eq!(all[0].token, Access::Read as u64);
        let (reader, writer) = (opened(&all[0]), opened(&all[1]));
        write(&mut ring, writer, "hello");
        let writer = ring.detach(writer).unwrap();
        assert!(writer.can_write() && !writer.can_read());
        drop(writer);
        assert_eq!(text(&mut ring, reader), "hello");
        // As open(2) leaves it: who gets it back waits again.
        let reader = ring.detach(reader).unwrap();
        let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
}

/// A thread that opens the FIFO; perhaps one that waits there by now.
fn beside<T: Send + 'static>(
    is_first: bool,
    path: &Path,
    body: impl FnOnce(&Path) -> T + Send + 'static,
) -> JoinHandle<T> {
    let (ids, id) = std::sync::mpsc::channel();
    let path = path.to_path_buf();
    let thread = std::thread::spawn(move || {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        ids.send(id).unwrap();
        body(&path)
    });
    let id = id.recv().unwrap();
    if is_first {
        wait_asleep(id);
    }
    thread
}

#[test]
fn programs_that_wait_in_open_are_met() {
    for they_first in [true, false] {
        let (_dir, path) = named();
        let mut ring = Ring::new(8).unwrap();
        let open = |ring: &mut Ring, access| {
            ring.submit(1, Operation::open_fifo(&path, access)).unwrap();
        };
        if !they_first {
            open(&mut ring, Access::Read);
            assert!(ring.reap().unwrap().next().is_none());
        }
        let thread = beside(they_first, &path, |path| {
            let mut file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all(b"from them").unwrap();
        });
        if they_first {
            open(&mut ring, Access::Read);
        }
        let reader = opened(&one(&mut ring));
        assert_eq!(text(&mut ring, reader), "from them");
        thread.join().unwrap();
        drop(ring.detach(reader));

        if !they_first {
            open(&mut ring, Access::Write);
            assert!(ring.reap().unwrap().next().is_none());
        }
        let thread = beside(they_first, &path, |path| std::fs::read_to_string(path));
        if they_first {
            open(&mut ring, Access::Write);
        }
        let writer = opened(&one(&mut ring));
        write(&mut ring, writer, "to them");
        drop(ring.detach(writer));
        assert_eq!(thread.join().unwrap().unwrap(), "to them");
    }
}

/// It wrote nothing, but it was there: open(2) returns, too.
#[test]
fn a_writer_that_came_and_went_was_there() {
    let (_dir, path) = named();
    let mut ring = Ring::new(8).unwrap();
    let open = Operation::open_fifo(&path, Access::Read);
    ring.submit(1, open).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    drop(options.open(&path).unwrap());
    let reader = opened(&one(&mut ring));
    assert_eq!(text(&mut ring, reader), "");
}

#[test]
fn who_needs_nobody_is_there_at_once() {
    let (_dir, path) = named();
    let mut ring = Ring::new(8).unwrap();
    let open = |access| open_now(Options::new(), &path, access);
    ring.submit(1, open(Access::Write)).unwrap();
    let Err(Failure::Io(error)) = one(&mut ring).result else {
        panic!("nobody has it open to read")
    };
    assert!(error.to_string().contains("nobody has it open to read"));
    ring.submit(2, open(Access::Read)).unwrap();
    let reader = opened(&one(&mut ring));
    let reader = ring.detach(reader).unwrap();
    let error = (&reader).read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(error, Ok(0), "no writer so far");
    ring.submit(3, open(Access::Write)).unwrap();
    opened(&one(&mut ring));
    let error = (&reader).read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(error, Err(ErrorKind::WouldBlock), "its mode stays");
    let both = Operation::open_fifo(&path, Access::Both);
    ring.submit(4, both).unwrap();
    let both = opened(&one(&mut ring));
    write(&mut ring, both, "x");
    let end = ring.detach(both).unwrap();
    assert!(end.can_read() && end.can_write());
}

#[test]
fn errors_are_those_of_the_blocking_call() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let missing = dir.path().join("missing");
    let mut ring = Ring::new(8).unwrap();
    let paths = [dir.path(), &file, &socket, &missing, "/dev/null".as_ref()];
    for path in paths {
        for access in [Access::Read, Access::Write, Access::Both] {
            let expected = Options::new().open(path, access).unwrap_err();
            ring.submit(1, Operation::open_fifo(path, access)).unwrap();
            let Err(Failure::Io(error)) = one(&mut ring).result else {
                panic!("{} is no FIFO", path.display())
            };
            assert_eq!(error.to_string(), expected.to_string());
            assert_eq!(error.kind(), expected.kind());
            let cause = error.get_ref().unwrap().downcast_ref::<FifoError>();
            assert_eq!(cause.unwrap().path, path);
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
}

#[test]
fn cancelled_it_was_never_open() {
    let (_dir, path) = named();
    let mut ring = Ring::new(8).unwrap();
    for access in [Access::Read, Access::Write] {
        ring.submit(1, Operation::open_fifo(&path, access)).unwrap();
        assert!(ring.reap().unwrap().next().is_none());
        match access {
            Access::Write => expect_no_reader(&path),
            _ => assert!(!has_no_reader(&path)),
        }
        assert!(ring.cancel(1));
        assert!(matches!(one(&mut ring).result, Err(Failure::Cancelled)));
        expect_no_reader(&path);
        // A reader that comes now meets nobody.
        let reader = Options::new().nonblocking(true).open_read(&path).unwrap();
        assert_eq!((&reader).read(&mut [0]).unwrap(), 0);
        assert!(ring.wait(Some(Duration::ZERO)).unwrap().next().is_none());
    }
}

#[test]
fn a_dropped_ring_has_nothing_open() {
    let (_dir, path) = named();
    let mut ring = Ring::new(8).unwrap();
    for token in 0..4 {
        let open = Operation::open_fifo(&path, Access::Read);
        ring.submit(token, open).unwrap();
    }
    assert!(ring.reap().unwrap().next().is_none());
    assert!(!has_no_reader(&path));
    drop(ring);
    expect_no_reader(&path);
}

#[test]
fn what_is_linked_to_an_opening_that_fails_is_not_begun() {
    let (dir, _path) = named();
    let mut ring = Ring::new(8).unwrap();
    let open = Operation::open_fifo(dir.path().join("missing"), Access::Read);
    let after = Duration::ZERO;
    let links = vec![(1, open), (2, Operation::Timeout { after })];
    ring.submit_linked(links).unwrap();
    assert!(matches!(one(&mut ring).result, Err(Failure::Io(_))));
    assert!(matches!(one(&mut ring).result, Err(Failure::LinkBroken)));
}

#[test]
fn a_link_waits_until_it_is_open() {
    let (_dir, path) = named();
    let mut ring = Ring::new(8).unwrap();
    let open = Operation::open_fifo(&path, Access::Read);
    let after = Duration::ZERO;
    let links = vec![(1, open), (2, Operation::Timeout { after })];
    ring.submit_linked(links).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    let _writer = Options::new().nonblocking(true).open_write(&path).unwrap();
    opened(&one(&mut ring));
    assert!(matches!(one(&mut ring).result, Ok(Outcome::Expired)));
}

fn inotify_instances() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let is_one = |link: &PathBuf| link.to_string_lossy().ends_with("inotify");
    links.filter(is_one).count()
}

/// One after the other, and each is told apart.
#[test]
fn many_wait_by_one_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let path = |number: u64| dir.path().join(number.to_string());
    let mut ring = Ring::new(400).unwrap();
    for number in 0..200 {
        fifo::create(path(number), 0o600).unwrap();
        let open = Operation::open_fifo(path(number), Access::Read);
        ring.submit(number, open).unwrap();
    }
    // Other tests have some, too: one for each of their rings.
    assert!((1..100).contains(&inotify_instances()));
    assert!(ring.reap().unwrap().next().is_none());
    let options = Options::new().nonblocking(true);
    for number in (0..200).rev() {
        let writer = options.open_write(path(number)).unwrap();
        let completion = one(&mut ring);
        assert_eq!(completion.token, number);
        let reader = opened(&completion);
        (&writer).write_all(b"to this one").unwrap();
        drop(writer);
        assert_eq!(text(&mut ring, reader), "to this one");
    }
}

#[test]
fn a_loop_that_polls_the_ring_hears_of_it() {
    let (_dir, path) = named();
    let mut ring = Ring::new(8).unwrap();
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = epoll::EventData::new_u64(0);
    epoll::add(
        &outer,
        ring.pollable().unwrap(),
        data,
        epoll::EventFlags::IN,
    )
    .unwrap();
    for access in [Access::Read, Access::Write] {
        ring.submit(1, Operation::open_fifo(&path, access)).unwrap();
        while is_readable(&mut ring) {
            assert!(ring.reap().unwrap().next().is_none());
        }
        let partner = match access {
            Access::Read => Options::new().nonblocking(true).open_write(&path),
            _ => Options::new().nonblocking(true).open_read(&path),
        };
        let _partner = partner.unwrap();
        let end = loop {
            let mut events = Vec::with_capacity(4);
            epoll::wait(&outer, rustix::buffer::spare_capacity(&mut events), None).unwrap();
            assert!(!events.is_empty());
            if let Some(completion) = ring.reap().unwrap().next() {
                break opened(&completion);
            }
        };
        drop(ring.detach(end));
    }
}

#[test]
fn a_writer_that_is_killed_ends_the_stream() {
    let (_dir, path) = named();
    // SAFETY: the child makes one system call that matters, and is killed.
    let child = match unsafe { libc::fork() } {
        0 => {
            let _file = OpenOptions::new().write(true).open(&path);
            loop {
                std::thread::park();
            }
        }
        child => child,
    };
    let mut ring = Ring::new(8).unwrap();
    let open = Operation::open_fifo(&path, Access::Read);
    ring.submit(1, open).unwrap();
    let reader = opened(&one(&mut ring));
    ring.submit(2, Operation::read(reader, vec![0; 10]))
        .unwrap();
    // SAFETY: our child.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(one(&mut ring).into_bytes().0.unwrap(), 0);
}
