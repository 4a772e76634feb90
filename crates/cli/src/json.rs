//! The `--json[=FILE]` of several commands.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;

/// Where `--json` writes.
#[derive(Clone, Debug)]
pub enum JsonTarget {
    Stderr,
    File(PathBuf),
}

impl JsonTarget {
    #[expect(clippy::unnecessary_wraps, reason = "clap asks for a Result")]
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(if text.is_empty() {
            Self::Stderr
        } else {
            Self::File(text.into())
        })
    }

    pub fn write(&self, report: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(report)?;
        text.push('\n');
        match self {
            Self::Stderr => io::stderr()
                .write_all(text.as_bytes())
                .context("--json to stderr"),
            Self::File(path) => {
                fs::write(path, text).with_context(|| format!("--json={}", path.display()))
            }
        }
    }
}
