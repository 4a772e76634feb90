//! `standpipe cat`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::stream::{
    Input, Output, Trouble, Unwatched, die_of_sigpipe, is_same_file, or_dash, pass,
};

/// Write files, FIFOs or standard input to standard output, without copying where that is possible.
///
/// Neighbours that speak standpipe get the lane. Between other pipes and files, pages are moved
/// with splice(2), and pipes are grown to 1 MiB.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe cat big.log | grep error
  standpipe cat header - footer < body > page

Exit status: 0; 1 if a file could not be read (the others are still written) or written.

A page of a file is in the pipe as it is, not as a copy: bytes overwritten in place after they were
put into the pipe and before they were read are read as they are then.")]
pub struct CatArgs {
    /// What to write, in this order; `-` is standard input [default: -]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn main(args: &CatArgs) -> ExitCode {
    let output = match Output::stdout() {
        Ok(output) => output,
        Err(trouble) => return complain(&trouble),
    };
    let mut code = ExitCode::SUCCESS;
    for file in or_dash(&args.files) {
        match one(file, &output) {
            Ok(()) => {}
            Err(trouble) if trouble.is_closed_pipe() => die_of_sigpipe(),
            Err(trouble @ Trouble::Input(..)) => code = complain(&trouble),
            // every file would meet it again
            Err(trouble @ Trouble::Output(..)) => return complain(&trouble),
        }
    }
    code
}

fn one(file: &Path, output: &Output) -> Result<(), Trouble> {
    if is_same_file(file, Path::new("-")) {
        let error = io::Error::other("input file is output file");
        return Err(Trouble::Input(file.display().to_string(), error));
    }
    pass(&Input::open(file)?, output, &mut Unwatched)
}

fn complain(trouble: &Trouble) -> ExitCode {
    eprintln!("standpipe: {trouble}");
    ExitCode::FAILURE
}
