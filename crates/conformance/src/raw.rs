//! System calls by descriptor number, for facts about descriptors and for the errors that typed
//! ends cannot make.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::fail::{Fail, Outcome};

/// A descriptor by its number. The kernel answers one that is not open with `EBADF`.
///
/// # Panics
/// If no descriptor can have that number.
#[must_use]
pub fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    assert!(fd >= 0, "no descriptor has the number {fd}");
    // SAFETY: it is not -1, and no memory depends on whose it is.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn check(returned: libc::ssize_t) -> Outcome {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error().into())
}

fn check_int(returned: i32) -> Result<i32, Fail> {
    if returned < 0 {
        Err(io::Error::last_os_error().into())
    } else {
        Ok(returned)
    }
}

/// [read(2)](https://man7.org/linux/man-pages/man2/read.2.html) of one byte.
///
/// # Errors
/// What the call fails with.
pub fn read_byte(fd: RawFd) -> Outcome {
    let mut byte = 0u8;
    // SAFETY: `byte` is one writable byte.
    check(unsafe { libc::read(fd, (&raw mut byte).cast(), 1) })
}

/// [read(2)](https://man7.org/linux/man-pages/man2/read.2.html) to an address where nothing is.
///
/// # Errors
/// What the call fails with.
pub fn read_nowhere(fd: RawFd, bytes: usize) -> Outcome {
    // SAFETY: nothing can be mapped at address 1, so the kernel writes nothing.
    check(unsafe { libc::read(fd, std::ptr::without_provenance_mut(1), bytes) })
}

/// [write(2)](https://man7.org/linux/man-pages/man2/write.2.html) of `bytes`.
///
/// # Errors
/// What the call fails with.
pub fn write(fd: RawFd, bytes: &[u8]) -> Outcome {
    // SAFETY: `bytes` is readable for its length.
    check(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

/// [write(2)](https://man7.org/linux/man-pages/man2/write.2.html) from an address where nothing
/// is.
///
/// # Errors
/// What the call fails with.
pub fn write_nowhere(fd: RawFd, bytes: usize) -> Outcome {
    // SAFETY: the kernel only reads, and answers an address where nothing is with EFAULT.
    check(unsafe { libc::write(fd, std::ptr::without_provenance(1), bytes) })
}

/// [readv(2)](https://man7.org/linux/man-pages/man2/readv.2.html) with `count` vectors of
/// `bytes` bytes each, at an address where nothing is.
///
/// # Errors
/// What the call fails with.
///
/// # Panics
/// If `count` is above 2048.
pub fn readv_nowhere(fd: RawFd, count: i32, bytes: usize) -> Outcome {
    let nowhere = libc::iovec {
        iov_base: std::ptr::without_provenance_mut(1),
        iov_len: bytes,
    };
    let vectors = vec![nowhere; 2048];
    assert!(count <= 2048);
    // SAFETY: `vectors` holds `count` vectors, and the kernel writes nothing where nothing is.
    check(unsafe { libc::readv(fd, vectors.as_ptr(), count) })
}

/// [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html) with a number as its argument.
///
/// # Errors
/// What the call fails with.
pub fn fcntl(fd: RawFd, command: i32, argument: i32) -> Result<i32, Fail> {
    // SAFETY: the commands used here take a number or nothing.
    check_int(unsafe { libc::fcntl(fd, command, argument) })
}

/// Whether `FD_CLOEXEC` is set.
///
/// # Errors
/// What the call fails with.
pub fn is_close_on_exec(fd: RawFd) -> Result<bool, Fail> {
    Ok(fcntl(fd, libc::F_GETFD, 0)? & libc::FD_CLOEXEC != 0)
}

/// Whether `O_NONBLOCK` is set.
///
/// # Errors
/// What the call fails with.
pub fn is_nonblocking(fd: RawFd) -> Result<bool, Fail> {
    Ok(fcntl(fd, libc::F_GETFL, 0)? & libc::O_NONBLOCK != 0)
}

/// [dup(2)](https://man7.org/linux/man-pages/man2/dup.2.html).
///
/// # Errors
/// What the call fails with.
pub fn dup(fd: RawFd) -> Result<RawFd, Fail> {
    // SAFETY: makes a descriptor that nobody else owns.
    check_int(unsafe { libc::dup(fd) })
}

/// [dup2(2)](https://man7.org/linux/man-pages/man2/dup.2.html). The caller answers for what was
/// open as `new`.
///
/// # Errors
/// What the call fails with.
pub fn dup2(fd: RawFd, new: RawFd) -> Result<RawFd, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::dup2(fd, new) })
}

