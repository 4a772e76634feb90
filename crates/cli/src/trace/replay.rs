//! `standpipe trace replay`: a trace as a scenario of the simulator.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use standpipe::file::{PAGE_BYTES, Policy};
use standpipe_cache::book::Eviction;
use standpipe_cache::sim::{File, Outcome, Pattern, Preset, Read, Reader, Scenario, Setup};

use super::accesses::{Access, Accesses};
use super::table::{Align, Table};
use super::{ReplayArgs, WorldArgs};
use crate::units;

const PAGE: u64 = PAGE_BYTES as u64;

/// What a program does with a page: it copies it, at some 4 GB/s.
const PAGE_NS: u64 = 1000;

/// Between two objects: they don't lie side by side.
const GAP_BYTES: u64 = 64 << 20;

/// A trace, made ready to be replayed on a store.
pub struct World {
    scenario: Scenario,
    /// What is read: less than the pages that are touched.
    bytes: u64,
}

/// How a replay is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    #[serde(serialize_with = "as_name")]
    pub policy: Policy,
    pub max_ahead_bytes: u64,
    pub cache_bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn as_name<S: serde::Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(policy.name())
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    #[serde(flatten)]
    pub settings: Settings,
    pub seconds: f64,
    /// What readers got, in millions of bytes.
    pub mb_per_s: f64,
    /// Reads of the store.
    pub ios: u64,
    pub io_bytes: u64,
    pub avg_io_bytes: u64,
    /// How many looks for a page found it.
    pub hit_rate: f64,
    /// Read ahead for nothing.
    pub wasted_bytes: u64,
    /// The most memory that was used at any time.
    pub most_bytes: u64,
}

impl World {
    pub fn new(accesses: &Accesses, store: Preset, paced: bool) -> Self {
        let mut end = 0;
        let place = |bytes: u64| {
            let start_bytes = end;
            end += bytes.next_multiple_of(PAGE) + GAP_BYTES;
            File { start_bytes, bytes }
        };
        let files = accesses.objects.iter().map(|object| object.bytes);
        let files = files.map(place).collect();
        Self {
            bytes: accesses.bytes(),
            scenario: Scenario {
                store,
                memory_bytes: 0,
                setup: Setup {
                    policy: Policy::Off,
                    max_ahead_bytes: 0,
                    eviction: Eviction::Streaming,
                },
                page_ns: PAGE_NS,
                files,
                readers: readers(accesses, paced),
                seed: 0,
                // one stretch is enough: they are not looked at
                sample_ns: u64::MAX,
            },
        }
    }

    pub fn run(&self, settings: Settings) -> Run {
        let outcome = Scenario {
            memory_bytes: settings.cache_bytes,
            setup: Setup {
                policy: settings.policy,
                max_ahead_bytes: settings.max_ahead_bytes,
                eviction: Eviction::Streaming,
            },
            ..self.scenario.clone()
        }
        .run();
        Run::new(settings, self.bytes, &outcome)
    }
}

impl Run {
    fn new(settings: Settings, bytes: u64, outcome: &Outcome) -> Self {
        let total = &outcome.total;
        let seconds = total.elapsed_ns.max(1) as f64 / 1e9;
        Self {
            settings,
            seconds,
            mb_per_s: bytes as f64 / 1e6 / seconds,
            ios: total.ios,
            io_bytes: total.io_bytes,
            avg_io_bytes: total.io_bytes / total.ios.max(1),
            hit_rate: outcome.hit_rate(),
            // The run is over: what was not used by now is not going to be.
            wasted_bytes: (outcome.accounts.prefetched - outcome.accounts.used) * PAGE,
            most_bytes: outcome.most_pages * PAGE,
        }
    }
}

