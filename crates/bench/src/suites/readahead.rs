//! What readahead policies make of the workloads that were published with on-demand readahead, on a
//! simulated disk. Nothing is measured: the same program has the same results everywhere.
//!
//! The kernels' policies have the windows that were published, 128 KiB, and a kernel's eviction;
//! standpipe has its own of both. The runs of a case differ in the seed of what is random in it.
//!
//! Of the published rows, those that write are left out, since nothing is read ahead there, and those
//! that tell what policies cost the processor on cached files: virtual time has no processor.

use standpipe_cache::sim::workload::{self, Iozone};
use standpipe_cache::sim::{Outcome, Scenario, Setup};
use standpipe_core::readahead::PolicyKind;

use super::Pace;
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};

/// The windows of the published kernels, at most.
const WINDOW_BYTES: u64 = 128 << 10;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A pattern of iozone.
    Iozone(Iozone),
    /// One of aio-stress, at random or not.
    Aio(bool),
    /// sysbench fileio with so many threads.
    Fileio(u64),
    /// sysbench oltp: so many transactions by so many threads.
    Oltp(u64, u64),
}

impl Case {
    /// All that were published.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let powers = |last: u32| (0..=last).map(|power| 1u64 << power);
        let iozone = Iozone::ALL.into_iter().map(Self::Iozone);
        let oltp = |transactions, threads: &[u64]| {
            let cases = threads
                .iter()
                .map(|&threads| Self::Oltp(transactions, threads));
            cases.collect::<Vec<_>>()
        };
        let up_to_64: Vec<u64> = powers(6).collect();
        iozone
            .chain([false, true].map(Self::Aio))
            .chain(powers(8).map(Self::Fileio))
            .chain(oltp(10_000, &up_to_64))
            .chain(oltp(5000, &[1, 8, 64]))
            .chain(oltp(2000, &up_to_64))
            .collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Iozone(case) => format!("iozone-{case:?}").to_lowercase(),
            Self::Aio(false) => "aio-sequential".into(),
            Self::Aio(true) => "aio-random".into(),
            Self::Fileio(threads) => format!("fileio-{threads}"),
            Self::Oltp(transactions, threads) => format!("oltp-{transactions}-{threads}"),
        }
    }

    /// As it is played; the files of iozone and aio-stress have so many bytes.
    #[must_use]
    pub fn scenario(self, setup: Setup, file_bytes: u64) -> Scenario {
        match self {
            Self::Iozone(case) => case.scenario(setup, file_bytes),
            Self::Aio(is_random) => workload::aio_stress(setup, is_random, file_bytes),
            Self::Fileio(threads) => workload::fileio(setup, threads),
            Self::Oltp(transactions, threads) => workload::oltp(setup, threads, transactions),
        }
    }

    /// What was published of it: throughput or time.
    fn sample(self, outcome: &Outcome) -> Sample {
        let total = &outcome.total;
        let first = match self {
            Self::Iozone(_) => (Metric::MbPerS, total.mb_per_s()),
            _ => (Metric::WallS, total.elapsed_ns as f64 / 1e9),
        };
        vec![first, (Metric::AvgIoKib, total.avg_io_kib())]
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cases.
    pub cases: Vec<Case>,
    /// The files of iozone and aio-stress; 4 GiB were published.
    pub file_bytes: u64,
}

impl Plan {
    /// All cases; with files of a quarter if there is little time.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        let file_bytes = match pace {
            Pace::Quick => 1 << 30,
            Pace::Full => 4 << 30,
        };
        Self {
            cases: Case::all(),
            file_bytes,
        }
    }

    /// A round for each case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'static>> {
        let rounds = self.cases.iter().map(|&case| {
            let file_bytes = self.file_bytes;
            rivals(WINDOW_BYTES).map(|(engine, setup)| {
                let scenario = case.scenario(setup, file_bytes);
                seeded(engine, case.name(), scenario, move |outcome| {
                    case.sample(outcome)
                })
            })
        });
        rounds.map(Vec::from).collect()
    }
}

/// The policies that compete, the kernels' with windows of so many bytes at most.
pub(super) fn rivals(window_bytes: u64) -> [(Engine, Setup); 4] {
    let kernel = |policy| Setup::kernel(policy, window_bytes);
    [
        (Engine::Legacy, kernel(PolicyKind::Legacy)),
        (Engine::OnDemand, kernel(PolicyKind::OnDemand)),
        (Engine::Context, kernel(PolicyKind::Context)),
        (Engine::Standpipe, Setup::standpipe()),
    ]
}

/// Plays a scenario, each time with the next seed: in a turn, all have the same.
pub(super) fn seeded(
    engine: Engine,
    case: impl Into<String>,
    mut scenario: Scenario,
    sample: impl Fn(&Outcome) -> Sample + 'static,
) -> Contender<'static> {
    Contender::new(engine, case, move || {
        let outcome = scenario.run();
        scenario.seed += 1;
        Ok(sample(&outcome))
    })
}
