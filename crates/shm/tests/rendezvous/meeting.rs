//! Who meets whom, and what the host hands out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::FdFlags;
use rustix::pipe::pipe;
use rustix::process::{Resource, Rlimit};
use standpipe_shm::lane::Wake;
use standpipe_shm::rendezvous::{Answer, Host, Meeting, Refusal};

use super::child::Child;
use super::support::{
    NOW, PATIENCE, alone, answer, arrange, borrow, events, guest, hello, host, inode, parts, raw,
    refuse, say, size,
};

#[test]
fn a_guest_is_handed_the_lane_and_hears_when_the_host_goes() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut guest = guest(&writer);
    assert!(matches!(guest.look(), Answer::NotYet));
    assert_eq!(events(host.as_fd(), &PATIENCE), PollFlags::IN);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
    let Answer::Welcome(parts) = answer(&mut guest) else {
        panic!("no welcome");
    };
    assert_eq!((parts.size, parts.wake), (size(), Wake::PerTransfer));
    let given = borrow(&offered).fds;
    for (given, got) in given.into_iter().zip(borrow(&parts).fds) {
        assert_eq!(inode(given), inode(got));
        assert_eq!(rustix::io::fcntl_getfd(got).unwrap(), FdFlags::CLOEXEC);
    }
    assert!(matches!(guest.look(), Answer::NotYet));
    drop(host);
    assert!(matches!(answer(&mut guest), Answer::HostGone));
    assert!(matches!(arrange(&writer).unwrap(), Meeting::Host(_)));
}

#[test]
fn a_guest_that_leaves_or_talks_on_wakes_nobody() {
    let _alone = alone();
    let (reader, _writer) = pipe().unwrap();
    let mut host = host(&reader);
    let guest = raw(&reader).unwrap();
    say(&guest, &hello().encode(), &[]);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    say(&guest, b"more", &[]);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
    drop(guest);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
}

#[test]
fn all_who_wait_are_served_and_the_parts_are_asked_for_once() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let offered = parts();
    let mut asked = 0;
    let mut offer = |host: &mut Host| {
        host.serve(|| {
            asked += 1;
            Some(borrow(&offered))
        })
    };
    assert_eq!(offer(&mut host), 0);
    let mut guests = [guest(&writer), guest(&reader), guest(&writer)];
    assert_eq!(offer(&mut host), 3);
    assert_eq!(asked, 1);
    assert!(
        guests
            .iter_mut()
            .all(|guest| matches!(answer(guest), Answer::Welcome(_)))
    );
}

#[test]
fn a_host_without_a_lane_refuses() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut guest = guest(&writer);
    assert_eq!(host.serve(refuse), 0);
    assert!(matches!(
        answer(&mut guest),
        Answer::Refused(Refusal::NoLane)
    ));
    assert!(matches!(answer(&mut guest), Answer::HostGone));
}

#[test]
fn a_full_table_refuses_until_a_guest_has_left() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let offered = parts();
    let mut guests = Vec::new();
    for _ in 0..64 {
        guests.push(guest(&writer));
        assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    }
    let mut late = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 0);
    assert!(matches!(answer(&mut late), Answer::Refused(Refusal::Full)));
    guests.remove(10);
    let mut late = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert!(matches!(answer(&mut late), Answer::Welcome(_)));
}

#[test]
fn a_host_without_free_descriptors_can_still_sleep_and_serves_later() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let child = Child::run(|| {
        let mut host = host(&reader);
        let mut guest = guest(&writer);
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let none = Rlimit {
            // (poll(2) wants to be allowed as many as it looks at)
            current: Some(1),
            ..limit
        };
        rustix::process::setrlimit(Resource::Nofile, none).unwrap();
        assert_eq!(host.serve(refuse), 0);
        assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
        rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(host.serve(refuse), 0);
        let refused = matches!(guest.look(), Answer::Refused(Refusal::NoLane));
        let _next = self::guest(&writer);
        refused && events(host.as_fd(), &NOW) == PollFlags::IN
    });
    assert!(child.ends_well());
}

#[test]
fn what_is_no_pipe_is_refused_by_name() {
    let _alone = alone();
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let error = arrange(&file).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("expected an end of a pipe"));
}
