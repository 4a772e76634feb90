//! `standpipe cache`: the page caches of running processes.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Subcommand;

use self::caches::Caches;

mod caches;

/// Look at the page caches of running processes.
///
/// Programs that read through standpipe (its `File`, `standpipe cat`) keep pages of files and objects in
/// memory of a fixed budget. They tell how it is spent, and what becomes of what they read ahead, in a
/// page of shared memory that goes away with them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe cache stat                 all processes that one may look at
  standpipe cache stat 1234 --watch    one, every second
  standpipe cache stat --json | jq '.caches[] | {pid, hit_rate: .pages.hit_rate}'

Of a process:
  holds    the budget and what is in it: pages that are there, of which some are not yet used, and
           pages on their way
  store    reads of the store, and their average size
  pages    how many looks for a page found it there; the others had to wait
  ahead    what was read before anybody asked for it, and what became of it: used, late (somebody had
           to wait for it), wasted (dropped unread)

Figures are up to 10 ms of activity behind.

Exit status: 0; 1 if a process that was asked for has no cache, or may not be looked at.")]
pub struct CacheArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say how the caches of processes are doing
    Stat(StatArgs),
}

#[derive(clap::Args)]
struct StatArgs {
    /// Which processes [default: all that may be looked at]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,

    /// As JSON; with --watch, a line each time
    #[arg(long)]
    json: bool,

    /// Again and again, with what happened in between, until interrupted or the processes are gone
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = parse_interval)]
    watch: Option<Duration>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds >= 0.05);
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval.ok_or_else(|| format!("{text:?}: expected seconds, as in 0.5, at least 0.05"))
}

pub fn main(args: &CacheArgs) -> anyhow::Result<ExitCode> {
    let Verb::Stat(args) = &args.verb;
    match stat(args) {
        // a reader that closes early (`| head`) has what it wants
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn stat(args: &StatArgs) -> anyhow::Result<ExitCode> {
    let caches = look(args)?;
    let missing = caches.missing(&args.pid);
    for line in &missing {
        eprintln!("standpipe: {line}");
    }
    if !missing.is_empty() && caches.all.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    match args.watch {
        None => show(args, &caches, None)?,
        Some(interval) => watch(args, interval, caches)?,
    }
    Ok(if missing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn watch(args: &StatArgs, interval: Duration, mut caches: Caches) -> anyhow::Result<()> {
    show(args, &caches, None)?;
    let mut next = Instant::now();
    while args.pid.is_empty() || !caches.all.is_empty() {
        next += interval;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let before = std::mem::replace(&mut caches, look(args)?);
        show(args, &caches, Some(&before))?;
    }
    Ok(())
}

fn look(args: &StatArgs) -> anyhow::Result<Caches> {
    Caches::look(&args.pid).context("cannot look at the processes in /proc")
}

/// Prints what was seen; on a terminal that watches, in place of what was there before.
fn show(args: &StatArgs, caches: &Caches, before: Option<&Caches>) -> io::Result<()> {
    let mut text = match (args.json, args.watch) {
        (true, None) => serde_json::to_string_pretty(caches)?,
        (true, Some(_)) => serde_json::to_string(caches)?,
        (false, _) => words(caches, before),
    };
    text.push('\n');
    let mut stdout = io::stdout().lock();
    if args.watch.is_some() && !args.json && stdout.is_terminal() {
        use crossterm::{cursor::MoveTo, terminal};
        let clear = terminal::Clear(terminal::ClearType::All);
        crossterm::queue!(stdout, MoveTo(0, 0), clear)?;
    }
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn words(caches: &Caches, before: Option<&Caches>) -> String {
    let mut blocks: Vec<String> = Vec::new();
    for seen in &caches.all {
        let earlier = before.and_then(|before| before.same(seen));
        blocks.push(seen.words(earlier));
    }
    if blocks.is_empty() {
        blocks.push("no process has a page cache of standpipe".to_owned());
    }
    if caches.hidden_processes > 0 {
        blocks.push(format!(
            "{} processes of others were not looked at",
            caches.hidden_processes
        ));
    }
    blocks.join("\n")
}
