//! Makes the pipes and starts the stages.
//!
//! Every descriptor here is close-on-exec and standpipe drops its own copy of a pipe's end as
//! soon as the stage that uses it runs. So no stage and nobody else holds an end that is not its
//! own: end of file and SIGPIPE come exactly when they come in a shell.
//!
//! The stages stay in standpipe's own process group. The shell that started standpipe made that
//! group for this job and gave it the terminal, so Ctrl-C, Ctrl-Z and reading from the terminal
//! work on all stages as in a pipeline of that shell.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use super::cat;
use super::plan::{Plain, Stage};

/// What runs a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedBy {
    /// The program itself, executed directly.
    Program,
    /// A shell that was given the stage's text.
    Shell,
    /// standpipe, which splices the files that `cat` would copy.
    Splice,
}

/// A stage that was started.
#[derive(Debug)]
pub struct Process {
    pub pid: Pid,
    /// Readable once the process has exited; names it without the danger that its pid is reused.
    pub pidfd: OwnedFd,
    pub served_by: ServedBy,
}

/// A pipe between two stages.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    /// Names the pipe in /proc.
    pub inode: u64,
    pub capacity_bytes: usize,
}

/// How stages are to be started.
#[derive(Debug)]
pub struct Launcher<'a> {
    pub shell: &'a Path,
    pub pipe_bytes: usize,
    pub splice: bool,
}

/// A pipeline that runs.
#[derive(Debug, Default)]
pub struct Launched {
    /// One per stage; `None` where not even a shell could be started.
    pub processes: Vec<Option<Process>>,
    /// One less than stages.
    pub pipes: Vec<Pipe>,
}

impl Launcher<'_> {
    /// Starts all stages, from left to right as a shell does.
    pub fn launch(&self, stages: &[Stage]) -> anyhow::Result<Launched> {
        let mut launched = Launched::default();
        let mut stdin = None;
        for (index, stage) in stages.iter().enumerate() {
            let (next_stdin, stdout) = if index + 1 < stages.len() {
                let (read_end, write_end, pipe) = make_pipe(self.pipe_bytes)
                    .with_context(|| format!("the pipe after {:?}", stage.text.trim()))?;
                launched.pipes.push(pipe);
                (Some(read_end), Some(write_end))
            } else {
                (None, None)
            };
            let started = self.start(stage, index == 0, stdin.take(), stdout);
            let process = started.map_err(|error| {
                eprintln!("standpipe: {}: {error}", self.shell.display());
            });
            launched.processes.push(process.ok());
            stdin = next_stdin;
        }
        Ok(launched)
    }

    fn start(
        &self,
        stage: &Stage,
        first: bool,
        stdin: Option<OwnedFd>,
        stdout: Option<OwnedFd>,
    ) -> io::Result<Process> {
        let Some(plain) = &stage.plain else {
            return spawn(&mut self.shell(stage), ServedBy::Shell, stdin, stdout);
        };
        let system_cat = (first && self.splice && stdout.is_some()).then(|| cat::plain(plain));
        let (mut command, served_by) = match system_cat.flatten() {
            Some(system_cat) => (cat_command(&system_cat, plain)?, ServedBy::Splice),
            None => (program(plain), ServedBy::Program),
        };
        let copy = |fd: &Option<OwnedFd>| fd.as_ref().map(OwnedFd::try_clone).transpose();
        let again = (copy(&stdin)?, copy(&stdout)?);
        spawn(&mut command, served_by, stdin, stdout).or_else(|_| {
            // the shell has its own message and exit status for what cannot be executed
            spawn(&mut self.shell(stage), ServedBy::Shell, again.0, again.1)
        })
    }

    fn shell(&self, stage: &Stage) -> Command {
        let mut command = Command::new(self.shell);
        // messages begin with the name that was asked for ("sh: 1: ..."), as in `sh -c`
        command.arg0(self.shell.file_name().unwrap_or(self.shell.as_os_str()));
        command.arg("-c").arg(&stage.script);
        command
    }
}

fn program(plain: &Plain) -> Command {
    let mut command = Command::new(&plain.words[0]);
    command
        .args(&plain.words[1..])
        .envs(plain.environment.iter().cloned());
    command
}

fn cat_command(system_cat: &Path, plain: &Plain) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg0("cat")
        .arg(cat::ASKED)
        .arg(system_cat)
        .args(&plain.words[1..]);
    command.envs(plain.environment.iter().cloned());
    Ok(command)
}

/// The standard library puts SIGPIPE and the signal mask of the child back to their defaults.
fn spawn(
    command: &mut Command,
    served_by: ServedBy,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
) -> io::Result<Process> {
    command.stdin(stdin.map_or_else(Stdio::inherit, Stdio::from));
    command.stdout(stdout.map_or_else(Stdio::inherit, Stdio::from));
    let child = command.spawn()?;
    // the child cannot be reaped by anybody else: its pid is valid until we do
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Process {
        pid,
        pidfd,
        served_by,
    })
}

/// A pipe of the size asked for, or of the largest that is allowed.
fn make_pipe(wanted_bytes: usize) -> io::Result<(OwnedFd, OwnedFd, Pipe)> {
    let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
    let capacity_bytes = resize(&write_end, wanted_bytes)?;
    let inode = rustix::fs::fstat(&read_end)?.st_ino;
    Ok((
        read_end,
        write_end,
        Pipe {
            inode,
            capacity_bytes,
        },
    ))
}

/// Halves what it asks for until the kernel agrees (limits per user and per pipe, memory).
/// A pipe that got less at creation, because its user has too many, stays as it is.
fn resize(pipe: impl AsFd, wanted_bytes: usize) -> io::Result<usize> {
    let given_bytes = fcntl_getpipe_size(&pipe)?;
    let mut asked_bytes = wanted_bytes;
    loop {
        match fcntl_setpipe_size(&pipe, asked_bytes) {
            Ok(size) => return Ok(size),
            Err(Errno::PERM | Errno::NOMEM) if asked_bytes / 2 > given_bytes => asked_bytes /= 2,
            Err(Errno::PERM | Errno::NOMEM) => return Ok(given_bytes),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the descriptor `fd` of a process is the pipe.
pub fn is_pipe(pid: i32, fd: u64, pipe: &Pipe) -> bool {
    fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|metadata| metadata.ino() == pipe.inode)
}
