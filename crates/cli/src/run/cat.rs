//! A plain `cat FILES` at the head of a pipeline, served by splicing the files' pages into the
//! pipe instead of copying them twice.
//!
//! It runs as a process of its own, as `cat` would: it has a pid, dies of SIGPIPE and of Ctrl-C.
//! Whatever is not entirely plain is left to the real `cat`, which is executed in its place: an
//! unreadable file, a device, files too small to be worth it. So its messages and its exit status
//! are always `cat`'s own. The one difference: pages in the pipe are the file's own, so bytes
//! *overwritten in place* after they were put into the pipe and before they were read are read as
//! they are then.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use super::plan::Plain;
use rustix::fs::{Advice, FileType};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

/// The hidden first argument under which standpipe is a `cat`.
pub const ASKED: &str = "__cat";

/// Less than this takes `cat` a few milliseconds at most.
const WORTH_BYTES: u64 = 1 << 20;

/// What `cat` reads at a time.
const COPY_BYTES: usize = 128 << 10;

const PAGE_BYTES: usize = 4096;

/// Many times what a pipe holds, and long enough to even out that other programs run meanwhile.
const WINDOW_BYTES: usize = 32 << 20;

/// A reader below this spends more time on computing than on reading: copying from memory runs at
/// some 10 GB/s, so that what splicing adds to such a reader (and could spare `cat`) is about a
/// tenth of its time.
const FAST_READER_BYTES_PER_S: f64 = 1e9;

/// More open files than that are left to `cat`, which has one open at a time.
const MAX_FILES: usize = 64;

/// The `cat` of the system, if the command is nothing but `cat FILE...`.
pub fn plain(command: &Plain) -> Option<PathBuf> {
    let (name, files) = command.words.split_first()?;
    let plain = name == "cat"
        && (1..=MAX_FILES).contains(&files.len())
        && files
            .iter()
            .all(|file| !file.is_empty() && !file.starts_with('-'));
    if plain { system_cat() } else { None }
}

/// A `cat` of the user's own, found first, is what the user wants to run.
fn system_cat() -> Option<PathBuf> {
    let found = env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join("cat"))
        .find(|path| path.is_file())?;
    ["/bin/cat", "/usr/bin/cat"]
        .map(Path::new)
        .contains(&found.as_path())
        .then_some(found)
}

/// Runs as `cat` if the command line asks for it: `standpipe __cat PATH-OF-CAT FILE...`.
pub fn main_if_asked() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != ASKED {
        return None;
    }
    let cat = arguments.next()?;
    let files: Vec<OsString> = arguments.collect();
    Some(serve(&files).unwrap_or_else(|| become_cat(&cat, &files)))
}

/// Copies the files to stdout; `None` if that is better left to `cat`, nothing being copied yet.
fn serve(names: &[OsString]) -> Option<ExitCode> {
    let files: Vec<File> = names.iter().map(open_regular).collect::<Option<_>>()?;
    let lengths = files
        .iter()
        .map(|file| file.metadata().map(|metadata| metadata.len()));
    let lengths: Vec<u64> = lengths.collect::<io::Result<_>>().ok()?;
    // a length of 0 is what /proc gives for any of its files
    if lengths.contains(&0) || lengths.iter().sum::<u64>() < WORTH_BYTES {
        return None;
    }
    let mut code = ExitCode::SUCCESS;
    let mut buffer = vec![0; COPY_BYTES + PAGE_BYTES];
    // whole pages are copied fastest from and to their beginning
    let aligned = buffer.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
    let buffer = &mut buffer[aligned..][..COPY_BYTES];
    let mut transfer = Transfer::new();
    for (file, name) in files.iter().zip(names) {
        match transfer.file(file, buffer) {
            Ok(()) => {}
            Err(Failure::Reader) => die_of_sigpipe(),
            Err(Failure::File(error)) => {
                eprintln!("cat: {}: {}", name.to_string_lossy(), message(error));
                code = ExitCode::FAILURE;
            }
        }
    }
    Some(code)
}

/// Opens without waiting for the writer of a FIFO, and lets go of all but regular files.
fn open_regular(name: &OsString) -> Option<File> {
    let metadata = std::fs::metadata(name).ok()?;
    if FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&metadata))
        != FileType::RegularFile
    {
        return None;
    }
    let file = File::open(name).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

enum Failure {
    /// Nobody reads the pipe any more.
    Reader,
    File(Errno),
}

/// How files go into the pipe, decided anew after each window.
///
/// Spliced pages cost us next to nothing, but then it is the reader that touches them first and
/// waits for memory. For a fast reader that is by far the better deal. A reader that computes more
/// per byte is better off if we copy as `cat` does, on another processor, which leaves the bytes
/// in the cache.
struct Transfer {
    splicing: bool,
    window_started: Instant,
    window_bytes: usize,
}

impl Transfer {
    fn new() -> Self {
        Self {
            splicing: true,
            window_started: Instant::now(),
            window_bytes: 0,
        }
    }

    fn file(&mut self, file: &File, buffer: &mut [u8]) -> Result<(), Failure> {
        // as cat does: the file system may read further ahead
        let _ = rustix::fs::fadvise(file, 0, None, Advice::Sequential);
        loop {
            let moved = if self.splicing {
                splice(file, buffer)?
            } else {
                copy(file, buffer)?
            };
            if moved == 0 {
                return Ok(());
            }
            self.window_bytes += moved;
            if self.window_bytes >= WINDOW_BYTES {
                self.decide();
            }
        }
    }

    fn decide(&mut self) {
        let seconds = self.window_started.elapsed().as_secs_f64();
        self.splicing = self.window_bytes as f64 > FAST_READER_BYTES_PER_S * seconds;
        self.window_started = Instant::now();
        self.window_bytes = 0;
    }
}

fn splice(file: &File, buffer: &mut [u8]) -> Result<usize, Failure> {
    let stdout = rustix::stdio::stdout();
    loop {
        match rustix::pipe::splice(file, None, stdout, None, WINDOW_BYTES, SpliceFlags::empty()) {
            Ok(moved) => return Ok(moved),
            Err(Errno::INTR) => {}
            Err(Errno::PIPE) => return Err(Failure::Reader),
            // a file system without splice
            Err(Errno::INVAL) => return copy(file, buffer),
            Err(error) => return Err(Failure::File(error)),
        }
    }
}

fn copy(file: &File, buffer: &mut [u8]) -> Result<usize, Failure> {
    let length = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *buffer))
        .map_err(Failure::File)?;
    let mut rest = &buffer[..length];
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            Err(Errno::PIPE) => return Err(Failure::Reader),
            Err(error) => return Err(Failure::File(error)),
        }
    }
    Ok(length)
}

/// The message as `strerror` has it, without Rust's error number.
fn message(error: Errno) -> String {
    let text = io::Error::from(error).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Rust ignores SIGPIPE at start; a stage dies of it.
fn die_of_sigpipe() -> ! {
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    std::process::exit(1)
}

fn become_cat(cat: &OsString, files: &[OsString]) -> ExitCode {
    // `exec` puts SIGPIPE back to its default
    let error = Command::new(cat).arg0("cat").args(files).exec();
    eprintln!("standpipe: {}: {error}", cat.to_string_lossy());
    ExitCode::from(126)
}
