//! What others published, as data.

use serde::Deserialize;

const BULK: &str = include_str!("../../../../data/published/bulk_preallocation_2026.csv");
const LARGER: &str = include_str!("../../../../data/published/larger_pipes_2001.csv");
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
}
