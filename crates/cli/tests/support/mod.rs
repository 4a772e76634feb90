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
