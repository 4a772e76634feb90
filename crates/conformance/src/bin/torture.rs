//! Kills writers and readers of pipes at random instants, and checks what comes through.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Serialize;
use standpipe_conformance::engine;
use standpipe_conformance::torture::{Canary, Peers, Settings, run, run_hostile};

/// Kill writers and readers of pipes (kill -9) at random instants, and check what comes through:
/// nothing torn, lost or doubled, survivors told, nobody hung, nothing leaked.
///
/// Exits with 0 if nothing went wrong, 1 if something did, 2 if the run could not be made.
#[derive(Parser)]
#[command(name = "torture", version)]
struct Args {
    /// Stop after this many kills
    #[arg(long, default_value_t = 300)]
    kills: u64,
    /// Start the random choices from this number [default: a random one, which is printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after this many seconds, however many were killed
    #[arg(long)]
    seconds: Option<u64>,
    /// Whose pipes
    #[arg(long, value_enum, default_value_t = Engine::Standpipe)]
    engine: Engine,
    /// A survivor that is told nothing, or moves nothing, for this long hangs
    #[arg(long, default_value_t = 2000)]
    hang_ms: u64,
    /// How writers and readers come by the pipe
    #[arg(long, value_enum, default_value_t = Peers::Both)]
    peers: Peers,
    /// No writers that know nothing of standpipe
    #[arg(long)]
    aware_only: bool,
    /// Instead, let a hostile peer write into the shared memory while others read and write: nobody
    /// may crash or hang. Each is one kill
    #[arg(long)]
    hostile: bool,
    /// Put a defect into the harness, to see that it is detected
    #[arg(long, value_enum)]
    canary: Option<Canary>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    Kernel,
    Standpipe,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let settings = Settings {
        engine: match args.engine {
            Engine::Kernel => engine::Engine::Kernel,
            Engine::Standpipe => engine::Engine::Standpipe,
        },
        kills: args.kills,
        most: args.seconds.map(Duration::from_secs),
        seed: args.seed.unwrap_or_else(|| fastrand::u64(..)),
        hang_bound: Duration::from_millis(args.hang_ms),
        peers: args.peers,
        aware_only: args.aware_only,
        canary: args.canary,
    };
    let outcome = if args.hostile {
        run_hostile(&settings).map(|summary| print(&summary, &summary.faults, args.json))
    } else {
        run(&settings).map(|summary| print(&summary, &summary.faults, args.json))
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("torture: {error:#} (seed {})", settings.seed);
        ExitCode::from(2)
    })
}

fn print(summary: &(impl Display + Serialize), faults: &[String], json: bool) -> ExitCode {
    if json {
        let text = serde_json::to_string_pretty(summary);
        println!("{}", text.expect("plain data"));
    } else {
        println!("{summary}");
    }
    ExitCode::from(u8::from(!faults.is_empty()))
}
