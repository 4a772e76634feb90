//! `standpipe ctl`: get and set the defaults of new pipes.

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use standpipe::pipe::PipeSize;

use crate::settings::{self, Origin};
use crate::units;

/// Get and set the defaults of new pipes.
///
/// A setting is read, in this order, from the environment, from the user's settings file (which
/// these commands write) and from what is built in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe ctl get pipe-sz -v        the size of new pipes and who says so
  standpipe ctl set pipe-sz '8 2'     2^8 pages (1 MiB) in segments of a quarter
  standpipe ctl set pipe-sz 1M        the same
  standpipe ctl unset pipe-sz         back to what is built in

The settings are in $XDG_CONFIG_HOME/standpipe (else ~/.config/standpipe).
STANDPIPE_PIPE_SZ=\"Po So\" overrules them for one process.")]
pub struct CtlArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Print a setting
    Get {
        name: Name,
        /// Say where it comes from and what it means
        #[arg(short, long)]
        verbose: bool,
    },
    /// Store a setting for this user
    Set {
        name: Name,
        /// `Po So` (2^Po pages, segments of capacity >> So), or a size as in 64K or 1M
        #[arg(value_parser = units::parse_pipe_size)]
        value: PipeSize,
    },
    /// Print all settings, with their meaning and origin
    List,
    /// Forget what is stored for this user
    Unset { name: Name },
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Capacity and segment of new pipes, `Po So`
    PipeSz,
}

pub fn main(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    match args.verb {
        Verb::Get {
            name: Name::PipeSz,
            verbose,
        } => get(verbose)?,
        Verb::Set {
            name: Name::PipeSz,
            value,
        } => set(value)?,
        Verb::List => {
            print!("pipe-sz = ");
            get(true)?;
        }
        Verb::Unset { name: Name::PipeSz } => {
            if !settings::forget_pipe_size()? {
                eprintln!("pipe-sz was not set");
            }
            warn_of_environment();
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn get(verbose: bool) -> anyhow::Result<()> {
    let (size, origin) = settings::pipe_size()?;
    if verbose {
        println!("{size}  ({}; {})", meaning(size), describe(&origin));
    } else {
        println!("{size}");
    }
    Ok(())
}

fn set(size: PipeSize) -> anyhow::Result<()> {
    let path = settings::store_pipe_size(size)?;
    eprintln!(
        "pipe-sz = {size}  ({}), kept in {}",
        meaning(size),
        path.display()
    );
    warn_of_environment();
    Ok(())
}

fn meaning(size: PipeSize) -> String {
    let capacity = units::binary(size.capacity_bytes());
    format!(
        "{capacity} in segments of {}",
        units::binary(size.segment_bytes())
    )
}

fn describe(origin: &Origin) -> String {
    match origin {
        Origin::Environment => format!("from the environment, {}", settings::ENVIRONMENT),
        Origin::File(path) => format!("from {}", path.display()),
        Origin::BuiltIn => "built in".to_owned(),
    }
}

/// A stored value that the environment overrules is a surprise worth a line.
fn warn_of_environment() {
    if let Some(value) = std::env::var_os(settings::ENVIRONMENT) {
        eprintln!(
            "note: {}={} overrules it in this shell",
            settings::ENVIRONMENT,
            value.display()
        );
    }
}
