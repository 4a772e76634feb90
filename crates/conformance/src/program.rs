//! Peers that are programs: this one, executed again. Nothing is shared with them but an end, and
//! that they come by as strangers do.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::ends::{EndOf, Held, kind};
use crate::engine::Engine;
use crate::paths;
use crate::raw;
use crate::setting::{PeerKind, Setting};

/// What a program is told, as JSON.
pub(crate) const PROGRAM_VARIABLE: &str = "STANDPIPE_CONFORMANCE_PROGRAM";

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Writes the stream.
    Write,
    /// Reads it to its end, and looks at every byte.
    Read,
    /// Reads so much of it from its beginning, and no more.
    ReadFirst,
}

#[derive(Serialize, Deserialize)]
struct Orders {
    task: Task,
    adopts: bool,
    bytes: usize,
    /// Where to open the end, if it is not inherited and not received.
    path: Option<Vec<u8>>,
    receives: bool,
    report: Vec<u8>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Bytes of the stream that were right.
    pub(crate) bytes: usize,
    /// Bytes that went through the lane, of whomever, on this side.
    pub(crate) lane_bytes: u64,
}

/// A program at work.
pub(crate) struct Program {
    child: Child,
    report: CString,
}

/// After how many bytes the stream repeats itself: no multiple of anything, so that a lost or a
/// doubled stretch shows.
const PERIOD: usize = (1 << 20) - 3;

/// A stretch of the stream.
pub(crate) fn stream(from: usize, bytes: usize) -> Vec<u8> {
    static ONCE: OnceLock<Vec<u8>> = OnceLock::new();
    let byte_at = |i: usize| (i % 251) as u8 ^ (i / 251) as u8 ^ (i >> 16) as u8;
    let once = ONCE.get_or_init(|| (0..PERIOD).map(byte_at).collect());
    let mut stretch = Vec::with_capacity(bytes);
    while stretch.len() < bytes {
        let rest = &once[(from + stretch.len()) % PERIOD..];
        stretch.extend_from_slice(&rest[..rest.len().min(bytes - stretch.len())]);
    }
    stretch
}

/// How much is written and read at once: small and large, and no divisor of the capacity.
const PIECES: [usize; 4] = [1000, 70_000, 4096, 17];

/// Writes the stream, whole.
pub(crate) fn write_stream(w: &EndOf<kind::Write>, bytes: usize) {
    write_stream_from(w, 0, bytes);
}

/// Writes the stream from one position to another, which is returned.
pub(crate) fn write_stream_from(w: &EndOf<kind::Write>, from: usize, to: usize) -> usize {
    let mut position = from;
    for piece in PIECES.into_iter().cycle() {
        let piece = piece.min(to - position);
        if piece == 0 {
            break;
        }
        assert_eq!(w.write(&stream(position, piece)), Ok(piece));
        position += piece;
    }
    position
}

/// Reads the stream to its end; how long it was.
pub(crate) fn read_stream(r: &EndOf<kind::Read>) -> usize {
    read_first(r, usize::MAX)
}

/// Reads the first `bytes` bytes of the stream; how many there were.
pub(crate) fn read_first(r: &EndOf<kind::Read>, bytes: usize) -> usize {
    let mut position = 0;
    for piece in PIECES.into_iter().cycle() {
        let got = r.read(piece.min(bytes - position)).expect("a read failed");
        assert!(
            got == stream(position, got.len()),
            "wrong after {position} bytes"
        );
        position += got.len();
        if got.is_empty() {
            break;
        }
    }
    position
}

impl Setting {
    /// Starts a program that comes by the end as strangers do.
    pub(crate) fn start<K>(self, task: Task, end: EndOf<K>, bytes: usize) -> Program {
        let path = match self.peers {
            PeerKind::Fifo => end.path(),
            _ => None,
        };
        let report = paths::fresh();
        let orders = Orders {
            task,
            adopts: self.engine.is_by_descriptor(),
            bytes,
            path: path.as_deref().map(|path| path.to_bytes().to_vec()),
            receives: self.peers == PeerKind::Rights,
            report: report.as_bytes().to_vec(),
        };
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.env(
            PROGRAM_VARIABLE,
            serde_json::to_string(&orders).expect("plain data"),
        );
        let child = if self.peers == PeerKind::Rights {
            let (mine, its) = UnixStream::pair().expect("no sockets");
            let child = command.stdin(OwnedFd::from(its)).spawn();
            let fd = end.into_fd();
            raw::send_rights(&mine, &[fd.as_raw_fd()]);
            child
        } else if path.is_some() {
            // It opens the path while this end is open, so neither waits for the other.
            let child = command.spawn();
            wait_for_start(&report);
            drop(end);
            child
        } else if task == Task::Write {
            command.stdout(end).spawn()
        } else {
            command.stdin(end).spawn()
        };
        let child = child.expect("cannot start the program");
        Program { child, report }
    }
}

/// Waits until the program has made its (still empty) report.
fn wait_for_start(report: &CStr) {
    while rustix::fs::stat(report).is_err() {
        std::thread::yield_now();
    }
}

impl Program {
    /// Waits for the end of the program.
    pub(crate) fn join(mut self) -> Report {
        let status = self.child.wait().expect("cannot wait for the program");
        assert!(status.success(), "the program: {status}");
        let report = std::fs::read(as_path(&self.report)).expect("no report");
        serde_json::from_slice(&report).expect("a report")
    }
}

fn as_path(path: &CStr) -> std::path::PathBuf {
    std::ffi::OsString::from_vec(path.to_bytes().to_vec()).into()
}

/// What a program does that was started by [`Setting::start`].
pub(crate) fn run(orders: &str) {
    let orders: Orders = serde_json::from_str(orders).expect("orders");
    let report = CString::new(orders.report.clone()).expect("no zero bytes");
    let fd = come_by(&orders);
    std::fs::write(as_path(&report), b"").expect("cannot report");
    let report_to = as_path(&report);
    let report = match orders.task {
        Task::Write => {
            let w = hold(&orders, fd);
            write_stream(&w, orders.bytes);
            Report {
                bytes: orders.bytes,
                lane_bytes: w.lane_bytes(),
            }
        }
        Task::Read | Task::ReadFirst => {
            let r = hold(&orders, fd);
            let bytes = match orders.task {
                Task::ReadFirst => read_first(&r, orders.bytes),
                _ => read_stream(&r),
            };
            Report {
                bytes,
                lane_bytes: r.lane_bytes(),
            }
        }
    };
    let report = serde_json::to_vec(&report).expect("plain data");
    std::fs::write(report_to, report).expect("cannot report");
}

fn come_by(orders: &Orders) -> OwnedFd {
    let inherited = |fd| {
        // SAFETY: nobody else in this program uses the number.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    match (&orders.path, orders.task) {
        (Some(path), task) => {
            let access = if task == Task::Write {
                OFlags::WRONLY
            } else {
                OFlags::RDONLY
            };
            rustix::fs::open(path.as_slice(), access, Mode::empty()).expect("cannot open the FIFO")
        }
        (None, _) if orders.receives => {
            let socket = UnixStream::from(inherited(0));
            raw::receive_rights(&socket).remove(0)
        }
        (None, Task::Write) => inherited(1),
        (None, _) => inherited(0),
    }
}

fn hold<K>(orders: &Orders, fd: OwnedFd) -> EndOf<K> {
    let engine = if orders.adopts {
        Engine::Adopted
    } else {
        Engine::Kernel
    };
    let side = engine.adopt(fd).expect("cannot adopt the end");
    EndOf::of(Held {
        side,
        engine,
        path: None,
    })
}