/// [dup3(2)](https://man7.org/linux/man-pages/man2/dup.2.html). The caller answers for what was
/// open as `new`.
///
/// # Errors
/// What the call fails with.
pub fn dup3(fd: RawFd, new: RawFd, flags: i32) -> Result<RawFd, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::dup3(fd, new, flags) })
}

/// [close(2)](https://man7.org/linux/man-pages/man2/close.2.html). The caller answers for whose
/// it was.
///
/// # Errors
/// What the call fails with.
pub fn close(fd: RawFd) -> Result<i32, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::close(fd) })
}

/// [pipe2(2)](https://man7.org/linux/man-pages/man2/pipe.2.html).
///
/// # Errors
/// What the call fails with; then `ends` is as it was.
pub fn pipe2(ends: &mut [RawFd; 2], flags: i32) -> Result<(), Fail> {
    // SAFETY: `ends` has room for two descriptors.
    check_int(unsafe { libc::pipe2(ends.as_mut_ptr(), flags) }).map(drop)
}

/// [pipe2(2)](https://man7.org/linux/man-pages/man2/pipe.2.html) to an address where nothing is.
///
/// # Errors
/// What the call fails with.
pub fn pipe_nowhere() -> Result<(), Fail> {
    // SAFETY: nothing can be mapped at address 1, so the kernel writes nothing.
    check_int(unsafe { libc::pipe2(std::ptr::without_provenance_mut(1), 0) }).map(drop)
}

/// [lseek(2)](https://man7.org/linux/man-pages/man2/lseek.2.html).
///
/// # Errors
/// What the call fails with.
pub fn lseek(fd: RawFd, offset: i64, whence: i32) -> Result<i64, Fail> {
    // SAFETY: no memory is involved.
    let at = unsafe { libc::lseek(fd, offset, whence) };
    if at < 0 {
        Err(io::Error::last_os_error().into())
    } else {
        Ok(at)
    }
}

/// [pread(2)](https://man7.org/linux/man-pages/man2/pread.2.html) of up to 8 bytes.
///
/// # Errors
/// What the call fails with.
pub fn pread(fd: RawFd, bytes: usize, offset: i64) -> Outcome {
    let mut buf = [0u8; 8];
    // SAFETY: at most the size of `buf`.
    check(unsafe { libc::pread(fd, buf.as_mut_ptr().cast(), bytes.min(buf.len()), offset) })
}

/// [pwrite(2)](https://man7.org/linux/man-pages/man2/pwrite.2.html).
///
/// # Errors
/// What the call fails with.
pub fn pwrite(fd: RawFd, bytes: &[u8], offset: i64) -> Outcome {
    // SAFETY: `bytes` is readable for its length.
    check(unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), offset) })
}

/// [preadv2(2)](https://man7.org/linux/man-pages/man2/preadv2.2.html) into `buf`.
///
/// # Errors
/// What the call fails with.
pub fn preadv2(fd: RawFd, buf: &mut [u8], offset: i64, flags: i32) -> Outcome {
    let vector = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    // SAFETY: one vector, of memory that may be written.
    check(unsafe { libc::preadv2(fd, &raw const vector, 1, offset, flags) })
}

/// [pwritev2(2)](https://man7.org/linux/man-pages/man2/pwritev2.2.html) of `bytes`.
///
/// # Errors
/// What the call fails with.
pub fn pwritev2(fd: RawFd, bytes: &[u8], offset: i64, flags: i32) -> Outcome {
    let vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: one vector, of memory that is only read.
    check(unsafe { libc::pwritev2(fd, &raw const vector, 1, offset, flags) })
}

/// [mmap(2)](https://man7.org/linux/man-pages/man2/mmap.2.html) of a page of the descriptor.
///
/// # Errors
/// What the call fails with.
pub fn mmap(fd: RawFd) -> Result<(), Fail> {
    let anywhere = std::ptr::null_mut();
    // SAFETY: a new mapping, where the kernel has room; nothing refers to it.
    let at = unsafe { libc::mmap(anywhere, 4096, libc::PROT_READ, libc::MAP_PRIVATE, fd, 0) };
    if at == libc::MAP_FAILED {
        Err(io::Error::last_os_error().into())
    } else {
        Ok(())
    }
}

