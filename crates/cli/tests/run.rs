//! What `standpipe run` adds to the shell: exit statuses, reports, signals, sizes, comparisons.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use support::{run, shell, standpipe, text};

fn here() -> &'static Path {
    Path::new("/")
}

#[test]
fn the_exit_status_is_that_of_the_rightmost_failure() {
    let cases = [
        ("true | true", 0, 0),
        ("sh -c 'exit 3' | true", 3, 0),
        ("sh -c 'exit 3' | sh -c 'exit 4' | true", 4, 0),
        ("(exit 3) | (exit 4)", 4, 4),
        ("sh -c 'kill -TERM $$' | true", 143, 0),
        ("true | sh -c 'kill -KILL $$'", 137, 137),
        ("nosuchcommand | true", 127, 0),
        ("/etc/passwd | true", 126, 0),
        ("yes | head -1", 141, 0),
    ];
    for (pipeline, pipefail, last) in cases {
        assert_eq!(
            run(here(), &[], pipeline).status.code(),
            Some(pipefail),
            "{pipeline}"
        );
        let status = run(here(), &["--last-status"], pipeline).status.code();
        assert_eq!(status, Some(last), "--last-status {pipeline}");
        let bash = shell(here(), "/bin/bash", &format!("set -o pipefail; {pipeline}"));
        assert_eq!(bash.status.code(), Some(pipefail), "bash: {pipeline}");
    }
}

#[test]
fn a_stage_killed_by_a_signal_is_told_and_a_closed_pipe_is_not() {
    let killed = run(here(), &[], "sh -c 'kill -KILL $$' | cat");
    assert_eq!(
        text(&killed.stderr),
        "standpipe: killed by SIGKILL: sh -c 'kill -KILL $$'\n"
    );
    assert_eq!(text(&run(here(), &[], "yes | head -1").stderr), "");
}

/// A stage that held another's pipe end would keep the second one waiting for ever.
#[test]
fn end_of_file_comes_when_the_writer_closes_though_all_stages_live() {
    let pipeline = "(echo ready; exec >&-; read held) | { cat; echo end of file; } | cat";
    let (mut child, mut output) = started(pipeline);
    let mut line = String::new();
    // the first stage still waits for its input
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "end of file\n");
    assert_eq!(child.try_wait().expect("a child"), None);
    drop(child.stdin.take());
    child.wait().expect("ends");
}

#[test]
fn a_writer_dies_of_a_reader_that_is_gone_though_earlier_stages_live() {
    let output = run(here(), &["--json"], "sleep 0 | yes | true");
    let report: Value = serde_json::from_slice(&output.stderr).expect("valid JSON");
    assert_eq!(report["stages"][1]["signal"], 13);
}

#[test]
fn no_stage_inherits_a_descriptor_that_is_not_its_own() {
    // in the middle, so that there are pipes on both sides
    let list = "true | ls /proc/self/fd | sort -n";
    let output = run(here(), &["--report"], list);
    assert_eq!(
        text(&output.stdout),
        text(&shell(here(), "/bin/sh", list).stdout)
    );
}

/// The signals up to 31 of a mask in /proc/PID/status; above are those of the C library.
fn classic_signals(line: &str) -> u64 {
    let mask = line.split_whitespace().last().expect("a mask");
    u64::from_str_radix(mask, 16).expect("hexadecimal") & ((1 << 31) - 1)
}

#[test]
fn stages_start_with_the_signals_that_a_shell_would_give_them() {
    let list = "grep -E '^Sig(Ign|Blk)' /proc/self/status | cat";
    let masks = |output: &Output| -> Vec<u64> {
        text(&output.stdout).lines().map(classic_signals).collect()
    };
    let ours = run(here(), &[], list);
    let of_shell = shell(here(), "/bin/sh", list);
    assert_eq!(masks(&ours).len(), 2, "{ours:?}");
    assert_eq!(masks(&ours), masks(&of_shell));
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let ours = env!("CARGO_BIN_EXE_standpipe");
    let script = format!("trap '' HUP; exec {ours} run 'grep ^SigIgn /proc/self/status | cat'");
    let output = Command::new("sh")
        .arg("-c")
        .arg(script)
        .output()
        .expect("sh starts");
    let ignored = classic_signals(&text(&output.stdout));
    assert_eq!(ignored & 1, 1, "{output:?}");
}

