//! Foreign descriptors in a ring: what their blocking calls do, by the kernel's own ring.

mod common;

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use common::{handle, once_asleep, send};
use rustix::event::{EventfdFlags, PollFd, Timespec, epoll, eventfd, poll};
use rustix::fs::OFlags;
use standpipe::completion::{
    Buffer, Completion, EndId, Failure, Operation, Outcome, PollFlags, Refusal, Ring, SubmitError,
};
use standpipe::pipe::pipe;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn ring_with_socket() -> (Ring, EndId, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut ring = Ring::new(64).unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    (ring, socket, theirs)
}

#[track_caller]
fn one(ring: &mut Ring) -> Completion {
    let completion = ring.wait(LONG).unwrap().next();
    completion.expect("a completion")
}

#[track_caller]
fn nothing(ring: &mut Ring) {
    let completion = ring.reap().unwrap().next();
    assert!(completion.is_none(), "{completion:?}");
}

fn bytes_of(completion: Completion) -> (u64, Vec<u8>) {
    let token = completion.token;
    let (bytes, buffers) = completion.into_bytes();
    let mut all = buffers.into_first().into_vec();
    all.truncate(bytes.unwrap());
    (token, all)
}

fn moved(completion: Completion) -> (u64, usize) {
    (completion.token, completion.into_bytes().0.unwrap())
}

fn read(end: EndId) -> Operation {
    Operation::read(end, vec![0; 100])
}

fn is_cancelled(completion: &Completion) -> bool {
    matches!(completion.result, Err(Failure::Cancelled))
}

fn is_readable(ring: &mut Ring) -> bool {
    let fd = ring.pollable().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 3 + at / 777) as u8).collect()
}

#[test]
fn a_socket_is_read_and_written_in_either_mode() {
    for nonblocking in [false, true] {
        let (mut ring, socket, mut theirs) = ring_with_socket();
        let given_back = ring.detach_foreign(socket).unwrap();
        rustix::io::ioctl_fionbio(&given_back, nonblocking).unwrap();
        let socket = ring.attach_foreign(given_back).unwrap();
        // There already, there at once, and there later.
        theirs.write_all(b"hello").unwrap();
        ring.submit(1, read(socket)).unwrap();
        assert_eq!(bytes_of(one(&mut ring)), (1, b"hello".to_vec()));
        ring.submit(2, read(socket)).unwrap();
        nothing(&mut ring);
        theirs.write_all(b"later").unwrap();
        assert_eq!(bytes_of(one(&mut ring)), (2, b"later".to_vec()));
        ring.submit(3, read(socket)).unwrap();
        let completion = once_asleep(|| one(&mut ring), |_| theirs.write_all(b"asleep").unwrap());
        assert_eq!(bytes_of(completion), (3, b"asleep".to_vec()));
        ring.submit(4, Operation::write(socket, b"answer")).unwrap();
        assert_eq!(moved(one(&mut ring)), (4, 6));
        let mut answer = [0; 6];
        theirs.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
        drop(theirs);
        ring.submit(5, read(socket)).unwrap();
        assert_eq!(moved(one(&mut ring)), (5, 0));
        ring.submit(6, Operation::write(socket, b"nobody")).unwrap();
        let error = one(&mut ring).into_bytes().0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}

/// As a blocking write: more than the socket takes at once.
#[test]
fn all_of_a_write_goes_and_in_order() {
    for nonblocking in [false, true] {
        let (mut ring, socket, mut theirs) = ring_with_socket();
        let given_back = ring.detach_foreign(socket).unwrap();
        rustix::io::ioctl_fionbio(&given_back, nonblocking).unwrap();
        let socket = ring.attach_foreign(given_back).unwrap();
        let sent = pattern(5_000_000);
        let (first, rest) = sent.split_at(3_000_000);
        ring.submit(1, Operation::write(socket, first)).unwrap();
        let parts = [&rest[..5], &[], &rest[5..1_000_000]];
        let parts = parts.map(<[u8]>::to_vec);
        ring.submit(2, Operation::write_vectored(socket, parts))
            .unwrap();
        ring.submit(3, Operation::write(socket, &rest[1_000_000..]))
            .unwrap();
        let mut received = Vec::new();
        let all: Vec<_> = std::thread::scope(|scope| {
            let driving = scope.spawn(move || {
                let all = (0..3).map(|_| moved(one(&mut ring))).collect();
                drop(ring);
                all
            });
            theirs.read_to_end(&mut received).unwrap();
            driving.join().unwrap()
        });
        assert_eq!(all, [(1, 3_000_000), (2, 1_000_000), (3, 1_000_000)]);
        assert!(received == sent);
    }
}

#[test]
fn reads_get_bytes_in_the_order_of_submission() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    for token in 0..30 {
        let operation = if token % 3 == 0 {
            Operation::read_vectored(socket, [vec![0; 2], vec![], vec![0; 1]])
        } else {
            Operation::read(socket, vec![0; 3])
        };
        ring.submit(token, operation).unwrap();
    }
    nothing(&mut ring);
    let sent = pattern(90);
    theirs.write_all(&sent).unwrap();
    let mut received: Vec<u8> = Vec::new();
    for token in 0..30 {
        let completion = one(&mut ring);
        assert_eq!(completion.token, token);
        let (bytes, buffers) = completion.into_bytes();
        assert_eq!(bytes.unwrap(), 3);
        match buffers {
            standpipe::completion::Buffers::Many(buffers) => {
                for part in buffers {
                    received.extend(&*part);
                }
            }
            one => received.extend(&*one.into_first()),
        }
    }
    assert_eq!(received, sent);
}

