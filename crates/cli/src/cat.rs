//! `standpipe cat`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use standpipe::file::Policy;

use self::range::{Range, parse_offset, parse_range};
use self::report::{Report, SourceReport};
use self::source::{Reading, Source};
use crate::json::JsonTarget;
use crate::progress::{Meter, Progress};
use crate::stream::{Output, Trouble, die_of_sigpipe, is_same_file, or_dash};
use crate::units;

mod cached;
mod plain;
mod range;
mod report;
mod source;

/// Write files, objects of stores, FIFOs or standard input to standard output.
///
/// A SRC is a path, or a URL: s3://, gs://, az://, http(s)://, file://. Files and objects are read
/// ahead of standard output, around the kernel's page cache where that can be done, and go from the
/// page cache of standpipe to standard output in one copy: into the lane where the neighbour speaks
/// standpipe. What the kernel has in memory already, and what has no places to read at (pipes,
/// terminals, /proc), is moved with splice(2), without a copy.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe cat big.log | grep error
  standpipe cat header - footer < body > page
  standpipe cat -n 16 s3://bucket/reads.bam | samtools view -
  standpipe cat -r 0-99 https://host/file              its first 100 bytes
  standpipe cat -r -1M big.log                         its last MiB
  standpipe cat --offset 2G --length 64M disk.img
  standpipe cat --stats --policy context big.log > /dev/null

Sizes: 4096, 64K, 8M, 1G (powers of 1024).

How far is read ahead follows the speed of the store. It stops at --max-ahead, or with -n at so many
reads of the size that the store likes best (1 MiB of a file, 2 MiB of an object). A slow reader of
standard output holds it up: never is more memory used than --cache.

Exit status: 0; 1 if a source could not be read (the others are still written), or standard output
written. Where its reader leaves, the command ends of SIGPIPE, as any filter does.

What is moved without a copy is in the pipe as it is in the file: bytes overwritten in place after
they were put into the pipe and before they were read are read as they are then.")]
pub struct CatArgs {
    /// What to write, in this order; `-` is standard input [default: -]
    #[arg(value_name = "SRC")]
    sources: Vec<PathBuf>,

    /// Of each source, only the bytes START to END, both included and counted from 0; from START on
    /// without END; the last LENGTH bytes as -LENGTH
    #[arg(short, long, value_name = "START-END", value_parser = parse_range, allow_hyphen_values = true,
          conflicts_with_all = ["offset", "length"])]
    range: Option<Range>,

    /// Of each source, only what follows its first SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_offset)]
    offset: Option<u64>,

    /// Of each source, at most SIZE bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_offset)]
    length: Option<u64>,

    /// Keep up to so many reads of each source under way or ready at once [default: as many as
    /// --max-ahead has room for]
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "max_ahead",
          value_parser = clap::value_parser!(u16).range(1..))]
    streams: Option<u16>,

    /// What decides how far to read ahead: ours, nothing (off), or what kernels do [default: adaptive]
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    policy: Option<Policy>,

    #[arg(help = "The most memory for pages [default: STANDPIPE_CACHE_BYTES, else 64M]")]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    cache: Option<usize>,

    /// How far to read ahead at most [default: half of --cache]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    max_ahead: Option<usize>,

    /// No progress on a terminal
    #[arg(short, long)]
    quiet: bool,

    /// At the end, say on stderr how each source was read: by what, in reads of which size, what of
    /// it was there in time, what was read for nothing
    #[arg(long)]
    stats: bool,

    /// The same as JSON: to FILE, without one to stderr
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "", value_parser = JsonTarget::parse)]
    json: Option<JsonTarget>,
}

pub fn main(args: &CatArgs) -> ExitCode {
    let job = Job {
        args,
        meter: Meter::new(),
        progress: Progress::new(None, args.total_bytes(), args.shows_progress()),
    };
    let outcome = match Output::stdout() {
        Ok(output) => job.run(&output),
        Err(trouble) => {
            job.complain(&trouble);
            Outcome::failed()
        }
    };
    job.conclude(outcome)
}

struct Job<'a> {
    args: &'a CatArgs,
    meter: Meter,
    progress: Progress,
}

