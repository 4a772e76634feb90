//! What `cat --stats` and `cat --json` say.

use std::fmt;

use serde::Serialize;

use crate::accounts::CacheReport;
use crate::units;

/// How all of it went.
#[derive(Debug, Serialize)]
pub struct Report {
    pub sources: Vec<SourceReport>,
    pub bytes: u64,
    pub seconds: f64,
    pub bytes_per_s: f64,
    /// Whether everything that was wanted was written.
    pub complete: bool,
}

/// How a source was read.
#[derive(Debug, Serialize)]
pub struct SourceReport {
    pub name: String,
    /// What was written of it.
    pub bytes: u64,
    pub seconds: f64,
    /// By what it was read.
    pub access: &'static str,
    pub complete: bool,
    /// What the page cache did for it; absent where it was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheReport>,
}

impl Report {
    pub fn new(sources: Vec<SourceReport>, seconds: f64, complete: bool) -> Self {
        let bytes = sources.iter().map(|source| source.bytes).sum();
        Self {
            sources,
            bytes,
            seconds,
            bytes_per_s: bytes as f64 / seconds,
            complete,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for source in &self.sources {
            let passed = passed(source.bytes, source.seconds);
            writeln!(f, "{}: {passed}, by {}", source.name, source.access)?;
            if let Some(cache) = &source.cache {
                write!(f, "{cache}")?;
            }
        }
        if self.sources.len() > 1 {
            writeln!(f, "in all: {}", passed(self.bytes, self.seconds))?;
        }
        Ok(())
    }
}

fn passed(bytes: u64, seconds: f64) -> String {
    format!(
        "{} in {}, {}/s",
        units::amount(bytes as f64),
        units::duration(seconds),
        units::amount(bytes as f64 / seconds.max(1e-9)),
    )
}
