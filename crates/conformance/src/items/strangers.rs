//! Programs that know standpipe and nothing of each other: they meet in the lane, and every byte
//! comes, in order.

use std::os::fd::OwnedFd;
use std::process::Command;

use super::PIPE_BUF;
use crate::ends::{EndOf, Reader, Writer};
use crate::engine::Options;
use crate::program::{Report, Task, read_stream, stream, write_stream, write_stream_from};
use crate::raw;
use crate::setting::Setting;
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends are made, not adopted"), strangers("programs are strangers"):
        strangers_a_program_writes,
        strangers_a_program_reads,
        strangers_two_programs_stream,
        strangers_two_writers_and_a_reader_that_comes_last,
        strangers_a_reader_goes_on_where_another_left,
        strangers_head_and_then_cat,
        strangers_cat_and_then_a_program_write;
}

const STREAM: usize = 6 << 20;

fn pipe(s: Setting) -> (Reader, Writer) {
    s.pipe_with(&Options {
        close_on_exec: true,
        ..Options::default()
    })
}

/// Most of the stream went through the lane: what did not came before they met.
fn assert_met(s: Setting, lane_bytes: u64) {
    if s.engine.is_by_descriptor() {
        let most = STREAM as u64 / 2;
        assert!(
            lane_bytes > most,
            "{lane_bytes} of {STREAM} bytes went through the lane"
        );
    }
}

fn assert_streamed(s: Setting, report: Report) {
    assert_eq!(report.bytes, STREAM);
    assert_met(s, report.lane_bytes);
}

fn strangers_a_program_writes(s: Setting) {
    let (r, w) = pipe(s);
    let writer = s.start(Task::Write, w, STREAM);
    assert_eq!(read_stream(&r), STREAM);
    assert_met(s, r.lane_bytes());
    assert_streamed(s, writer.join());
}

fn strangers_a_program_reads(s: Setting) {
    let (r, w) = pipe(s);
    let reader = s.start(Task::Read, r, STREAM);
    write_stream(&w, STREAM);
    assert_met(s, w.lane_bytes());
    drop(w);
    assert_streamed(s, reader.join());
}

fn strangers_two_programs_stream(s: Setting) {
    let (r, w) = pipe(s);
    let writer = s.start(Task::Write, w, STREAM);
    let reader = s.start(Task::Read, r, STREAM);
    assert_streamed(s, writer.join());
    assert_streamed(s, reader.join());
}

/// Each writer's bytes come in its order; here the second begins when the first has ended.
fn strangers_two_writers_and_a_reader_that_comes_last(s: Setting) {
    let (r, w) = pipe(s);
    let small = s.start(Task::Write, w.try_clone(), 10 * PIPE_BUF);
    assert_eq!(small.join().bytes, 10 * PIPE_BUF);
    let large = s.start(Task::Write, w, STREAM);
    let first = r.read_exactly(10 * PIPE_BUF);
    assert!(first == stream(0, 10 * PIPE_BUF));
    let reader = s.start(Task::Read, r, STREAM);
    assert_eq!((large.join().bytes, reader.join().bytes), (STREAM, STREAM));
}

/// A reader that leaves in the middle has taken what it read, and no byte more.
fn strangers_a_reader_goes_on_where_another_left(s: Setting) {
    let (r, w) = pipe(s);
    let writer = s.start(Task::Write, w, STREAM);
    let mut position = 0;
    while position < STREAM / 2 {
        let got = r.read(100_000).unwrap();
        assert!(got == stream(position, got.len()));
        position += got.len();
    }
    let rest = s.spawn(r, move |r| {
        let mut at = position;
        loop {
            let got = r.read(50_000).unwrap();
            if got.is_empty() {
                return at;
            }
            assert!(got == stream(at, got.len()), "after {at} bytes");
            at += got.len();
        }
    });
    assert_eq!(rest.join(), STREAM);
    assert_eq!(writer.join().bytes, STREAM);
}

/// The descriptor, for a program that knows nothing of standpipe, while the end stays here.
fn copy_for_unaware<K>(end: &EndOf<K>) -> OwnedFd {
    raw::borrow(end.fd()).try_clone_to_owned().unwrap()
}

/// A reader that knows the lane leaves with bytes in it, and one that does not goes on.
fn strangers_head_and_then_cat(s: Setting) {
    const HEAD: usize = STREAM / 3;
    let (r, w) = pipe(s);
    let unaware = copy_for_unaware(&r);
    let writer = s.start(Task::Write, w, STREAM);
    let head = s.start(Task::ReadFirst, r, HEAD);
    assert_eq!(head.join().bytes, HEAD);
    let cat = Command::new("cat").stdin(unaware).output().unwrap();
    assert_eq!(cat.stdout.len(), STREAM - HEAD);
    assert!(cat.stdout == stream(HEAD, STREAM - HEAD));
    assert_eq!(writer.join().bytes, STREAM);
}

/// A writer that does not know the lane, and then one that does.
fn strangers_cat_and_then_a_program_write(s: Setting) {
    const CAT: usize = STREAM / 3;
    let (r, w) = pipe(s);
    let reader = s.start(Task::Read, r, 0);
    let file = crate::paths::fresh();
    std::fs::write(file.to_str().unwrap(), stream(0, CAT)).unwrap();
    let unaware = copy_for_unaware(&w);
    let cat = Command::new("cat")
        .arg(file.to_str().unwrap())
        .stdout(unaware)
        .status();
    assert!(cat.unwrap().success());
    let position = write_stream_from(&w, CAT, STREAM / 2);
    let child = s.spawn(w, move |w| write_stream_from(&w, position, STREAM));
    assert_eq!(child.join(), STREAM);
    assert_eq!(reader.join().bytes, STREAM);
}
