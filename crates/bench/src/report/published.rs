//! What others published, as data.

use serde::Deserialize;

use crate::record::Metric;
use crate::stats::ratio;

const BULK: &str = include_str!("../../../../data/published/bulk_preallocation_2026.csv");
const LARGER: &str = include_str!("../../../../data/published/larger_pipes_2001.csv");
const AHEAD: &str = include_str!("../../../../data/published/on_demand_readahead_2007.csv");
const NO_WAIT: &str = include_str!("../../../../data/published/nowait_pipes_2023.csv");
const MERGE: &str = include_str!("../../../../data/published/fifo_merge_2012.csv");

/// A cell of `pipe_bench`: Linux, May 2026, bulk page preallocation for pipe writes.
#[derive(Clone, Debug, Deserialize)]
pub struct PipeBench {
    memory_pressure: String,
    writers: usize,
    readers: usize,
    /// Throughput before.
    pub baseline_mb_s: f64,
    /// Throughput with preallocation.
    pub patched_mb_s: f64,
    /// Average time of a write before.
    pub baseline_avg_write_ns: f64,
    /// Average time of a write with preallocation.
    pub patched_avg_write_ns: f64,
}

impl PipeBench {
    /// As the case is named in our suites.
    #[must_use]
    pub fn case(&self) -> String {
        format!("{}x{}", self.writers, self.readers)
    }
}

/// The published cells that belong to a suite of ours; none for other suites.
#[must_use]
pub fn pipe_bench(suite: &str) -> Vec<PipeBench> {
    let pressure = match suite {
        "pipe" => "none",
        "pipe-memory-pressure" => "stress",
        _ => return Vec::new(),
    };
    rows(BULK)
        .filter(|row: &PipeBench| row.memory_pressure == pressure)
        .collect()
}

/// A figure of "larger pipes": Linux 2.4.9, October 2001.
#[derive(Clone, Debug, Deserialize)]
pub struct LargerPipes {
    machine: String,
    benchmark: String,
    /// KiB a transfer; none for grep.
    pub transfer_kib: Option<usize>,
    /// KiB the pipe holds.
    pub pipe_kib: usize,
    /// `A` or `A+B`.
    pub variant: String,
    improvement_percent: f64,
}

impl LargerPipes {
    /// How many times the throughput of the kernel before, whose pipe held one page.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        1.0 + self.improvement_percent / 100.0
    }
}

/// The published figures of a suite of ours, on two processors or on one.
#[must_use]
pub fn larger_pipes(suite: &str, cpus: Option<usize>) -> Vec<LargerPipes> {
    let benchmark = if suite == "bw" { "bw_pipe" } else { suite };
    let machine = if cpus == Some(1) { "smp1" } else { "smp2" };
    rows(LARGER)
        .filter(|row: &LargerPipes| row.benchmark == benchmark && row.machine == machine)
        .collect()
}

/// A figure of "one code for pipes and FIFOs": FreeBSD, January 2012.
#[derive(Clone, Debug, Deserialize)]
pub struct FifoMerge {
    benchmark: String,
    /// What was measured.
    pub case: String,
    gain_percent_at_least: f64,
}

impl FifoMerge {
    /// How many times the speed of FIFOs before, at least.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        1.0 + self.gain_percent_at_least / 100.0
    }
}

/// The published figures of a suite of ours.
#[must_use]
pub fn fifo_merge(suite: &str) -> Vec<FifoMerge> {
    rows(MERGE)
        .filter(|row: &FifoMerge| suite == "fifo" && row.benchmark == suite)
        .collect()
}

/// A row of "no-wait pipes for `io_uring`": Linux 6.4, 2023.
#[derive(Clone, Debug, Deserialize)]
struct NoWaitRow {
    case: String,
    variant: String,
    avg_ms: f64,
}

/// What was published of a case of ours, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct NoWait {
    /// As the case is named in our suites.
    pub case: &'static str,
    /// With worker threads.
    pub worker_ms: f64,
    /// Without, on pipes that are tried without waiting.
    pub without_ms: f64,
}

impl NoWait {
    /// How many times faster.
    #[must_use]
    pub fn gain(&self) -> f64 {
        self.worker_ms / self.without_ms
    }
}

