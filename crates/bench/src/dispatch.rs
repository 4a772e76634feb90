//! From arguments to suites.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::args::{BenchArgs, Command, Flex, Options, ReportArgs};
use crate::clock::Stop;
use crate::engine::Face;
use crate::measure::{Effort, Round, measure, progress_bar};
use crate::noise::Ticks;
use crate::pressure::Pressure;
use crate::record::{Record, read_json, write_json};
use crate::suites::{
    self, Pace, bw, create, fifo, grep, latency, pipe, pipeflex, run, small, stage,
};
use crate::{processors, report, table};

/// Of the 40 seconds that `--quick` promises: the rest is for the last round's fewest runs.
const QUICK_BUDGET: Duration = Duration::from_secs(32);
/// How long a quick suite may spend on getting memory.
const QUICK_FILL: Duration = Duration::from_secs(12);
/// The file of the published `grep`.
const GREP_BYTES: usize = 50_000_000;

/// Runs what `standpipe bench` was asked for.
///
/// # Errors
/// When a suite cannot be set up, or a case did not deliver its bytes intact.
pub fn main(args: BenchArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List => list(),
        Command::Report(args) => render(&args)?,
        Command::All(options) => bench(&all(options.face()), &options, None)?,
        Command::Pipe(args) => {
            let name = if args.memory_pressure {
                "pipe-memory-pressure"
            } else {
                "pipe"
            };
            bench(&[name], &args.options, None)?;
        }
        Command::Pipeflex(args) => bench(&["pipeflex"], &args.options, Some(&args.flex))?,
        Command::Bw(options) => bench(&["bw"], &options, None)?,
        Command::Grep(options) => bench(&["grep"], &options, None)?,
        Command::Small(options) => bench(&["small"], &options, None)?,
        Command::Latency(options) => bench(&["latency"], &options, None)?,
        Command::Create(options) => bench(&["create"], &options, None)?,
        Command::Fifo(options) => bench(&["fifo"], &options, None)?,
        Command::Stage(options) => bench(&["stage"], &options, None)?,
        Command::Run(options) => bench(&["run"], &options, None)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The suites that can be run so, and here.
fn all(face: Face) -> Vec<&'static str> {
    let can_run = |name: &&str| match (face, *name) {
        (Face::C, name) => !suites::OF_PROGRAMS.contains(&name),
        (Face::Rust, "stage") => stage::installed()
            .map_err(|reason| eprintln!("note: the suite stage is left out: {reason}"))
            .is_ok(),
        (Face::Rust, _) => true,
    };
    let names = suites::ALL.iter().map(|(name, _)| *name);
    names.filter(can_run).collect()
}

fn list() {
    for (name, description) in suites::ALL {
        let command = if name == "pipe-memory-pressure" {
            "pipe --memory-pressure"
        } else {
            name
        };
        println!("{command:<24}{description}");
    }
}

fn render(args: &ReportArgs) -> anyhow::Result<()> {
    let stdin = [Path::new("-").to_owned()];
    let inputs = if args.inputs.is_empty() {
        &stdin[..]
    } else {
        &args.inputs
    };
    let results = inputs
        .iter()
        .map(|path| read_json(path))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let page = report::render(&results.concat());
    if args.output == Path::new("-") {
        print!("{page}");
        return Ok(());
    }
    std::fs::write(&args.output, page)
        .with_context(|| format!("cannot write the report to {}", args.output.display()))?;
    println!("{}", args.output.display());
    Ok(())
}

/// Runs suites, shows each one's table when it is done, and writes all results at the end, or up to
/// the suite that failed.
fn bench(names: &[&str], options: &Options, flex: Option<&Flex>) -> anyhow::Result<()> {
    if let Some(cpus) = options.cpus {
        processors::confine(cpus)?;
    }
    let to_stdout = options.json.as_deref() == Some(Path::new("-"));
    let mut results = Vec::new();
    for &name in names {
        let before = Ticks::now()?;
        let records = suite(name, options, flex)?;
        if !to_stdout {
            println!("{}", table::render(&records));
        }
        if let Some(remark) = before.remark_until(Ticks::now()?) {
            eprintln!("{remark}");
        }
        results.extend(records);
    }
    options
        .json
        .as_ref()
        .map_or(Ok(()), |target| write_json(&results, target))
}

