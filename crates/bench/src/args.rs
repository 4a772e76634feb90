//! The arguments of `standpipe bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Measure pipes against the kernel's and pipelines against the shell's
///
/// Each suite runs its rivals in turn (A B A B ...), checks that all bytes arrive intact, and
/// prints medians, spreads and ratios. A ratio above 1 is in standpipe's favour. Where bytes
/// arrive damaged, that is an error, and the exit status is 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  standpipe bench pipe --quick            a first impression in half a minute
  standpipe bench small --cpus 1          all processes on one processor
  standpipe bench small --c-abi           the same calls as a C program makes them
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
    /// A writer that never pauses, a reader that computes after each transfer
    Pipeflex(PipeflexArgs),
    /// `cat` of 50 MB into a `grep` that finds nothing
    Grep(Options),
    /// Messages of 16 to 4096 bytes from one writer to one reader
    Small(Options),
    /// Ping-pong of one byte: processors free, and both processes on one
    Latency(Options),
    /// Making and closing pipes and FIFOs, with 1 KiB carried and idle; memory of 10,000 idle ones
    Create(Options),
    /// 1000 chunks of 64 bytes to 64 KiB through a FIFO between strangers; opening and closing
    Fifo(Options),
    /// `cat | X | cat`, X being `standpipe buffer`, pv and mbuffer
    Stage(Options),
    /// Readahead policies on a simulated disk, beside the published figures; a file on the real disk
    Readahead(Options),
    /// 200 streams of 100 KB/s, one more each second, on a simulated machine of 128 MB
    Thrash(Options),
    /// Ten pipelines of ordinary programs, `sh -c` against `standpipe run`
    Run(Options),
    /// An object of a server far away, in reads of 64 KiB and 1 MiB: against a plain GET, a buffered
    /// reader, and curl
    Object(Options),
    /// 128 pipes served by one thread through completions: against `io_uring`, with and without its
    /// workers, and epoll
    Ring(Options),
    /// 1 to 10,000 pipes armed at once, and what an event costs: against `io_uring`, with and without its
    /// workers, and epoll
    RingScale(Options),
    /// Tasks of tokio, 1 and 128 pairs, 64 B and 64 KiB: against tokio's unix pipe and `io::simplex`
    Async(Options),
    /// All of the above, one after the other
    All(Options),
    /// Say which suites there are, and what they measure
    List,
    /// Render results as one HTML page with plots, published figures beside the measured ones
    Report(ReportArgs),
}

/// Options of every suite.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Take at most 40 seconds a suite
    #[arg(long)]
    pub quick: bool,

    /// Confine all processes to N processors [default: those the scheduler likes]
    #[arg(long, value_name = "N")]
    pub cpus: Option<usize>,

    /// Only cases whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,

    /// Use ours through its C ABI (suites `pipe-c-abi` and so on)
    #[arg(long)]
    pub c_abi: bool,

    /// How often each rival runs [default: 7 with --quick, else 11; 31 for grep]
    ///
    /// With --quick, a suite that would take more than its 40 seconds runs them less often, though
    /// at least three times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: Option<u16>,

    /// Write the results to FILE as JSON; with `-` to standard output, without the table
    ///
    /// An array of {suite, case, engine, metric, unit, value, runs}: value is the median of runs.
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

#[derive(Args, Debug)]
pub(crate) struct PipeflexArgs {
    #[command(flatten)]
    pub flex: Flex,

    #[command(flatten)]
    pub options: Options,
}

/// The published options of pipeflex.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Flex {
    /// Processes, an even number: two to a pipe [default: 2]
    #[arg(short = 'c', long, value_name = "N", value_parser = even)]
    pub children: Option<usize>,

    /// Seconds of a run [default: 0.06 with --quick, else 0.25]
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,

    /// Microseconds of computation after each transfer, on average; drawn from 0.5 to 1.5 times
    /// that [default: 50]
    #[arg(short = 'r', long, value_name = "MICROSECONDS",
          value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub compute: Option<u64>,

    /// KiB per transfer; several with commas [default: 2,4,6,8,12,16,24,32]
    #[arg(short = 's', long, value_name = "KIB", value_delimiter = ',',
          value_parser = transfer_kib)]
    pub sizes: Vec<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Results, as written with --json [default: those on standard input]
    #[arg(value_name = "INPUT.json")]
    pub inputs: Vec<PathBuf>,

    /// Where to write the page; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
}

fn even(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (2..=256).contains(&count) && count % 2 == 0 => Ok(count),
        _ => Err("expected an even number from 2 to 256, two processes to a pipe".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=30.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.001 to 30".into()),
    }
}

fn transfer_kib(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(kib) if (1..=512).contains(&kib) => Ok(kib),
        _ => Err("expected a number of KiB from 1 to 512".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn arguments_are_consistent_and_wrong_ones_say_what_was_expected() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        for (line, expected) in [
            ("x pipeflex -c 3", "even number"),
            ("x pipeflex -t 0", "seconds"),
            ("x pipeflex -s 4,x", "KiB"),
            ("x pipe --runs 0", "1..=65535"),
            ("x nothing", "unrecognized subcommand"),
        ] {
            let error = Cli::try_parse_from(line.split(' '))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn every_listed_suite_has_its_command() {
        for (suite, _) in crate::suites::ALL {
            let line = match suite {
                "pipe-memory-pressure" => "x pipe --memory-pressure".to_owned(),
                name => format!("x {name}"),
            };
            Cli::try_parse_from(line.split(' ')).unwrap();
        }
    }
}