#[test]
fn arrivals_complete_one_by_one_and_wait_for_places() {
    for capacity in [1, 2, 3, 64] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut ring = Ring::new(capacity).unwrap();
        let socket = ring.attach_foreign(OwnedFd::from(theirs)).unwrap();
        let end = socket;
        let chunk_bytes = 1000;
        ring.submit(7, Operation::ReadMultishot { end, chunk_bytes })
            .unwrap();
        let sent = pattern(50_000);
        let mut received = Vec::new();
        let mut is_over = false;
        let writing = std::thread::spawn({
            let sent = sent.clone();
            move || ours.write_all(&sent)
        });
        while !is_over {
            // Some are left for the next time.
            let reaped = ring.wait(LONG).unwrap();
            // Its own place is for its end; one arrival is always let through.
            assert!(reaped.len() <= capacity.max(2), "{}", reaped.len());
            for completion in reaped.take(2) {
                is_over = completion.is_last;
                let (token, bytes) = bytes_of(completion);
                assert_eq!((token, bytes.is_empty()), (7, is_over));
                assert!(bytes.len() <= chunk_bytes);
                received.extend(bytes);
            }
        }
        writing.join().unwrap().unwrap();
        assert!(received == sent);
        nothing(&mut ring);
        assert_eq!(ring.free_places(), capacity);
    }
}

