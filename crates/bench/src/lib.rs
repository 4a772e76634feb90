//! Benchmarks of standpipe against the kernel's pipes.

use std::process::ExitCode;

/// Measure pipes against the kernel's, in one run, interleaved.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {}

/// Runs what `standpipe bench` was asked for.
///
/// # Errors
/// When a suite cannot be set up, or a case did not deliver its bytes intact.
pub fn main(_args: BenchArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