/// A reader for each stream that got something, in the order of their first reads.
fn readers(accesses: &Accesses, paced: bool) -> Vec<Reader> {
    let mut of_streams: Vec<Vec<Access>> = vec![Vec::new(); accesses.streams.len()];
    for access in accesses.all.iter().filter(|access| access.length > 0) {
        of_streams[access.stream].push(*access);
    }
    of_streams.retain(|reads| !reads.is_empty());
    of_streams.sort_by_key(|reads| reads[0].time_ns);
    let mut done = BTreeSet::new();
    let mut readers = Vec::new();
    for (number, reads) in of_streams.iter().enumerate() {
        let (first_ns, last_ns) = (reads[0].time_ns, reads[reads.len() - 1].time_ns);
        // The one that ended last before, whom nobody else has followed: as many read at once as did.
        let before = done.range(..(first_ns, usize::MAX)).next_back().copied();
        if let Some(before) = before {
            done.remove(&before);
        }
        done.insert((last_ns, number));
        readers.push(Reader {
            file: accesses.streams[reads[0].stream].object,
            pattern: Pattern::Listed(listed(reads, paced)),
            start_ns: if paced { first_ns } else { 0 },
            after: before.map(|(_, number)| number),
            stop_ns: None,
            bytes_per_s: None,
            warm_up_reads: 0,
        });
    }
    readers
}

/// The reads of a stream, in pages.
fn listed(reads: &[Access], paced: bool) -> Arc<[Read]> {
    let next = reads.iter().skip(1).map(Some).chain([None]);
    let read = |(read, next): (&Access, Option<&Access>)| {
        let index = read.offset / PAGE;
        let end = (read.offset + read.length).div_ceil(PAGE);
        let think_ns = match next {
            Some(next) if paced => next.time_ns - read.time_ns,
            _ => 0,
        };
        Read {
            index,
            pages: end - index,
            think_ns,
        }
    };
    reads.iter().zip(next).map(read).collect()
}

/// What `trace replay --json` says.
#[derive(Serialize)]
struct Report<'a> {
    store: &'static str,
    accesses: usize,
    bytes: u64,
    objects: usize,
    streams: usize,
    paced: bool,
    runs: &'a [Run],
}

pub fn main(args: &ReplayArgs) -> anyhow::Result<()> {
    let accesses = Accesses::of_file(&args.file)?;
    let store = args.world.store.preset();
    let world = World::new(&accesses, store, args.paced);
    let policies = args.policy.list();
    let steps = super::table::Steps::new(policies.len());
    let run = |policy: &Policy| steps.step(|| world.run(settings(&args.world, *policy)));
    let runs: Vec<Run> = policies.iter().map(run).collect();
    drop(steps);
    if args.json {
        return super::table::print_json(&Report {
            store: store.name(),
            accesses: accesses.reads(),
            bytes: accesses.bytes(),
            objects: accesses.objects.len(),
            streams: accesses.streams.len(),
            paced: args.paced,
            runs: &runs,
        });
    }
    let text = format!("{}\n\n{}", headline(&accesses, store), table(&runs));
    super::table::print(&text)
}

/// As the arguments say, with this policy.
pub fn settings(args: &WorldArgs, policy: Policy) -> Settings {
    Settings {
        policy,
        max_ahead_bytes: args.max_ahead as u64,
        cache_bytes: args.cache as u64,
    }
}

/// What is replayed, and where.
pub fn headline(accesses: &Accesses, store: Preset) -> String {
    format!(
        "{} of {} from {} by {}, on store {store}",
        units::count(accesses.reads() as u64, "read"),
        units::amount(accesses.bytes() as f64),
        units::count(accesses.objects.len() as u64, "object"),
        units::count(accesses.streams.len() as u64, "stream"),
    )
}

/// The runs, a line each, with their policies.
fn table(runs: &[Run]) -> String {
    let mut table = Table::new(&[
        ("policy", Align::Left),
        ("throughput", Align::Right),
        ("time", Align::Right),
        ("I/Os", Align::Right),
        ("average I/O", Align::Right),
        ("hit rate", Align::Right),
        ("wasted", Align::Right),
        ("memory", Align::Right),
    ]);
    for run in runs {
        table.row([
            run.settings.policy.name().to_owned(),
            format!("{}/s", units::amount(run.mb_per_s * 1e6)),
            units::duration(run.seconds),
            run.ios.to_string(),
            units::binary(run.avg_io_bytes as usize),
            format!("{:.1} %", run.hit_rate * 100.0),
            units::amount(run.wasted_bytes as f64),
            units::binary(run.most_bytes as usize),
        ]);
    }
    table.to_string()
}
