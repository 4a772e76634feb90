//! A child in another pid namespace: there, the lane's locks mean others.

mod common;

use std::io::{Read, Write};

use common::once_asleep;
use standpipe::pipe::pipe;

#[test]
fn a_fork_into_another_pid_namespace_comes_back() {
    let (mut reader, mut writer) = pipe().unwrap();
    let mut byte = [0];
    // It may sleep for another reason first, in a process that does more than this.
    while writer.stats().bytes == 0 {
        once_asleep(
            || reader.read_exact(&mut byte).unwrap(),
            |_| (&writer).write_all(b"x").unwrap(),
        );
    }
    // SAFETY: changes only where children of this process are born. (It has one test, and no more threads.)
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return eprintln!("not run: no permission to make a pid namespace");
    }
    // SAFETY: the child's only thread goes on as any program would.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let written = writer.write_all(b"y");
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(written.is_err())) };
    }
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "y");
}