#[test]
fn datagrams_eventfds_terminals_and_devices() {
    let mut ring = Ring::new(64).unwrap();
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    ring.submit(1, read(socket)).unwrap();
    ring.submit(2, read(socket)).unwrap();
    theirs.send(b"one").unwrap();
    theirs.send(b"two, longer").unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (1, b"one".to_vec()));
    assert_eq!(bytes_of(one(&mut ring)), (2, b"two, longer".to_vec()));

    let counter = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    let end = ring.attach_foreign(Arc::clone(&counter)).unwrap();
    let events = PollFlags::IN;
    ring.submit(3, Operation::Poll { end, events }).unwrap();
    ring.submit(4, Operation::read(end, vec![0; 8])).unwrap();
    nothing(&mut ring);
    rustix::io::write(&counter, &5_u64.to_ne_bytes()).unwrap();
    let mut both = [one(&mut ring), one(&mut ring)];
    both.sort_by_key(|completion| completion.token);
    let [poll, read] = both;
    assert!(matches!(poll.result, Ok(Outcome::Events(PollFlags::IN))));
    assert_eq!(bytes_of(read), (4, 5_u64.to_ne_bytes().to_vec()));

    let (mut theirs, ours) = terminal();
    let terminal = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    ring.submit(5, Operation::read(terminal, vec![0; 100]))
        .unwrap();
    nothing(&mut ring);
    theirs.write_all(b"typed\n").unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (5, b"typed\n".to_vec()));

    let zero = File::open("/dev/zero").unwrap();
    let zero = ring.attach_foreign(OwnedFd::from(zero)).unwrap();
    ring.submit(6, Operation::read(zero, vec![1; 3])).unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (6, vec![0; 3]));
}

/// The side of who sits there, and of who has it as a terminal.
fn terminal() -> (File, File) {
    let (mut master, mut terminal) = (-1, -1);
    let nulls = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: writes two numbers; nothing else is asked for.
    let status = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut terminal,
            nulls.0,
            nulls.1,
            nulls.2,
        )
    };
    assert_eq!(status, 0);
    // SAFETY: it was just opened, for us.
    let file = |fd| unsafe { File::from_raw_fd(fd) };
    (file(master), file(terminal))
}

#[test]
fn a_regular_file_has_a_position_and_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let bytes = pattern(100_000);
    std::fs::write(&path, &bytes).unwrap();
    let mut ring = Ring::new(64).unwrap();
    let fd = OwnedFd::from(File::open(&path).unwrap());
    let file = ring.attach_foreign(fd).unwrap();
    ring.submit(1, Operation::read_at(file, 50_000, vec![0; 60_000]))
        .unwrap();
    assert!(bytes_of(one(&mut ring)).1 == bytes[50_000..]);
    for at in [0, 40_000, 80_000] {
        ring.submit(2, Operation::read(file, vec![0; 40_000]))
            .unwrap();
        assert!(bytes_of(one(&mut ring)).1 == bytes[at..bytes.len().min(at + 40_000)]);
    }
    let refused = ring.submit(3, Operation::write(file, b"x")).unwrap_err();
    assert_eq!(refused.reason, SubmitError::WrongDirection);
    let fd = OwnedFd::from(File::create(&path).unwrap());
    let file = ring.attach_foreign(fd).unwrap();
    let refused = ring.submit(3, read(file)).unwrap_err();
    assert_eq!(refused.reason, SubmitError::WrongDirection);
    for part in [&b"first "[..], b"second"] {
        ring.submit(4, Operation::write(file, part)).unwrap();
        assert_eq!(moved(one(&mut ring)), (4, part.len()));
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"first second");
}

#[test]
fn what_can_t_be_attached_is_given_back() {
    let mut ring = Ring::new(8).unwrap();
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let error = ring.attach_foreign(reader).unwrap_err();
    assert!(matches!(error.refusal, Refusal::Pipe));
    assert!(error.to_string().contains("adopt it"), "{error}");
    let error = io::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let fd = rustix::fs::open("/", OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    let error = ring.attach_foreign(fd).unwrap_err();
    assert!(matches!(error.refusal, Refusal::PathOnly));
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    assert!(ring.detach(socket).is_none());
    assert!(ring.detach_foreign(socket).is_some());
    assert!(ring.detach_foreign(socket).is_none());
    let refused = ring.submit(1, read(socket)).unwrap_err();
    assert_eq!(refused.reason, SubmitError::NoSuchEnd);
}

#[test]
fn errors_are_those_of_the_call() {
    let mut ring = Ring::new(8).unwrap();
    let listener =
        std::os::unix::net::UnixListener::bind(tempfile::tempdir().unwrap().path().join("socket"));
    let listener = OwnedFd::from(listener.unwrap());
    let blocking = rustix::io::read(&listener, &mut [0; 10]).unwrap_err();
    let end = ring.attach_foreign(listener).unwrap();
    let links = vec![(1, read(end)), (2, read(end))];
    ring.submit_linked(links).unwrap();
    let error = one(&mut ring).into_bytes().0.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(blocking.raw_os_error()));
    let linked = one(&mut ring).result;
    assert!(matches!(linked, Err(Failure::LinkBroken)));
}

