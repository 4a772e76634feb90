//! Bytes from an input to an output, each of which may be a pipe, a FIFO, a file or anything else:
//! what `cat`, `buffer` and `fifo` are made of.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::{FileType, Stat, fstat, stat};
use standpipe::file::StoreError;

mod pass;
mod port;

pub use pass::{Unwatched, Watch, pass};
pub use port::{Input, Output};

/// What went wrong, and at which side.
#[derive(Debug)]
pub enum Trouble {
    /// Opening or reading the input of this name.
    Input(String, io::Error),
    /// Opening or writing the output of this name.
    Output(String, io::Error),
}

impl Trouble {
    /// Whether nobody reads the output any more: no reason to complain.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(_, error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl std::error::Error for Trouble {}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Input(name, error) | Self::Output(name, error)) = self;
        let text = without_numbers(&error.to_string());
        let inner = error.get_ref();
        let of_a_store = inner.and_then(|inner| inner.downcast_ref::<StoreError>());
        if of_a_store.is_some() {
            // it names the object itself
            return f.write_str(&text);
        }
        write!(f, "{name}: {text}")
    }
}

/// Standard input or output where no paths were given.
pub fn or_dash(paths: &[PathBuf]) -> &[PathBuf] {
    static DASH: LazyLock<[PathBuf; 1]> = LazyLock::new(|| [PathBuf::from("-")]);
    if paths.is_empty() { &*DASH } else { paths }
}

/// Why nothing is read of an input of `length` bytes from `start` on.
pub fn behind_the_end(start: u64, length: u64) -> io::Error {
    let text = format!("the range begins at {start}, expected at most its length, {length}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Whether both are the same regular file; `-` is standard input and standard output.
pub fn is_same_file(input: &Path, output: &Path) -> bool {
    let dash = Path::new("-");
    let of = |path: &Path, standard: BorrowedFd<'_>| {
        let stat = if path == dash {
            fstat(standard)
        } else {
            stat(path)
        };
        stat.ok()
            .filter(is_regular)
            .map(|stat| (stat.st_dev, stat.st_ino))
    };
    let input = of(input, rustix::stdio::stdin());
    input.is_some() && input == of(output, rustix::stdio::stdout())
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// A message as the tools of the system have it, without Rust's numbers of errors.
pub fn without_numbers(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let first = parts.next().unwrap_or_default();
    let rest = parts
        .filter_map(|part| part.split_once(')'))
        .map(|(_number, rest)| rest);
    std::iter::once(first).chain(rest).collect()
}

/// Ends as a filter does whose reader is gone. Rust ignores SIGPIPE at start.
pub fn die_of_sigpipe() -> ! {
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_system() {
        for (message, expected) in [
            ("plain", "plain"),
            ("Is a directory (os error 21)", "Is a directory"),
            ("a (b (os error 2)), c (os error 3)", "a (b), c"),
        ] {
            assert_eq!(without_numbers(message), expected);
        }
    }
}
