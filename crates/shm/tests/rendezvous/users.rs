//! Meetings of different users.

use std::io;
use std::io::Read;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::pipe;
use rustix::process::{PidfdFlags, pidfd_open};
use standpipe_shm::rendezvous::{Answer, Meeting, Refusal};

use super::child::{Child, sleep_for_ever};
use super::support::{
    NOW, PATIENCE, alone, answer, arrange, borrow, events, fifo, guest, host, parts,
};

const NOBODY: u32 = 65534;

/// Whether a test that needs another user can run: only root can become one.
fn can_be_nobody() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not run: needs root, to become another user");
    }
    is_root
}

fn become_nobody() {
    // SAFETY: changes this process's own user; the process has one thread (it was forked).
    assert_eq!(unsafe { libc::setgroups(0, std::ptr::null()) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
}

#[test]
fn another_user_is_let_in_where_the_fifo_lets_him_and_nowhere_else() {
    let _alone = alone();
    if !can_be_nobody() {
        return;
    }
    let [open, shut] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let offered = parts();
    for (pipe, admitted) in [
        (pipe().unwrap().0, false),
        (fifo(open.path(), 0o666), true),
        (fifo(shut.path(), 0o622), false),
    ] {
        let mut host = host(&pipe);
        let child = Child::run(|| {
            become_nobody();
            match answer(&mut guest(&pipe)) {
                Answer::Welcome(_) => admitted,
                Answer::Refused(Refusal::Credentials) => !admitted,
                other => panic!("{other:?}"),
            }
        });
        let exit = pidfd_open(child.0, PidfdFlags::empty()).unwrap();
        let mut served = 0;
        while events(exit.as_fd(), &NOW).is_empty() {
            let mut fds = [
                PollFd::new(&host, PollFlags::IN),
                PollFd::new(&exit, PollFlags::IN),
            ];
            poll(&mut fds, Some(&PATIENCE)).unwrap();
            served += host.serve(|| Some(borrow(&offered)));
        }
        assert_eq!(served, usize::from(admitted));
        assert!(child.ends_well(), "admitted: {admitted}");
    }
}

#[test]
fn a_host_of_another_user_is_trusted_where_the_fifo_lets_him_and_nowhere_else() {
    let _alone = alone();
    if !can_be_nobody() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (end, trusted) in [
        (pipe().unwrap().0, false),
        (fifo(directory.path(), 0o666), true),
    ] {
        let (mut ready, tell) = pipe().map(|(r, w)| (std::fs::File::from(r), w)).unwrap();
        let _child = Child::run(|| {
            become_nobody();
            let host = host(&end);
            rustix::io::write(&tell, b"!").unwrap();
            let _host = host;
            sleep_for_ever()
        });
        ready.read_exact(&mut [0]).unwrap();
        match arrange(&end) {
            Ok(Meeting::Guest(_)) => assert!(trusted),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(!trusted);
            }
            Ok(Meeting::Host(_)) => panic!("the name was taken"),
        }
    }
}
