//! `standpipe run 'a | b | c'`.

use std::process::ExitCode;

/// Run a shell pipeline with faster pipes and a live view of where it is stuck.
#[derive(clap::Args)]
pub struct RunArgs {
    /// The pipeline, as a shell would read it
    pipeline: String,
}

pub fn main(args: RunArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("cannot run {:?} yet", args.pipeline)
}
