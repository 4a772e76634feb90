//! What a benchmark yields: an array of records, in JSON.

use std::fmt;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Who was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The kernel's pipe.
    Kernel,
    /// Ours.
    Standpipe,
    /// Ours, through its C ABI.
    #[serde(rename = "standpipe-c")]
    StandpipeC,
    /// The plain shell, `sh -c`.
    Shell,
    /// `pv` in the middle of a pipeline.
    Pv,
    /// `mbuffer` there.
    Mbuffer,
    /// The readahead of Linux 2.6.20.
    Legacy,
    /// That of Linux 2.6.23.
    #[serde(rename = "on-demand")]
    OnDemand,
    /// That of Linux today.
    Context,
    /// `fio`, `O_DIRECT`, eight reads at a time.
    Fio,
    /// The stream of one plain GET, of the `object_store` crate.
    #[serde(rename = "get-stream")]
    GetStream,
    /// The buffered reader of the `object_store` crate.
    #[serde(rename = "buf-reader")]
    BufReader,
    /// `curl`.
    Curl,
    /// `io_uring` on kernel pipes.
    #[serde(rename = "io-uring")]
    IoUring,
    /// The same, made to use its workers.
    #[serde(rename = "io-uring-worker")]
    IoUringWorker,
    /// epoll, on kernel pipes that do not block.
    Epoll,
    /// The kernel's pipe, as tokio offers it.
    #[serde(rename = "tokio-pipe")]
    TokioPipe,
    /// tokio's pipe within a process.
    Simplex,
}

impl Engine {
    /// Whether it is standpipe.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Standpipe | Self::StandpipeC)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kernel => "kernel",
            Self::Standpipe => "standpipe",
            Self::StandpipeC => "standpipe-c",
            Self::Shell => "shell",
            Self::Pv => "pv",
            Self::Mbuffer => "mbuffer",
            Self::Legacy => "legacy",
            Self::OnDemand => "on-demand",
            Self::Context => "context",
            Self::Fio => "fio",
            Self::GetStream => "get-stream",
            Self::BufReader => "buf-reader",
            Self::Curl => "curl",
            Self::IoUring => "io-uring",
            Self::IoUringWorker => "io-uring-worker",
            Self::Epoll => "epoll",
            Self::TokioPipe => "tokio-pipe",
            Self::Simplex => "simplex",
        })
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Throughput, in millions of bytes per second.
    MbPerS,
    /// The median of the latencies.
    P50Ns,
    /// The 99th percentile of the latencies.
    P99Ns,
    /// Average time per operation.
    AvgNs,
    /// From start to exit of a command.
    WallS,
    /// The same, of what takes milliseconds.
    WallMs,
    /// Memory of one of many.
    BytesEach,
    /// The average size of a read from the store.
    AvgIoKib,
}

impl Metric {
    /// The unit of its values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::MbPerS => "MB/s",
            Self::P50Ns | Self::P99Ns | Self::AvgNs => "ns",
            Self::WallS => "s",
            Self::WallMs => "ms",
            Self::BytesEach => "B",
            Self::AvgIoKib => "KiB",
        }
    }

    /// Whether a larger value is the better one.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::MbPerS | Self::AvgIoKib)
    }

    /// Its name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MbPerS => "mb_per_s",
            Self::P50Ns => "p50_ns",
            Self::P99Ns => "p99_ns",
            Self::AvgNs => "avg_ns",
            Self::WallS => "wall_s",
            Self::WallMs => "wall_ms",
            Self::BytesEach => "bytes_each",
            Self::AvgIoKib => "avg_io_kib",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One figure of one engine in one case of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The suite's name.
    pub suite: String,
    /// The case within the suite.
    pub case: String,
    /// Who was measured.
    pub engine: Engine,
    /// What was measured.
    pub metric: Metric,
    /// The unit of `value` and `runs`.
    pub unit: String,
    /// The median of `runs`.
    pub value: f64,
    /// The single runs in the order in which they were made. The n-th run of each engine of a case
    /// was made in the same turn.
    pub runs: Vec<f64>,
    /// How many processors the run was confined to; absent where it was free to use all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
}

/// Writes `records` to the file `target`, or to standard output for `-`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_json(records: &[Record], target: &Path) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(records)?;
    text.push('\n');
    if target == Path::new("-") {
        return std::io::stdout()
            .write_all(text.as_bytes())
            .context("cannot write the results");
    }
    std::fs::write(target, text)
        .with_context(|| format!("cannot write the results to {}", target.display()))
}

/// Reads the records of a file that [`write_json`] wrote.
///
/// # Errors
/// When the file cannot be read or is not an array of records.
pub fn read_json(source: &Path) -> anyhow::Result<Vec<Record>> {
    let text = if source == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("cannot read the results")?
    } else {
        std::fs::read_to_string(source)
            .with_context(|| format!("cannot read the results in {}", source.display()))?
    };
    serde_json::from_str(&text).with_context(|| {
        format!(
            "{}: expected an array of records as written by `standpipe bench SUITE --json FILE`",
            source.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            suite: "pipe".into(),
            case: "1x1".into(),
            engine: Engine::Standpipe,
            metric: Metric::MbPerS,
            unit: Metric::MbPerS.unit().into(),
            value: 2.5,
            runs: vec![1.0, 2.5, 3.0],
            cpus: None,
        }
    }

    #[test]
    fn json_has_the_documented_shape() {
        let json = serde_json::to_value([record()]).unwrap();
        let expected = serde_json::json!([{
            "suite": "pipe", "case": "1x1", "engine": "standpipe", "metric": "mb_per_s",
            "unit": "MB/s", "value": 2.5, "runs": [1.0, 2.5, 3.0],
        }]);
        assert_eq!(json, expected);
    }

    #[test]
    fn names_in_json_are_the_names_shown() {
        for engine in [
            Engine::Kernel,
            Engine::Standpipe,
            Engine::StandpipeC,
            Engine::Shell,
            Engine::Pv,
            Engine::Mbuffer,
            Engine::Legacy,
            Engine::OnDemand,
            Engine::Context,
            Engine::Fio,
            Engine::GetStream,
            Engine::BufReader,
            Engine::Curl,
        ] {
            assert_eq!(serde_json::to_value(engine).unwrap(), engine.to_string());
        }
        for metric in [
            Metric::MbPerS,
            Metric::P50Ns,
            Metric::P99Ns,
            Metric::AvgNs,
            Metric::WallS,
            Metric::BytesEach,
            Metric::AvgIoKib,
        ] {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
        }
    }

    #[test]
    fn results_read_back_as_they_were_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pinned = Record {
            cpus: Some(1),
            ..record()
        };
        let records = vec![record(), pinned];
        write_json(&records, file.path()).unwrap();
        assert_eq!(read_json(file.path()).unwrap(), records);
    }

    #[test]
    fn a_file_of_something_else_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{}").unwrap();
        let error = format!("{:#}", read_json(file.path()).unwrap_err());
        assert!(error.contains(file.path().to_str().unwrap()), "{error}");
        assert!(error.contains("array of records"), "{error}");
    }
}