/// The published figures of a suite of ours.
#[must_use]
pub fn no_wait(suite: &str) -> Vec<NoWait> {
    if suite != "ring" {
        return Vec::new();
    }
    let rows: Vec<NoWaitRow> = rows(NO_WAIT).collect();
    let ms = |case: &str, variant: &str| {
        let row = (rows.iter()).find(|row| row.case == case && row.variant == variant);
        row.map(|row| row.avg_ms)
    };
    let cases = [
        ("empty-1", "read issued on an empty pipe"),
        ("ready-1", "data already there"),
    ];
    let figures = cases.map(|(case, published)| {
        Some(NoWait {
            case,
            worker_ms: ms(published, "worker threads")?,
            without_ms: ms(published, "nowait")?,
        })
    });
    figures.into_iter().flatten().collect()
}

/// A figure of "on-demand readahead": Linux 2.6.20 and the patch that became 2.6.23, 2007.
#[derive(Clone, Debug, Deserialize)]
struct OnDemand {
    benchmark: String,
    case: String,
    run: String,
    unit: String,
    #[serde(rename = "legacy_2_6_20")]
    before: f64,
    #[serde(rename = "on_demand")]
    after: f64,
}

/// What was published of a case of ours, in the unit of its metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Readahead {
    /// As the case is named in our suites.
    pub case: String,
    /// What was measured.
    pub metric: Metric,
    /// By the legacy readahead.
    pub legacy: f64,
    /// By the on-demand readahead.
    pub on_demand: f64,
}

impl Readahead {
    /// How many times better on-demand readahead was.
    #[must_use]
    pub fn gain(&self) -> f64 {
        ratio(self.metric, &[self.on_demand], &[self.legacy])
    }
}

/// The published figures of a suite of ours, the mean of the runs of each case. Left out is what was
/// written, and what the policies cost the processor.
#[must_use]
pub fn readahead(suite: &str) -> Vec<Readahead> {
    let mut found = Vec::<(Readahead, f64)>::new();
    for row in rows::<OnDemand>(AHEAD) {
        let figures = row.figures().filter(|(of, _)| *of == suite);
        let Some((_, figures)) = figures else {
            continue;
        };
        let known = found
            .iter_mut()
            .find(|(known, _)| (&known.case, known.metric) == (&figures.case, figures.metric));
        match known {
            None => found.push((figures, 1.0)),
            Some((known, runs)) => {
                known.legacy += figures.legacy;
                known.on_demand += figures.on_demand;
                *runs += 1.0;
            }
        }
    }
    let mean = |(sum, runs): (Readahead, f64)| Readahead {
        legacy: sum.legacy / runs,
        on_demand: sum.on_demand / runs,
        ..sum
    };
    found.into_iter().map(mean).collect()
}

impl OnDemand {
    /// The suite of ours that it belongs to, and its figures in our units.
    fn figures(&self) -> Option<(&'static str, Readahead)> {
        let (suite, case) = self.suite_and_case()?;
        let published = [self.before, self.after];
        let (metric, [legacy, on_demand]) = match self.unit.as_str() {
            "KB/s" => (Metric::MbPerS, published.map(|kib| kib * 1024.0 / 1e6)),
            "MB/s" => (Metric::MbPerS, published),
            "KB" => (Metric::AvgIoKib, published),
            "s" => (Metric::WallS, published),
            "transactions/s" => {
                let transactions = number(&self.run)?;
                (Metric::WallS, published.map(|rate| transactions / rate))
            }
            _ => return None,
        };
        let figures = Readahead {
            case,
            metric,
            legacy,
            on_demand,
        };
        Some((suite, figures))
    }

    fn suite_and_case(&self) -> Option<(&'static str, String)> {
        let tool = self.benchmark.split(' ').next()?;
        let of = self.benchmark.split(' ').nth(1).unwrap_or_default();
        let case = match (tool, of, self.case.as_str()) {
            ("iozone", _, "Read") => "iozone-read".into(),
            ("iozone", _, "Re-read") => "iozone-reread".into(),
            ("iozone", _, "Reverse read") => "iozone-reverse".into(),
            ("iozone", _, "Stride read") => "iozone-stride".into(),
            ("iozone", _, "Random read") => "iozone-random".into(),
            ("iozone", _, "Mixed workload") => "iozone-mixed".into(),
            ("iozone", _, "Pread") => "iozone-pread".into(),
            ("aio-stress", _, case) => format!("aio-{case}"),
            ("sysbench", "fileio", threads) => format!("fileio-{}", number(threads)?),
            ("sysbench", "oltp", threads) => {
                format!("oltp-{}-{}", number(&self.run)?, number(threads)?)
            }
            ("readahead", "thrashing,", _) => return Some(("thrash", "200-streams".into())),
            _ => return None,
        };
        Some(("readahead", case))
    }
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    text.split(' ').next()?.parse().ok()
}