#[test]
fn a_cancelled_read_took_nothing() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    for token in 1..=3 {
        ring.submit(token, read(socket)).unwrap();
    }
    nothing(&mut ring);
    // One that waits for its turn, the one that the kernel has, the last.
    for token in [2, 1, 3] {
        ring.submit(token + 10, Operation::Cancel { token })
            .unwrap();
        let mut both = [one(&mut ring), one(&mut ring)];
        both.sort_by_key(|completion| completion.token);
        assert_eq!(both[0].token, token);
        assert!(is_cancelled(&both[0]));
        assert_eq!(
            both[0].buffers,
            standpipe::completion::Buffers::One(vec![0; 100].into())
        );
        assert!(matches!(both[1].result, Ok(Outcome::Cancelled)));
    }
    theirs.write_all(b"all of it").unwrap();
    ring.submit(4, read(socket)).unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (4, b"all of it".to_vec()));
    let end = socket;
    let chunk_bytes = 10;
    ring.submit(5, Operation::ReadMultishot { end, chunk_bytes })
        .unwrap();
    let events = PollFlags::IN;
    ring.submit(6, Operation::Poll { end, events }).unwrap();
    nothing(&mut ring);
    for token in [5, 6] {
        assert!(ring.cancel(token));
        let completion = one(&mut ring);
        assert!(is_cancelled(&completion) && completion.is_last);
    }
    assert!(!ring.cancel(5));
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_cancelled_write_says_what_it_moved() {
    for nonblocking in [false, true] {
        let (mut ring, socket, mut theirs) = ring_with_socket();
        let given_back = ring.detach_foreign(socket).unwrap();
        rustix::io::ioctl_fionbio(&given_back, nonblocking).unwrap();
        let socket = ring.attach_foreign(given_back).unwrap();
        let sent = pattern(5_000_000);
        ring.submit(1, Operation::write(socket, &sent[..])).unwrap();
        ring.submit(2, Operation::write(socket, b"behind")).unwrap();
        nothing(&mut ring);
        assert!(ring.cancel(1));
        let (token, bytes) = moved(one(&mut ring));
        assert_eq!(token, 1);
        assert!((1..sent.len()).contains(&bytes), "{bytes}");
        let mut received = vec![0; bytes];
        theirs.read_exact(&mut received).unwrap();
        assert!(received == sent[..bytes]);
        assert_eq!(moved(one(&mut ring)), (2, 6));
        drop(ring);
        received.clear();
        theirs.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"behind");
    }
}

/// Whatever comes first, no byte is lost or doubled.
#[test]
fn cancels_race_with_arrivals() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    let sent = pattern(2000);
    let writing = std::thread::spawn({
        let sent = sent.clone();
        move || {
            for byte in sent {
                theirs.write_all(&[byte]).unwrap();
            }
        }
    });
    let mut received = Vec::new();
    let mut token = 0;
    while received.len() < sent.len() {
        token += 1;
        ring.submit(token, Operation::read(socket, vec![0; 3]))
            .unwrap();
        ring.cancel(token);
        let completion = one(&mut ring);
        assert_eq!(completion.token, token);
        if !is_cancelled(&completion) {
            received.extend(bytes_of(completion).1);
        }
    }
    writing.join().unwrap();
    assert!(received == sent);
}

