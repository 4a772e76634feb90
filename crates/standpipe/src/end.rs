//! Any end of a pipe or FIFO, by its descriptor: the same code for all of them. What an end may do, read
//! or write or (a FIFO opened `O_RDWR`) both, is asked of its descriptor; everything but creation,
//! opening and closing is here.
//!
//! An end can *adopt* a descriptor that somebody else made: inherited over exec, received in a message,
//! stdin, a FIFO. If the processes at the other side speak standpipe, too, they meet and use the lane; if
//! not, the kernel pipe carries the bytes.

pub(crate) mod capacity;
mod events;
pub(crate) mod held;
pub(crate) mod kernel;
pub(crate) mod leave;
mod meeting;
mod pollable;
mod read;
mod reason;
pub(crate) mod registry;
pub(crate) mod shared;
mod sleep;
#[cfg(any(feature = "tokio", feature = "futures"))]
pub(crate) mod task;
mod watched;
mod write;

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{Lane, Side, Standing, Stats};
use standpipe_shm::private_fd::copy_out_of_the_way;
use standpipe_shm::sync::{AtomicBool, AtomicU64, Ordering};

pub use reason::{Close, CloseReason};
pub use standpipe_shm::private_fd::{is_private, private_between};

use pollable::Pollable;
use registry::PipeId;
use shared::Shared;

/// Most slices in one vectored call (`IOV_MAX` of Linux).
const IOV_MAX: usize = 1024;

/// Most bytes of one call (`MAX_RW_COUNT` of Linux: 2 GiB less a page).
const MOST_BYTES: usize = 0x7fff_f000;

/// The first [`MOST_BYTES`] of `bufs`.
fn cut<'a>(bufs: &'a [IoSlice<'_>]) -> Vec<IoSlice<'a>> {
    let mut left = MOST_BYTES;
    let part = |buf: &'a IoSlice<'_>| {
        let part = &buf[..buf.len().min(left)];
        left -= part.len();
        IoSlice::new(part)
    };
    bufs.iter().map(part).collect()
}

/// What an end may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub reads: bool,
    pub writes: bool,
}

impl Role {
    pub(crate) fn has(self, side: Side) -> bool {
        match side {
            Side::Reader => self.reads,
            Side::Writer => self.writes,
        }
    }

    fn sides(self) -> impl Iterator<Item = Side> {
        [Side::Reader, Side::Writer]
            .into_iter()
            .filter(move |side| self.has(*side))
    }
}

impl From<OFlags> for Role {
    fn from(flags: OFlags) -> Self {
        let access = flags & OFlags::ACCMODE;
        Self {
            reads: access != OFlags::WRONLY,
            writes: access != OFlags::RDONLY,
        }
    }
}

/// An end of a pipe or FIFO: to read from, to write to, or both.
pub struct End {
    pub(crate) shared: Arc<Shared>,
    /// `None` only while it is dropped or handed on.
    fd: Option<OwnedFd>,
    role: Role,
    /// The mode as last seen. The truth belongs to the open file description, which others may change;
    /// it is asked before it matters.
    nonblocking: AtomicBool,
    /// No call through this end waits, whatever the mode: a completion ring or a runtime has it.
    never_waits: AtomicBool,
    /// A lane is made when bytes were read, not already when there are none to read.
    makes_lane_late: AtomicBool,
    /// A task has it, which announces itself when it waits.
    is_in_task: AtomicBool,
    /// How long calls wait at most, in nanoseconds; 0 for ever.
    timeout_ns: AtomicU64,
    kept: held::Kept,
    is_cancelled: AtomicBool,
    now: kernel::Now,
    /// For the reader's side, and for the writer's.
    pollables: [OnceLock<Pollable>; 2],
}

/// A descriptor that could not be adopted, given back.
#[derive(Debug, thiserror::Error)]
#[error("descriptor {} {reason}, expected an end of a pipe or FIFO", fd.as_raw_fd())]
pub struct AdoptError {
    /// The descriptor.
    pub fd: OwnedFd,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl From<AdoptError> for io::Error {
    fn from(error: AdoptError) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error.to_string())
    }
}