/// [sync_file_range(2)](https://man7.org/linux/man-pages/man2/sync_file_range.2.html) of all.
///
/// # Errors
/// What the call fails with.
pub fn sync_file_range(fd: RawFd) -> Result<i32, Fail> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::sync_file_range(fd, 0, 0, 0) })
}

/// [posix_fadvise(2)](https://man7.org/linux/man-pages/man2/posix_fadvise.2.html): its result.
#[must_use]
pub fn posix_fadvise(fd: RawFd, advice: i32) -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::posix_fadvise(fd, 0, 0, advice) }
}

/// [readahead(2)](https://man7.org/linux/man-pages/man2/readahead.2.html) of a page.
///
/// # Errors
/// What the call fails with.
pub fn readahead(fd: RawFd) -> Outcome {
    // SAFETY: no memory is involved.
    check(unsafe { libc::readahead(fd, 0, 4096) })
}

/// [ioctl(2)](https://man7.org/linux/man-pages/man2/ioctl.2.html) with an integer that it may read
/// and write; the integer after it.
///
/// # Errors
/// What the call fails with.
pub fn ioctl(fd: RawFd, request: libc::Ioctl, value: i32) -> Result<i32, Fail> {
    // Some requests write more than an integer.
    let mut room = [0i32; 64];
    room[0] = value;
    // SAFETY: the requests used here take an integer or a terminal's settings, both fit.
    check_int(unsafe { libc::ioctl(fd, request, room.as_mut_ptr()) })?;
    Ok(room[0])
}

/// [ioctl(2)](https://man7.org/linux/man-pages/man2/ioctl.2.html) with an address where nothing is.
///
/// # Errors
/// What the call fails with.
pub fn ioctl_nowhere(fd: RawFd, request: libc::Ioctl) -> Result<i32, Fail> {
    let nowhere = std::ptr::without_provenance_mut::<i32>(1);
    // SAFETY: nothing can be mapped at address 1, so the kernel writes nothing.
    check_int(unsafe { libc::ioctl(fd, request, nowhere) })
}

/// [fpathconf(3)](https://man7.org/linux/man-pages/man3/fpathconf.3.html) of `PIPE_BUF`.
#[must_use]
pub fn fpathconf_pipe_buf(fd: RawFd) -> i64 {
    // SAFETY: no memory is involved.
    unsafe { libc::fpathconf(fd, libc::_PC_PIPE_BUF) }
}

/// [mkfifo(3)](https://man7.org/linux/man-pages/man3/mkfifo.3.html) at an address where nothing is.
///
/// # Errors
/// What the call fails with.
pub fn mkfifo_nowhere() -> Result<i32, Fail> {
    // SAFETY: the kernel only reads, and answers an address where nothing is with EFAULT.
    check_int(unsafe { libc::mkfifo(std::ptr::without_provenance(1), 0o600) })
}

/// [open(2)](https://man7.org/linux/man-pages/man2/open.2.html), with whatever flags; closed again.
///
/// # Errors
/// What the call fails with.
pub fn open_and_close(path: &CStr, flags: i32) -> Result<(), Fail> {
    // SAFETY: `path` is a C string.
    let fd = check_int(unsafe { libc::open(path.as_ptr(), flags, 0o600) })?;
    close(fd).map(drop)
}

/// Gives this process, which is a child made for that, the rights of nobody if it has root's: of a
/// user that no other test is, since limits count by user.
///
/// # Panics
/// If it cannot.
pub fn become_nobody() {
    let nobody: libc::uid_t = 20_000 + std::process::id() % 40_000;
    // SAFETY: no memory is involved; there is one thread.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: as above.
        let done = check_int(unsafe { libc::setgroups(0, std::ptr::null()) });
        assert_eq!(done, Ok(0), "cannot leave the groups");
        // SAFETY: as above.
        let done = check_int(unsafe { libc::setresgid(nobody, nobody, nobody) });
        assert_eq!(done, Ok(0), "cannot change the group");
        // SAFETY: as above.
        let done = check_int(unsafe { libc::setresuid(nobody, nobody, nobody) });
        assert_eq!(done, Ok(0), "cannot change the user");
    }
}

/// [truncate(2)](https://man7.org/linux/man-pages/man2/truncate.2.html).
///
/// # Errors
/// What the call fails with.
pub fn truncate(path: &CStr, bytes: i64) -> Result<i32, Fail> {
    // SAFETY: `path` is a C string.
    check_int(unsafe { libc::truncate(path.as_ptr(), bytes) })
}