#[test]
fn a_dropped_ring_has_taken_nothing() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut again = ours.try_clone().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    let mut memory = [7; 100];
    let start = NonNull::from(&mut memory).cast();
    // SAFETY: the memory is left alone until the ring is dropped.
    let lent = unsafe { Buffer::from_raw_parts(start, 100) };
    ring.submit(1, Operation::read(socket, lent)).unwrap();
    nothing(&mut ring);
    drop(ring);
    theirs.write_all(b"all of it").unwrap();
    let mut bytes = [0; 9];
    again.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"all of it");
    assert_eq!(memory, [7; 100]);
    // Nor has it anything open.
    drop(again);
    theirs.set_nonblocking(true).unwrap();
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
}

/// The kernel gives nothing back there and then: what it has is left to it.
#[test]
fn a_ring_that_another_thread_drops_leaves_the_kernel_its_memory() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    let (hand_over, handed_over) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let submitting = std::thread::spawn(move || {
        ring.submit(1, read(socket)).unwrap();
        nothing(&mut ring);
        hand_over.send(ring).unwrap();
        ended.recv().unwrap_err();
    });
    drop(handed_over.recv().unwrap());
    // Its memory, but not the descriptor: the other side hears of it.
    theirs.set_read_timeout(LONG).unwrap();
    assert_eq!(theirs.read_to_end(&mut Vec::new()).unwrap(), 0);
    drop(end);
    submitting.join().unwrap();
}

#[test]
fn memory_of_others_is_read_to_and_written_from() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    let mut memory = *b"to them";
    let start = NonNull::from(&mut memory).cast();
    // SAFETY: the memory is left alone until the buffer is dropped.
    let lent = || unsafe { Buffer::from_raw_parts(start, 7) };
    ring.submit(1, Operation::write(socket, lent())).unwrap();
    let (bytes, buffers) = one(&mut ring).into_bytes();
    assert_eq!(bytes.unwrap(), 7);
    assert_eq!(buffers.into_first().as_ptr(), start.as_ptr());
    let mut received = [0; 7];
    theirs.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"to them");
    ring.submit(2, Operation::read(socket, lent())).unwrap();
    nothing(&mut ring);
    theirs.write_all(b"from").unwrap();
    assert_eq!(moved(one(&mut ring)), (2, 4));
    assert_eq!(&memory, b"fromhem");
}

/// The kernel cancels what a thread has submitted when that ends.
#[test]
fn a_thread_that_submitted_and_ended_takes_nothing_with_it() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ring.submit(1, read(socket)).unwrap();
            ring.submit(2, read(socket)).unwrap();
            nothing(&mut ring);
        });
    });
    for round in 0..3 {
        // However often it is looked at in between.
        nothing(&mut ring);
        assert_eq!(ring.in_flight(), 2, "{round}");
    }
    theirs.write_all(b"hello").unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (1, b"hello".to_vec()));
    let completion = once_asleep(|| one(&mut ring), |_| theirs.write_all(b"again").unwrap());
    assert_eq!(bytes_of(completion), (2, b"again".to_vec()));
}

#[test]
fn links_go_from_one_to_another() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    let (reader, writer) = pipe().unwrap();
    let (reader, writer) = (ring.attach(reader), ring.attach(writer));
    let links = vec![
        (1, Operation::write(socket, b"ask")),
        (2, read(socket)),
        (3, Operation::write(writer, b"tell")),
    ];
    ring.submit(4, read(reader)).unwrap();
    ring.submit_linked(links).unwrap();
    assert_eq!(moved(one(&mut ring)), (1, 3));
    nothing(&mut ring);
    let mut question = [0; 3];
    theirs.read_exact(&mut question).unwrap();
    theirs.write_all(b"answer").unwrap();
    let mut rest = [one(&mut ring), one(&mut ring), one(&mut ring)].map(bytes_of);
    rest.sort();
    assert_eq!(rest[0], (2, b"answer".to_vec()));
    assert_eq!(rest[1], (3, b"tell".to_vec()));
    assert_eq!(rest[2], (4, b"tell".to_vec()));
}