impl End {
    pub(crate) fn new(fd: OwnedFd, shared: Arc<Shared>, role: Role, nonblocking: bool) -> Self {
        registry::add_fd(&shared, fd.as_raw_fd());
        for side in role.sides() {
            let before = shared.locals(side).ends.fetch_add(1, Ordering::Relaxed);
            if let (0, Some(lane)) = (before, shared.lane()) {
                lane.note_open(side, std::process::id());
            }
        }
        shared.tell_news();
        Self::counted(fd, shared, role, nonblocking)
    }

    /// One that is among the pipe's ends of this process already.
    fn counted(fd: OwnedFd, shared: Arc<Shared>, role: Role, nonblocking: bool) -> Self {
        Self {
            shared,
            fd: Some(fd),
            role,
            nonblocking: AtomicBool::new(nonblocking),
            never_waits: AtomicBool::new(false),
            makes_lane_late: AtomicBool::new(false),
            is_in_task: AtomicBool::new(false),
            timeout_ns: AtomicU64::new(0),
            kept: held::Kept::default(),
            is_cancelled: AtomicBool::new(false),
            now: kernel::Now::default(),
            pollables: [OnceLock::new(), OnceLock::new()],
        }
    }

    /// Adopts a descriptor.
    ///
    /// # Errors
    /// [`AdoptError`] if it is no end of a pipe or FIFO.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, AdoptError> {
        let refuse = |fd, reason| Err(AdoptError { fd, reason });
        let Ok(id) = PipeId::of(fd.as_fd()) else {
            return refuse(fd, "is something else");
        };
        let flags = match rustix::fs::fcntl_getfl(&fd) {
            Ok(flags) if !flags.contains(OFlags::PATH) => flags,
            _ => return refuse(fd, "names a file only (O_PATH)"),
        };
        let shared = registry::find_or_add(id, || size_of(fd.as_fd()));
        let end = Self::new(fd, shared, flags.into(), flags.contains(OFlags::NONBLOCK));
        if flags.intersects(OFlags::DIRECT | ASYNC) {
            // Packets and signals are the kernel pipe's.
            let _ = end.use_kernel();
        }
        Ok(end)
    }

    /// In a forked child: the end of `fd`, which is in the hands of a thread that does not exist here, to be
    /// closed as any other. `None`, and it is just closed, if it is not one.
    #[doc(hidden)]
    #[must_use]
    pub fn of_missing_thread(fd: OwnedFd) -> Option<Self> {
        let id = PipeId::of(fd.as_fd()).ok()?;
        let flags = rustix::fs::fcntl_getfl(&fd).ok()?;
        let shared = registry::find(id, fd.as_raw_fd())?;
        let nonblocking = flags.contains(OFlags::NONBLOCK);
        Some(Self::counted(fd, shared, flags.into(), nonblocking))
    }

    /// The same for all ends of one pipe in this process, and for no others that live.
    #[inline]
    pub(crate) fn pipe_address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Whether it reads.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.role.reads
    }

    /// Whether it writes.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.role.writes
    }

    /// Another descriptor of the same end, as by dup(2), closed on exec: it shares the open file
    /// description, hence the blocking mode.
    ///
    /// # Errors
    /// As dup(2).
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.cloned(self.borrow().try_clone_to_owned()?))
    }

    /// The same with a high number, for who keeps it without a program's knowledge: those that the program
    /// itself may choose, or expects to be given, stay free.
    ///
    /// # Errors
    /// As dup(2).
    pub fn try_clone_out_of_the_way(&self) -> io::Result<Self> {
        Ok(self.cloned(copy_out_of_the_way(self.borrow())?))
    }

    fn cloned(&self, fd: OwnedFd) -> Self {
        let clone = Self::new(
            fd,
            self.shared.clone(),
            self.role,
            self.is_nonblocking_hint(),
        );
        clone.set_timeout(self.timeout());
        clone
    }

    /// Capacity and segment, as this process knows them.
    #[must_use]
    pub fn size(&self) -> PipeSize {
        self.shared
            .lane()
            .map_or_else(|| self.shared.size(), Lane::size)
    }

    /// Sets or clears `O_NONBLOCK` of the open file description, for all its copies in all processes.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        kernel::set_nonblocking(self.borrow(), yes)?;
        self.nonblocking.store(yes, Ordering::Relaxed);
        Ok(())
    }

    /// How long a blocking read or write waits before it fails with `TimedOut`. `None`: for ever.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        // A time-out of zero is one of a nanosecond: as good as at once.
        let ns = timeout.map_or(0, |timeout| {
            timeout.as_nanos().clamp(1, u64::MAX.into()) as u64
        });
        self.timeout_ns.store(ns, Ordering::Relaxed);
    }

    /// How long calls wait at most.
    #[inline]
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        match self.timeout_ns.load(Ordering::Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    /// What went through the pipe so far, on the side that this end is on (of an end that does both, the
    /// reader's).
    #[must_use]
    pub fn stats(&self) -> Stats {
        let side = if self.role.reads {
            Side::Reader
        } else {
            Side::Writer
        };
        let lane = self.shared.lane();
        let mut stats = lane.map(|lane| lane.stats(side)).unwrap_or_default();
        stats.kernel_bytes = self
            .shared
            .locals(side)
            .kernel_bytes
            .load(Ordering::Relaxed);
        stats
    }

    /// Closes the end, and tells the other side that its owner gave up: see [`End::close_reason`].
    pub fn cancel(self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// From now on, and for good, no byte of this pipe goes through a lane of this process: for code that
    /// uses the descriptor without standpipe (`O_DIRECT`, `O_ASYNC`, epoll on the bare descriptor,
    /// splice).
    ///
    /// # Errors
    /// When queued bytes can't be moved into the kernel pipe.
    pub fn use_kernel(&self) -> io::Result<()> {
        leave::for_good(&self.shared)
    }

    /// Moves what is queued into the kernel pipe, before a program is started that inherits this end by
    /// other means than fork(3). The next read is through the lane again.
    ///
    /// # Errors
    /// When the kernel pipe can't be opened to move the bytes there.
    pub fn suspend(&self) -> io::Result<()> {
        self.shared.open_to_strangers();
        leave::before_fork(&self.shared)
    }

    /// Gives the descriptor up, for code or a program that may not know standpipe. If this is the last
    /// read end here, what is queued moves into the kernel pipe.
    ///
    /// # Errors
    /// When it can't: no `/proc`, no descriptor left, or the pipe may not be opened any more (after
    /// `setuid`).
    pub fn try_into_fd(mut self) -> io::Result<OwnedFd> {
        if self.role.writes {
            let stays = self.has_others(Side::Writer) || self.shared.is_met();
            leave::to_writing_program(&self.shared, stays)?;
        }
        if self.role.reads {
            let stays = self.has_others(Side::Reader);
            leave::to_reading_program(&self.shared, stays)?;
        }
        let last_of = self.forget_side();
        self.note_closed(last_of);
        self.fd.take().ok_or_else(|| Errno::BADF.into())
    }

    /// For the survivors, see [`End::close_reason`].
    fn note_closed(&self, last_of: Role) {
        let Some(lane) = self.shared.lane() else {
            return;
        };
        let standing = if self.is_cancelled.load(Ordering::Relaxed) {
            Standing::Cancelled
        } else {
            Standing::Closed
        };
        for side in last_of.sides() {
            lane.note_closed(side, std::process::id(), standing);
        }
    }

    fn has_others(&self, side: Side) -> bool {
        self.shared.locals(side).ends.load(Ordering::Relaxed) > 1
    }

    /// This end is not one of this process any more. Says on which sides it was the last.
    fn forget_side(&self) -> Role {
        registry::remove_fd(&self.shared, self.borrow().as_raw_fd());
        let was_last = |side| {
            let ends = &self.shared.locals(side).ends;
            // Pairs with the load in `is_private_to`: who sees it gone sees what it wrote.
            self.role.has(side) && ends.fetch_sub(1, Ordering::Release) == 1
        };
        Role {
            reads: was_last(Side::Reader),
            writes: was_last(Side::Writer),
        }
    }

    #[inline]
    pub(crate) fn borrow(&self) -> BorrowedFd<'_> {
        self.fd
            .as_ref()
            .expect("an end has its descriptor until dropped")
            .as_fd()
    }

    #[inline]
    pub(crate) fn is_nonblocking_hint(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed) || self.never_waits()
    }

    /// Whether calls must not wait. Asks the kernel for the mode, unless that does not matter.
    pub(crate) fn ask_nonblocking(&self) -> io::Result<bool> {
        if self.never_waits() {
            return Ok(true);
        }
        let nonblocking = kernel::is_nonblocking(self.borrow())?;
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(nonblocking)
    }

    /// readv(2), which waits only if calls of this end may.
    fn read_pipe(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.never_waits() {
            return self.now.read(self.borrow(), slices);
        }
        kernel::read(self.borrow(), slices)
    }

    /// writev(2), which waits only if calls of this end may.
    fn write_pipe(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.never_waits() {
            return self.now.write(self.borrow(), slices);
        }
        kernel::write(self.borrow(), slices)
    }

    /// A call without a lane is done: looks for others now and then.
    #[inline]
    pub(crate) fn look_around(&self, side: Side, bytes: usize) {
        let shared = &self.shared;
        let is_early = bytes == 0 && self.makes_lane_late();
        if is_early && !shared.is_open_to_strangers()
            || !shared.locals(side).is_time_to_ask_after(bytes)
        {
            return;
        }
        if side == Side::Reader && !is_early && shared.has_members_here() {
            shared.lane_or_make();
        }
        if shared.is_open_to_strangers() {
            shared.meetings.look(shared, self.borrow(), self.role);
        }
    }
}

