//! `standpipe buffer` and `standpipe cat`: every byte, whatever is on both sides.

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value;
use support::{fed, numbered_bytes, standpipe, text};

/// Larger than all that pipes and first pieces hold.
const MUCH: usize = 5_000_001;

/// Options that make bytes take different ways.
const WAYS: [&[&str]; 8] = [
    &[],
    &["-m", "64K"],
    &["-m", "16K", "--high", "100", "--low", "0"],
    &["--high", "50"],
    &["--rate-limit", "1G"],
    &["-m", "1M", "-L", "500M"],
    &["-c", "crc32"],
    &["-m", "1"],
];

#[test]
fn every_byte_passes_between_pipes_and_files() {
    let folder = tempfile::tempdir().expect("a folder");
    for length in [0, 1, 70_000, MUCH] {
        let bytes = numbered_bytes(length);
        fs::write(folder.path().join("in"), &bytes).expect("written");
        for way in WAYS {
            let arguments = [&["buffer"], way].concat();
            let output = fed(folder.path(), &arguments, &bytes);
            assert!(output.status.success(), "{way:?}: {}", text(&output.stderr));
            assert!(
                output.stdout == bytes,
                "{way:?}, {length} bytes: pipe to pipe"
            );
            let output = fed(
                folder.path(),
                &[&arguments[..], &["-o", "out", "in"]].concat(),
                b"",
            );
            assert!(
                output.status.success() && output.stdout.is_empty(),
                "{way:?}: {output:?}"
            );
            let copy = fs::read(folder.path().join("out")).expect("a file");
            assert!(copy == bytes, "{way:?}, {length} bytes: file to file");
        }
        let output = fed(folder.path(), &["cat"], &bytes);
        assert!(
            output.status.success() && output.stdout == bytes,
            "cat, {length} bytes"
        );
    }
}

/// Two neighbours that both speak standpipe find each other, and no byte is lost on the move.
#[test]
fn between_neighbours_that_know_it_bytes_take_the_lane() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = numbered_bytes(32 << 20);
    fs::write(folder.path().join("in"), &bytes).expect("written");
    let start = |arguments: &[&str], input: Stdio| {
        let mut command = standpipe();
        command
            .arg("buffer")
            .args(arguments)
            .current_dir(folder.path());
        command
            .stdin(input)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts")
    };
    let mut first = start(&["-m", "1M", "in"], Stdio::null());
    let mut second = start(
        &["--json=second"],
        first.stdout.take().expect("a pipe").into(),
    );
    let mut third = start(
        &["--json=third", "-m", "64K"],
        second.stdout.take().expect("a pipe").into(),
    );
    let mut received = Vec::new();
    third
        .stdout
        .take()
        .expect("a pipe")
        .read_to_end(&mut received)
        .expect("read");
    for child in [&mut first, &mut second, &mut third] {
        assert!(child.wait().expect("ends").success());
    }
    assert!(received == bytes, "{} bytes", received.len());
    for name in ["second", "third"] {
        let summary = fs::read(folder.path().join(name)).expect("a file");
        let summary: Value = serde_json::from_slice(&summary).expect("valid JSON");
        let lane_bytes = summary["lane_bytes_read"].as_u64().expect("a number");
        assert!(lane_bytes > 16 << 20, "{name}: {summary}");
    }
}

#[test]
fn inputs_are_read_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), "first ").expect("written");
    fs::write(folder.path().join("b"), "last\n").expect("written");
    for command in [&["cat"][..], &["buffer"], &["buffer", "-m", "1M"]] {
        let output = fed(
            folder.path(),
            &[command, &["a", "-", "b"]].concat(),
            b"then ",
        );
        assert_eq!(text(&output.stdout), "first then last\n", "{command:?}");
    }
}

#[test]
fn an_input_that_fails_is_named_and_the_others_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), "there\n").expect("written");
    for command in [&["cat"][..], &["buffer"], &["buffer", "-m", "1M"]] {
        let output = fed(
            folder.path(),
            &[command, &["missing", ".", "a"]].concat(),
            b"",
        );
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert_eq!(text(&output.stdout), "there\n", "{command:?}");
        assert_eq!(
            text(&output.stderr),
            "standpipe: missing: No such file or directory\nstandpipe: .: Is a directory\n",
            "{command:?}"
        );
    }
}