#[test]
fn a_loop_that_polls_the_ring_hears_of_sockets() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = epoll::EventData::new_u64(0);
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&outer, ring.pollable().unwrap(), data, flags).unwrap();
    for round in 0..10 {
        ring.submit(round, read(socket)).unwrap();
        while is_readable(&mut ring) {
            nothing(&mut ring);
        }
        theirs.write_all(b"hello").unwrap();
        let completion = loop {
            let mut events = Vec::with_capacity(4);
            match epoll::wait(&outer, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("{error}"),
            }
            if let Some(completion) = ring.reap().unwrap().next() {
                break completion;
            }
        };
        assert_eq!(bytes_of(completion), (round, b"hello".to_vec()));
    }
}

#[test]
fn a_signal_interrupts_a_wait_and_what_the_kernel_completes_does_not() {
    handle(libc::SIGUSR1, 0);
    let (mut ring, socket, mut theirs) = ring_with_socket();
    let error = once_asleep(
        || {
            ring.submit(1, read(socket)).unwrap();
            ring.wait(LONG).map(drop).unwrap_err()
        },
        |id| send(id, libc::SIGUSR1),
    );
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    for round in 2..20 {
        let completion = once_asleep(
            || {
                ring.submit(round, read(socket)).unwrap();
                one(&mut ring)
            },
            |_| theirs.write_all(b"hello").unwrap(),
        );
        // The first is that of before.
        assert_eq!(bytes_of(completion), (round - 1, b"hello".to_vec()));
    }
}

/// A child that does this, and then nothing, until it is killed.
fn child(first: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child does no more than the library allows after a fork, and does not return.
    match unsafe { libc::fork() } {
        0 => {
            first();
            loop {
                std::thread::park();
            }
        }
        child => child,
    }
}

fn status_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

#[test]
fn a_peer_that_is_killed_ends_the_stream() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = child(|| (&theirs).write_all(b"last words").unwrap());
    drop(theirs);
    let mut ring = Ring::new(8).unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    ring.submit(1, read(socket)).unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (1, b"last words".to_vec()));
    ring.submit(2, read(socket)).unwrap();
    nothing(&mut ring);
    // SAFETY: our child.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    status_of(child);
    assert_eq!(moved(one(&mut ring)), (2, 0));
}

#[test]
fn a_forked_child_is_told_and_disturbs_nobody() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    ring.submit(1, read(socket)).unwrap();
    nothing(&mut ring);
    // SAFETY: the child does no more than the library allows after a fork, and exits.
    match unsafe { libc::fork() } {
        0 => {
            let is_told = ring.cancel(1)
                && ring.submit(2, read(socket)).is_ok()
                && ring.submit(3, Operation::write(socket, b"x")).is_ok();
            let told = ring.reap().ok().and_then(|mut reaped| reaped.next());
            let is_told = is_told
                && told.is_some_and(|completion| {
                    let error = completion.into_bytes().0;
                    error.is_err_and(|error| error.kind() == ErrorKind::Unsupported)
                });
            drop(ring);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_told)) }
        }
        child => assert_eq!(status_of(child), 0),
    }
    theirs.write_all(b"hello").unwrap();
    assert_eq!(bytes_of(one(&mut ring)), (1, b"hello".to_vec()));
}

/// In a child, which has its own idea of what is allowed.
#[test]
fn where_io_uring_is_refused_that_is_said() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    // SAFETY: the child does no more than the library allows after a fork, and exits.
    match unsafe { libc::fork() } {
        0 => {
            refuse_io_uring();
            let mut ring = Ring::new(8).unwrap();
            let error = ring.attach_foreign(OwnedFd::from(ours)).unwrap_err();
            let is_typed = matches!(error.refusal, Refusal::NoIoUring(_));
            let is_said = error.to_string().contains("io_uring is refused");
            // Pipes need none.
            let (reader, writer) = pipe().unwrap();
            let (reader, writer) = (ring.attach(reader), ring.attach(writer));
            ring.submit(1, Operation::write(writer, b"hello")).unwrap();
            ring.submit(2, read(reader)).unwrap();
            let is_well = ring.wait(LONG).unwrap().count() == 2;
            let is_kind = io::Error::from(error).kind() == ErrorKind::PermissionDenied;
            let is_right = is_typed && is_said && is_well && is_kind;
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        child => assert_eq!(status_of(child), 0),
    }
}

