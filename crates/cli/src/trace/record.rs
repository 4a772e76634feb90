//! `standpipe trace record`.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufWriter};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::Context as _;
use clap::ValueEnum;
use signal_hook::consts::{SIGINT, SIGQUIT};
use standpipe::file::trace::TRACE_ENV;
use tempfile::TempDir;

use super::accesses::Accesses;
use super::{columns, strace};
use crate::stream::without_numbers;
use crate::{OWN_FAILURE, units};

/// Record what a command, and every process that it starts, reads of which files.
///
/// What goes through standpipe, it writes down itself (`STANDPIPE_TRACE=FILE` in its environment does
/// that without this command). All else is seen by strace, where it is installed and allowed; it makes calls of
/// the system several times slower.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe trace record -- grep -r needle src
  standpipe trace record -o db.csv --by standpipe -- ./reader --all

Exit status: that of the command, 128 and the signal that ended it; 125 if the trace could not be
recorded, 126 if the command cannot be executed, 127 if it is not found.")]
pub struct RecordArgs {
    /// Where to write the trace; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "trace.csv")]
    output: PathBuf,

    /// Who is to see the reads
    #[arg(long, value_enum, default_value = "all")]
    by: By,

    /// The command, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Threads and children, what descriptors are, no contents, times; the file and the command follow.
const STRACE: [&str; 11] = [
    "-f",
    "-qq",
    "-y",
    "-s",
    "0",
    "-e",
    "signal=none",
    "--absolute-timestamps=format:unix,precision:ns",
    "-e",
    strace::CALLS,
    "-o",
];

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Whoever can
    All,
    /// Programs that use standpipe, themselves
    Standpipe,
    /// The strace program
    Strace,
}

pub fn main(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let by_strace = match args.by {
        By::Standpipe => false,
        By::All => why_no_strace()
            .map(|why| eprintln!("standpipe: only what goes through standpipe is recorded: {why}"))
            .is_none(),
        By::Strace => match why_no_strace() {
            Some(why) => anyhow::bail!("{why}"),
            None => true,
        },
    };
    let folder = TempDir::new().context("a folder for the trace")?;
    let files = Files {
        own: folder.path().join("own"),
        strace: folder.path().join("strace"),
    };
    let status = match run(args, by_strace, &files) {
        Ok(status) => status,
        Err(error) => return Ok(cannot_start(&args.command[0], &error)),
    };
    let accesses = files.accesses()?;
    write(&accesses, &args.output)?;
    eprintln!(
        "standpipe: {} of {}, of {}, in {}",
        units::count(accesses.reads() as u64, "read"),
        units::amount(accesses.bytes() as f64),
        units::count(accesses.objects.len() as u64, "object"),
        args.output.display(),
    );
    Ok(code_of(status))
}

/// As `env` and `nohup` say it.
fn cannot_start(command: &OsStr, error: &io::Error) -> ExitCode {
    let text = without_numbers(&error.to_string());
    eprintln!("standpipe: {}: {text}", command.display());
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => 127,
        io::ErrorKind::PermissionDenied => 126,
        _ => OWN_FAILURE,
    })
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

/// Why strace does not do, if it doesn't.
fn why_no_strace() -> Option<String> {
    let mut probe = Command::new("strace");
    probe.args(STRACE).args(["/dev/null", "true"]);
    let tried = probe.stdin(Stdio::null()).stdout(Stdio::null()).output();
    match tried {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("strace is not installed".to_owned())
        }
        Err(error) => Some(format!("strace: {error}")),
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().last().unwrap_or("strace does not run here");
            Some(last.to_owned())
        }
    }
}

/// What the two sides write.
struct Files {
    own: PathBuf,
    strace: PathBuf,
}

fn run(args: &RecordArgs, by_strace: bool, files: &Files) -> io::Result<ExitStatus> {
    let (name, arguments) = args.command.split_first().expect("clap asks for one");
    let program = find(name)?;
    let mut command = Command::new(&program);
    if by_strace {
        command = Command::new("strace");
        command.args(STRACE).arg(&files.strace).arg(&program);
    }
    command.args(arguments);
    if args.by == By::Strace {
        command.env_remove(TRACE_ENV);
    } else {
        command.env(TRACE_ENV, &files.own);
    }
    // Ctrl-C is meant for the command: what it read until then is wanted.
    let (_ours, handlers) = UnixStream::pair()?;
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::low_level::pipe::register(signal, handlers.try_clone()?)?;
    }
    command.status()
}

/// The file of a command: strace would complain in its own way.
fn find(name: &OsStr) -> io::Result<PathBuf> {
    let path = Path::new(name);
    let mut found = Err(io::Error::from(io::ErrorKind::NotFound));
    let folders = if path.components().count() > 1 {
        vec![PathBuf::new()]
    } else {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
    };
    for file in folders.iter().map(|folder| folder.join(path)) {
        match rustix::fs::access(&file, rustix::fs::Access::EXEC_OK) {
            Ok(()) if file.is_file() => return Ok(file),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
            _ => found = Err(rustix::io::Errno::ACCESS.into()),
        }
    }
    found.map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => rustix::io::Errno::NOENT.into(),
        _ => error,
    })
}

impl Files {
    /// What both saw. What went through standpipe is seen as it was asked for, not as it was fetched.
    fn accesses(&self) -> anyhow::Result<Accesses> {
        let mut accesses = Accesses::default();
        if let Some(text) = read(&self.own)? {
            accesses = columns::read(&text)?;
        }
        let own: HashSet<PathBuf> = accesses
            .objects
            .iter()
            .filter_map(|object| fs::canonicalize(&object.name).ok())
            .collect();
        let text = read(&self.strace)?.unwrap_or_default();
        accesses.join(&strace::read(&text), |name| own.contains(Path::new(name)));
        Ok(accesses)
    }
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn write(accesses: &Accesses, path: &Path) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return columns::write(accesses, io::stdout().lock());
    }
    let name = || path.display().to_string();
    let file = fs::File::create(path).with_context(name)?;
    columns::write(accesses, BufWriter::new(file)).with_context(name)
}