#[test]
fn all_outputs_get_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = numbered_bytes(MUCH);
    let output = fed(
        folder.path(),
        &["buffer", "-o", "one", "-o", "-", "-o", "two"],
        &bytes,
    );
    assert!(output.status.success() && output.stdout == bytes);
    for name in ["one", "two"] {
        assert!(
            fs::read(folder.path().join(name)).expect("a file") == bytes,
            "{name}"
        );
    }
    fed(folder.path(), &["buffer", "-o", "one"], b"anew");
    fed(
        folder.path(),
        &["buffer", "--append", "-o", "one"],
        b" and again",
    );
    assert_eq!(
        fs::read(folder.path().join("one")).expect("a file"),
        b"anew and again"
    );
}

#[test]
fn an_output_that_fails_is_given_up_and_the_others_get_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = numbered_bytes(MUCH);
    let output = fed(
        folder.path(),
        &["buffer", "-o", "/dev/full", "-o", "copy"],
        &bytes,
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "standpipe: /dev/full: No space left on device\n"
    );
    assert!(fs::read(folder.path().join("copy")).expect("a file") == bytes);
    for way in WAYS {
        let arguments = [&["buffer"], way, &["-o", "/dev/full"]].concat();
        let output = fed(folder.path(), &arguments, &bytes);
        assert_eq!(output.status.code(), Some(1), "{way:?}");
        assert!(
            text(&output.stderr).contains("/dev/full: No space left"),
            "{way:?}"
        );
    }
    let output = fed(folder.path(), &["buffer", "-o", "no/such/folder"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no/such/folder: No such file"));
}

#[test]
fn a_reader_that_leaves_ends_it_as_any_filter() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = WAYS
        .map(|way| [&["buffer", "/dev/zero"], way].concat())
        .into_iter()
        .chain([vec!["cat", "/dev/zero"]]);
    for arguments in commands {
        let mut command = standpipe();
        command.args(&arguments).current_dir(folder.path());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut output = child.stdout.take().expect("a pipe");
        output.read_exact(&mut vec![0; 100_000]).expect("bytes");
        drop(output);
        let output = child.wait_with_output().expect("ends");
        assert_eq!(
            output.status.signal(),
            Some(13),
            "{arguments:?}: {output:?}"
        );
        let sums = arguments.contains(&"-c");
        assert!(
            sums || output.stderr.is_empty(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}

/// The one that is done with `head` shall not keep the copy from being complete.
#[test]
fn a_reader_that_leaves_does_not_keep_files_from_getting_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = numbered_bytes(MUCH);
    fs::write(folder.path().join("in"), &bytes).expect("written");
    let mut command = standpipe();
    command
        .args(["buffer", "in", "-o", "-", "-o", "copy"])
        .current_dir(folder.path());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("ends").success());
    assert!(fs::read(folder.path().join("copy")).expect("a file") == bytes);
}

/// It waits for its input though nobody waits for it: as soon as it knows, it ends.
#[test]
fn an_unwanted_reservoir_does_not_wait_for_its_input() {
    let mut command = standpipe();
    command
        .args(["buffer", "-m", "1M"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"x").expect("written");
    // the pipe to its standard input is still open
    assert_eq!(child.wait().expect("ends").signal(), Some(13));
    drop(stdin);
}

#[test]
fn descriptors_that_somebody_made_non_blocking_lose_nothing() {
    // more than what is copied before anything is spliced
    let bytes = numbered_bytes(4 * MUCH);
    for arguments in [&["cat"][..], &["buffer"], &["buffer", "-m", "64K"]] {
        let (to_stdin, mut feed) = pair();
        let (mut drain, from_stdout) = pair();
        for end in [to_stdin.as_fd(), from_stdout.as_fd()] {
            let flags = fcntl_getfl(end).expect("flags");
            fcntl_setfl(end, flags | OFlags::NONBLOCK).expect("set");
        }
        let mut command = standpipe();
        command.args(arguments).stdin(to_stdin).stdout(from_stdout);
        let mut child = command.spawn().expect("starts");
        drop(command);
        let mut received = Vec::new();
        std::thread::scope(|scope| {
            let bytes = &bytes;
            scope.spawn(move || feed.write_all(bytes).expect("written"));
            drain.read_to_end(&mut received).expect("read");
        });
        assert!(child.wait().expect("ends").success(), "{arguments:?}");
        assert!(received == bytes, "{arguments:?}: {} bytes", received.len());
    }
}

fn pair() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().expect("a pipe")
}

#[test]
fn what_would_feed_on_itself_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "precious").expect("written");
    let append = || {
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .expect("opened")
    };
    for arguments in [
        &["cat", "file"][..],
        &["cat"],
        &["buffer"],
        &["buffer", "file", "-m", "1M"],
    ] {
        // one that does feed on itself is not to fill the disk
        let script = "ulimit -f 100; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_standpipe")]);
        command.args(arguments).current_dir(folder.path());
        command.stdin(fs::File::open(&file).expect("opened"));
        command.stdout(append());
        let output = command.output().expect("starts");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            text(&output.stderr).contains("input file is output file"),
            "{arguments:?}"
        );
    }
    let output = fed(folder.path(), &["buffer", "file", "-o", "./file"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&file).expect("a file"), b"precious");
}

