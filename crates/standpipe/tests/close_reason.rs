//! What a survivor is told of its last peer.

mod common;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;

use common::into_the_lane;
use standpipe::end::{CloseReason, End};
use standpipe::pipe::pipe;

/// Forks; the child does `body` and then waits to be killed.
fn child(body: impl FnOnce()) -> i32 {
    // SAFETY: the only thread that matters goes on in the child, which uses its own ends only.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        body();
        loop {
            // SAFETY: sleeps until a signal comes.
            unsafe { libc::pause() };
        }
    }
    pid
}

#[test]
fn a_survivor_is_told_how_its_last_peer_left() {
    // Forks: in a process of its own, with one thread.
    if std::env::var_os("STANDPIPE_TEST_REASON").is_none() {
        let error = std::process::Command::new(std::env::current_exe().unwrap())
            .env("STANDPIPE_TEST_REASON", "1")
            .env("RUST_TEST_THREADS", "1")
            .exec();
        panic!("{error}");
    }
    closed_and_cancelled();
    killed();
}

fn closed_and_cancelled() {
    for cancels in [false, true] {
        let (reader, writer) = pipe().unwrap();
        let (reader, writer) = (End::from(reader), End::from(writer));
        // Without a lane there would be nobody to tell.
        into_the_lane(&reader, &writer);
        let reason = || reader.close_reason().unwrap();
        let committed_bytes = writer.stats().bytes;
        assert_eq!(reason().reason, CloseReason::Open);
        let pid = std::process::id();
        let expected = if cancels {
            writer.cancel();
            CloseReason::Cancelled { pid }
        } else {
            drop(writer);
            CloseReason::Closed { pid }
        };
        assert_eq!(reason().reason, expected);
        assert_eq!(reason().committed_bytes, committed_bytes);
    }
}

fn killed() {
    let (mut reader, mut writer) = pipe().unwrap();
    let pid = child(|| writer.write_all(b"committed").unwrap());
    drop(writer);
    let mut text = [0; 9];
    reader.read_exact(&mut text).unwrap();
    // SAFETY: our own child, which was not waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert_eq!(reader.read(&mut text).unwrap(), 0);
    let close = reader.as_end().close_reason().unwrap();
    assert_eq!(close.committed_bytes, 9);
    let expected = CloseReason::Died {
        pid: pid.unsigned_abs(),
        signal: Some(libc::SIGKILL),
    };
    // The descriptors of a killed process are closed a moment before it can be waited for.
    let mut now = close.reason;
    while now != expected {
        let unknown = CloseReason::Died {
            pid: pid.unsigned_abs(),
            signal: None,
        };
        assert_eq!(now, unknown);
        now = reader.as_end().close_reason().unwrap().reason;
    }
}
