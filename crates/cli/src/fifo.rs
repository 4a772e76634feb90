//! `standpipe fifo`: FIFOs, from the shell.

use std::fmt::Display;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Subcommand;
use rustix::fs::Mode;
use standpipe::end::End;
use standpipe::fifo;

use crate::stream::{Input, Output, Trouble, Unwatched, die_of_sigpipe, pass, without_numbers};

mod openers;
mod stat;

/// Make, write, read and look at FIFOs.
///
/// FIFOs are files of the kernel's: any program can be at the other side. If it speaks standpipe, the
/// bytes take the lane, else the kernel's own pipe.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe fifo create -m 600 orders
  standpipe fifo read orders | process &
  generate | standpipe fifo write orders
  standpipe fifo stat orders               who has it open, how full it is

Exit status: 0; 1 if something failed; write ends of SIGPIPE if the last reader leaves before the end
of its input, as any filter does.")]
pub struct FifoArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make FIFOs
    Create {
        /// Permissions, in octal [default: 666 less the umask]
        #[arg(short, long, value_name = "MODE", value_parser = parse_mode)]
        mode: Option<u32>,
        #[arg(required = true)]
        path: Vec<PathBuf>,
    },
    /// Write standard input to a FIFO, once somebody reads it
    Write { path: PathBuf },
    /// Write to standard output what comes through a FIFO, until its last writer leaves
    Read { path: PathBuf },
    /// Say whose a FIFO is, who has it open, and what is in it, without opening it
    Stat {
        path: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// How long to wait in silence for the other side.
const PATIENCE: Duration = Duration::from_secs(1);

pub fn main(args: &FifoArgs) -> ExitCode {
    let outcome = match &args.verb {
        Verb::Create { mode, path } => return create(path, *mode),
        Verb::Write { path } => write(path),
        Verb::Read { path } => read(path),
        Verb::Stat { path, json } => stat::print(path, *json),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.downcast_ref().is_some_and(Trouble::is_closed_pipe) => die_of_sigpipe(),
        Err(error) => complain(&error),
    }
}

fn complain(error: &impl Display) -> ExitCode {
    eprintln!("standpipe: {}", without_numbers(&error.to_string()));
    ExitCode::FAILURE
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("expected permissions in octal, as in 600 or 0640".into()),
    }
}

/// Makes all that can be made.
fn create(paths: &[PathBuf], mode: Option<u32>) -> ExitCode {
    if mode.is_some() {
        // what is asked for is what is made, as mkfifo(1) has it
        rustix::process::umask(Mode::empty());
    }
    let mut code = ExitCode::SUCCESS;
    for path in paths {
        if let Err(error) = fifo::create(path, mode.unwrap_or(0o666)) {
            code = complain(&error);
        }
    }
    code
}

fn write(path: &Path) -> anyhow::Result<()> {
    let input = Input::stdin()?;
    let end = patiently(path, "read", || fifo::open_write(path))?;
    let output = Output::of(path.display().to_string(), end);
    Ok(pass(&input, &output, &mut Unwatched)?)
}

fn read(path: &Path) -> anyhow::Result<()> {
    let output = Output::stdout()?;
    let end = patiently(path, "write", || fifo::open_read(path))?;
    let input = Input::of(path.display().to_string(), end);
    Ok(pass(&input, &output, &mut Unwatched)?)
}

/// Opens, which waits for somebody to `verb` at the other side; on a terminal, says so.
fn patiently(path: &Path, verb: &str, open: impl FnOnce() -> io::Result<End>) -> io::Result<End> {
    if !io::stderr().is_terminal() {
        return open();
    }
    let (opening, opened) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if opened.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "standpipe: waiting for somebody to {verb} {}",
                    path.display()
                );
            }
        });
        let end = open();
        drop(opening);
        end
    })
}
