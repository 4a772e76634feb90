//! `standpipe trace`: recorded as it was read, replayed the same every time.

mod support;

use std::fmt::Write as _;
use std::fs;
use std::process::Output;

use serde_json::Value;
use support::{fed, numbered_bytes, standpipe, text};
use tempfile::TempDir;

const HEAD: &str = "time_ns,stream,object,offset,length\n";

fn folder_with(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).expect("written");
    }
    folder
}

fn trace(folder: &TempDir, arguments: &[&str]) -> Output {
    fed(folder.path(), &[&["trace"], arguments].concat(), b"")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("valid JSON")
}

/// `count` reads of `length` bytes, one behind the other.
fn sequential(count: u64, length: u64) -> String {
    (0..count).fold(HEAD.to_owned(), |mut rows, number| {
        let at = number * length;
        writeln!(rows, "{number},1.1,/data,{at},{length}").expect("text");
        rows
    })
}

#[test]
fn a_replay_has_the_figures_that_the_store_gives() {
    let folder = folder_with(&[("trace.csv", sequential(256, 4096).as_bytes())]);
    let replay = |store: &str, policy: &str| {
        let arguments = [
            "replay",
            "trace.csv",
            "--json",
            "--store",
            store,
            "--policy",
            policy,
        ];
        json(&trace(&folder, &arguments))
    };
    let report = replay("object", "off");
    assert_eq!(report["store"], "object");
    assert_eq!(
        (&report["accesses"], &report["bytes"]),
        (&256.into(), &(1 << 20).into())
    );
    let run = &report["runs"][0];
    // each read waits for the request, its own 4 KiB at 90 MB/s, and takes a microsecond
    let seconds = 256.0 * (0.020 + 4096.0 / 90e6 + 1e-6);
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().expect("a number");
        assert!(
            (value / expected - 1.0).abs() < 1e-3,
            "{value}, not {expected}"
        );
    };
    close(&run["seconds"], seconds);
    close(&run["mb_per_s"], 1.048_576 / seconds);
    assert_eq!(
        (&run["ios"], &run["avg_io_bytes"]),
        (&256.into(), &4096.into())
    );
    assert_eq!(
        (&run["hit_rate"], &run["wasted_bytes"]),
        (&0.0.into(), &0.into())
    );
    for policy in ["legacy", "on-demand", "context", "adaptive"] {
        let report = replay("object", policy);
        let run = &report["runs"][0];
        assert!(
            run["seconds"].as_f64().expect("a number") < seconds / 4.0,
            "{run}"
        );
        assert_eq!(run["policy"], policy);
        assert_eq!(run["io_bytes"], 1 << 20);
        assert!(run["hit_rate"].as_f64().expect("a number") > 0.9, "{run}");
    }
}

#[test]
fn a_replay_is_the_same_every_time_and_a_table_for_people() {
    let mut rows = sequential(3000, 4096);
    for number in 0..1000_u64 {
        let at = number * 7_654_321 % 50_000_000;
        writeln!(rows, "{number},2.1,/other,{at},3000").expect("text");
    }
    let folder = folder_with(&[("trace.csv", rows.as_bytes())]);
    for store in ["disk", "hdd", "nvme", "object"] {
        let once = trace(&folder, &["replay", "trace.csv", "--store", store]);
        let again = trace(&folder, &["replay", "trace.csv", "--store", store]);
        let words = text(&once.stdout);
        assert!(once.status.success(), "{}", text(&once.stderr));
        assert_eq!(words, text(&again.stdout));
        let name = if store == "hdd" { "disk" } else { store };
        let head = format!(
            "4000 reads of 15.3 MB from 2 objects by 2 streams, on store {name}\n\n\
             policy          throughput"
        );
        assert!(words.starts_with(&head), "{words}");
        let policies: Vec<&str> = words
            .lines()
            .skip(3)
            .filter_map(|line| line.split(' ').next())
            .collect();
        let expected = [
            "off",
            "legacy",
            "on-demand",
            "on-demand-hole",
            "context",
            "adaptive",
        ];
        assert_eq!(policies, expected, "{words}");
    }
}

/// Whoever reads the beginning of a file and leaves has had more read ahead than was wanted.
#[test]
fn what_is_never_used_is_wasted() {
    let mut rows = sequential(8, 4096);
    rows.push_str("9,2.1,/data,1073741823,1\n");
    let folder = folder_with(&[("trace.csv", rows.as_bytes())]);
    let report = json(&trace(&folder, &["replay", "trace.csv", "--json"]));
    let runs = report["runs"].as_array().expect("a list");
    for run in runs {
        let wasted = run["io_bytes"].as_u64().expect("a number") - 9 * 4096;
        assert_eq!(run["wasted_bytes"], wasted, "{run}");
        assert_eq!(wasted == 0, run["policy"] == "off", "{run}");
    }
}

