//! What all children of a round are made from: a pipe, or a FIFO.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::plan::Plan;
use crate::ends::{EndOf, Reader, Writer};
use crate::engine::Engine;
use crate::setting::{PeerKind, Setting};

/// As the parent holds it.
pub(super) enum Common {
    /// Both ends.
    Pipe(Reader, Writer),
    /// A FIFO, opened for both without standpipe, so that it does not end while strangers come and go.
    Fifo(Engine, OwnedFd),
}

impl Common {
    pub(super) fn new(engine: Engine, plan: &Plan) -> io::Result<Self> {
        if plan.strangers {
            return Ok(Self::Fifo(adopting(engine), new_fifo(plan)?));
        }
        let peers = PeerKind::Fork;
        let (reader, writer) = Setting { engine, peers }.pipe_with(&plan.options);
        Ok(Self::Pipe(reader, writer))
    }

    /// In a child: the end to read from, and no other. (A pipe's reader that is a bare descriptor of a
    /// process that knows better is nobody's use.)
    pub(super) fn into_reader(self, unaware: bool) -> Reader {
        match self {
            Self::Pipe(reader, _) => reader,
            Self::Fifo(_, fifo) if unaware => open(Engine::Kernel, &fifo, OFlags::RDONLY),
            Self::Fifo(engine, fifo) => open(engine, &fifo, OFlags::RDONLY),
        }
    }

    /// In a child: the end to write to, and no other.
    pub(super) fn into_writer(self, unaware: bool) -> Writer {
        match self {
            Self::Pipe(_, writer) if unaware => writer.into_unaware(),
            Self::Pipe(_, writer) => writer,
            Self::Fifo(_, fifo) if unaware => open(Engine::Kernel, &fifo, OFlags::WRONLY),
            Self::Fifo(engine, fifo) => open(engine, &fifo, OFlags::WRONLY),
        }
    }
}

/// How an engine comes by ends that it did not make.
fn adopting(engine: Engine) -> Engine {
    match engine {
        Engine::Standpipe => Engine::Adopted,
        other => other,
    }
}

/// A FIFO whose path is gone by the time that it is used: so nothing is left behind by anybody.
fn new_fifo(plan: &Plan) -> io::Result<OwnedFd> {
    let name = format!("standpipe-torture-{}-{}", std::process::id(), plan.number);
    let path = std::env::temp_dir().join(name);
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let fifo = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    std::fs::remove_file(&path)?;
    let fifo = fifo?;
    if let Some(bytes) = plan.options.capacity_bytes {
        rustix::pipe::fcntl_setpipe_size(&fifo, bytes)?;
    }
    Ok(fifo)
}

/// Opens a FIFO as a program would that was given its path.
fn open<K>(engine: Engine, fifo: &OwnedFd, access: OFlags) -> EndOf<K> {
    standpipe::end::forget_inherited();
    let path = CString::new(format!("/proc/self/fd/{}", fifo.as_raw_fd())).expect("no zero bytes");
    let peers = PeerKind::Fork;
    let end = Setting { engine, peers }.open(&path, access | OFlags::CLOEXEC);
    end.expect("cannot open the FIFO")
}
