//! `standpipe fifo`.

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::{fed, numbered_bytes, standpipe, text};

const MUCH: usize = 20_000_003;

/// `standpipe ARGUMENTS`, started in a folder.
fn start(folder: &Path, arguments: &[&str], stdin: Stdio) -> Child {
    let mut command = standpipe();
    command.args(arguments).current_dir(folder).stdin(stdin);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

fn folder_with_fifo() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let made = fed(folder.path(), &["fifo", "create", "f"], b"");
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder
}

fn read_all(mut child: Child) -> Vec<u8> {
    let mut bytes = Vec::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_end(&mut bytes)
        .expect("read");
    assert!(child.wait().expect("ends").success());
    bytes
}

#[test]
fn fifos_are_made_with_the_permissions_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |name: &str| {
        let metadata = fs::metadata(folder.path().join(name)).expect("made");
        assert!(metadata.file_type().is_fifo(), "{name}");
        metadata.permissions().mode() & 0o7777
    };
    for (arguments, umask, expected) in [
        (&["a", "b"][..], "022", 0o644),
        (&["-m", "0606", "c"], "077", 0o606),
        (&["d"], "077", 0o600),
    ] {
        let script = format!("umask {umask}; exec \"$0\" fifo create \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_standpipe")]);
        command.args(arguments).current_dir(folder.path());
        assert!(command.status().expect("starts").success(), "{arguments:?}");
        let name = arguments.last().expect("a name");
        assert_eq!(mode(name), expected, "{arguments:?}");
    }
    assert_eq!(mode("a"), 0o644);
    for wrong in ["rw", "1777", "8"] {
        let output = fed(folder.path(), &["fifo", "create", "-m", wrong, "x"], b"");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(
            text(&output.stderr).contains("octal"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn what_cannot_be_made_is_named_and_the_others_are_made() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("there"), "").expect("written");
    let output = fed(
        folder.path(),
        &["fifo", "create", "there", "no/such", "f"],
        b"",
    );
    assert_eq!(output.status.code(), Some(1));
    let complaints = text(&output.stderr);
    let lines: Vec<&str> = complaints.lines().collect();
    assert_eq!(lines.len(), 2, "{complaints}");
    assert!(
        lines[0].contains("there: ") && lines[1].contains("no/such: "),
        "{complaints}"
    );
    assert!(!complaints.contains("os error"), "{complaints}");
    assert!(folder.path().join("f").exists());
}

/// Both sides speak standpipe, or one does, or none: every byte, in order, and then the end.
#[test]
fn bytes_pass_whoever_is_at_the_other_side() {
    let folder = folder_with_fifo();
    let path = folder.path();
    let bytes = numbered_bytes(MUCH);
    fs::write(path.join("in"), &bytes).expect("written");
    let input = || Stdio::from(fs::File::open(path.join("in")).expect("opened"));
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(path)
            .stdin(input())
            .stdout(Stdio::piped());
        command.spawn().expect("starts")
    };
    let writers: [(&str, &dyn Fn() -> Child); 3] = [
        ("ours from a file", &|| {
            start(path, &["fifo", "write", "f"], input())
        }),
        ("ours from a pipe", &|| {
            let mut cat = shell("cat");
            let stdin = cat.stdout.take().expect("a pipe").into();
            // it ends with its reader, whom the test waits for
            std::thread::spawn(move || cat.wait());
            start(path, &["fifo", "write", "f"], stdin)
        }),
        ("cat", &|| shell("cat > f")),
    ];
    let readers: [(&str, &dyn Fn() -> Child); 4] = [
        ("ours", &|| {
            start(path, &["fifo", "read", "f"], Stdio::null())
        }),
        ("our cat", &|| start(path, &["cat", "f"], Stdio::null())),
        ("our buffer", &|| {
            start(path, &["buffer", "-m", "64K", "f"], Stdio::null())
        }),
        ("cat", &|| shell("cat < f")),
    ];
    for (written_by, write) in &writers {
        for (read_by, read) in &readers {
            let reader = read();
            let mut writer = write();
            assert!(read_all(reader) == bytes, "{written_by} to {read_by}");
            assert!(
                writer.wait().expect("ends").success(),
                "{written_by} to {read_by}"
            );
        }
    }
}

