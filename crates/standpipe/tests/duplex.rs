//! Two-way pipes, as section L of the semantics has them.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use common::{fill, once_asleep};
use standpipe::duplex::duplex;
use standpipe::poll::{Entry, Interest, PollFlags, SelectEntry, poll, select};

const ALL: PollFlags = PollFlags::IN.union(PollFlags::OUT);

#[test]
fn both_ends_write_and_read() {
    let (mut here, mut there) = duplex().unwrap();
    let mut word = [0; 4];
    for _ in 0..3 {
        here.write_all(b"ping").unwrap();
        there.write_all(b"pong").unwrap();
        here.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"pong");
        there.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"ping");
    }
}

#[test]
fn each_direction_has_its_own_buffer() {
    let (here, there) = duplex().unwrap();
    here.set_nonblocking(true).unwrap();
    fill(&here);
    assert_eq!(here.events(ALL).unwrap(), PollFlags::empty());
    assert_eq!(there.events(ALL).unwrap(), ALL);
    (&there).write_all(b"x").unwrap();
    assert_eq!(here.events(ALL).unwrap(), PollFlags::IN);
}

#[test]
fn closing_an_end_widows_both_directions_of_the_other() {
    let (here, there) = duplex().unwrap();
    (&there).write_all(b"last words").unwrap();
    drop(there);
    assert_eq!(here.events(ALL).unwrap(), ALL | PollFlags::HUP);
    let mut text = String::new();
    (&here).read_to_string(&mut text).unwrap();
    assert_eq!(text, "last words");
    assert_eq!(
        (&here).write(b"x").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
    assert_eq!(
        here.events(PollFlags::IN).unwrap(),
        PollFlags::IN | PollFlags::HUP
    );
    assert_eq!(
        here.events(PollFlags::OUT).unwrap(),
        PollFlags::OUT | PollFlags::HUP
    );
    assert_eq!(here.events(PollFlags::empty()).unwrap(), PollFlags::HUP);
}

#[test]
fn a_copy_keeps_both_directions_open_and_shares_the_mode() {
    let (here, there) = duplex().unwrap();
    let copy = there.try_clone().unwrap();
    there.set_nonblocking(true).unwrap();
    assert_eq!(
        (&copy).read(&mut [0]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    drop(there);
    assert_eq!(here.events(ALL).unwrap(), PollFlags::OUT);
    drop(copy);
    assert_eq!(here.events(ALL).unwrap(), ALL | PollFlags::HUP);
}

#[test]
fn split_directions_are_closed_one_by_one() {
    let (here, there) = duplex().unwrap();
    let (reader, writer) = there.split();
    drop(writer);
    assert_eq!((&here).read(&mut [0]).unwrap(), 0);
    (&here).write_all(b"x").unwrap();
    assert_eq!((&reader).read(&mut [0]).unwrap(), 1);
}

#[test]
fn poll_sleeps_on_both_directions() {
    let (here, there) = duplex().unwrap();
    here.set_nonblocking(true).unwrap();
    let wait = |wanted| {
        let mut entries = [Entry::new(&here, wanted)];
        assert_eq!(poll(&mut entries, None, None).unwrap(), 1);
        entries[0].revents
    };
    fill(&here);
    assert_eq!(
        once_asleep(|| wait(ALL), |_| (&there).write_all(b"x").unwrap()),
        PollFlags::IN
    );
    (&here).read_exact(&mut [0]).unwrap();
    let drain = |_| assert!((&there).read(&mut vec![0; 1 << 20]).unwrap() > 0);
    assert_eq!(once_asleep(|| wait(ALL), drain), PollFlags::OUT);
    assert_eq!(
        once_asleep(|| wait(PollFlags::empty()), |_| drop(there)),
        PollFlags::HUP
    );
}

#[test]
fn select_sees_a_widow_as_readable_and_writable() {
    let (here, there) = duplex().unwrap();
    let both = Interest {
        read: true,
        write: true,
        except: false,
    };
    let mut entries = [SelectEntry::new(&here, both)];
    assert_eq!(select(&mut entries, Some(Duration::ZERO), None).unwrap(), 1);
    assert_eq!(
        entries[0].ready,
        Interest {
            read: false,
            ..both
        }
    );
    drop(there);
    assert_eq!(select(&mut entries, None, None).unwrap(), 2);
    assert_eq!(entries[0].ready, both);
}
