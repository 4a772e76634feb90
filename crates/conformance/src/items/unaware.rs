//! Programs that know nothing of standpipe at one end, with aware peers at the same pipe.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use super::{CAPACITY, PIPE_BUF, fill, pattern};
use crate::ends::{Reader, Writer};
use crate::engine::Options;
use crate::fail::Fail;
use crate::setting::Setting;
use crate::signals;
use crate::suite::behaviours;

behaviours! {
    everywhere():
        unaware_writer_between_aware_writes_keeps_its_place,
        unaware_writer_and_aware_writer_share_a_pipe,
        unaware_reader_gets_what_was_written_before_and_after,
        unaware_reader_gets_aware_and_unaware_bytes_in_their_order,
        unaware_reader_gets_what_an_aware_reader_left,
        unaware_reader_gets_what_an_aware_reader_left_in_a_large_pipe,
        unaware_reader_outlives_who_started_it,
        unaware_writers_bytes_come_to_a_nonblocking_reader,
        unaware_writer_lets_a_waiting_reader_sleep,
        unaware_writer_killed_is_end_of_file,
        unaware_reader_killed_is_epipe;
    processes("threads stop together"):
        unaware_write_stays_whole_beside_a_write_that_waited;
}

/// Programs get an end as stdin or stdout, and no copy by accident.
fn pipe(s: Setting) -> (Reader, Writer) {
    s.pipe_with(&Options {
        close_on_exec: true,
        ..Options::default()
    })
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// What happened before a program started is read before its bytes, what happened after it ended
/// behind them.
fn unaware_writer_between_aware_writes_keeps_its_place(s: Setting) {
    const ROUNDS: usize = 30;
    let (r, w) = pipe(s);
    let reader = s.spawn(r, |r| r.read_to_end());
    let mut expected = Vec::new();
    for round in 0..ROUNDS {
        let header = format!("<{round}");
        let body = "-".repeat(round * 100);
        assert_eq!(w.write(header.as_bytes()), Ok(header.len()));
        run(Command::new("printf")
            .args(["%s", &body])
            .stdout(w.try_clone()));
        assert_eq!(w.write(b">"), Ok(1));
        expected.extend_from_slice(format!("{header}{body}>").as_bytes());
    }
    drop(w);
    let got = reader.join();
    assert!(got == expected, "{}", String::from_utf8_lossy(&got));
}

/// Before anything was written, too, and with another writer around that is aware.
fn unaware_writer_lets_a_waiting_reader_sleep(s: Setting) {
    let (r, w) = pipe(s);
    let unaware = w.try_clone().into_unaware();
    let reader = s.spawn(r, |r| r.read(10));
    reader.until_asleep();
    assert_eq!(unaware.write(b"unaware"), Ok(7));
    assert_eq!(reader.join(), Ok(b"unaware".to_vec()));
    drop(w);
}

/// At the same time: all bytes come, each writer's in its order.
fn unaware_writer_and_aware_writer_share_a_pipe(s: Setting) {
    const NUMBERS: usize = 50_000;
    const LETTERS: usize = 300_000;
    let letter = |i: usize| b'a' + (i % 23) as u8;
    let (r, w) = pipe(s);
    let reader = s.spawn(r, |r| r.read_to_end());
    let mut numbers = Command::new("seq")
        .arg(NUMBERS.to_string())
        .stdout(w.try_clone())
        .spawn()
        .unwrap();
    let aware = s.spawn(w, move |w| {
        let all: Vec<_> = (0..LETTERS).map(letter).collect();
        for piece in all.chunks(1000) {
            assert_eq!(w.write(piece), Ok(piece.len()));
        }
    });
    aware.join();
    assert!(numbers.wait().unwrap().success());
    let (letters, digits): (Vec<u8>, Vec<u8>) =
        reader.join().into_iter().partition(u8::is_ascii_lowercase);
    let mut expected = Vec::new();
    (1..=NUMBERS).for_each(|n| writeln!(expected, "{n}").unwrap());
    assert!(
        digits == expected,
        "{} of {} bytes of seq",
        digits.len(),
        expected.len()
    );
    let in_order = letters.iter().enumerate().all(|(i, &got)| got == letter(i));
    assert!(
        in_order && letters.len() == LETTERS,
        "{} of {LETTERS} letters",
        letters.len()
    );
}

fn cat(stdin: Reader) -> Child {
    Command::new("cat")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn output_of(mut cat: Child) -> Vec<u8> {
    let mut output = Vec::new();
    cat.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    assert!(cat.wait().unwrap().success());
    output
}

fn unaware_reader_gets_what_was_written_before_and_after(s: Setting) {
    for before in [0, 5, CAPACITY] {
        let all = pattern(before + 1_000_000);
        let (r, w) = pipe(s);
        assert_eq!(w.write(&all[..before]), Ok(before));
        let cat = cat(r);
        let after = all[before..].to_vec();
        let writer = s.spawn(w, move |w| {
            after
                .chunks(777)
                .for_each(|piece| assert_eq!(w.write(piece), Ok(piece.len())));
        });
        let got = output_of(cat);
        writer.join();
        assert!(
            got == all,
            "{before} before: {} of {} bytes",
            got.len(),
            all.len()
        );
    }
}

/// Older bytes of an aware writer, then those of a program, then a reader that is a program as well.
fn unaware_reader_gets_aware_and_unaware_bytes_in_their_order(s: Setting) {
    let (r, w) = pipe(s);
    assert_eq!(w.write(b"header\n"), Ok(7));
    run(Command::new("echo").arg("body").stdout(w.try_clone()));
    assert_eq!(w.write(b"trailer\n"), Ok(8));
    drop(w);
    assert_eq!(output_of(cat(r)), b"header\nbody\ntrailer\n");
}

fn unaware_reader_gets_what_an_aware_reader_left(s: Setting) {
    let (r, w) = pipe(s);
    let all = fill(&w);
    assert_eq!(r.read_exactly(1000), all[..1000]);
    let cat = cat(r.try_clone());
    drop((r, w));
    let got = output_of(cat);
    assert!(got == all[1000..], "{} bytes", got.len());
}

fn unaware_reader_gets_what_an_aware_reader_left_in_a_large_pipe(s: Setting) {
    const BYTES: usize = 1 << 20;
    let (r, w) = s.pipe_with(&large());
    assert_eq!(w.write(&pattern(BYTES)), Ok(BYTES));
    assert_eq!(r.read_exactly(1000), pattern(BYTES)[..1000]);
    let cat = cat(r);
    drop(w);
    assert!(output_of(cat) == pattern(BYTES)[1000..]);
}

fn large() -> Options {
    Options {
        capacity_bytes: Some(1 << 20),
        close_on_exec: true,
        ..Options::default()
    }
}

/// The peer that made the bytes and started the program is gone before they are read.
fn unaware_reader_outlives_who_started_it(s: Setting) {
    const BYTES: usize = 1 << 20;
    let (output, to) = pipe(s);
    let (r, w) = s.pipe_with(&large());
    s.spawn(((r, w), to), |((r, w), to)| {
        assert_eq!(w.write(&pattern(BYTES)), Ok(BYTES));
        drop(Command::new("cat").stdin(r).stdout(to).spawn().unwrap());
    })
    .join();
    assert!(output.read_to_end() == pattern(BYTES));
}

fn unaware_writers_bytes_come_to_a_nonblocking_reader(s: Setting) {
    let (r, w) = pipe(s);
    r.set_nonblocking(true);
    assert_eq!(r.read(10), Err(Fail::AGAIN));
    assert_eq!(w.write(b"<"), Ok(1));
    run(Command::new("printf").arg("unaware").stdout(w.try_clone()));
    assert_eq!(w.write(b">"), Ok(1));
    assert_eq!(r.drain(), b"<unaware>");
    r.set_nonblocking(true);
    assert_eq!(r.read(10), Err(Fail::AGAIN));
    drop(w);
    assert_eq!(r.read(10), Ok(vec![]));
}

fn unaware_writer_killed_is_end_of_file(s: Setting) {
    let (r, w) = pipe(s);
    assert_eq!(w.write(b"aware,"), Ok(6));
    let (told, tell) = pipe(s);
    let reader = s.spawn((r, tell), |(r, tell)| {
        let came = r.read_exactly(14);
        drop(tell);
        (came, r.read(1))
    });
    let script = "printf unaware.; exec cat";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(w)
        .spawn()
        .unwrap();
    assert_eq!(told.read(1), Ok(vec![]), "the reader has what was written");
    reader.until_asleep();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(reader.join(), (b"aware,unaware.".to_vec(), Ok(vec![])));
}

fn unaware_reader_killed_is_epipe(s: Setting) {
    signals::handle(Signal::PIPE, false);
    let (r, w) = pipe(s);
    // A reader that never reads. The `Command` keeps the end until it is dropped.
    let mut child = Command::new("tail")
        .args(["-f", "/dev/null"])
        .stdin(r)
        .spawn()
        .unwrap();
    let writer = s.spawn(w, |w| w.write(&pattern(1 << 20)));
    let tid = writer.tid();
    writer.until_asleep();
    child.kill().unwrap();
    child.wait().unwrap();
    let written = writer.join();
    assert!(
        matches!(written, Ok(n) if n >= CAPACITY) || written == Err(Fail::PIPE),
        "{written:?}"
    );
    assert_eq!(signals::next_ring().tid, tid);
}

/// Small writes are atomic towards unaware writers as well: an aware write that began to wait
/// before the unaware one was made, and goes on after a part of that was read, does not split it.
fn unaware_write_stays_whole_beside_a_write_that_waited(s: Setting) {
    let (r, w) = pipe(s);
    // Room for the unaware bytes and not for the aware ones, on the kernel's pipe as well.
    let queued = pattern(CAPACITY - 100);
    assert_eq!(w.write(&queued), Ok(queued.len()));
    let still_aware = w.try_clone();
    let writer = s.spawn(w, |w| w.write(&[b'+'; PIPE_BUF]));
    writer.until_asleep();
    writer.stop();
    let unaware = still_aware.into_unaware();
    assert_eq!(unaware.write(b"unaware"), Ok(7));
    drop(unaware);
    assert!(r.read_exactly(queued.len()) == queued);
    let mut got = r.read_exactly(3);
    writer.signal(Signal::CONT);
    assert_eq!(writer.join(), Ok(PIPE_BUF));
    got.extend(r.read_to_end());
    let split = got.iter().rposition(|&byte| byte != b'+');
    assert_eq!(
        split,
        Some(6),
        "the unaware bytes are not one stretch at the front"
    );
    assert_eq!((&got[..7], got.len()), (&b"unaware"[..], 7 + PIPE_BUF));
}
