//! The `standpipe` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod accounts;
mod buffer;
mod cache;
mod cat;
mod ctl;
mod fifo;
mod json;
mod pages;
mod progress;
mod run;
mod settings;
mod stream;
mod trace;
mod units;

/// Pipes over shared memory: run pipelines faster and see where they are stuck.
#[derive(Parser)]
#[command(name = "standpipe", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Cat(cat::CatArgs),
    Buffer(buffer::BufferArgs),
    Fifo(fifo::FifoArgs),
    Cache(cache::CacheArgs),
    Trace(trace::TraceArgs),
    Ctl(ctl::CtlArgs),
    Bench(standpipe_bench::BenchArgs),
    Completions(pages::CompletionsArgs),
    Man(pages::ManArgs),
}

/// What standpipe itself fails with, apart from the pipeline: as `env`, `nohup` and `timeout` do.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    if let Some(code) = run::cat::main_if_asked() {
        return code;
    }
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::main(&args),
        Command::Cat(args) => Ok(cat::main(&args)),
        Command::Buffer(args) => Ok(buffer::main(&args)),
        Command::Fifo(args) => Ok(fifo::main(&args)),
        Command::Cache(args) => cache::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Ctl(args) => ctl::main(&args),
        Command::Bench(args) => standpipe_bench::main(args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("standpipe: {error:#}");
        ExitCode::from(OWN_FAILURE)
    })
}