/// From now on `io_uring_setup(2)` says `EPERM`, as where `kernel.io_uring_disabled` is set. See seccomp(2).
fn refuse_io_uring() {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let load_number = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0);
    let is_setup = libc::sock_filter {
        jf: 1,
        ..statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_io_uring_setup as u32,
        )
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        load_number,
        is_setup,
        statement(libc::BPF_RET | libc::BPF_K, refuse),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: a number is set.
    let status = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(status, 0);
    // SAFETY: the filter is copied.
    let status = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(status, 0);
}

#[test]
fn many_sockets_wait_at_once() {
    let mut ring = Ring::new(1000).unwrap();
    let mut theirs = Vec::new();
    for token in 0..500 {
        let (ours, other) = UnixStream::pair().unwrap();
        let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
        ring.submit(token, read(socket)).unwrap();
        theirs.push(other);
    }
    nothing(&mut ring);
    for other in &mut theirs {
        other.write_all(b"x").unwrap();
    }
    let mut tokens = Vec::new();
    while tokens.len() < 500 {
        let before = tokens.len();
        tokens.extend(ring.wait(LONG).unwrap().map(|completion| completion.token));
        assert!(tokens.len() > before);
    }
    tokens.sort_unstable();
    assert!(tokens.into_iter().eq(0..500));
}

#[test]
fn a_descriptor_given_back_is_closed_by_whoever_has_it() {
    let (mut ring, socket, mut theirs) = ring_with_socket();
    ring.submit(1, read(socket)).unwrap();
    nothing(&mut ring);
    let fd = ring.detach_foreign(socket).unwrap();
    assert!(is_cancelled(&one(&mut ring)));
    let fd = Arc::try_unwrap(fd).expect("nobody else has it");
    drop(fd);
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
}

#[test]
fn an_offset_that_no_file_has_is_not_the_position() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"0123456789").unwrap();
    file.rewind().unwrap();
    let mut ring = Ring::new(8).unwrap();
    let end = ring.attach_foreign(OwnedFd::from(file)).unwrap();
    for offset in [u64::MAX, 1 << 63] {
        let buffer = vec![0; 4];
        ring.submit(1, Operation::read_at(end, offset, buffer))
            .unwrap();
        let (bytes, _) = one(&mut ring).into_bytes();
        assert_eq!(bytes.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

/// Not in the order of the kernel's completions alone: pipes have their turns.
#[test]
fn a_descriptor_that_always_has_bytes_starves_no_pipe() {
    for capacity in [3, 4, 64] {
        let mut ring = Ring::new(capacity).unwrap();
        let zeros = OwnedFd::from(File::open("/dev/zero").unwrap());
        let (reader, mut writer) = pipe().unwrap();
        let ends = [ring.attach_foreign(zeros).unwrap(), ring.attach(reader)];
        for (token, end) in (0..).zip(ends) {
            let chunk_bytes = 10;
            ring.submit(token, Operation::ReadMultishot { end, chunk_bytes })
                .unwrap();
        }
        for round in 0..3 {
            writer.write_all(b"x").unwrap();
            let mut reaps = 0;
            let arrived = |completion: &Completion| completion.token == 1;
            while ring.wait(LONG).unwrap().filter(arrived).count() == 0 {
                reaps += 1;
                assert!(reaps < 20, "starved, {capacity} places, round {round}");
            }
        }
    }
}