/// How it went.
#[derive(Default)]
struct Outcome {
    sources: Vec<SourceReport>,
    has_failed: bool,
    /// Whoever reads standard output is gone.
    is_unwanted: bool,
}

impl Outcome {
    fn failed() -> Self {
        Self {
            has_failed: true,
            ..Self::default()
        }
    }
}

impl Job<'_> {
    fn run(&self, output: &Output) -> Outcome {
        let (working, done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            if self.progress.is_shown() {
                scope.spawn(move || self.progress.show(&self.meter, || None, &done));
            }
            let outcome = self.write_all(output);
            drop(working);
            outcome
        })
    }

    fn write_all(&self, output: &Output) -> Outcome {
        let mut outcome = Outcome::default();
        let mut reading = Reading::new(self.args);
        for name in or_dash(&self.args.sources) {
            match self.write(name, output, &mut reading, &mut outcome) {
                Ok(()) => {}
                Err(trouble) if trouble.is_closed_pipe() => {
                    outcome.is_unwanted = true;
                    break;
                }
                Err(trouble) => {
                    self.complain(&trouble);
                    outcome.has_failed = true;
                    // every source would meet it again
                    if matches!(trouble, Trouble::Output(..)) {
                        break;
                    }
                }
            }
        }
        outcome
    }

    fn write(
        &self,
        name: &Path,
        output: &Output,
        reading: &mut Reading,
        outcome: &mut Outcome,
    ) -> Result<(), Trouble> {
        if is_same_file(name, Path::new("-")) {
            let error = std::io::Error::other("input file is output file");
            return Err(Trouble::Input(name.display().to_string(), error));
        }
        let source = Source::open(name, reading)?;
        let (report, result) = source.write(self.args.span(), output, &self.meter);
        outcome.sources.push(report);
        result
    }

    fn complain(&self, trouble: &Trouble) {
        self.progress.suspend(|| eprintln!("standpipe: {trouble}"));
    }

    /// Says what there is to say at the end, and what to exit with.
    fn conclude(&self, outcome: Outcome) -> ExitCode {
        let (has_failed, is_unwanted) = (outcome.has_failed, outcome.is_unwanted);
        let seconds = self.meter.started.elapsed().as_secs_f64();
        let report = Report::new(outcome.sources, seconds, !has_failed && !is_unwanted);
        let is_told = self.tell(&report);
        if is_unwanted {
            die_of_sigpipe();
        }
        if has_failed || !is_told {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    /// `false` if it could not be written.
    fn tell(&self, report: &Report) -> bool {
        if self.args.stats {
            eprint!("{report}");
        }
        let written = self.args.json.as_ref().map(|target| target.write(report));
        written
            .unwrap_or(Ok(()))
            .map_err(|error| eprintln!("standpipe: {error:#}"))
            .is_ok()
    }
}

/// Policies by their names.
fn policies() -> impl TypedValueParser<Value = Policy> {
    let names = PossibleValuesParser::new(Policy::ALL.map(Policy::name));
    names.try_map(|name| name.parse::<Policy>())
}

impl CatArgs {
    /// What is wanted of each source.
    fn span(&self) -> Range {
        self.range.unwrap_or(Range::From {
            start: self.offset.unwrap_or(0),
            length: self.length,
        })
    }

    /// Whether anything was said about how to read, so that it is not for us to choose.
    fn is_particular(&self) -> bool {
        self.streams.is_some()
            || self.policy.is_some()
            || self.cache.is_some()
            || self.max_ahead.is_some()
    }

    /// A terminal shows one thing at a time: the bytes, where they go there.
    fn shows_progress(&self) -> bool {
        !self.quiet && !rustix::termios::isatty(rustix::stdio::stdout())
    }

    /// How much will be written, where that is known before anything is opened.
    fn total_bytes(&self) -> Option<u64> {
        let expected = |path: &PathBuf| {
            let bytes = crate::stream::Input::expected_bytes(path)?;
            self.span().length_in(bytes)
        };
        or_dash(&self.sources).iter().map(expected).sum()
    }
}
