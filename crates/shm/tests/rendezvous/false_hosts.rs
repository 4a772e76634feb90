//! Hosts that say, or hand out, what they should not.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::net::{accept, bind, listen};
use rustix::pipe::pipe;
use standpipe_shm::lane::Wake;
use standpipe_shm::rendezvous::message::{Bytes, Reply};
use standpipe_shm::rendezvous::{Answer, Guest, Malformed, Refusal};

use super::support::{
    NOW, address, alone, answer, borrow, events, fifo, guest, host, huge_memory, memory,
    new_socket, parts, say, size,
};

/// A listener with the name of the pipe that says nothing by itself, and a guest of it.
fn false_host(reader: &OwnedFd, writer: &OwnedFd) -> (OwnedFd, Guest) {
    let name = new_socket();
    bind(&name, &address(reader)).unwrap();
    listen(&name, 1).unwrap();
    (name, guest(writer))
}

/// What a guest makes of a host that says this.
fn told(bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Answer {
    let (reader, writer) = pipe().unwrap();
    let (name, mut guest) = false_host(&reader, &writer);
    let host = accept(&name).unwrap();
    say(&host, bytes, descriptors);
    answer(&mut guest)
}

fn welcome() -> Bytes {
    let (size, wake) = (size(), Wake::PerSegment);
    Reply::Welcome { size, wake }.encode()
}

/// The same file, opened in another way.
fn reopened(fd: &OwnedFd, flags: OFlags) -> OwnedFd {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

#[test]
fn a_host_that_talks_on_is_none() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let (name, mut guest) = false_host(&reader, &writer);
    let host = accept(&name).unwrap();
    let offered = parts();
    let welcome = welcome();
    say(&host, &welcome, &borrow(&offered).fds);
    say(&host, &welcome, &borrow(&offered).fds);
    assert!(matches!(answer(&mut guest), Answer::Welcome(_)));
    assert!(matches!(answer(&mut guest), Answer::HostGone));
}

#[test]
fn the_wrong_descriptor_is_named() {
    let _alone = alone();
    let offered = parts();
    let good = borrow(&offered).fds;
    let welcome = welcome();
    assert!(matches!(told(&welcome, &good), Answer::Welcome(_)));

    let len_bytes = 4096 + size().capacity_bytes();
    let unsealed = memory(len_bytes, SealFlags::GROW);
    let short = memory(len_bytes - 1, SealFlags::SHRINK);
    let read_only = memory(len_bytes, SealFlags::SHRINK | SealFlags::WRITE);
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let blocking = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let (from_other, to_other) = pipe().unwrap();
    let only_a_path = reopened(&from_other, OFlags::PATH);
    let half = reopened(&offered.memory, OFlags::RDONLY);
    let silent = reopened(&from_other, OFlags::RDONLY | OFlags::NONBLOCK);
    let directory = tempfile::tempdir().unwrap();
    let named = reopened(
        &fifo(directory.path(), 0o600),
        OFlags::RDONLY | OFlags::NONBLOCK,
    );
    let huge = huge_memory().unwrap_or_else(|error| {
        eprintln!("not run with huge pages: {error}");
        memory(1, SealFlags::SHRINK)
    });
    for (place, wrong, field) in [
        (0, &unsealed, "memory"),
        (0, &huge, "memory"),
        (0, &short, "memory"),
        (0, &read_only, "memory"),
        (0, &half, "memory"),
        (0, &file, "memory"),
        (0, &offered.reader_bell, "memory"),
        (1, &blocking, "reader bell"),
        (1, &offered.memory, "reader bell"),
        (1, &silent, "reader bell"),
        (2, &offered.presence, "writer bell"),
        (3, &to_other, "presence"),
        (3, &named, "presence"),
        (3, &only_a_path, "presence"),
        (3, &offered.reader_bell, "presence"),
        (4, &offered.presence, "stage, to read from"),
        (4, &to_other, "stage, to read from"),
        (4, &from_other, "stage, to write to"),
        (5, &to_other, "stage, to write to"),
        (5, &offered.stage[0], "stage, to write to"),
    ] {
        let mut sent = good;
        sent[place] = wrong.as_fd();
        let Answer::Malformed(error) = told(&welcome, &sent) else {
            panic!("{field} taken");
        };
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn the_pipe_itself_is_not_taken_for_one_of_the_lane() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut offered = parts();
    offered.presence = reader.try_clone().unwrap();
    let mut host = host(&reader);
    let mut guest = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert!(matches!(
        answer(&mut guest),
        Answer::Malformed(Malformed::Descriptor {
            field: "presence",
            ..
        })
    ));
}

#[test]
fn too_many_and_too_few_descriptors_are_refused_and_closed() {
    let _alone = alone();
    let offered = parts();
    let welcome = welcome();
    let refusal = Reply::Refusal(Refusal::Full).encode();
    for (bytes, first, error) in [
        (
            welcome,
            0,
            Malformed::Descriptors {
                found: 1,
                expected: 6,
            },
        ),
        (
            welcome,
            4,
            Malformed::Descriptors {
                found: 5,
                expected: 6,
            },
        ),
        (
            welcome,
            6,
            Malformed::Descriptors {
                found: 7,
                expected: 6,
            },
        ),
        (welcome, 12, Malformed::DescriptorsCut),
        (
            refusal,
            0,
            Malformed::Descriptors {
                found: 1,
                expected: 0,
            },
        ),
        ([b'!'; 16], 5, Malformed::Magic { found: *b"!!!!" }),
    ] {
        let (watched, sent) = pipe().unwrap();
        let mut descriptors: Vec<_> = borrow(&offered)
            .fds
            .into_iter()
            .cycle()
            .take(first)
            .collect();
        descriptors.push(sent.as_fd());
        let answer = told(&bytes, &descriptors);
        assert!(
            matches!(&answer, Answer::Malformed(found) if *found == error),
            "{answer:?}"
        );
        drop(descriptors);
        drop(sent);
        assert_eq!(events(watched.as_fd(), &NOW), PollFlags::HUP, "{error}");
    }
}