/// One after the other is not at the same time.
#[test]
fn streams_that_followed_each_other_do_so_again() {
    let mut one = HEAD.to_owned();
    let mut both = HEAD.to_owned();
    for number in 0..64 {
        let at = number * 4096;
        writeln!(one, "{number},1,/a,{at},4096").expect("text");
        writeln!(one, "{},2,/b,{at},4096", number + 64).expect("text");
        writeln!(both, "{number},1,/a,{at},4096").expect("text");
        writeln!(both, "{number},2,/b,{at},4096").expect("text");
    }
    let folder = folder_with(&[("one", one.as_bytes()), ("both", both.as_bytes())]);
    let seconds = |file: &str, more: &[&str]| {
        let arguments = [
            &[
                "replay", file, "--json", "--store", "object", "--policy", "off",
            ],
            more,
        ];
        let report = json(&trace(&folder, &arguments.concat()));
        report["runs"][0]["seconds"].as_f64().expect("a number")
    };
    let (one_s, both_s) = (seconds("one", &[]), seconds("both", &[]));
    assert!((one_s / both_s - 2.0).abs() < 0.01, "{one_s} {both_s}");
    assert!(seconds("one", &["--paced"]) >= one_s);
}

#[test]
fn what_strace_wrote_is_a_trace() {
    let rows = "\
        12  1700000000.000000001 openat(AT_FDCWD</d>, \"x\", O_RDONLY) = 3</d/x>\n\
        12  1700000000.000000002 read(3</d/x>, \"\"..., 8192) = 8192\n\
        12  1700000000.000000003 read(3</d/x>, \"\"..., 8192) = 8192\n\
        12  1700000000.000000004 pread64(3</d/x>, \"\"..., 4096, 40960) = 4096\n\
        12  1700000000.000000005 read(3</d/x>, \"\", 8192) = 0\n";
    let folder = folder_with(&[("x.strace", rows.as_bytes())]);
    let report = json(&trace(
        &folder,
        &["replay", "x.strace", "--json", "--policy", "off"],
    ));
    assert_eq!(
        (&report["accesses"], &report["bytes"]),
        (&3.into(), &20_480.into())
    );
    assert_eq!(report["runs"][0]["io_bytes"], 20_480);
    let arguments = ["trace", "replay", "-", "--json", "--policy", "off"];
    let piped = json(&fed(folder.path(), &arguments, rows.as_bytes()));
    assert_eq!(piped, report);
}

/// The rows of a trace: object, offset, length.
fn rows(folder: &TempDir, name: &str) -> Vec<(String, u64, u64)> {
    let text = fs::read_to_string(folder.path().join(name)).expect("a trace");
    let rows = text.strip_prefix(HEAD).expect("the columns").lines();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |cell: usize| cells[cell].parse().expect("a number");
        (cells[2].to_owned(), number(3), number(4))
    };
    rows.map(row).collect()
}

#[test]
fn what_goes_through_standpipe_is_recorded_without_help() {
    let folder = folder_with(&[("in", &numbered_bytes(3_000_000))]);
    let command = env!("CARGO_BIN_EXE_standpipe");
    let arguments = [
        "record",
        "--by",
        "standpipe",
        "--",
        command,
        "cat",
        "--cache",
        "1M",
        "-r",
        "5000-2000000",
        "in",
    ];
    let output = trace(&folder, &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stdout == numbered_bytes(3_000_000)[5000..=2_000_000]);
    assert!(text(&output.stderr).contains(" reads of 2.00 MB, of 1 object, in trace.csv\n"));
    let rows = rows(&folder, "trace.csv");
    let mut at = 5000;
    for (object, offset, length) in &rows {
        assert_eq!((&**object, *offset), ("in", at));
        at += length;
    }
    assert_eq!(at, 2_000_001);
    let report = json(&trace(
        &folder,
        &["replay", "trace.csv", "--json", "--policy", "off"],
    ));
    assert_eq!(report["bytes"], 1_995_001);
}

