//! A blocked call is asleep, as anybody sees in /proc, and stays so.

mod common;

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// State and processor time of a process so far, in ticks. See `/proc/pid/stat` in proc(5).
fn look(child: &Child) -> (String, u64) {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks = |i: usize| fields[i].parse::<u64>().unwrap();
    (fields[0].to_owned(), ticks(11) + ticks(12))
}

/// Ticks of 10 ms. One that spins takes as many as the processor gives it.
const FEW_TICKS: u64 = 50;

fn goes_to_sleep(call: &str) {
    let program = common::for_standpipe("asleep.c");
    let mut child = Command::new(&program)
        .arg(call)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    // One that never sleeps leaves this loop by its use of the processor.
    let (state, ticks) = loop {
        let (state, ticks) = look(&child);
        if state == "S" || state == "Z" || ticks > FEW_TICKS {
            break (state, ticks);
        }
        std::thread::yield_now();
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let _ = std::fs::remove_file(program);
    assert_eq!(state, "S", "after {ticks} ticks");
}

#[test]
fn in_read() {
    goes_to_sleep("read");
}

#[test]
fn in_write() {
    goes_to_sleep("write");
}

#[test]
fn in_poll() {
    goes_to_sleep("poll");
}

#[test]
fn in_select() {
    goes_to_sleep("select");
}
