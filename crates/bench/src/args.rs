//! The arguments of `standpipe bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Measure pipes against the kernel's and pipelines against the shell's, in one run, interleaved
///
/// Each suite runs its rivals in turn (A B A B ...), checks that all bytes arrive intact, and
/// prints medians, spreads and ratios. `standpipe bench list` says what there is.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  standpipe bench pipe --quick            a first impression in half a minute
  standpipe bench small --cpus 1          all processes on one processor
  standpipe bench all --json results.json
  standpipe bench report results.json -o report.html")]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Writers x readers, {1,2,5} x {1,5,10} processes, writes of 64 KiB, a pipe of 1 MiB
    Pipe(PipeArgs),
    /// One writer, one reader; transfers of 2 to 32 KiB through pipes of 4 to 32 KiB
    Bw(Options),
    /// Messages of 16 to 4096 bytes from one writer to one reader
    Small(Options),
    /// Ping-pong of one byte: processors free, and both processes on one
    Latency(Options),
    /// Making and closing a pipe, with 1 KiB carried and idle
    Create(Options),
}

/// Options of every suite.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Take at most 40 seconds
    #[arg(long)]
    pub quick: bool,

    /// Confine all processes to N processors [default: as the user's own]
    #[arg(long, value_name = "N")]
    pub cpus: Option<usize>,

    /// How often each rival runs [default: 7 with --quick, else 11]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: Option<u16>,

    /// Write the results to FILE as an array of {suite, case, engine, metric, unit, value, runs};
    /// with `-` to standard output, without the table
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct PipeArgs {
    /// Keep half of the machine's memory busy meanwhile (suite `pipe-memory-pressure`)
    #[arg(long)]
    pub memory_pressure: bool,

    #[command(flatten)]
    pub options: Options,
}
