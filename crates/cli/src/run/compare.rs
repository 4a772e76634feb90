//! `--compare`: the pipeline and the plain shell, in turns, so that whatever disturbs the machine
//! disturbs both.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use rustix::fs::FileType;
use serde::Serialize;
use twox_hash::XxHash3_128;

use super::{RunArgs, myself};
use crate::units;

/// What `--compare --json` writes.
#[derive(Debug, Serialize)]
struct Comparison {
    pipeline: String,
    rounds: u32,
    shell: Side,
    standpipe: Side,
    /// The shell's median over ours: above 1, standpipe is faster.
    ratio: f64,
    output_bytes: u64,
    /// `null` where the shell's own output differs from round to round.
    output_identical: Option<bool>,
}

/// One contender.
#[derive(Debug, Default, Serialize)]
struct Side {
    wall_s: Vec<f64>,
    median_s: f64,
    min_s: f64,
    max_s: f64,
    exit_status: Option<i32>,
    #[serde(skip)]
    outputs: Vec<Output>,
}

/// What came out of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Output {
    bytes: u64,
    hash: u128,
    status: Option<i32>,
}

pub fn main(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let rounds = args.compare.unwrap_or(3);
    let input = Input::of_stdin()?;
    let (mut shell, mut ours) = (Side::default(), Side::default());
    // one round that does not count warms the caches for both
    for round in 0..=rounds {
        progress(Some(round), rounds);
        let (theirs_s, theirs) = timed(shell_command(args), &input, round == 0)?;
        let (ours_s, output) = timed(our_command(args)?, &input, false)?;
        shell.outputs.push(theirs);
        ours.outputs.push(output);
        if round > 0 {
            shell.wall_s.push(theirs_s);
            ours.wall_s.push(ours_s);
        }
    }
    progress(None, rounds);
    shell.sum_up();
    ours.sum_up();
    let comparison = Comparison {
        pipeline: args.pipeline.clone(),
        rounds,
        ratio: shell.median_s / ours.median_s,
        output_bytes: ours.outputs[0].bytes,
        output_identical: identical(&shell.outputs, &ours.outputs),
        shell,
        standpipe: ours,
    };
    match &args.json {
        Some(target) => target.write(&comparison)?,
        None => print!("{}", comparison.table()),
    }
    let differs = comparison.output_identical == Some(false);
    Ok(if differs {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The same for every round.
enum Input {
    Nothing,
    File,
}

impl Input {
    fn of_stdin() -> anyhow::Result<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Self::Nothing);
        }
        let Ok(stat) = rustix::fs::fstat(stdin.as_fd()) else {
            return Ok(Self::Nothing);
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Self::File),
            FileType::CharacterDevice => Ok(Self::Nothing),
            _ => bail!("--compare reads its input several times: give stdin as a file, or none"),
        }
    }

    fn open(&self) -> io::Result<Stdio> {
        match self {
            Self::Nothing => Ok(Stdio::null()),
            // a position of its own, at the beginning
            Self::File => File::open("/proc/self/fd/0").map(Stdio::from),
        }
    }
}

fn shell_command(args: &RunArgs) -> Command {
    let mut command = Command::new(&args.shell);
    command.arg("-c").arg(&args.pipeline);
    command
}

fn our_command(args: &RunArgs) -> anyhow::Result<Command> {
    let mut command = Command::new(myself()?);
    command
        .args(["run", "--quiet", "--last-status"])
        .arg("--shell")
        .arg(&args.shell);
    if let Some(size) = args.pipe_size {
        command.arg("--pipe-size").arg(size.to_string());
    }
    if args.no_splice {
        command.arg("--no-splice");
    }
    command.arg("--").arg(&args.pipeline);
    Ok(command)
}

/// Runs to the end of the output; messages are let through once.
fn timed(mut command: Command, input: &Input, messages: bool) -> anyhow::Result<(f64, Output)> {
    command
        .stdin(input.open().context("stdin")?)
        .stdout(Stdio::piped());
    if !messages {
        command.stderr(Stdio::null());
    }
    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| command.get_program().display().to_string())?;
    let (bytes, hash) = match child.stdout.take() {
        Some(output) => digest(output)?,
        None => (0, 0),
    };
    let status = child.wait()?;
    let wall_s = started.elapsed().as_secs_f64();
    Ok((
        wall_s,
        Output {
            bytes,
            hash,
            status: status.code(),
        },
    ))
}

fn digest(mut output: impl io::Read) -> io::Result<(u64, u128)> {
    let mut hasher = XxHash3_128::new();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return Ok((bytes, hasher.finish_128())),
            Ok(length) => {
                hasher.write(&buffer[..length]);
                bytes += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether ours are the shell's; `None` where the shell's are not alike among themselves.
fn identical(shell: &[Output], ours: &[Output]) -> Option<bool> {
    let first = shell[0];
    if shell.iter().any(|output| *output != first) {
        return None;
    }
    Some(ours.iter().all(|output| *output == first))
}

impl Side {
    fn sum_up(&mut self) {
        let mut sorted = self.wall_s.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        self.median_s = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        self.min_s = sorted[0];
        self.max_s = sorted[count - 1];
        self.exit_status = self.outputs[0].status;
    }

    fn row(&self, name: &str) -> String {
        let [median, min, max] = [self.median_s, self.min_s, self.max_s].map(units::duration);
        format!("  {name:<18}{median:>10}   {min} to {max}\n")
    }
}

impl Comparison {
    fn table(&self) -> String {
        let mut text = format!(
            "\n  {}\n\n  {:<18}{:>10}   spread of {} rounds\n",
            self.pipeline.trim(),
            "",
            "median",
            self.rounds
        );
        text += &self.shell.row("plain shell");
        text += &self.standpipe.row("standpipe run");
        let verdict = match self.output_identical {
            Some(true) => format!(
                "output identical ({})",
                units::amount(self.output_bytes as f64)
            ),
            Some(false) => {
                let statuses = [&self.shell, &self.standpipe].map(|side| side.exit_status);
                format!("OUTPUT OR EXIT STATUS DIFFER (exit statuses {statuses:?})")
            }
            None => "the output differs from run to run, in the shell too".to_owned(),
        };
        let _ = writeln!(text, "\n  {:.2} x the shell's speed; {verdict}", self.ratio);
        text
    }
}

/// One line on the terminal that is gone at the end.
fn progress(round: Option<u32>, rounds: u32) {
    if io::stderr().is_terminal() {
        let line = match round {
            Some(0) => "warming up".to_owned(),
            Some(round) => format!("round {round} of {rounds}"),
            None => String::new(),
        };
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }
}
