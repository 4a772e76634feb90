//! What the tests of the command share; not every one of them uses all of it.
#![allow(dead_code)]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command under test, with no settings of whoever runs the tests.
pub fn standpipe() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_standpipe"));
    command
        .env_remove("STANDPIPE_PIPE_SZ")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// `standpipe run OPTIONS PIPELINE` in a folder.
pub fn run(folder: &Path, options: &[&str], pipeline: &str) -> Output {
    let mut command = standpipe();
    command
        .arg("run")
        .args(options)
        .arg("--")
        .arg(pipeline)
        .current_dir(folder);
    command.output().expect("standpipe starts")
}

/// What a plain shell makes of the same text.
pub fn shell(folder: &Path, shell: &str, pipeline: &str) -> Output {
    let mut command = Command::new(shell);
    // as one calls it: `sh -c ...`
    command.arg0(Path::new(shell).file_name().expect("a name"));
    command.arg("-c").arg(pipeline).current_dir(folder);
    command
        .env_remove("STANDPIPE_PIPE_SZ")
        .env("XDG_CONFIG_HOME", "/nonexistent");
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command.output().expect("the shell starts")
}

/// Lossy text, for messages and comparisons.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `standpipe ARGUMENTS` in a folder, with `input` written to its standard input as a pipe.
pub fn fed(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = standpipe();
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("standpipe starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // a command that does not read all of it has its reasons
            let _ = std::io::Write::write_all(&mut stdin, input);
        });
        child.wait_with_output().expect("standpipe ends")
    })
}

/// Bytes that tell where they belong, so that any loss, doubling or reordering shows.
pub fn numbered_bytes(count: usize) -> Vec<u8> {
    let words = (0_u64..).flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    words.take(count).collect()
}
