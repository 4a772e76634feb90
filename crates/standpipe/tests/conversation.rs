//! A program that writes in turn with us: the order is that in which the writes were made.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use common::once_asleep;
use standpipe::pipe::pipe;

/// Writes a line to standard output, and says so on standard error, for each line it is told.
const PROGRAM: &str = "while read -r line; do echo \"$line\"; echo done >&2; done";

#[test]
fn a_program_writes_in_turn_with_its_parent() {
    let (mut reader, mut writer) = pipe().unwrap();
    // A reader that had to wait reads from the lane.
    let mut first = [0; 2];
    once_asleep(
        || reader.read_exact(&mut first).unwrap(),
        |_| writer.write_all(b"0\n").unwrap(),
    );
    writer.write_all(b"1\n").unwrap();

    let mut child = Command::new("sh")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(writer.try_clone().unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut tell = child.stdin.take().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    // It left the lane for the fork, and is back.
    reader.read_exact(&mut first).unwrap();
    let mut expected = Vec::new();
    for n in (2..20).step_by(2) {
        writeln!(tell, "{n}").unwrap();
        let mut done = String::new();
        told.read_line(&mut done).unwrap();
        assert_eq!(done, "done\n");
        writeln!(writer, "{}", n + 1).unwrap();
        expected.push(format!("{n}\n{}\n", n + 1));
    }
    drop((tell, writer));
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, expected.concat());
}
