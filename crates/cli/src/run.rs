//! `standpipe run 'a | b | c'`.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};
use signal_hook::consts::{SIGINT, SIGPIPE};
use standpipe::pipe::PipeSize;

use self::job::{Outcome, Watch};
use self::launch::Launcher;
use self::plan::{Plan, Stage};
use self::report::Report;
use self::signals::Signals;
use self::tally::Exit;
use self::view::View;
use crate::json::JsonTarget;
use crate::{settings, units};

pub mod cat;
mod compare;
mod job;
mod launch;
mod plan;
mod report;
mod sample;
mod script;
mod signals;
mod tally;
mod view;
mod words;

/// Run a shell pipeline with faster pipes and a live view of where it is stuck.
///
/// Each | becomes a kernel pipe at the largest useful size allowed; the programs are unmodified.
/// A plain `cat FILE...` at the head is served by splicing the files' pages into the pipe. What
/// is more than a plain pipeline (lists, background jobs, here-documents, functions) is handed to
/// the shell as it is.
///
/// The output of the pipeline is all that goes to stdout. The view and the report go to stderr,
/// and only where that is a terminal.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe run 'cat access.log | grep -v bot | sort | uniq -c | sort -rn | head'
  standpipe run --pipe-size 256K 'tar c src | zstd > src.tar.zst'
  standpipe run --compare 'cat big.txt | wc -l'     how much faster than the plain shell
  standpipe run --json=report.json 'zcat big.gz | ./parse | wc -c'

Exit status: that of the rightmost stage that failed (128+N for signal N), 0 if none did, as with
the shell's pipefail; --last-status for that of the last stage. 125 if standpipe itself fails.

The view: for each stage its rate, its processor time, what it is doing, and how full the pipe
behind it is. The bottleneck is the stage that does not wait for its neighbours.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// The pipeline, in one argument, as a shell would read it
    pipeline: String,

    /// Size of the pipes: 64K, 1M, or the pair "Po So" [default: the setting of `standpipe ctl`,
    /// else 512K]. Where the kernel's limits forbid it, the largest size allowed
    #[arg(long, value_name = "SIZE", value_parser = units::parse_pipe_size)]
    pipe_size: Option<PipeSize>,

    /// The shell that runs what needs one
    #[arg(long, value_name = "PATH", default_value = "/bin/sh")]
    shell: PathBuf,

    /// Exit with the status of the last stage, as a shell does without pipefail
    #[arg(long)]
    last_status: bool,

    /// Run `cat` itself, even where standpipe could splice the files instead
    #[arg(long)]
    no_splice: bool,

    /// No live view
    #[arg(long)]
    no_view: bool,

    /// No live view and no report
    #[arg(short, long, conflicts_with_all = ["report", "verbose"])]
    quiet: bool,

    /// Report at the end also where stderr is not a terminal
    #[arg(long)]
    report: bool,

    /// Report as JSON instead of the table: to FILE, without one to stderr
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "", value_parser = JsonTarget::parse)]
    json: Option<JsonTarget>,

    /// Run the pipeline and the plain shell alternately, N rounds each, and print both times;
    /// their outputs are compared and thrown away
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
          default_missing_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000))]
    compare: Option<u32>,

    /// Say how the pipeline was taken apart
    #[arg(short, long)]
    verbose: bool,
}

/// The size of pipes that nobody configured. Half of the unprivileged limit measures best: a
/// stage writes and its neighbour reads what is still in a processor's second-level cache (1 MiB
/// on the machines of these years), and larger pipes won nothing.
const USEFUL_BYTES: usize = 512 << 10;

