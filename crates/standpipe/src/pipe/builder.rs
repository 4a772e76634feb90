//! Making pipes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use standpipe_core::size::{PipeSize, SizeError};
use standpipe_shm::lane::Wake;

use super::defaults::default_size;
use super::ends::{ReadEnd, WriteEnd};
use crate::end::capacity::Capacity;
use crate::end::registry::{self, PipeId};
use crate::end::{End, Role, kernel};

/// Makes a pipe of the [default size](super::default_size): blocking, closed on exec.
///
/// # Errors
/// As pipe2(2): `EMFILE` and `ENFILE` when there are too many descriptors.
pub fn pipe() -> io::Result<(ReadEnd, WriteEnd)> {
    Builder::new().build()
}

/// Makes pipes that differ from the default.
///
/// ```
/// use standpipe::pipe::Builder;
/// let (reader, _writer) = Builder::new().capacity_bytes(1 << 20).build()?;
/// assert_eq!(reader.capacity_bytes(), 1 << 20);
/// assert_eq!(reader.segment_bytes(), 256 << 10);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    size: Size,
    wake: Wake,
    nonblocking: bool,
    inherit: bool,
    fixed: bool,
}

#[derive(Clone, Debug, Default)]
enum Size {
    #[default]
    Default,
    Pair(PipeSize),
    Bytes {
        capacity: Option<usize>,
        segment: Option<usize>,
    },
}

impl Builder {
    /// A pipe as [`pipe`] makes it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Capacity and segment as the pair `Po So`.
    pub fn size(mut self, size: PipeSize) -> Self {
        self.size = Size::Pair(size);
        self
    }

    /// How many bytes the pipe holds, from 4 KiB to 2 GiB: rounded up to a power of two of pages, as
    /// by `F_SETPIPE_SZ`. A segment is a quarter of that unless said otherwise.
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.size = Size::Bytes {
            capacity: Some(bytes),
            segment: self.segment(),
        };
        self
    }

    /// After how many bytes of a transfer the peers are woken: rounded up to a power of two of
    /// pages, at most the capacity.
    pub fn segment_bytes(mut self, bytes: usize) -> Self {
        let capacity = match self.size {
            Size::Default => None,
            Size::Pair(pair) => Some(pair.capacity_bytes()),
            Size::Bytes { capacity, .. } => capacity,
        };
        self.size = Size::Bytes {
            capacity,
            segment: Some(bytes),
        };
        self
    }

    fn segment(&self) -> Option<usize> {
        match self.size {
            Size::Bytes { segment, .. } => segment,
            Size::Default | Size::Pair(_) => None,
        }
    }

    /// When peers are woken in the course of a transfer.
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// Both ends non-blocking (default: no).
    pub fn nonblocking(mut self, yes: bool) -> Self {
        self.nonblocking = yes;
        self
    }

    /// Both descriptors closed on exec (default: yes, as everywhere in Rust).
    pub fn close_on_exec(mut self, yes: bool) -> Self {
        self.inherit = !yes;
        self
    }

    /// Whether the pipe keeps the default size. (Default: no. If its writers have to wait again and
    /// again, it grows up to 1 MiB; once it is idle, it shrinks. A size that was asked for stays.)
    pub fn fixed(mut self, yes: bool) -> Self {
        self.fixed = yes;
        self
    }

    /// Makes the pipe.
    ///
    /// # Errors
    /// `InvalidInput` with a [`SizeError`] for a size that can't be; else as pipe2(2).
    pub fn build(self) -> io::Result<(ReadEnd, WriteEnd)> {
        let size = self.pipe_size()?;
        let mut flags = PipeFlags::empty();
        flags.set(PipeFlags::CLOEXEC, !self.inherit);
        flags.set(PipeFlags::NONBLOCK, self.nonblocking);
        let (read_fd, write_fd) = pipe_with(flags)?;
        let adapts = matches!(self.size, Size::Default) && !self.fixed;
        let capacity = Capacity::new(size, adapts);
        let shared = registry::add(
            PipeId::of(read_fd.as_fd())?,
            capacity,
            self.wake,
            self.inherit,
        );
        if !has_capacity(&write_fd, size) {
            // What the kernel pipe can't hold goes through the lane from the beginning.
            if let Some(lane) = shared.make_lane_held(&registry::hold_forks()) {
                lane.note_kernel_capacity(kernel::capacity_bytes(write_fd.as_fd())?);
            }
            shared.lane_to_read();
        }
        let end = |fd, reads| {
            let role = Role {
                reads,
                writes: !reads,
            };
            End::new(fd, shared.clone(), role, self.nonblocking)
        };
        let reader = ReadEnd::try_from(end(read_fd, true))?;
        Ok((reader, WriteEnd::try_from(end(write_fd, false))?))
    }

    fn pipe_size(&self) -> Result<PipeSize, SizeError> {
        match self.size {
            Size::Default => Ok(default_size()),
            Size::Pair(size) => Ok(size),
            Size::Bytes { capacity, segment } => {
                let capacity = capacity.unwrap_or_else(|| default_size().capacity_bytes());
                PipeSize::from_bytes(capacity, segment)
            }
        }
    }
}

/// Has the kernel pipe hold as much as the lane will, or says that it can't.
fn has_capacity(fd: &OwnedFd, size: PipeSize) -> bool {
    let capacity = size.capacity_bytes();
    // What a kernel pipe holds that nobody configured is our default, too.
    capacity == PipeSize::DEFAULT.capacity_bytes()
        || rustix::pipe::fcntl_setpipe_size(fd, capacity).is_ok()
}