#[test]
fn a_writer_whose_reader_leaves_ends_as_any_filter() {
    let folder = folder_with_fifo();
    let input = fs::File::open("/dev/zero").expect("opened");
    let writer = start(folder.path(), &["fifo", "write", "f"], input.into());
    let mut fifo = fs::File::open(folder.path().join("f")).expect("opened");
    fifo.read_exact(&mut vec![0; 100_000]).expect("bytes");
    drop(fifo);
    let output = writer.wait_with_output().expect("ends");
    assert_eq!(
        (output.status.signal(), text(&output.stderr).as_str()),
        (Some(13), "")
    );
}

#[test]
fn what_is_no_fifo_is_said_to_be_something_else() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "precious").expect("written");
    for verb in ["read", "write", "stat"] {
        let output = fed(folder.path(), &["fifo", verb, "file"], b"anything");
        assert_eq!(output.status.code(), Some(1), "{verb}");
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains("file") && complaint.contains("expected a FIFO"),
            "{complaint}"
        );
        let output = fed(folder.path(), &["fifo", verb, "missing"], b"");
        let complaint = text(&output.stderr);
        assert!(complaint.contains("missing: "), "{complaint}");
        assert_eq!(output.status.code(), Some(1), "{verb}");
    }
    assert_eq!(
        fs::read(folder.path().join("file")).expect("a file"),
        b"precious"
    );
}

fn stat(folder: &Path) -> Value {
    let output = fed(folder, &["fifo", "stat", "--json", "f"], b"");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("valid JSON")
}

#[test]
fn it_is_known_who_has_a_fifo_open() {
    let folder = folder_with_fifo();
    fs::set_permissions(folder.path().join("f"), fs::Permissions::from_mode(0o620)).expect("set");
    let alone = stat(folder.path());
    assert_eq!(alone["mode"], "0620");
    assert_eq!(alone["open"], serde_json::json!([]));
    assert!(
        alone["capacity_bytes"].is_null() && alone["lane_host"].is_null(),
        "{alone}"
    );

    // the other process reads, this one writes; neither is disturbed by being looked at
    let reader = start(folder.path(), &["fifo", "read", "f"], Stdio::null());
    let mut fifo = fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("f"))
        .expect("open");
    let both = stat(folder.path());
    let find = |pid: u32| {
        let open = both["open"].as_array().expect("an array");
        let found = open.iter().find(|opener| opener["pid"] == pid);
        found.unwrap_or_else(|| panic!("no {pid} in {both}"))
    };
    let theirs = find(reader.id());
    assert_eq!(
        (&theirs["reads"], &theirs["writes"]),
        (&true.into(), &false.into())
    );
    assert_eq!(theirs["command"], "standpipe");
    let ours = find(std::process::id());
    assert_eq!(
        (&ours["reads"], &ours["writes"]),
        (&false.into(), &true.into())
    );
    assert!(both["capacity_bytes"].as_u64() >= Some(65536), "{both}");
    let words = text(&fed(folder.path(), &["fifo", "stat", "f"], b"").stdout);
    for part in [
        format!("{} standpipe reads\n", reader.id()),
        "mode      0620".to_owned(),
        format!("{} ", std::process::id()),
    ] {
        assert!(words.contains(&part), "no {part:?} in {words}");
    }
    fifo.write_all(b"still there").expect("written");
    drop(fifo);
    assert_eq!(read_all(reader), b"still there");
}

/// A process of which it is known that it offers a lane: it has bound the rendezvous.
#[test]
fn it_is_known_who_offers_a_lane() {
    let folder = folder_with_fifo();
    let path = folder.path();
    let (stdin, mut feed) = std::io::pipe().expect("a pipe");
    let mut writer = start(path, &["fifo", "write", "f"], stdin.into());
    let mut reader = start(path, &["fifo", "read", "f"], Stdio::null());
    let mut output = reader.stdout.take().expect("a pipe");
    // they meet after some bytes: each turn is a chance to
    let mut host = Value::Null;
    for _ in 0..10_000 {
        feed.write_all(&[b'x'; 1000]).expect("written");
        output.read_exact(&mut [0; 1000]).expect("read");
        host = stat(path)["lane_host"].take();
        if !host.is_null() {
            break;
        }
    }
    let pids = [writer.id(), reader.id()];
    assert!(
        pids.iter().any(|pid| host["pid"] == *pid),
        "{host}, expected one of {pids:?}"
    );
    drop(feed);
    assert!(writer.wait().expect("ends").success() && reader.wait().expect("ends").success());
}
