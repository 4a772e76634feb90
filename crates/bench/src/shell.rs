//! Pipelines, run by the plain shell or by `standpipe run`, timed, and compared by what they print.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::family::await_readable;

/// A pipeline that takes longer is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who runs a pipeline.
#[derive(Clone, Debug)]
pub enum Runner {
    /// `sh -c`.
    Shell,
    /// `standpipe run --quiet`, with this program.
    Standpipe(PathBuf),
}

impl Runner {
    /// The command that runs `pipeline`.
    #[must_use]
    pub fn command(&self, pipeline: &str) -> Command {
        match self {
            Self::Shell => {
                let mut command = Command::new("sh");
                command.args(["-c", pipeline]);
                command
            }
            Self::Standpipe(program) => {
                let mut command = Command::new(program);
                command.args(["run", "--quiet", "--", pipeline]);
                command
            }
        }
    }
}

/// Whether this machine has a program.
#[must_use]
pub fn is_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// What a command gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status.
    pub status: Option<i32>,
    /// Length of its standard output.
    pub bytes: u64,
    /// CRC-32 of its standard output.
    pub crc: u32,
    /// Its standard error, for people.
    pub complaints: String,
}

/// Runs `command` in the directory `dir`; says how many seconds it took and what it gave.
/// `meanwhile` runs between its start and its end.
///
/// # Errors
/// When it cannot be run, or does not end.
pub fn run(
    mut command: Command,
    dir: &Path,
    meanwhile: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, Outcome)> {
    let [out, err] = [dir.join("stdout"), dir.join("stderr")];
    let create = |path: &Path| {
        File::create(path).with_context(|| format!("cannot write {}", path.display()))
    };
    command.current_dir(dir).env("LC_ALL", "C");
    command.stdout(create(&out)?).stderr(create(&err)?);
    let name = command.get_program().display().to_string();
    let start = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    // the parent's copies of what the child got (the end of a pipe, say) go with the command
    drop(command);
    meanwhile()?;
    let status = wait(child).with_context(|| name.clone())?;
    let wall_s = start.elapsed().as_secs_f64();
    let complaints = fs::read_to_string(&err)
        .unwrap_or_default()
        .trim()
        .to_owned();
    let output = fs::read(&out)?;
    let (bytes, crc) = (output.len() as u64, crc32fast::hash(&output));
    Ok((
        wall_s,
        Outcome {
            status: status.code(),
            bytes,
            crc,
            complaints,
        },
    ))
}

/// Waits for the child, for so long as there is hope.
fn wait(mut child: Child) -> anyhow::Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    let fd = pidfd_open(pid, PidfdFlags::empty()).context("cannot wait for the process")?;
    if await_readable(&fd, Instant::now() + PATIENCE).is_err() {
        child.kill()?;
        child.wait()?;
        bail!("stuck: not done after {} s", PATIENCE.as_secs());
    }
    Ok(child.wait()?)
}

/// Holds the outcomes of one pipeline against the first of them.
#[derive(Debug)]
pub struct Expected {
    status: i32,
    outcome: Option<Outcome>,
}

impl Expected {
    /// Outcomes must be equal and have this exit status.
    #[must_use]
    pub fn status(status: i32) -> Self {
        Self {
            status,
            outcome: None,
        }
    }

    /// Checks one.
    ///
    /// # Errors
    /// When it is not as expected.
    pub fn check(&mut self, outcome: &Outcome) -> anyhow::Result<()> {
        ensure!(
            outcome.status == Some(self.status),
            "exit status {:?}, expected {}: {}",
            outcome.status,
            self.status,
            outcome.complaints
        );
        let expected = self.outcome.get_or_insert_with(|| outcome.clone());
        ensure!(
            (outcome.bytes, outcome.crc) == (expected.bytes, expected.crc),
            "printed {} bytes with CRC-32 {:08x}, expected {} bytes with {:08x}",
            outcome.bytes,
            outcome.crc,
            expected.bytes,
            expected.crc
        );
        Ok(())
    }
}

/// A command with nothing on its standard input.
#[must_use]
pub fn without_input(mut command: Command) -> Command {
    command.stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(pipeline: &str) -> anyhow::Result<Outcome> {
        let dir = tempfile::tempdir().unwrap();
        let command = without_input(Runner::Shell.command(pipeline));
        run(command, dir.path(), || Ok(())).map(|(_, outcome)| outcome)
    }

    #[test]
    fn an_outcome_is_status_and_output() {
        let outcome = outcome_of("printf abc | cat; exit 3").unwrap();
        assert_eq!((outcome.status, outcome.bytes), (Some(3), 3));
        assert_eq!(outcome.crc, crc32fast::hash(b"abc"));
    }

    /// The canary: an output that differs in one byte, or a status, is an error.
    #[test]
    fn different_outcomes_are_errors() {
        let mut expected = Expected::status(0);
        expected.check(&outcome_of("echo same").unwrap()).unwrap();
        expected.check(&outcome_of("echo same").unwrap()).unwrap();
        let error = expected
            .check(&outcome_of("echo sbme").unwrap())
            .unwrap_err();
        assert!(error.to_string().contains("CRC-32"), "{error}");
        let error = expected
            .check(&outcome_of("echo same; exit 1").unwrap())
            .unwrap_err();
        assert!(error.to_string().contains("expected 0"), "{error}");
    }

    #[test]
    fn complaints_of_a_command_are_passed_on() {
        let outcome = outcome_of("echo sorry >&2; exit 2").unwrap();
        let error = Expected::status(0).check(&outcome).unwrap_err();
        assert!(error.to_string().contains("sorry"), "{error}");
    }
}
