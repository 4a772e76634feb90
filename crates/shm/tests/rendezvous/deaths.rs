//! Hosts that are killed, and hosts that are forked.

use std::io::Read;
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::pipe::pipe;
use rustix::process::Signal;
use standpipe_shm::rendezvous::{Answer, Meeting};

use super::child::{Child, sleep_for_ever};
use super::support::{NOW, PATIENCE, alone, answer, arrange, borrow, events, guest, host, parts};

#[test]
fn a_killed_host_is_heard_of_and_its_name_is_free() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let (mut ready, tell) = pipe().map(|(r, w)| (std::fs::File::from(r), w)).unwrap();
    let child = Child::run(|| {
        let mut host = host(&reader);
        rustix::io::write(&tell, b"!").unwrap();
        let offered = parts();
        loop {
            events(host.as_fd(), &PATIENCE);
            host.serve(|| Some(borrow(&offered)));
        }
    });
    ready.read_exact(&mut [0]).unwrap();
    let mut welcomed = guest(&writer);
    assert!(matches!(answer(&mut welcomed), Answer::Welcome(_)));
    rustix::process::kill_process(child.0, Signal::STOP).unwrap();
    let mut unheard = guest(&writer);
    child.kill();
    assert!(matches!(answer(&mut welcomed), Answer::HostGone));
    assert!(matches!(answer(&mut unheard), Answer::HostGone));
    assert!(matches!(arrange(&writer).unwrap(), Meeting::Host(_)));
}

#[test]
fn a_forked_child_that_drops_its_copy_is_no_host() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut meeting = Some(host(&reader));
    let mut early = guest(&writer);
    let (mut ready, tell) = pipe().map(|(r, w)| (std::fs::File::from(r), w)).unwrap();
    let _child = Child::run(|| {
        drop(meeting.take());
        rustix::io::write(&tell, b"!").unwrap();
        sleep_for_ever()
    });
    ready.read_exact(&mut [0]).unwrap();
    let mut host = meeting.unwrap();
    let offered = parts();
    let mut late = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 2);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
    assert!(matches!(answer(&mut early), Answer::Welcome(_)));
    assert!(matches!(answer(&mut late), Answer::Welcome(_)));
    drop(host);
    assert!(matches!(answer(&mut early), Answer::HostGone));
    assert!(matches!(arrange(&writer).unwrap(), Meeting::Host(_)));
}