#[test]
fn checksums_are_those_of_the_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = numbered_bytes(MUCH);
    fs::write(folder.path().join("in"), &bytes).expect("written");
    for algorithm in ["md5", "sha256", "sha512"] {
        let tool = format!("{algorithm}sum");
        let output = Command::new(&tool).arg(folder.path().join("in")).output();
        let expected = text(&output.expect("the tool starts").stdout);
        let expected = expected.split(' ').next().expect("a sum");
        let output = fed(folder.path(), &["buffer", "-c", algorithm], &bytes);
        assert_eq!(text(&output.stderr), format!("{algorithm} {expected}\n"));
        assert!(output.stdout == bytes, "{algorithm}");
    }
}

#[test]
fn the_summary_is_json_where_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = fed(
        folder.path(),
        &["buffer", "--json", "-N", "in the middle"],
        b"12345",
    );
    let summary: Value = serde_json::from_slice(&output.stderr).expect("valid JSON");
    assert_eq!(summary["bytes"], 5);
    assert_eq!(summary["name"], "in the middle");
    assert_eq!(summary["complete"], true);
    assert!(summary.get("reservoir").is_none() && summary["seconds"].is_f64());
    let arguments = ["buffer", "--json=summary", "-m", "1M", "-c", "crc32"];
    let output = fed(folder.path(), &arguments, b"123456789");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let summary = fs::read(folder.path().join("summary")).expect("a file");
    let summary: Value = serde_json::from_slice(&summary).expect("valid JSON");
    assert_eq!(summary["checksums"]["crc32"], "cbf43926");
    assert_eq!(summary["reservoir"]["capacity_bytes"], 1 << 20);
    assert_eq!(summary["reservoir"]["times_full"], 0);
    let output = fed(folder.path(), &["buffer", "--report"], b"12345");
    assert!(
        text(&output.stderr).starts_with("5 B in "),
        "{}",
        text(&output.stderr)
    );
}

/// `script` runs a command on a terminal of its own.
#[test]
fn progress_is_for_terminals_only() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("in"), numbered_bytes(60_000)).expect("written");
    let ours = env!("CARGO_BIN_EXE_standpipe");
    let on_a_terminal = |command: &str| {
        let command = format!("{ours} buffer {command} > out");
        let mut script = Command::new("script");
        script
            .args(["-qec", &command, "/dev/null"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut script = script.spawn().expect("script starts");
        // kept open: at its end, `script` may leave before it has passed all on
        let keyboard = script.stdin.take();
        let output = script.wait_with_output().expect("script ends");
        drop(keyboard);
        text(&output.stdout)
    };
    let shown = on_a_terminal("-L 64K -N soon in");
    for part in ["soon: ", "/s  avg ", "ETA", "60.0 kB in "] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
    let shown = on_a_terminal("-L 64K -m 1M < in");
    assert!(
        shown.contains("% full") && shown.contains("ETA"),
        "{shown:?}"
    );
    assert_eq!(on_a_terminal("-q -L 64K in"), "");
    assert_eq!(
        fs::read(folder.path().join("out")).expect("a file"),
        numbered_bytes(60_000)
    );
    let output = fed(folder.path(), &["buffer", "-L", "64K", "in"], b"");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn wrong_arguments_say_what_was_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, expected) in [
        (&["-m", "lots"][..], "64K"),
        (&["-m", "100000G"], "memory of this machine"),
        (&["-P", "101"], "0..=100"),
        (&["-L", "0"], "expected a size"),
        (&["-c", "md6"], "sha256"),
        (&["--quiet", "--report"], "cannot be used with"),
    ] {
        let output = fed(folder.path(), &[&["buffer"], arguments].concat(), b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            text(&output.stderr)
        );
    }
}