#[test]
fn other_programs_are_recorded_by_strace() {
    let folder = folder_with(&[("in", &numbered_bytes(300_000))]);
    let script = "head -c 100000 in; tail -c +200001 < in; exit 7";
    let arguments = [
        "record", "-o", "out.csv", "--by", "strace", "--", "sh", "-c", script,
    ];
    let output = trace(&folder, &arguments);
    let stderr = text(&output.stderr);
    if output.status.code() == Some(125) {
        // not installed, or not allowed: it says so
        assert!(stderr.contains("strace"), "{stderr}");
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    let bytes = numbered_bytes(300_000);
    assert!(output.stdout == [&bytes[..100_000], &bytes[200_000..]].concat());
    let path = fs::canonicalize(folder.path().join("in")).expect("a path");
    let rows = rows(&folder, "out.csv").into_iter();
    let rows: Vec<_> = rows
        .filter(|(object, ..)| Some(&**object) == path.to_str())
        .collect();
    let end = |(_, offset, length): &(String, u64, u64)| offset + length;
    let position = rows.iter().position(|row| row.1 >= 200_000).expect("both");
    assert_eq!(rows[0].1, 0);
    assert!(
        rows[..position].iter().map(end).max() >= Some(100_000),
        "{rows:?}"
    );
    assert_eq!(rows[position].1, 200_000, "{rows:?}");
    assert_eq!(rows[position..].iter().map(end).max(), Some(300_000));
}

#[test]
fn commands_that_cannot_be_started_are_said_as_by_env() {
    let folder = folder_with(&[("data", b"x")]);
    for (command, code, message) in [
        ("no-such-command", 127, "No such file or directory"),
        ("./missing", 127, "No such file or directory"),
        ("./data", 126, "Permission denied"),
    ] {
        let output = trace(&folder, &["record", "--by", "standpipe", "--", command]);
        assert_eq!(output.status.code(), Some(code), "{command}");
        assert_eq!(
            text(&output.stderr),
            format!("standpipe: {command}: {message}\n")
        );
    }
    let arguments = [
        "record",
        "--by",
        "standpipe",
        "--",
        "sh",
        "-c",
        "kill -TERM $$",
    ];
    assert_eq!(trace(&folder, &arguments).status.code(), Some(128 + 15));
}

#[test]
fn settings_are_recommended_with_their_reasons() {
    let folder = folder_with(&[("trace.csv", sequential(20_000, 4096).as_bytes())]);
    let arguments = ["recommend", "trace.csv", "--store", "object"];
    let advice = json(&trace(&folder, &[&arguments[..], &["--json"]].concat()));
    let best = &advice["best"];
    let seconds = |run: &Value| run["seconds"].as_f64().expect("a number");
    let fastest = ["policies", "max_ahead", "cache"].map(|tried| {
        let runs = advice[tried].as_array().expect("a list");
        runs.iter().map(seconds).fold(f64::INFINITY, f64::min)
    });
    for fastest in fastest {
        assert!(seconds(best) <= fastest * 1.04, "{advice}");
    }
    let off = &advice["policies"][0];
    assert_eq!(off["policy"], "off");
    assert!(seconds(best) * 20.0 < seconds(off), "{advice}");
    assert!(best["cache_bytes"].as_u64() < Some(256 << 20), "{best}");
    let output = trace(&folder, &arguments);
    assert_eq!(output.stdout, trace(&folder, &arguments).stdout);
    let words = text(&output.stdout);
    let policy = best["policy"].as_str().expect("text");
    for expected in [
        &format!("--policy {policy} "),
        "; off 204 kB/s\n",
        "--max-ahead ",
        "--cache ",
        "\nTogether: ",
        "STANDPIPE_CACHE_BYTES=",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn what_is_no_trace_is_refused_with_what_was_expected() {
    let bad = format!("{HEAD}0,1,/a,zero,1\n");
    let folder = folder_with(&[
        ("empty", b""),
        ("text", b"hello\n"),
        ("bad", bad.as_bytes()),
    ]);
    for (file, message) in [
        (
            "empty",
            "empty: no reads in it, expected CSV that begins with time_ns,stream",
        ),
        (
            "text",
            "text: no reads in it, expected CSV that begins with time_ns,stream",
        ),
        (
            "bad",
            "bad: line 2: offset is \"zero\", expected a number from 0 on",
        ),
        ("missing", "missing: No such file or directory\n"),
    ] {
        for verb in ["replay", "recommend"] {
            let output = trace(&folder, &[verb, file]);
            assert_eq!(output.status.code(), Some(1), "{file}");
            let stderr = text(&output.stderr);
            assert!(
                stderr.starts_with(&format!("standpipe: {message}")),
                "{stderr}"
            );
        }
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error_of_whoever_reads() {
    let folder = folder_with(&[("in", &numbered_bytes(100_000))]);
    let output = standpipe()
        .args(["cat", "--cache", "1M", "in"])
        .env("STANDPIPE_TRACE", "/nonexistent/trace")
        .current_dir(folder.path())
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "standpipe: in: STANDPIPE_TRACE=/nonexistent/trace: No such file or directory\n"
    );
}