pub fn main(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if !is_executable(&args.shell) {
        bail!(
            "--shell {}: expected the path of a shell",
            args.shell.display()
        );
    }
    if args.compare.is_some() {
        return compare::main(args);
    }
    let (stages, handed_to_shell) = stages(args);
    if args.verbose {
        explain(&stages, handed_to_shell.as_deref());
    }
    let wanted_bytes = pipe_bytes(args)?;
    let how = Launcher {
        shell: &args.shell,
        pipe_bytes: wanted_bytes,
        splice: !args.no_splice,
    };
    let commands: Vec<String> = stages.iter().map(|stage| one_line(&stage.text)).collect();
    let terminal = io::stderr().is_terminal();
    let reporting = args.json.is_some() || (!args.quiet && (args.report || terminal));
    let viewing = terminal && !args.quiet && !args.no_view;
    let signals = Signals::take_over(viewing).context("signals")?;
    let started = Instant::now();
    let launched = how.launch(&stages)?;
    let view = viewing.then(|| View::new(commands.clone()));
    let watch = Watch {
        sampling: reporting || viewing,
        view,
    };
    let outcome = job::wait(&launched, started, watch, signals)?;
    let exit_status = exit_status(&outcome, args.last_status);
    if reporting {
        let context = report::Context {
            pipeline: &args.pipeline,
            commands: &commands,
            launched: &launched,
            wall_s: outcome.wall_s,
            exit_status,
            wanted_bytes,
            handed_to_shell,
        };
        publish(args, &Report::new(&outcome.tally, context))?;
    } else {
        tell_of_kills(&outcome, &commands);
    }
    if let Some(signal) = outcome.interrupted_by {
        signals::die_of(signal);
    }
    Ok(ExitCode::from(exit_status))
}

fn is_executable(path: &std::path::Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// The stages to start, and why it is only one for the shell, if so.
fn stages(args: &RunArgs) -> (Vec<Stage>, Option<String>) {
    match plan::plan(&args.pipeline) {
        Plan::Stages(stages) => (stages, None),
        Plan::Whole { reason } => (vec![Stage::for_shell(&args.pipeline)], Some(reason)),
    }
}

fn explain(stages: &[Stage], handed_to_shell: Option<&str>) {
    if let Some(reason) = handed_to_shell {
        eprintln!("standpipe: handed whole to the shell, since {reason}");
        return;
    }
    for (index, stage) in stages.iter().enumerate() {
        let how = if stage.plain.is_some() {
            "executed"
        } else {
            "through the shell"
        };
        eprintln!(
            "standpipe: stage {}, {how}: {}",
            index + 1,
            stage.text.trim()
        );
    }
}

/// The size asked for: by the flag, by the user's settings, or what is useful.
fn pipe_bytes(args: &RunArgs) -> anyhow::Result<usize> {
    if let Some(size) = args.pipe_size {
        return Ok(size.capacity_bytes());
    }
    let (size, origin) = settings::pipe_size()?;
    Ok(if origin == settings::Origin::BuiltIn {
        USEFUL_BYTES
    } else {
        size.capacity_bytes()
    })
}

/// The rightmost failure, or the last stage's status; of the shell where it has the whole text.
fn exit_status(outcome: &Outcome, last_only: bool) -> u8 {
    let ends = outcome
        .tally
        .stages
        .iter()
        .rev()
        .filter_map(|stage| stage.ended);
    let mut codes = ends.map(|ended| ended.exit.code());
    if last_only {
        codes.next().unwrap_or(0)
    } else {
        codes.find(|code| *code != 0).unwrap_or(0)
    }
}

/// A shell says so too when a signal ends a command, unless it is Ctrl-C or a closed pipe.
fn tell_of_kills(outcome: &Outcome, commands: &[String]) {
    for (stage, command) in outcome.tally.stages.iter().zip(commands) {
        if let Some(Exit::Signal(signal)) = stage.ended.map(|ended| ended.exit)
            && ![SIGINT, SIGPIPE].contains(&signal)
        {
            eprintln!(
                "standpipe: killed by {}: {command}",
                report::signal_name(signal)
            );
        }
    }
}

fn publish(args: &RunArgs, report: &Report) -> anyhow::Result<()> {
    match &args.json {
        None => {
            let columns =
                rustix::termios::tcgetwinsize(io::stderr()).map_or(120, |size| size.ws_col);
            let _ = io::stderr().write_all(report.table(columns.into()).as_bytes());
            Ok(())
        }
        Some(target) => target.write(report),
    }
}

/// A command as one line of text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The program that runs, to start it once more.
fn myself() -> anyhow::Result<PathBuf> {
    env::current_exe().context("the path of standpipe itself")
}
