//! `standpipe ctl`: get and set the defaults of new pipes.

use std::process::ExitCode;

/// Get and set the defaults of new pipes.
#[derive(clap::Args)]
pub struct CtlArgs {}

pub fn main(_args: CtlArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
