//! `standpipe cat`: files through the page cache, ranges, what it says of itself.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{fed, numbered_bytes, standpipe, text};

/// Larger than the smallest caches below, and not a multiple of anything.
const MUCH: usize = 9_000_011;

/// Ways to read a file that all lead through the page cache.
const WAYS: [&[&str]; 8] = [
    &["--cache", "64M"],
    &["--cache", "1M"],
    &["--cache", "64K", "--policy", "legacy"],
    &["--cache", "4K"],
    &["--policy", "off"],
    &["--policy", "context", "--max-ahead", "256K"],
    &["-n", "1"],
    &["-n", "16", "--cache", "32M"],
];

struct Fixture {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Fixture {
    fn new(length: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = numbered_bytes(length);
        fs::write(folder.path().join("in"), &bytes).expect("written");
        Self { folder, bytes }
    }

    fn cat(&self, arguments: &[&str], input: &[u8]) -> Output {
        fed(self.folder.path(), &[&["cat"], arguments].concat(), input)
    }

    fn start(&self, arguments: &[&str]) -> Command {
        let mut command = standpipe();
        command
            .arg("cat")
            .args(arguments)
            .current_dir(self.folder.path());
        command
    }
}

#[test]
fn every_byte_of_a_file_passes() {
    for length in [1, 4096, 70_000, MUCH] {
        let fixture = Fixture::new(length);
        for way in WAYS {
            let output = fixture.cat(&[way, &["in"]].concat(), b"");
            assert!(output.status.success(), "{way:?}: {}", text(&output.stderr));
            assert!(output.stdout == fixture.bytes, "{way:?}, {length} bytes");
            assert_eq!(text(&output.stderr), "", "{way:?}");
        }
        let copy = fs::File::create(fixture.folder.path().join("copy")).expect("a file");
        let status = fixture.start(&["in", "in"]).stdout(copy).status();
        assert!(status.expect("starts").success());
        let copy = fs::read(fixture.folder.path().join("copy")).expect("a file");
        assert!(copy == fixture.bytes.repeat(2), "{length} bytes to a file");
    }
}

#[test]
fn ranges_are_cut_out_of_files_and_streams() {
    let fixture = Fixture::new(300_000);
    let all = fixture.bytes.len();
    for (range, expected) in [
        (&["-r", "0-0"][..], 0..1),
        (&["-r", "4095-4096"], 4095..4097),
        (&["-r", "100-70000"], 100..70_001),
        (&["--range", "64K-"], 65_536..all),
        (&["--range=299999-999999999999"], 299_999..all),
        (&["-r", "300000-"], all..all),
        (&["--offset", "100K", "--length", "1K"], 102_400..103_424),
        (&["--offset", "100K"], 102_400..all),
        (&["--length", "200K"], 0..204_800),
        (&["--length", "0"], 0..0),
    ] {
        let expected = &fixture.bytes[expected];
        for way in [&["in"][..], &["in", "--cache", "64K"], &["-"]] {
            let output = fixture.cat(&[range, way].concat(), &fixture.bytes);
            assert!(
                output.status.success(),
                "{range:?}: {}",
                text(&output.stderr)
            );
            assert!(output.stdout == expected, "{range:?} {way:?}");
        }
        let input = fs::File::open(fixture.folder.path().join("in")).expect("a file");
        let output = fixture.start(range).stdin(input).output().expect("starts");
        assert!(output.stdout == expected, "{range:?} of a redirected file");
    }
    for (range, expected) in [("-1", all - 1), ("-64K", all - 65_536), ("-1M", 0)] {
        for way in [&["in"][..], &["in", "--cache", "64K"]] {
            let output = fixture.cat(&[&["-r", range], way].concat(), b"");
            assert!(
                output.stdout == fixture.bytes[expected..],
                "{range} {way:?}"
            );
        }
    }
}

#[test]
fn a_range_that_cannot_be_is_said_with_its_figures() {
    let fixture = Fixture::new(100_000);
    fs::write(fixture.folder.path().join("long"), numbered_bytes(200_000)).expect("written");
    for way in [&[][..], &["--cache", "64K"]] {
        let output = fixture.cat(&[&["-r", "150000-", "in", "long"], way].concat(), b"");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            text(&output.stderr),
            "standpipe: in: the range begins at 150000, expected at most its length, 100000\n"
        );
        assert!(
            output.stdout == numbered_bytes(200_000)[150_000..],
            "{way:?}"
        );
    }
    let output = fixture.cat(&["-r", "-5"], b"0123456789");
    assert_eq!(
        text(&output.stderr),
        "standpipe: stdin: it has no end to count back from, expected a file or an object\n"
    );
    let output = fixture.cat(&["--offset", "11"], b"0123456789");
    assert_eq!(
        text(&output.stderr),
        "standpipe: stdin: the range begins at 11, expected at most its length, 10\n"
    );
    let output = fixture.cat(&["-r", "0-1M", "in"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--length"), "{output:?}");
}

#[test]
fn sources_are_read_in_their_order_and_those_that_fail_are_named() {
    let fixture = Fixture::new(50_000);
    fs::set_permissions(
        fixture.folder.path().join("in"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .expect("changed");
    let output = fixture.cat(
        &["--cache", "1M", "in", "missing", "-", ".", "in"],
        b"between",
    );
    assert_eq!(output.status.code(), Some(1));
    let expected = [&fixture.bytes, &b"between"[..], &fixture.bytes].concat();
    assert!(output.stdout == expected);
    assert_eq!(
        text(&output.stderr),
        "standpipe: missing: No such file or directory\nstandpipe: .: Is a directory\n"
    );
}

#[test]
fn objects_are_read_by_url() {
    let fixture = Fixture::new(MUCH);
    let path = fs::canonicalize(fixture.folder.path().join("in")).expect("a path");
    let server = Server::new(fixture.bytes.clone());
    for url in [format!("file://{}", path.display()), server.url("in")] {
        for way in [
            &[][..],
            &["-n", "3"],
            &["--cache", "1M", "--policy", "context"],
        ] {
            let output = fixture.cat(&[way, &[&url]].concat(), b"");
            assert!(output.status.success(), "{url}: {}", text(&output.stderr));
            assert!(output.stdout == fixture.bytes, "{url} {way:?}");
        }
        let output = fixture.cat(&["-r", "-5000", &url], b"");
        assert!(output.stdout == fixture.bytes[MUCH - 5000..], "{url}");
    }
    let report = fixture.cat(&["--json", &server.url("in")], b"");
    let report: Value = serde_json::from_slice(&report.stderr).expect("valid JSON");
    assert_eq!(report["sources"][0]["name"], server.url("in"));
    let read_bytes = &report["sources"][0]["cache"]["read_bytes"];
    assert!(read_bytes.as_u64() >= Some(MUCH as u64), "{report}");
    let output = fixture.cat(&[&server.url("missing"), "in"], b"");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "standpipe: {}: no such file or object\n",
        server.url("missing")
    );
    assert_eq!(text(&output.stderr), expected);
    assert!(output.stdout == fixture.bytes);
}

/// An HTTP server that has one object, `/in`, and gives ranges of it.
struct Server {
    address: std::net::SocketAddr,
}

impl Server {
    fn new(bytes: Vec<u8>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let bytes = std::sync::Arc::new(bytes);
            for client in listener.incoming().flatten() {
                let bytes = std::sync::Arc::clone(&bytes);
                std::thread::spawn(move || answer(&client, &bytes));
            }
        });
        Self { address }
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }
}

/// One request, and the connection is closed.
fn answer(mut client: &std::net::TcpStream, bytes: &[u8]) {
    let mut lines = BufReader::new(client).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let head = "ETag: \"one\"\r\nAccept-Ranges: bytes\r\nConnection: close\r\n";
    if !request.contains(" /in ") {
        let _ = write!(
            client,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n{head}\r\n"
        );
        return;
    }
    let range = headers.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (start, end) = line.strip_prefix("range: bytes=")?.split_once('-')?;
        let end = end.parse().map_or(bytes.len(), |last: usize| last + 1);
        Some((start.parse().ok()?, end.min(bytes.len())))
    });
    let (start, end): (usize, usize) = range.unwrap_or((0, bytes.len()));
    let status = if range.is_some() {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    let length = end - start;
    let place = format!(
        "Content-Range: bytes {start}-{}/{}\r\n",
        end - 1,
        bytes.len()
    );
    let place = if range.is_some() { &*place } else { "" };
    let _ = write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{place}{head}\r\n"
    );
    if !request.starts_with("HEAD") {
        let _ = client.write_all(&bytes[start..end]);
    }
}