/// The rows of a file that is part of this program: a bad one fails the tests.
fn rows<T: for<'de> Deserialize<'de>>(text: &'static str) -> impl Iterator<Item = T> {
    csv::Reader::from_reader(text.as_bytes())
        .into_deserialize()
        .map(|row| {
            row.expect("the published figures that are part of this program are well formed")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_is_read() {
        assert_eq!(rows::<PipeBench>(BULK).count(), 18);
        assert_eq!(
            rows::<LargerPipes>(LARGER).count(),
            LARGER.lines().count() - 1
        );
        assert_eq!(rows::<FifoMerge>(MERGE).count(), 2);
        assert_eq!(rows::<OnDemand>(AHEAD).count(), AHEAD.lines().count() - 1);
    }

    #[test]
    fn a_suite_finds_the_figures_of_its_benchmark() {
        let calm = pipe_bench("pipe");
        assert_eq!(calm.len(), 9);
        assert_eq!(
            (calm[0].case().as_str(), calm[0].patched_mb_s),
            ("1x1", 1354.0)
        );
        let stressed = pipe_bench("pipe-memory-pressure");
        assert_eq!((stressed.len(), stressed[0].patched_mb_s), (9, 1438.0));
        assert!(pipe_bench("bw").is_empty());

        let grid = larger_pipes("bw", None);
        assert_eq!(grid.len(), 64);
        let cell = grid.iter().find(|row| {
            (row.transfer_kib, row.pipe_kib, row.variant.as_str()) == (Some(8), 32, "A+B")
        });
        assert!((cell.unwrap().ratio() - 1.7527).abs() < 1e-9);
        assert_eq!(larger_pipes("pipeflex", Some(1)).len(), 64);
        assert_eq!(larger_pipes("grep", None).len(), 8);
        assert!(larger_pipes("small", None).is_empty());

        let merge = fifo_merge("fifo");
        assert_eq!(merge.len(), 1);
        assert!((merge[0].ratio() - 1.15).abs() < 1e-9);
        assert!(fifo_merge("pipe").is_empty());
    }

    #[test]
    fn no_wait_pipes_are_told_in_our_cases() {
        let rows = no_wait("ring");
        let cases: Vec<_> = rows.iter().map(|row| row.case).collect();
        assert_eq!(cases, ["empty-1", "ready-1"]);
        assert!((rows[0].gain() - 262.52 / 24.14).abs() < 1e-9);
        assert!((rows[1].gain() - 249.24 / 10.86).abs() < 1e-9);
        assert!(no_wait("ring-scale").is_empty());
    }

    #[test]
    fn readahead_is_told_in_our_cases_and_units() {
        let rows = readahead("readahead");
        assert_eq!(rows.len(), 7 + 2 + 9 + 17);
        let find = |case: &str| rows.iter().find(|row| row.case == case).unwrap();
        let read = find("iozone-read");
        // two runs, in KiB
        let expected = f64::midpoint(62111.84, 62059.39) * 1024.0 / 1e6;
        assert!((read.legacy - expected).abs() < 1e-9, "{read:?}");
        assert_eq!(read.metric, Metric::MbPerS);
        let oltp = find("oltp-5000-64");
        assert!((oltp.on_demand - 5000.0 / 74.72).abs() < 1e-9, "{oltp:?}");
        assert!((oltp.gain() - 74.72 / 70.57).abs() < 1e-9, "{oltp:?}");
        assert!((find("aio-random").gain() - 311.87 / 312.15).abs() < 1e-9);

        let thrash = readahead("thrash");
        let gains: Vec<f64> = thrash.iter().map(Readahead::gain).collect();
        assert_eq!(gains, [3.0, 8.75]);
        assert!(readahead("pipe").is_empty());
    }
}
