//! Benchmarks of standpipe against the kernel's pipes and the shell's pipelines.
//!
//! A suite ([`suites`]) makes rounds of contenders; [`measure`] runs them in turn and files what
//! they report as [`record`]s; [`table`] and [`report`] show them. The pipes under test have one
//! face ([`engine`]), their processes are forked anew for each run ([`family`]), and what arrives
//! is checked ([`verify`]).

mod args;
pub mod clock;
pub mod engine;
pub mod family;
pub mod measure;
pub mod pressure;
pub mod processors;
pub mod record;
pub mod stats;
pub mod stream;
pub mod suites;
pub mod table;
pub mod verify;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub use args::BenchArgs;
use args::{Command, Options};
use measure::{Effort, Round, measure, progress_bar};
use pressure::Pressure;
use record::{Record, write_json};
use suites::{Pace, bw, create, latency, pipe, small};

/// What `--quick` may take for its measurements, of the 40 seconds that it promises.
const QUICK_BUDGET: Duration = Duration::from_secs(32);

/// Runs what `standpipe bench` was asked for.
///
/// # Errors
/// When a suite cannot be set up, or a case did not deliver its bytes intact.
pub fn main(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let (options, records) = match args.command {
        Command::Pipe(args) => {
            let pressure = args
                .memory_pressure
                .then(Pressure::half_of_memory)
                .transpose()?;
            let name = if pressure.is_some() {
                "pipe-memory-pressure"
            } else {
                "pipe"
            };
            let plan = pipe::Plan::new(args.options.pace());
            (args.options.clone(), args.options.run(name, plan.rounds())?)
        }
        Command::Bw(options) => {
            let records = options.run("bw", bw::Plan::new(options.pace()).rounds())?;
            (options, records)
        }
        Command::Small(options) => {
            let records = options.run("small", small::Plan::new(options.pace()).rounds())?;
            (options, records)
        }
        Command::Latency(options) => {
            let cpus = options
                .cpus
                .map_or_else(|| processors::allowed().map(|c| c.len()), Ok)?;
            let plan = latency::Plan::new(options.pace(), cpus);
            let records = options.run("latency", plan.rounds())?;
            (options, records)
        }
        Command::Create(options) => {
            let records = options.run("create", create::Plan::new(options.pace()).rounds())?;
            (options, records)
        }
    };
    if options.json.as_deref() != Some(Path::new("-")) {
        println!("{}", table::render(&records));
    }
    if let Some(target) = &options.json {
        write_json(&records, target)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn pace(&self) -> Pace {
        if self.quick { Pace::Quick } else { Pace::Full }
    }

    fn run(&self, suite: &str, rounds: Vec<Round<'_>>) -> anyhow::Result<Vec<Record>> {
        if let Some(cpus) = self.cpus {
            processors::confine(cpus)?;
        }
        let runs = self
            .runs
            .map_or(if self.quick { 7 } else { 11 }, usize::from);
        let effort = Effort {
            runs,
            budget: self.quick.then_some(QUICK_BUDGET),
        };
        let progress = progress_bar();
        let records = measure(suite, rounds, effort, &progress)?;
        progress.finish_and_clear();
        let filed = |record| Record {
            cpus: self.cpus,
            ..record
        };
        Ok(records.into_iter().map(filed).collect())
    }
}
