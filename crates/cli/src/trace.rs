//! `standpipe trace`: the accesses of a program, and what reading ahead makes of them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};
use standpipe::file::Policy;
use standpipe_cache::sim::Preset;

use crate::units;

mod accesses;
mod columns;
mod recommend;
mod record;
mod replay;
mod strace;
mod table;

/// Record which parts of which files a program reads, and try how to read ahead for it.
///
/// A recorded run is replayed on simulated stores, in virtual time: under every policy of reading ahead,
/// with a page cache of any size. The same trace gives the same figures on every machine.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe trace record -o sort.csv -- sort big.txt -o sorted.txt
  standpipe trace replay sort.csv                      every policy, on an NVMe drive
  standpipe trace replay sort.csv --store object --policy adaptive --cache 32M
  standpipe trace recommend sort.csv                   what to set for such runs
  strace -f -y -ttt -o sort.strace sort big.txt        a trace, too

A trace is CSV with the columns time_ns,stream,object,offset,length (a stream: one who has an object
open; times and sizes in nanoseconds and bytes), or what strace writes: with -y, -f and -ttt it tells
most. Reads through a mapping (mmap) are not in it.

Stores:
  disk     a hard disk of 7200 turns a minute, 60 MB/s
  nvme     80 us to the first byte, 3 GB/s, many reads at once
  object   an object store: 20 ms a request, 90 MB/s each, 64 at once, 1.25 GB/s in all

Exit status: 0; 1 if something failed; record has that of its COMMAND, 126 if it cannot be executed, 127
if it is not found.")]
pub struct TraceArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Record(record::RecordArgs),
    Replay(ReplayArgs),
    Recommend(RecommendArgs),
}

/// Replay a trace on a simulated store, and say what each policy makes of it.
///
/// Who read one after the other does so again, who read at the same time, too, each as fast as the store
/// and the cache let it.
#[derive(clap::Args)]
struct ReplayArgs {
    /// A trace; `-` is standard input
    file: PathBuf,

    #[command(flatten)]
    world: WorldArgs,

    /// Which policy, or all
    #[arg(long, default_value = "all", value_parser = policies())]
    policy: Policies,

    /// Read no sooner than was recorded, not as fast as the store allows
    #[arg(long)]
    paced: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Say which settings are best for a trace, and why.
///
/// Every policy is tried, then how far to read ahead and how much memory the best one needs: the least that
/// is within a hundredth of the fastest.
#[derive(clap::Args)]
struct RecommendArgs {
    /// A trace; `-` is standard input
    file: PathBuf,

    #[command(flatten)]
    world: WorldArgs,

    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct WorldArgs {
    /// Where the objects are
    #[arg(long, value_enum, default_value = "nvme")]
    store: Store,

    /// The memory of the page cache; the most that is recommended
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = units::parse_size)]
    cache: usize,

    /// How far to read ahead at most
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = units::parse_size)]
    max_ahead: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    #[value(alias = "hdd")]
    Disk,
    Nvme,
    Object,
}

impl Store {
    fn preset(self) -> Preset {
        match self {
            Self::Disk => Preset::Disk,
            Self::Nvme => Preset::Nvme,
            Self::Object => Preset::Object,
        }
    }
}

/// One, or all.
#[derive(Clone, Copy)]
struct Policies(Option<Policy>);

impl Policies {
    fn list(self) -> Vec<Policy> {
        self.0.map_or(Policy::ALL.to_vec(), |policy| vec![policy])
    }
}

fn policies() -> impl TypedValueParser<Value = Policies> {
    let names = Policy::ALL.map(Policy::name).into_iter();
    let names = PossibleValuesParser::new(names.chain(["all"]));
    names.map(|name| Policies(name.parse().ok()))
}

pub fn main(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let outcome = match &args.verb {
        Verb::Record(args) => return record::main(args),
        Verb::Replay(args) => replay::main(args),
        Verb::Recommend(args) => recommend::main(args),
    };
    Ok(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = crate::stream::without_numbers(&format!("{error:#}"));
            eprintln!("standpipe: {text}");
            ExitCode::FAILURE
        }
    })
}
