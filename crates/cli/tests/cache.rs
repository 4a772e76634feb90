//! `standpipe cache stat`: what other processes tell of their caches.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use support::{numbered_bytes, standpipe, text};

const FILE_BYTES: usize = 20 << 20;

/// A `standpipe cat` that nobody reads from: it has done all that it can do, soon.
struct Stalled {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Stalled {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("in"), numbered_bytes(FILE_BYTES)).expect("written");
        let mut command = standpipe();
        let child = command
            .args(["cat", "--cache", "2M", "in", "-"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        Self {
            child,
            _folder: folder,
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads the file; the cache is still there afterwards, while standard input is open.
    fn drain(&mut self) {
        let mut bytes = vec![0; FILE_BYTES];
        let stdout = self.child.stdout.as_mut().expect("a pipe");
        stdout.read_exact(&mut bytes).expect("all of it");
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stat(arguments: &[&str]) -> Command {
    let mut command = standpipe();
    command.args(["cache", "stat"]).args(arguments);
    command
}

fn output_of(arguments: &[&str]) -> Output {
    stat(arguments).output().expect("starts")
}

/// The cache of a process, once `is_it`.
fn wait_for(pid: u32, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let output = output_of(&["--json", &pid.to_string()]);
        // it has none yet
        if output.status.success() {
            let mut seen: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
            let caches = seen["caches"].as_array_mut().expect("a list");
            assert_eq!(caches.len(), 1, "{caches:?}");
            let cache = caches.remove(0);
            if is_it(&cache) {
                return cache;
            }
        }
        std::thread::yield_now();
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn the_cache_of_a_running_process_is_seen() {
    let mut stalled = Stalled::new();
    let cache = wait_for(stalled.pid(), |cache| number(&cache["present_bytes"]) > 0);
    assert_eq!(cache["pid"], stalled.pid());
    assert_eq!(cache["command"], "standpipe");
    assert_eq!(cache["budget_bytes"], 2 << 20);
    assert_eq!(cache["objects"], 1);
    let taken = number(&cache["present_bytes"]) + number(&cache["in_flight_bytes"]);
    assert!(taken <= 2 << 20, "{cache}");
    stalled.drain();
    let pages = (FILE_BYTES / 4096) as u64;
    let cache = wait_for(stalled.pid(), |cache| {
        let pages_of = &cache["pages"];
        let looks = ["hits", "misses", "waits"].map(|key| number(&pages_of[key]));
        looks.iter().sum::<u64>() == pages
    });
    assert_eq!(cache["in_flight_bytes"], 0);
    assert_eq!(cache["pages"]["read_bytes"], FILE_BYTES);
    assert_eq!(cache["pages"]["wasted_pages"], 0, "{cache}");
}

#[test]
fn it_is_said_in_words_and_among_all_processes() {
    let stalled = Stalled::new();
    wait_for(stalled.pid(), |cache| number(&cache["present_bytes"]) > 0);
    let output = output_of(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let words = text(&output.stdout);
    assert!(
        words.contains(&format!("{} standpipe\n", stalled.pid())),
        "{words}"
    );
    assert!(words.contains(" of 2 MiB, "), "{words}");
    assert!(
        words.contains("; 1 ") || words.contains(" 1 object, "),
        "{words}"
    );
}

#[test]
fn it_is_watched_until_the_process_is_gone() {
    let mut stalled = Stalled::new();
    wait_for(stalled.pid(), |cache| number(&cache["present_bytes"]) > 0);
    let pid = stalled.pid().to_string();
    let mut watch = stat(&[&pid, "--watch=0.05", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON in a line")
    };
    for _ in 0..2 {
        assert_eq!(next()["caches"][0]["pid"].to_string(), pid);
    }
    stalled.child.kill().expect("killed");
    stalled.child.wait().expect("ends");
    while next()["caches"] != Value::Array(Vec::new()) {}
    assert!(watch.wait().expect("ends").success());
}

#[test]
fn processes_without_one_are_named() {
    let mut other = Command::new("cat");
    let other = other.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut other = other.spawn().expect("starts");
    let output = output_of(&[&other.id().to_string(), "2147483647"]);
    drop(other.stdin.take());
    other.wait().expect("ends");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        format!(
            "standpipe: process {} has no page cache of standpipe\n\
             standpipe: process 2147483647: no such process\n",
            other.id()
        )
    );
    assert_eq!(text(&output.stdout), "");
    for (argument, expected) in [("0", "0"), ("--watch=0", "0.05"), ("x", "x")] {
        let output = output_of(&[argument]);
        assert_eq!(output.status.code(), Some(2), "{argument}");
        assert!(text(&output.stderr).contains(expected), "{argument}");
    }
}

/// A child has its parent's descriptors, but not its cache.
#[test]
fn a_forked_child_does_not_show_the_cache_of_its_parent() {
    let cache = standpipe::file::Cache::new(standpipe::file::CacheOptions {
        budget_bytes: 12 << 20,
        ..Default::default()
    });
    let cache = cache.expect("a cache");
    // SAFETY: the child does nothing but wait for its end.
    let child = match unsafe { libc::fork() } {
        0 => loop {
            // SAFETY: as above.
            unsafe { libc::pause() };
        },
        child => child,
    };
    let of_child = output_of(&["--json", &child.to_string()]);
    let of_both = output_of(&[
        "--json",
        &child.to_string(),
        &std::process::id().to_string(),
    ]);
    // SAFETY: our child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    // SAFETY: as above; its status is not asked for.
    let waited = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert_eq!(waited, child);
    assert_eq!(of_child.status.code(), Some(1));
    let expected = format!("standpipe: process {child} has no page cache of standpipe\n");
    assert_eq!(text(&of_child.stderr), expected);
    let seen: Value = serde_json::from_slice(&of_both.stdout).expect("valid JSON");
    let budgets: Vec<&Value> = seen["caches"].as_array().expect("a list").iter().collect();
    assert_eq!(budgets.len(), 1, "{seen}");
    assert_eq!(budgets[0]["budget_bytes"], 12 << 20);
    assert_eq!(budgets[0]["pid"], std::process::id());
    drop(cache);
}
