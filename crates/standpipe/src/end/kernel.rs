//! The kernel pipe behind an end: what we ask of it, each question one system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use standpipe_shm::patience::AT_ONCE;
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::sync::{AtomicBool, Ordering};

use super::registry;

/// What the kernel pipe has for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing, but there are writers.
    Empty,
    /// This many bytes.
    Bytes(usize),
    /// Nothing, and no writer.
    End,
}

/// What a reader would find. See poll(2).
pub fn input(fd: BorrowedFd<'_>) -> io::Result<Input> {
    let ready = events(fd, PollFlags::IN)?;
    if ready.contains(PollFlags::IN) {
        return Ok(Input::Bytes(unread_bytes(fd)?));
    }
    Ok(if ready.contains(PollFlags::HUP) {
        Input::End
    } else {
        Input::Empty
    })
}

/// Whether no reader is left.
pub fn is_broken(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(events(fd, PollFlags::empty())?.contains(PollFlags::ERR))
}

/// What poll(2) reports now of `wanted`.
pub fn events(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, wanted)];
    loop {
        match poll(&mut fds, Some(&AT_ONCE)) {
            Ok(_) => return Ok(fds[0].revents()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How many bytes are unread, asked on either end. See `FIONREAD` in pipe(7).
pub fn unread_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(rustix::io::ioctl_fionread(fd)? as usize)
}

/// Reads and writes that never wait, whatever the mode of the descriptor.
///
/// `RWF_NOWAIT` does that for pipes (Linux 6.4 on, see preadv2(2)). For FIFOs it takes another
/// description of the same end that is non-blocking.
#[derive(Default)]
pub struct Now {
    has_no_flag: AtomicBool,
    other: OnceLock<Option<PrivateFd>>,
    writes_packets: AtomicBool,
}

impl Now {
    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is.
    pub fn read(&self, fd: BorrowedFd<'_>, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if !self.has_no_flag.load(Ordering::Relaxed) {
            match rustix::io::preadv2(fd, slices, u64::MAX, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => self.has_no_flag.store(true, Ordering::Relaxed),
                result => return Ok(result?),
            }
        }
        match self.other(fd) {
            Some(other) => read(other, slices),
            // A blocking end has met a writer, so poll tells all there is to know.
            None => match input(fd)? {
                Input::Empty if !is_nonblocking(fd)? => Err(Errno::AGAIN.into()),
                _ => read(fd, slices),
            },
        }
    }

    /// Writes what fits.
    ///
    /// # Errors
    /// `WouldBlock` if nothing does; else as writev(2).
    pub fn write(&self, fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.has_no_flag.load(Ordering::Relaxed) {
            match rustix::io::pwritev2(fd, slices, u64::MAX, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP) => self.has_no_flag.store(true, Ordering::Relaxed),
                result => return Ok(result?),
            }
        }
        match self.other(fd) {
            Some(other) => {
                self.write_as(fd, other)?;
                write(other, slices)
            }
            None if events(fd, PollFlags::OUT)?.is_empty() => Err(Errno::AGAIN.into()),
            None => write(fd, slices),
        }
    }

    /// Whether a write is a packet is a matter of the description (`O_DIRECT` in pipe(2)), which others may
    /// change.
    fn write_as(&self, fd: BorrowedFd<'_>, other: BorrowedFd<'_>) -> io::Result<()> {
        let packets = rustix::fs::fcntl_getfl(fd)? & OFlags::DIRECT;
        if self.writes_packets.load(Ordering::Relaxed) == packets.is_empty() {
            rustix::fs::fcntl_setfl(other, OFlags::NONBLOCK | packets)?;
            self.writes_packets
                .store(!packets.is_empty(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// The other description. None if it can't be had (no `/proc`, no permission any more).
    fn other(&self, fd: BorrowedFd<'_>) -> Option<BorrowedFd<'_>> {
        if self.other.get().is_none() {
            // Before the cell is touched: a forked child must find it empty or full.
            let _no_fork = registry::try_hold_forks()?;
            self.other.get_or_init(|| {
                let access = rustix::fs::fcntl_getfl(fd).ok()? & OFlags::ACCMODE;
                reopen(fd, access).ok()
            });
        }
        self.other.get()?.as_ref().map(AsFd::as_fd)
    }
}

/// Whether the open file description is in non-blocking mode.
pub fn is_nonblocking(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(fd)?.contains(OFlags::NONBLOCK))
}

/// Sets or clears `O_NONBLOCK` of the open file description.
pub fn set_nonblocking(fd: BorrowedFd<'_>, yes: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(fd)?;
    flags.set(OFlags::NONBLOCK, yes);
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// readv(2).
pub fn read(fd: BorrowedFd<'_>, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(rustix::io::readv(fd, slices)?)
}

/// writev(2).
pub fn write(fd: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, slices)?)
}

/// Has the kernel pipe hold at least `bytes`, or what the limits of the user allow.
pub fn grow(fd: BorrowedFd<'_>, bytes: usize) {
    let now = capacity_bytes(fd).unwrap_or(usize::MAX);
    let mut wanted = bytes;
    while wanted > now && rustix::pipe::fcntl_setpipe_size(fd, wanted).is_err() {
        wanted /= 2;
    }
}

/// Has the kernel pipe hold twice as much. Says whether it does.
pub fn double(fd: BorrowedFd<'_>) -> bool {
    capacity_bytes(fd).is_ok_and(|now| rustix::pipe::fcntl_setpipe_size(fd, 2 * now).is_ok())
}

/// Another description of the same pipe, to write to without blocking.
pub fn reopen_for_writing(fd: BorrowedFd<'_>) -> io::Result<PrivateFd> {
    reopen(fd, OFlags::WRONLY)
}

/// Another description of the same pipe, which does not block. See `/proc/pid/fd` in proc(5).
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<PrivateFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Sleeps until the kernel pipe takes bytes again, or nobody reads any more.
///
/// # Errors
/// `Interrupted`.
pub fn wait_writable(fd: BorrowedFd<'_>) -> io::Result<()> {
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], None)?;
    Ok(())
}

/// The size of the kernel pipe. See `F_GETPIPE_SZ` in fcntl(2).
pub fn capacity_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_getpipe_size(fd)?)
}
