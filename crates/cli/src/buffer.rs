//! `standpipe buffer`: what evens out a pipeline, from within it.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use self::checksum::Algorithm;
use self::job::Job;
use self::outputs::Outputs;
use self::reservoir::Reservoir;
use crate::json::JsonTarget;
use crate::progress::{Meter, Progress};
use crate::stream::{Trouble, is_same_file, or_dash};
use crate::units;

mod checksum;
mod job;
mod outputs;
mod pace;
mod reservoir;
mod summary;

/// Even out a pipeline from within it: a reservoir, a rate, progress, checksums, copies to files.
///
/// Asked for nothing else, it grows the pipes on both sides to 1 MiB and moves their pages from one
/// to the other without looking at them, or uses the lane where the neighbours speak standpipe.
/// With --size, --high, --low, --checksum or several outputs, one thread reads into a reservoir in
/// memory and another writes from it.
///
/// On a terminal, progress goes to stderr while bytes flow, and a summary at the end.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  zcat dump.gz | standpipe buffer | psql db                 progress, and larger pipes
  standpipe buffer dump.sql | psql db                       with the time left
  tar c src | standpipe buffer -m 512M --high 80 > /dev/st0 no tape stops for a slow disk
  standpipe buffer -L 10M < big | ssh host 'cat > big'      at most 10 MiB/s
  ... | standpipe buffer -c sha256 -o - -o copy | ...       a copy and its checksum on the way

Sizes and rates: 4096, 64K, 8M, 1G (powers of 1024).

Exit status: 0; 1 if an input or output failed: an output that fails is given up, the others still
get everything. An output whose reader is gone is no failure, but where it was the last one, the
command ends of SIGPIPE, as any filter does.")]
pub struct BufferArgs {
    /// What to read, in this order; `-` is standard input [default: -]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to write instead of standard output; again for further copies; `-` is standard output.
    /// A file is made, or emptied first
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Add to the files of --output rather than emptying them
    #[arg(long)]
    append: bool,

    /// Size of the reservoir [default: the pipes on both sides; 16M where there must be one]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = parse_reservoir)]
    size: Option<usize>,

    /// When the reservoir has run empty, write on only once it is filled to so many percent
    #[arg(short = 'P', long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    high: Option<u8>,

    /// When the reservoir has been full, read on only once it is down to so many percent
    #[arg(short = 'p', long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100))]
    low: Option<u8>,

    /// Let at most so many bytes pass in a second
    #[arg(short = 'L', long, value_name = "RATE", value_parser = units::parse_size)]
    rate_limit: Option<usize>,

    /// Print the checksum of what passed, to stderr; again for further ones
    #[arg(short, long, value_name = "ALGORITHM")]
    checksum: Vec<Algorithm>,

    /// How much will pass, for the time left [default: the size of the files, where known]
    #[arg(short = 's', long, value_name = "SIZE", value_parser = units::parse_size)]
    total: Option<usize>,

    /// A name for this buffer in its progress and summary
    #[arg(short = 'N', long)]
    name: Option<String>,

    /// No progress, and no summary on a terminal
    #[arg(short, long, conflicts_with = "report")]
    quiet: bool,

    /// A summary at the end also where stderr is not a terminal
    #[arg(long)]
    report: bool,

    /// The summary as JSON, checksums included: to FILE, without one to stderr
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "", value_parser = JsonTarget::parse)]
    json: Option<JsonTarget>,
}

/// The reservoir where there has to be one and nobody said how large: it evens out a few
/// milliseconds at full speed, and most of it stays in a processor's cache.
const RESERVOIR_BYTES: usize = 16 << 20;

pub fn main(args: &BufferArgs) -> ExitCode {
    let outputs = refuse_loops(args).and_then(|()| Outputs::open(args.outputs(), args.append));
    let outputs = match outputs {
        Ok(outputs) => outputs,
        Err(trouble) => {
            eprintln!("standpipe: {trouble}");
            return ExitCode::FAILURE;
        }
    };
    let reservoir = needs_reservoir(args).then(|| {
        let bytes = args.size.unwrap_or(RESERVOIR_BYTES);
        Reservoir::new(bytes, args.high.unwrap_or(0), args.low.unwrap_or(100))
    });
    let job = Job {
        args,
        meter: Meter::new(),
        progress: Progress::new(args.name.as_deref(), job::total_bytes(args), !args.quiet),
        reservoir,
    };
    let outcome = job.run(outputs);
    job.conclude(outcome)
}

/// A size that the machine can have: its memory is taken as the reservoir fills.
fn parse_reservoir(text: &str) -> Result<usize, String> {
    let bytes = units::parse_size(text)?;
    let memory = rustix::system::sysinfo();
    let memory = memory.totalram as usize * memory.mem_unit as usize;
    if bytes > memory {
        return Err(format!(
            "expected at most the memory of this machine, {}",
            units::binary(memory)
        ));
    }
    Ok(bytes)
}

/// Whether bytes have to be kept or looked at.
fn needs_reservoir(args: &BufferArgs) -> bool {
    args.size.is_some()
        || args.high.is_some()
        || args.low.is_some()
        || args.output.len() > 1
        || !args.checksum.is_empty()
}

/// What is written to a file that is read would be read for ever, or gone before.
fn refuse_loops(args: &BufferArgs) -> Result<(), Trouble> {
    for input in args.files() {
        if args
            .outputs()
            .iter()
            .any(|output| is_same_file(input, output))
        {
            let error = io::Error::other("input file is output file");
            return Err(Trouble::Input(input.display().to_string(), error));
        }
    }
    Ok(())
}

impl BufferArgs {
    /// What to read.
    fn files(&self) -> &[PathBuf] {
        or_dash(&self.files)
    }

    /// What to write.
    fn outputs(&self) -> &[PathBuf] {
        or_dash(&self.output)
    }
}
