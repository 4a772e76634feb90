//! Leaving the lane when nobody reads any more.

mod common;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use common::once_asleep;
use standpipe::end::{self, End};
use standpipe::pipe::pipe;

/// A pipe whose writers are inside the lane.
fn inside() -> (standpipe::pipe::ReadEnd, standpipe::pipe::WriteEnd) {
    let (mut reader, writer) = pipe().unwrap();
    let mut byte = [0];
    // It may sleep for another reason first, in a process that does more than this.
    while writer.stats().bytes == 0 {
        once_asleep(
            || reader.read_exact(&mut byte).unwrap(),
            |_| (&writer).write_all(b"x").unwrap(),
        );
    }
    (reader, writer)
}

#[test]
fn a_write_end_is_handed_on_after_the_reader_left_bytes_behind() {
    let (reader, mut writer) = inside();
    writer.write_all(b"unread").unwrap();
    drop(reader);
    let _: Stdio = writer.into();
}

#[test]
fn a_fork_does_not_write_to_a_broken_pipe() {
    let (reader, writer) = inside();
    let fd: OwnedFd = rustix::io::dup(&writer).unwrap();
    (&writer).write_all(b"unread").unwrap();
    drop(reader);
    // Now it may be inherited.
    let _writer = End::from_fd(fd).unwrap();
    end::prepare_for_exec().unwrap();
    // SAFETY: the child forks, with the default of SIGPIPE, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the default disposition takes no handler.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        // SAFETY: parent and child both only exit.
        unsafe { libc::fork() };
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "killed by signal {}", libc::WTERMSIG(status));
}
