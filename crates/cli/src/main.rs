//! The `standpipe` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod ctl;
mod run;

/// Pipes over shared memory: run pipelines faster and see where they are stuck.
#[derive(Parser)]
#[command(name = "standpipe", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Ctl(ctl::CtlArgs),
    Bench(standpipe_bench::BenchArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(args) => run::main(args),
        Command::Ctl(args) => ctl::main(args),
        Command::Bench(args) => standpipe_bench::main(args),
    }
}