/// `O_ASYNC`, which rustix has no name for.
const ASYNC: OFlags = OFlags::from_bits_retain(0o20000);

/// The size of a pipe that is adopted.
fn size_of(fd: BorrowedFd<'_>) -> PipeSize {
    let capacity = kernel::capacity_bytes(fd).ok();
    capacity
        .and_then(|bytes| PipeSize::from_bytes(bytes, None).ok())
        .unwrap_or_default()
}

/// Moves what is queued in lanes of this process into their kernel pipes, before a program is started
/// that inherits ends (`posix_spawn`, vfork, exec). A libc fork does this by itself.
///
/// # Errors
/// As [`End::suspend`], the first that fails; the others are moved all the same.
pub fn prepare_for_exec() -> io::Result<()> {
    let mut outcome = Ok(());
    for shared in registry::all() {
        if shared.is_open_to_strangers() {
            outcome = outcome.and(leave::before_fork(&shared));
        }
    }
    outcome
}

/// Makes this process one that knows nothing of any pipe, as if it had just been started by exec. For
/// tests of that very situation. The ends that were there must be leaked, not dropped.
#[doc(hidden)]
pub fn forget_inherited() {
    registry::forget();
}

impl Drop for End {
    fn drop(&mut self) {
        if self.fd.is_none() {
            return;
        }
        let last_of = self.forget_side();
        for side in last_of.sides() {
            match side {
                // What can't be moved stays in the lane, for those who know it.
                Side::Reader => {
                    let _ = leave::as_last_reader(&self.shared, self.borrow());
                }
                Side::Writer => leave::as_last_writer(&self.shared, self.borrow()),
            }
        }
        self.note_closed(last_of);
        drop(self.fd.take());
        // After the close: whoever reads the note asks the kernel and is told.
        if let Some(lane) = self.shared.lane() {
            self.role.sides().for_each(|side| lane.note_departure(side));
        }
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.borrow()
    }
}

impl AsRawFd for End {
    fn as_raw_fd(&self) -> RawFd {
        self.borrow().as_raw_fd()
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("fd", &self.as_raw_fd())
            .field("role", &self.role)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Read for &End {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.role.reads {
            return Err(Errno::BADF.into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        let most = buf.len().min(MOST_BYTES);
        self.read_some(&mut [IoSliceMut::new(&mut buf[..most])])
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if !self.role.reads {
            return Err(Errno::BADF.into());
        }
        if bufs.len() > IOV_MAX {
            return Err(Errno::INVAL.into());
        }
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        self.read_some(bufs)
    }
}

impl Write for &End {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if !self.role.writes {
            return Err(Errno::BADF.into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        self.write_some(&[IoSlice::new(&buf[..buf.len().min(MOST_BYTES)])])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.role.writes {
            return Err(Errno::BADF.into());
        }
        if bufs.len() > IOV_MAX {
            return Err(Errno::INVAL.into());
        }
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        if bufs.iter().map(|buf| buf.len()).sum::<usize>() > MOST_BYTES {
            return self.write_some(&cut(bufs));
        }
        self.write_some(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for End {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for End {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