/// `F_SETPIPE_SZ` of [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html); what it became.
///
/// # Errors
/// What the call fails with.
///
/// # Panics
/// If it became negative.
pub fn set_pipe_size(fd: RawFd, bytes: u64) -> Outcome {
    // SAFETY: no memory is involved.
    let became = check_int(unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, bytes) })?;
    Ok(usize::try_from(became).expect("checked"))
}

/// Has the signals of the descriptor sent to the calling thread (`F_SETOWN_EX`).
///
/// # Errors
/// What the call fails with.
pub fn set_owner_to_this_thread(fd: RawFd) -> Result<(), Fail> {
    /// `struct f_owner_ex`, which Rust's `libc` does not have.
    #[repr(C)]
    struct Owner {
        kind: i32,
        pid: i32,
    }
    const F_SETOWN_EX: i32 = 15;
    const F_OWNER_TID: i32 = 0;
    let owner = Owner {
        kind: F_OWNER_TID,
        pid: rustix::thread::gettid().as_raw_nonzero().get(),
    };
    // SAFETY: `owner` is what the command takes.
    check_int(unsafe { libc::fcntl(fd, F_SETOWN_EX, &raw const owner) }).map(drop)
}

/// Sends descriptors over a Unix socket.
///
/// # Panics
/// If they cannot be sent.
pub fn send_rights(socket: &UnixStream, fds: &[RawFd]) {
    let fds: Vec<_> = fds.iter().map(|fd| borrow(*fd)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_RIGHTS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fit = control.push(SendAncillaryMessage::ScmRights(&fds));
    assert!(fit, "at most {MOST_RIGHTS} descriptors");
    let sent = sendmsg(
        socket,
        &[IoSlice::new(b".")],
        &mut control,
        SendFlags::empty(),
    );
    assert_eq!(sent, Ok(1), "cannot send the descriptors");
}

/// Receives what was sent by one [`send_rights`].
///
/// # Panics
/// If there is no message.
#[must_use]
pub fn receive_rights(socket: &UnixStream) -> Vec<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_RIGHTS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut data, &mut control, RecvFlags::empty()).expect("no message");
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten().collect()
}

/// Most descriptors in one message.
const MOST_RIGHTS: usize = 16;

/// Two pages of addresses: what is good up to the end of the first is nowhere behind it.
pub struct PageBeforeNothing(*mut libc::c_void);

const PAGE: usize = 4096;

impl PageBeforeNothing {
    /// New ones.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new() -> Self {
        let pages = map(2 * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        let second = pages.wrapping_byte_add(PAGE);
        // SAFETY: the second page of our own mapping, to which nothing refers.
        let done = unsafe { libc::mprotect(second, PAGE, libc::PROT_NONE) };
        assert_eq!(done, 0, "cannot protect a page");
        Self(pages)
    }

    /// Reads up to `bytes` bytes to where the last `good` ones of the page are.
    ///
    /// # Errors
    /// What the call fails with.
    pub fn read_into_last(&self, fd: RawFd, good: usize, bytes: usize) -> Outcome {
        let at = self.0.wrapping_byte_add(PAGE - good);
        // SAFETY: the kernel writes to our own page, and behind it answers with EFAULT.
        check(unsafe { libc::read(fd, at, bytes) })
    }

    /// Writes `bytes` bytes from where the last `good` ones of the page are.
    ///
    /// # Errors
    /// What the call fails with.
    pub fn write_from_last(&self, fd: RawFd, good: usize, bytes: usize) -> Outcome {
        let at = self.0.wrapping_byte_add(PAGE - good);
        // SAFETY: the kernel only reads, and behind our own page answers with EFAULT.
        check(unsafe { libc::write(fd, at, bytes) })
    }
}

impl Default for PageBeforeNothing {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PageBeforeNothing {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which nothing refers any more.
        unsafe { libc::munmap(self.0, 2 * PAGE) };
    }
}

fn map(bytes: usize, protection: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, where the kernel has room.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED, "no room for {bytes} bytes");
    at
}

/// Zeros that need no memory.
pub struct Zeros(*mut libc::c_void, usize);

/// So many of them.
#[must_use]
pub fn zeros(bytes: usize) -> Zeros {
    Zeros(map(bytes, libc::PROT_READ), bytes)
}

impl std::ops::Deref for Zeros {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: our own mapping, which nobody writes to.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which nothing refers any more.
        unsafe { libc::munmap(self.0, self.1) };
    }
}
