//! The kernel pipe behind an end: what we ask of it, each question one system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

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

fn events(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<PollFlags> {
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

/// Reads what is there, whatever the mode of the descriptor. See preadv2(2), `RWF_NOWAIT`.
///
/// # Errors
/// `WouldBlock` if somebody else was faster.
pub fn read_now(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut slices = [IoSliceMut::new(buffer)];
    match rustix::io::preadv2(fd, &mut slices, u64::MAX, ReadWriteFlags::NOWAIT) {
        // Before Linux 6.4. The caller saw bytes, and keeps other readers of ours out.
        Err(Errno::OPNOTSUPP) => Ok(rustix::io::readv(fd, &mut slices)?),
        result => Ok(result?),
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

/// Gives the kernel pipe `capacity_bytes`, or what the limits of the user allow.
pub fn grow(fd: BorrowedFd<'_>, capacity_bytes: usize) {
    let mut bytes = capacity_bytes;
    while bytes > 64 << 10 && rustix::pipe::fcntl_setpipe_size(fd, bytes).is_err() {
        bytes /= 2;
    }
}

/// Another description of the same pipe, to write to without blocking. See `/proc/pid/fd` in
/// proc(5).
pub fn reopen_for_writing(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Sleeps until the kernel pipe takes bytes again, or nobody reads any more.
pub fn wait_writable(fd: BorrowedFd<'_>) {
    // An interruption is as good as an event: the caller looks again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], None);
}
