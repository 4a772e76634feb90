//! What counts against the limits of a process, when others change the capacity of its lane.

mod common;

use std::io::{Read, Write};

use common::once_asleep;
use standpipe::pipe::{limits, pipe};

#[test]
fn a_child_that_changes_the_capacity_does_not_change_the_account() {
    let before = limits::used_lane_bytes();
    let (mut reader, writer) = pipe().unwrap();
    let mut byte = [0];
    // It may sleep for another reason first, in a process that does more than this.
    while writer.stats().bytes == 0 {
        once_asleep(
            || reader.read_exact(&mut byte).unwrap(),
            |_| (&writer).write_all(b"x").unwrap(),
        );
    }
    // SAFETY: the child's only thread goes on as any program would.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let set = writer.as_end().set_capacity_bytes(1 << 20);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(set.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    drop((reader, writer));
    assert_eq!(limits::used_lane_bytes(), before);
}