/// They have no length, or say that they have one and then have less.
#[test]
fn files_of_the_kernel_are_read_as_they_come() {
    let fixture = Fixture::new(0);
    for path in [
        "/proc/version",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "in",
    ] {
        let expected = fs::read(fixture.folder.path().join(path));
        let Ok(expected) = expected else {
            continue;
        };
        let output = fixture.cat(&["--cache", "1M", path], b"");
        assert!(output.status.success(), "{path}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), text(&expected), "{path}");
    }
    let output = fixture.cat(&["-r", "6-12", "/proc/version"], b"");
    assert_eq!(text(&output.stdout), "version");
}

#[test]
fn whoever_leaves_early_ends_it_as_any_filter() {
    let fixture = Fixture::new(MUCH);
    for way in WAYS {
        let mut child = fixture
            .start(&[way, &["in"]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        let sigpipe = rustix::process::Signal::PIPE.as_raw();
        assert_eq!(output.status.signal(), Some(sigpipe), "{way:?}: {output:?}");
        assert_eq!(text(&output.stderr), "", "{way:?}");
    }
}

#[test]
fn an_output_that_fails_is_named_once() {
    let fixture = Fixture::new(70_000);
    let full = fs::File::create("/dev/full").expect("opens");
    let output = fixture
        .start(&["--cache", "1M", "in", "in"])
        .stdout(full)
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "standpipe: stdout: No space left on device\n"
    );
}

#[test]
fn it_tells_how_each_source_was_read() {
    let fixture = Fixture::new(MUCH);
    let output = fixture.cat(
        &["--json", "--stats", "--cache", "2M", "in", "-", "missing"],
        b"more",
    );
    let stderr = text(&output.stderr);
    let (words, json) = stderr.split_at(stderr.find("\n{").expect("JSON") + 1);
    assert!(
        words.contains("standpipe: missing: No such file"),
        "{words}"
    );
    assert!(words.contains("\nin: 9.00 MB in "), "{words}");
    assert!(words.contains("\nstdin: 4 B in "), "{words}");
    assert!(words.contains(" read ahead: "), "{words}");
    assert!(words.contains("\nin all: 9.00 MB in "), "{words}");
    let report: Value = serde_json::from_str(json).expect("valid JSON");
    assert_eq!(report["bytes"], MUCH + 4);
    assert_eq!(report["complete"], false);
    let [file, stdin] = report["sources"].as_array().expect("a list").as_slice() else {
        panic!("{report}");
    };
    assert_eq!(
        (&file["name"], &file["bytes"]),
        (&"in".into(), &MUCH.into())
    );
    assert_eq!(file["complete"], true);
    let cache = |key: &str| file["cache"][key].as_u64().expect("a number");
    let pages = MUCH.div_ceil(4096) as u64;
    assert_eq!(cache("hits") + cache("waits") + cache("misses"), pages);
    assert!(
        cache("reads") > 0 && cache("read_bytes") >= pages * 4096,
        "{report}"
    );
    assert!(cache("used_pages") + cache("wasted_pages") <= cache("prefetched_pages"));
    assert!(cache("used_pages") > pages / 2, "{report}");
    assert_eq!(
        (&stdin["name"], &stdin["bytes"]),
        (&"stdin".into(), &4.into())
    );
    assert_eq!(stdin.get("cache"), None);
}

/// The cheapest way is taken, unless somebody says how to read.
#[test]
fn what_the_kernel_has_in_memory_is_not_read_again() {
    let fixture = Fixture::new(MUCH);
    let access = |arguments: &[&str]| {
        let output = fixture.cat(&[&["--json", "in"], arguments].concat(), b"");
        assert!(output.stdout.len() <= MUCH && output.status.success());
        let report: Value = serde_json::from_slice(&output.stderr).expect("valid JSON");
        report["sources"][0]["access"]
            .as_str()
            .expect("text")
            .to_owned()
    };
    fs::read(fixture.folder.path().join("in")).expect("a file");
    assert_eq!(access(&[]), "kernel");
    assert_eq!(access(&["-r", "5000000-"]), "kernel");
    let file = fs::File::open(fixture.folder.path().join("in")).expect("a file");
    file.sync_all().expect("written");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    if rustix::fs::fstatfs(&file).expect("a file system").f_type == TMPFS_MAGIC {
        return; // there is nothing but memory
    }
    assert_ne!(access(&[]), "kernel");
    assert_ne!(access(&["--policy", "off"]), "kernel");
}

const TMPFS_MAGIC: i64 = 0x0102_1994;

/// A neighbour that speaks standpipe gets the pages of the cache through the lane.
#[test]
fn a_neighbour_that_knows_it_gets_the_lane() {
    let fixture = Fixture::new(32 << 20);
    let mut cat = fixture.start(&["--cache", "4M", "in"]);
    let mut cat = cat.stdout(Stdio::piped()).spawn().expect("starts");
    let mut buffer = standpipe();
    let buffer = buffer
        .args(["buffer", "--json", "-m", "1M"])
        .stdin(cat.stdout.take().expect("a pipe"))
        .output()
        .expect("starts");
    assert!(cat.wait().expect("ends").success());
    assert!(buffer.stdout == fixture.bytes);
    let summary: Value = serde_json::from_slice(&buffer.stderr).expect("valid JSON");
    let lane_bytes = summary["lane_bytes_read"].as_u64().expect("a number");
    assert!(lane_bytes > 16 << 20, "{summary}");
}

#[test]
fn what_is_no_policy_or_count_is_refused_with_what_was_expected() {
    let fixture = Fixture::new(1);
    for (arguments, expected) in [
        (&["--policy", "clever"][..], "adaptive"),
        (&["-n", "0"], "1.."),
        (&["--cache", "much"], "64K"),
        (&["-n", "2", "--max-ahead", "1M"], "cannot be used with"),
        (&["-r", "1-2", "--length", "1"], "cannot be used with"),
    ] {
        let output = fixture.cat(&[arguments, &["in"]].concat(), b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    let output = fixture.cat(&["--cache", "100", "in"], b"");
    assert_eq!(
        text(&output.stderr),
        "standpipe: in: a cache of 100 bytes: expected at least 4096, less than 16 TiB\n"
    );
}