#[test]
fn the_report_is_valid_json_and_counts_every_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = 5_000_000;
    fs::write(folder.path().join("data"), vec![b'x'; bytes]).expect("data");
    for options in [
        &["--json=report.json"][..],
        &["--json=report.json", "--no-splice"],
    ] {
        let output = run(folder.path(), options, "cat data | cat | wc -c");
        assert_eq!(text(&output.stdout).trim(), bytes.to_string());
        assert_eq!(text(&output.stderr), "");
        let file = fs::read(folder.path().join("report.json")).expect("the report");
        let report: Value = serde_json::from_slice(&file).expect("valid JSON");
        assert_eq!(report["exit_status"], 0);
        assert_eq!(report["stages"].as_array().expect("stages").len(), 3);
        let served_by = if options.len() == 1 {
            "splice"
        } else {
            "program"
        };
        assert_eq!(report["stages"][0]["served_by"], served_by);
        for pipe in report["pipes"].as_array().expect("pipes") {
            // the reader's account includes a few KB of what its loader reads
            let counted = pipe["bytes"].as_u64().expect("a number") as usize;
            assert!((bytes..bytes + 50_000).contains(&counted), "{counted}");
        }
        for stage in report["stages"].as_array().expect("stages") {
            let fractions = [
                "running",
                "to_read",
                "to_write",
                "for_processor",
                "elsewhere",
            ]
            .map(|name| {
                let name = if name == "running" {
                    name.to_owned()
                } else {
                    format!("waiting_{name}")
                };
                stage[&name]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{name} in {stage}"))
            });
            assert!(
                (fractions.iter().sum::<f64>() - 1.0).abs() < 1e-6,
                "{stage}"
            );
        }
    }
}

#[test]
fn json_goes_to_stderr_and_leaves_stdout_to_the_pipeline() {
    let output = run(here(), &["--json"], "echo hello | cat");
    assert_eq!(text(&output.stdout), "hello\n");
    let report: Value = serde_json::from_slice(&output.stderr).expect("valid JSON");
    assert_eq!(report["pipeline"], "echo hello | cat");
    assert_eq!(report["handed_to_shell"], Value::Null);
    let whole = run(here(), &["--json"], "echo a; echo b | cat");
    let report: Value = serde_json::from_slice(&whole.stderr).expect("valid JSON");
    assert!(
        report["handed_to_shell"]
            .as_str()
            .expect("a reason")
            .contains("list")
    );
    assert_eq!(text(&whole.stdout), "a\nb\n");
}

#[test]
fn a_slow_stage_is_named_as_the_bottleneck() {
    let slow_reader = "yes | (for i in 1 2 3 4; do head -c 300000 >/dev/null; sleep 0.1; done)";
    let slow_writer = "(for i in 1 2 3 4; do echo a; sleep 0.1; done) | cat";
    for (pipeline, stage, waits) in [
        (slow_reader, 2, "waiting_to_write"),
        (slow_writer, 1, "waiting_to_read"),
    ] {
        let output = run(here(), &["--json"], pipeline);
        let report: Value = serde_json::from_slice(&output.stderr).expect("valid JSON");
        assert_eq!(report["bottleneck"]["stage"], stage, "{report:#}");
        // the other of the two stages waited for it most of its time
        let waited = report["stages"][2 - stage][waits]
            .as_f64()
            .expect("a fraction");
        assert!(waited > 0.5, "{report:#}");
    }
}

#[test]
fn the_table_comes_when_asked_for_and_quiet_is_quiet() {
    let table = text(&run(here(), &["--report"], "echo hello | cat").stderr);
    assert!(
        table.contains("1 echo hello") && table.contains("exit status 0"),
        "{table}"
    );
    assert_eq!(text(&run(here(), &[], "echo hello | cat").stderr), "");
    assert_eq!(
        text(&run(here(), &["--quiet"], "echo hello | cat").stderr),
        ""
    );
}

/// The capacity of the pipe that a stage has as its stdin.
const CAPACITY: &str = "true | python3 -c 'import fcntl; print(fcntl.fcntl(0, 1032))'";

#[test]
fn pipes_have_the_size_asked_for() {
    let max_bytes: usize = fs::read_to_string("/proc/sys/fs/pipe-max-size")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let capacity = |command: &mut Command| {
        let output = command.arg(CAPACITY).output().expect("standpipe starts");
        text(&output.stdout)
            .trim()
            .parse::<usize>()
            .unwrap_or_else(|_| panic!("{output:?}"))
    };
    let run = || {
        let mut command = standpipe();
        command.arg("run");
        command
    };
    for (size, bytes) in [
        ("64K", 65536),
        ("256K", 262_144),
        ("5 1", 131_072),
        ("100000", 131_072),
    ] {
        assert_eq!(
            capacity(run().args(["--pipe-size", size])),
            bytes.min(max_bytes),
            "{size}"
        );
    }
    assert_eq!(capacity(run().env("STANDPIPE_PIPE_SZ", "3 1")), 32768);
    let both = capacity(
        run()
            .env("STANDPIPE_PIPE_SZ", "3 1")
            .args(["--pipe-size", "64K"]),
    );
    assert_eq!(both, 65536);
}