fn suite(name: &str, options: &Options, flex: Option<&Flex>) -> anyhow::Result<Vec<Record>> {
    let face = options.face();
    if face == Face::C && suites::OF_PROGRAMS.contains(&name) {
        anyhow::bail!("--c-abi: the suite {name} runs programs, expected one that runs pipes");
    }
    let session = Session {
        name,
        options,
        start: Instant::now(),
    };
    let pace = options.pace();
    let standpipe = || std::env::current_exe().context("where is the standpipe program?");
    match name {
        "pipe" => session.run(pipe::Plan::new(pace, face).rounds()),
        "pipe-memory-pressure" => {
            let hurry = options.quick.then_some(QUICK_FILL);
            let _pressure = Pressure::half_of_memory(hurry)?;
            session.run(pipe::Plan::new(pace, face).hurried().rounds())
        }
        "bw" => session.run(bw::Plan::new(pace, face).rounds()),
        "pipeflex" => session.run(flexed(pipeflex::Plan::new(pace, face), flex).rounds()),
        "grep" => session.run(grep::Plan::new(GREP_BYTES, standpipe()?)?.rounds()),
        "small" => session.run(small::Plan::new(pace, face).rounds()),
        "latency" => {
            session.run(latency::Plan::new(pace, face, processors::allowed()?.len()).rounds())
        }
        "create" => session.run(create::Plan::new(pace, face)?.rounds()),
        "fifo" => session.run(fifo::Plan::new(pace, face)?.rounds()),
        "stage" => session.run(stage::Plan::new(pace, standpipe()?, stage::installed()?)?.rounds()),
        "run" => session.run(run::Plan::new(run::Sizes::new(pace), standpipe()?)?.rounds()),
        _ => anyhow::bail!("no suite {name:?}"),
    }
}

/// The plan with what the user wants otherwise.
fn flexed(plan: pipeflex::Plan, flex: Option<&Flex>) -> pipeflex::Plan {
    let Some(flex) = flex.cloned() else {
        return plan;
    };
    let sizes = flex.sizes;
    pipeflex::Plan {
        children: flex.children.unwrap_or(plan.children),
        compute_us: flex.compute.unwrap_or(plan.compute_us),
        stop: flex
            .time
            .map_or(plan.stop, |s| Stop::after(Duration::from_secs_f64(s))),
        transfers_kib: if sizes.is_empty() {
            plan.transfers_kib
        } else {
            sizes
        },
        ..plan
    }
}

/// One suite being run. Its time counts from before its inputs are made.
struct Session<'a> {
    name: &'a str,
    options: &'a Options,
    start: Instant,
}

impl Session<'_> {
    fn run(&self, rounds: Vec<Round<'_>>) -> anyhow::Result<Vec<Record>> {
        let rounds = self.chosen(rounds)?;
        let quick = self.options.quick;
        // one run of grep takes some tens of milliseconds
        let default_runs = match (self.name, quick) {
            ("grep", _) => 31,
            (_, true) => 7,
            (_, false) => 11,
        };
        let left = QUICK_BUDGET.saturating_sub(self.start.elapsed());
        let effort = Effort {
            runs: self.options.runs.map_or(default_runs, usize::from),
            budget: quick.then_some(left),
        };
        let progress = progress_bar();
        let records = measure(self.name, rounds, effort, &progress);
        progress.finish_and_clear();
        let face = match self.options.face() {
            Face::Rust => "",
            Face::C => suites::C_ABI,
        };
        let filed = |record| Record {
            suite: format!("{}{face}", self.name),
            cpus: self.options.cpus,
            ..record
        };
        Ok(records?.into_iter().map(filed).collect())
    }
}

impl Session<'_> {
    /// The rounds of the cases that are wanted.
    fn chosen<'a>(&self, mut rounds: Vec<Round<'a>>) -> anyhow::Result<Vec<Round<'a>>> {
        let Some(text) = &self.options.case else {
            return Ok(rounds);
        };
        let names = rounds
            .iter()
            .flatten()
            .flat_map(|rival| rival.cases.clone());
        let mut names = names.collect::<Vec<_>>();
        names.dedup();
        rounds.retain(|round| {
            let mut cases = round.iter().flat_map(|rival| &rival.cases);
            cases.any(|case| case.contains(text))
        });
        ensure!(
            !rounds.is_empty(),
            "--case {text}: none of {} has such a case, expected a part of one of {}",
            self.name,
            names.join(" ")
        );
        Ok(rounds)
    }
}

impl Options {
    fn face(&self) -> Face {
        if self.c_abi { Face::C } else { Face::Rust }
    }

    fn pace(&self) -> Pace {
        if self.quick { Pace::Quick } else { Pace::Full }
    }
}
