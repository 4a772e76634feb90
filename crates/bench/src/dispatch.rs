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
    self, Pace, asynchronous, bw, create, fifo, grep, latency, object, pipe, pipeflex, readahead,
    real_file, ring, ring_scale, run, small, stage, thrash,
};
use crate::{policies, processors, report, table};

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
        Command::Readahead(options) => bench(&["readahead"], &options, None)?,
        Command::Thrash(options) => bench(&["thrash"], &options, None)?,
        Command::Run(options) => bench(&["run"], &options, None)?,
        Command::Object(options) => bench(&["object"], &options, None)?,
        Command::Ring(options) => bench(&["ring"], &options, None)?,
        Command::RingScale(options) => bench(&["ring-scale"], &options, None)?,
        Command::Async(options) => bench(&["async"], &options, None)?,
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
            show(&records);
        }
        let remark = before.remark_until(Ticks::now()?);
        if let Some(remark) = remark.filter(|_| name != suites::SIMULATED) {
            eprintln!("{remark}");
        }
        results.extend(records);
    }
    options
        .json
        .as_ref()
        .map_or(Ok(()), |target| write_json(&results, target))
}

/// A table of the cases in which policies compete, and one of the others.
fn show(records: &[Record]) {
    let compete = policies::rows(records);
    let others = records
        .iter()
        .filter(|record| compete.iter().all(|row| row.case != record.case));
    let others: Vec<Record> = others.cloned().collect();
    if let Some(table) = policies::render(records) {
        println!("{table}");
    }
    if !others.is_empty() {
        println!("{}", table::render(&others));
    }
}

fn suite(name: &str, options: &Options, flex: Option<&Flex>) -> anyhow::Result<Vec<Record>> {
    let face = options.face();
    if face == Face::C && suites::OF_PROGRAMS.contains(&name) {
        anyhow::bail!("--c-abi: the suite {name} runs programs, expected one of pipes");
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
        "readahead" => {
            let (simulated, real) = (readahead::Plan::new(pace), real_file::Plan::new(pace)?);
            session.run_parts(vec![
                (simulated.rounds(), session.simulated_runs()),
                (real.rounds(), session.default_runs()),
            ])
        }
        "thrash" => session.run_parts(vec![(thrash::rounds(), session.simulated_runs())]),
        "run" => session.run(run::Plan::new(run::Sizes::new(pace), standpipe()?)?.rounds()),
        "object" => session.run(object::Plan::new(pace)?.rounds()),
        "ring" => session.run(ring::Plan::new(pace).rounds()),
        "ring-scale" => session.run(ring_scale::Plan::new(pace)?.rounds()),
        "async" => session.run(asynchronous::Plan::new(pace).rounds()),
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
        self.run_parts(vec![(rounds, self.default_runs())])
    }

    fn default_runs(&self) -> usize {
        // one run of grep takes some tens of milliseconds
        match (self.name, self.options.quick) {
            ("grep", _) => 31,
            // as published
            ("ring", _) => 10,
            (_, true) => 7,
            (_, false) => 11,
        }
    }

    /// What is simulated comes out the same each time: its runs differ by their seed only.
    fn simulated_runs(&self) -> usize {
        if self.options.quick { 1 } else { 5 }
    }

    /// Parts of a suite, each with how often its rivals run if nobody says otherwise.
    fn run_parts(&self, parts: Vec<(Vec<Round<'_>>, usize)>) -> anyhow::Result<Vec<Record>> {
        self.check_case(&parts.iter().flat_map(|(rounds, _)| rounds))?;
        let mut records = Vec::new();
        for (mut rounds, default_runs) in parts {
            rounds.retain(|round| self.wants(round));
            let left = QUICK_BUDGET.saturating_sub(self.start.elapsed());
            let effort = Effort {
                runs: self.options.runs.map_or(default_runs, usize::from),
                budget: self.options.quick.then_some(left),
            };
            let progress = progress_bar();
            let part = measure(self.name, rounds, effort, &progress);
            progress.finish_and_clear();
            records.extend(part?);
        }
        let face = match self.options.face() {
            Face::Rust => "",
            Face::C => suites::C_ABI,
        };
        let filed = |record| Record {
            suite: format!("{}{face}", self.name),
            cpus: self.options.cpus,
            ..record
        };
        Ok(records.into_iter().map(filed).collect())
    }

    /// Whether the user wants any of the cases of a round.
    fn wants(&self, round: &Round<'_>) -> bool {
        let mut cases = round.iter().flat_map(|rival| &rival.cases);
        let text = self.options.case.as_ref();
        text.is_none_or(|text| cases.any(|case| case.contains(text)))
    }

    fn check_case<'a, 'b: 'a>(
        &self,
        rounds: &(impl Iterator<Item = &'a Round<'b>> + Clone),
    ) -> anyhow::Result<()> {
        let rivals = rounds.clone().flatten();
        let mut names: Vec<String> = rivals.flat_map(|rival| rival.cases.clone()).collect();
        names.dedup();
        ensure!(
            rounds.clone().any(|round| self.wants(round)),
            "--case {}: none of {} has such a case, expected a part of one of {}",
            self.options.case.as_deref().unwrap_or_default(),
            self.name,
            names.join(" ")
        );
        Ok(())
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