#[test]
fn a_size_beyond_the_limits_degrades_with_a_note() {
    let output = run(
        here(),
        &["--report", "--pipe-size", "2G"],
        "echo hello | cat",
    );
    assert_eq!(text(&output.stdout), "hello\n");
    assert_eq!(output.status.code(), Some(0));
    let report = text(&output.stderr);
    assert!(
        report.contains("instead of 2 GiB") && report.contains("pipe-max-size"),
        "{report}"
    );
}

#[test]
fn bad_arguments_are_named() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--pipe-size", "lots", "true"], 2, "lots"),
        (&["--shell", "/no/shell", "true"], 125, "/no/shell"),
        (&["--compare=0", "true"], 2, "0"),
        (&["--json=/no/folder/x", "true"], 125, "/no/folder/x"),
        (&["--quiet", "--report", "true"], 2, "--report"),
    ];
    for (arguments, status, named) in cases {
        let output = standpipe()
            .arg("run")
            .args(arguments)
            .output()
            .expect("standpipe starts");
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {output:?}"
        );
        assert!(
            text(&output.stderr).contains(named),
            "{arguments:?}: {output:?}"
        );
    }
    let bad_setting = standpipe()
        .env("STANDPIPE_PIPE_SZ", "big")
        .args(["run", "true"])
        .output();
    let bad_setting = bad_setting.expect("standpipe starts");
    assert_eq!(bad_setting.status.code(), Some(125));
    assert!(
        text(&bad_setting.stderr).contains("STANDPIPE_PIPE_SZ"),
        "{bad_setting:?}"
    );
}

/// Starts a pipeline and returns once its first stage has said so.
fn started(pipeline: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = standpipe()
        .args(["run", "--", pipeline])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("standpipe starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    (child, output)
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{signal} {}", child.id()))
        .status();
    assert!(status.expect("sh starts").success());
}

#[test]
fn a_termination_reaches_the_stages() {
    let (mut child, mut output) = started("(echo ready; exec cat) | cat");
    send("TERM", &child);
    let mut rest = String::new();
    // ends only if the stages do, since stdin stays open
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("ends").code(), Some(143));
}

#[test]
fn an_interrupt_is_left_to_the_stages() {
    // to standpipe alone, not from a terminal: the stages decide
    let (mut child, mut output) = started("(echo ready; exec cat) | cat");
    send("INT", &child);
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"still here\n")
        .expect("written");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "still here\n");
    let status = child.wait().expect("ends");
    assert_eq!((status.code(), status.signal()), (Some(0), None));
}

#[test]
fn an_interrupt_that_ended_the_stages_ends_standpipe_likewise() {
    // as from a terminal, to the whole group; `setsid` makes one of its own for it
    let mut command = Command::new("setsid");
    command.args([
        "env",
        "--default-signal",
        env!("CARGO_BIN_EXE_standpipe"),
        "run",
        "--report",
        "kill -INT 0 | cat",
    ]);
    let output = command.output().expect("setsid starts");
    assert_eq!(output.status.signal(), Some(2), "{output:?}");
    // and not before its report
    assert!(
        text(&output.stderr).contains("exit status 130"),
        "{output:?}"
    );
}

#[test]
fn a_comparison_gives_both_times_and_the_same_output() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("data"), "b\na\n".repeat(1000)).expect("data");
    let output = run(
        folder.path(),
        &["--compare=2", "--json=c.json"],
        "cat data | sort | uniq -c",
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let file = fs::read(folder.path().join("c.json")).expect("the report");
    let report: Value = serde_json::from_slice(&file).expect("valid JSON");
    assert_eq!(report["output_identical"], true);
    assert_eq!(report["rounds"], 2);
    for side in ["shell", "standpipe"] {
        assert_eq!(report[side]["wall_s"].as_array().expect("times").len(), 2);
    }
    assert!(report["ratio"].as_f64().expect("a ratio") > 0.0);
    let varies = run(
        folder.path(),
        &["--compare=1", "--json"],
        "head -c 8 /dev/urandom | od",
    );
    let report: Value = serde_json::from_slice(&varies.stderr).expect("valid JSON");
    assert_eq!(report["output_identical"], Value::Null);
}

#[test]
fn a_comparison_notices_a_difference() {
    // the parent of the command is standpipe here and the shell there
    let pipeline = "sh -c 'cat /proc/$PPID/comm' | cat";
    let output = run(here(), &["--compare=1", "--json"], pipeline);
    let report: Value = serde_json::from_slice(&output.stderr).expect("valid JSON");
    assert_eq!(report["output_identical"], false, "{report:#}");
    assert_eq!(output.status.code(), Some(1));
}
