//! Peers that are killed complete what waits for them.

mod many;

use std::io::{self, Write};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use standpipe::completion::{Buffers, Operation, PollFlags, Ring};
use standpipe::pipe::pipe;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// A child that does this, and then nothing, until it is killed.
fn child(first: impl FnOnce()) -> Pid {
    // SAFETY: the child does no more than the library allows after a fork, and does not return.
    match unsafe { libc::fork() } {
        0 => {
            first();
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        pid => Pid::from_raw(pid).expect("no child"),
    }
}

fn kill(child: Pid) {
    kill_process(child, Signal::KILL).unwrap();
    waitpid(Some(child), WaitOptions::empty()).unwrap();
}

fn readers_see_the_end() {
    let (reader, mut writer) = pipe().unwrap();
    let child = child(|| writer.write_all(b"last words").unwrap());
    drop(writer);
    let mut ring = Ring::new(8).unwrap();
    let end = ring.attach(reader);
    let read = |buffer: Vec<u8>| Operation::read(end, buffer);
    ring.submit(1, read(vec![0; 100])).unwrap();
    let (bytes, buffers) = ring.wait(LONG).unwrap().next().unwrap().into_bytes();
    let Buffers::One(buffer) = buffers else {
        panic!("no buffer")
    };
    assert_eq!(&buffer[..bytes.unwrap()], b"last words");
    ring.submit(2, read(buffer.into_vec())).unwrap();
    let events = PollFlags::IN;
    ring.submit(3, Operation::Poll { end, events }).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    kill(child);
    let mut all = Vec::new();
    while all.len() < 2 {
        all.extend(ring.wait(LONG).unwrap());
    }
    all.sort_by_key(|completion| completion.token);
    assert_eq!(all.remove(0).into_bytes().0.unwrap(), 0);
}

fn writers_see_the_pipe_break() {
    let (reader, writer) = pipe().unwrap();
    let child = child(|| {});
    drop(reader);
    let mut ring = Ring::new(8).unwrap();
    let end = ring.attach(writer);
    ring.submit(1, Operation::write(end, vec![1; 1 << 20]))
        .unwrap();
    ring.submit(2, Operation::write(end, vec![2; 1])).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    kill(child);
    let mut all = Vec::new();
    while all.len() < 2 {
        all.extend(ring.wait(LONG).unwrap());
    }
    // What went in is said, the next one gets the error: as from blocking writes.
    let first = all.remove(0).into_bytes().0.unwrap();
    assert!((1..1 << 20).contains(&first), "{first}");
    let second = all.remove(0).into_bytes().0.unwrap_err();
    assert_eq!(second.kind(), io::ErrorKind::BrokenPipe);
}

/// One after the other: a child has copies of all ends that its parent has at the time.
#[test]
fn killed_peers_complete_what_waits_for_them() {
    readers_see_the_end();
    writers_see_the_pipe_break();
    many::each_kind_is_completed();
    for round in 0..10 {
        many::what_a_killed_writer_wrote_comes_in_order(round * 30_000);
        many::what_a_killed_reader_took_is_said(round * 30_000);
    }
}
