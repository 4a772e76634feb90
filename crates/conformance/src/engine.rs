//! Who makes the pipes: the kernel, standpipe, or a kernel pipe with a flaw put in on purpose.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::pipe::PipeFlags;
use standpipe::end::End;
use standpipe::{fifo, pipe};

use crate::flaw::{Flaw, Flawed};
use crate::side::Side;
use crate::through_ring::ThroughRing;

/// Who makes the pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The kernel: the oracle.
    Kernel,
    /// standpipe's typed ends ([`standpipe::pipe`]).
    Standpipe,
    /// standpipe's ends by descriptor ([`standpipe::end`]): made by anybody, adopted.
    Adopted,
    /// The same, each call an operation of a completion ring.
    Ring,
    /// The kernel, with a flaw that the suite has to notice.
    Flawed(Flaw),
}

/// How a pipe is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Its capacity, where it is not the default.
    pub capacity_bytes: Option<usize>,
    /// standpipe's segment, where it is not the default.
    pub segment_bytes: Option<usize>,
    /// standpipe's rule of waking.
    pub wake: pipe::Wake,
    /// Both ends non-blocking.
    pub nonblocking: bool,
    /// Both ends closed on exec.
    pub close_on_exec: bool,
}

impl Engine {
    /// The two ends of a new pipe.
    pub(crate) fn pipe(self, options: &Options) -> io::Result<(Box<dyn Side>, Box<dyn Side>)> {
        if self == Self::Standpipe {
            let (r, w) = builder(options).build()?;
            return Ok((Box::new(r), Box::new(w)));
        }
        let mut flags = PipeFlags::empty();
        flags.set(PipeFlags::CLOEXEC, options.close_on_exec);
        flags.set(PipeFlags::NONBLOCK, options.nonblocking);
        self.adopt_both(rustix::pipe::pipe_with(flags)?, options)
    }

    /// The two ends of the FIFO at `path`, which nobody has open: neither open waits.
    pub(crate) fn fifo(
        self,
        path: &CStr,
        options: &Options,
    ) -> io::Result<(Box<dyn Side>, Box<dyn Side>)> {
        let mut flags = OFlags::empty();
        flags.set(OFlags::CLOEXEC, options.close_on_exec);
        flags.set(OFlags::NONBLOCK, options.nonblocking);
        let open = |access| rustix::fs::open(path, access | flags, Mode::empty());
        let both = open(OFlags::RDWR)?;
        let ends = (open(OFlags::RDONLY)?, open(OFlags::WRONLY)?);
        drop(both);
        self.adopt_both(ends, options)
    }

    fn adopt_both(
        self,
        (r, w): (OwnedFd, OwnedFd),
        options: &Options,
    ) -> io::Result<(Box<dyn Side>, Box<dyn Side>)> {
        let (r, w) = (self.adopt(r)?, self.adopt(w)?);
        if let Some(bytes) = options.capacity_bytes {
            w.set_capacity_bytes(bytes)?;
        }
        Ok((r, w))
    }

    /// Makes a FIFO.
    pub(crate) fn mkfifo(self, path: &CStr, mode: u32) -> io::Result<()> {
        if self.is_by_descriptor() {
            return fifo::create(as_path(path), mode);
        }
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::mkfifoat(CWD, path, mode)?)
    }

    /// Opens a FIFO.
    pub(crate) fn open(self, path: &CStr, flags: OFlags) -> io::Result<Box<dyn Side>> {
        let plain = OFlags::ACCMODE | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if self.is_by_descriptor() && plain.contains(flags) {
            return Ok(self.of_end(open_by_standpipe(as_path(path), flags)?));
        }
        let eager = self == Self::Flawed(Flaw::EagerOpen);
        let flags = if eager {
            flags | OFlags::NONBLOCK
        } else {
            flags
        };
        self.adopt(rustix::fs::open(path, flags, Mode::empty())?)
    }

    /// An end that was made elsewhere, or opened by its path.
    pub(crate) fn adopt(self, fd: OwnedFd) -> io::Result<Box<dyn Side>> {
        Ok(match self {
            Self::Kernel => Box::new(fd),
            Self::Adopted | Self::Ring => self.of_end(End::from_fd(fd)?),
            Self::Flawed(flaw) => Box::new(Flawed::new(fd, flaw)),
            Self::Standpipe => unreachable!("typed ends are made, not adopted"),
        })
    }

    fn of_end(self, end: End) -> Box<dyn Side> {
        if self == Self::Ring {
            Box::new(ThroughRing(end))
        } else {
            Box::new(end)
        }
    }

    /// Whether it is standpipe that is tested.
    #[must_use]
    pub fn is_standpipe(self) -> bool {
        self == Self::Standpipe || self.is_by_descriptor()
    }

    /// Whether it is standpipe's ends by descriptor that are tested.
    #[must_use]
    pub fn is_by_descriptor(self) -> bool {
        matches!(self, Self::Adopted | Self::Ring)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Standpipe => f.write_str("standpipe"),
            Self::Adopted => f.write_str("adopted"),
            Self::Ring => f.write_str("ring"),
            Self::Flawed(flaw) => write!(f, "flawed({flaw:?})"),
        }
    }
}

fn as_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

fn open_by_standpipe(path: &Path, flags: OFlags) -> io::Result<End> {
    let options = fifo::Options::new()
        .nonblocking(flags.contains(OFlags::NONBLOCK))
        .close_on_exec(flags.contains(OFlags::CLOEXEC));
    match flags & OFlags::ACCMODE {
        OFlags::RDWR => options.open_both(path),
        OFlags::WRONLY => options.open_write(path),
        _ => options.open_read(path),
    }
}

fn builder(options: &Options) -> pipe::Builder {
    let mut builder = pipe::Builder::new()
        .wake(options.wake)
        .nonblocking(options.nonblocking)
        .close_on_exec(options.close_on_exec);
    if let Some(bytes) = options.capacity_bytes {
        builder = builder.capacity_bytes(bytes);
    }
    if let Some(bytes) = options.segment_bytes {
        builder = builder.segment_bytes(bytes);
    }
    builder
}

/// Opens the FIFO at `path` anew, for what `inherited` is for and with its flags, without waiting
/// and whether or not anybody is at the other end.
pub(crate) fn open_again(path: &CStr, inherited: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(inherited)?;
    let open = |access| rustix::fs::open(path, access, Mode::empty());
    let access = flags & OFlags::ACCMODE;
    // With nobody at the other end, an open either fails, or makes a reader that never met a
    // writer, which is another thing (item 61).
    let alone = !has_peer(inherited, access)?;
    let company = alone.then(|| open(OFlags::RDWR)).transpose()?;
    let opened = open(access | OFlags::NONBLOCK)?;
    drop(company);
    rustix::fs::fcntl_setfl(&opened, flags)?;
    Ok(opened)
}

fn has_peer(end: impl AsFd, access: OFlags) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&end, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(access == OFlags::RDWR || fds[0].revents().is_empty())
}
