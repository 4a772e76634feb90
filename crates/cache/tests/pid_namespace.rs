//! A child with the number of its parent: in another pid namespace, both may be the first process.

mod common;

use std::path::Path;

use common::{OFF, PAGE, cache};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use standpipe_cache::cache::Wait;
use standpipe_cache::store::{Options, open};

fn is_read(path: &Path) -> bool {
    let store = open(path.to_str().unwrap(), &Options::default()).unwrap();
    let reader = cache(16).open(store, OFF);
    let mut bytes = [0; PAGE];
    let count = reader.read_at(&mut bytes, 0, Wait::UntilThere);
    count.is_ok_and(|count| bytes[..count] == *b"bytes")
}

/// Whether this is true in a forked child, which is the first process of a namespace. False if it takes long.
fn holds_in_another_namespace(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: changes only where children of this thread are born.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
    // SAFETY: the child's only thread goes on as any program would, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!check())) };
    }
    let pid = Pid::from_raw(child).unwrap();
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let long = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    if rustix::event::poll(&mut fds, Some(&long)) != Ok(1) {
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

#[test]
fn a_child_with_the_number_of_its_parent_reads_by_threads_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "bytes").unwrap();
    // SAFETY: asks only; nothing else of this process is to be born elsewhere.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: changes only where children of this one are born.
        let may = unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!may)) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if status != 0 {
        return eprintln!("not run: no permission to make a pid namespace");
    }
    assert!(holds_in_another_namespace(|| {
        is_read(&path) && holds_in_another_namespace(|| is_read(&path))
    }));
}
