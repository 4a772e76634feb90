//! What the tests share: pipes, lanes to offer, those who meet, and sockets that say what they like.

use std::io;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::cmsg_space;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
};
use rustix::pipe::pipe;
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{BorrowedParts, Parts, Wake};
use standpipe_shm::rendezvous::message::{Hello, Reply};
use standpipe_shm::rendezvous::{Answer, Guest, Host, Meeting, PipeId, Role};

pub const READER: Role = Role {
    reads: true,
    writes: false,
    has_lane: false,
};
/// Longer than anything here takes, so that what hangs fails.
pub const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
pub const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

static ALONE: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn size() -> PipeSize {
    PipeSize::new(2, 1).unwrap()
}

pub fn memory(len_bytes: usize, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&file, len_bytes as u64).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

/// Memory of huge pages: a place for one of them takes none yet.
pub fn huge_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let file = rustix::fs::memfd_create("test", flags | MemfdFlags::HUGE_2MB)?;
    rustix::fs::ftruncate(&file, 2 << 20)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
    Ok(file)
}

pub fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

pub fn parts() -> Parts {
    let (from_stage, to_stage) = pipe().unwrap();
    Parts {
        memory: memory(4096 + size().capacity_bytes(), SealFlags::SHRINK),
        size: size(),
        wake: Wake::PerTransfer,
        reader_bell: bell(),
        writer_bell: bell(),
        presence: pipe().unwrap().0,
        stage: [from_stage, to_stage],
    }
}

pub fn borrow(parts: &Parts) -> BorrowedParts<'_> {
    BorrowedParts {
        size: parts.size,
        wake: parts.wake,
        fds: [
            parts.memory.as_fd(),
            parts.reader_bell.as_fd(),
            parts.writer_bell.as_fd(),
            parts.presence.as_fd(),
            parts.stage[0].as_fd(),
            parts.stage[1].as_fd(),
        ],
    }
}

pub fn arrange(end: &OwnedFd) -> io::Result<Meeting> {
    Meeting::arrange(end.as_fd(), READER)
}

pub fn host(end: &OwnedFd) -> Host {
    match arrange(end).unwrap() {
        Meeting::Host(host) => host,
        Meeting::Guest(_) => panic!("somebody has the name"),
    }
}

pub fn guest(end: &OwnedFd) -> Guest {
    match arrange(end).unwrap() {
        Meeting::Guest(guest) => guest,
        Meeting::Host(_) => panic!("nobody has the name"),
    }
}

pub fn events(fd: BorrowedFd<'_>, patience: &Timespec) -> PollFlags {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(patience)).unwrap();
    fds[0].revents()
}

/// The next answer, slept for.
pub fn answer(guest: &mut Guest) -> Answer {
    assert!(!events(guest.as_fd(), &PATIENCE).is_empty(), "no answer");
    guest.look()
}

pub fn new_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// A connection that says what it likes.
pub fn raw(end: &OwnedFd) -> Result<OwnedFd, Errno> {
    let socket = new_socket();
    connect(&socket, &address(end)).map(|()| socket)
}

pub fn address(end: &OwnedFd) -> SocketAddrUnix {
    let PipeId { device, inode } = PipeId::of(end.as_fd()).unwrap();
    let name = format!("standpipe/1/{device}/{inode}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()
}

pub fn say(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .unwrap();
}

/// What a raw connection hears: `None` is the end.
pub fn heard(socket: &OwnedFd) -> Option<Reply> {
    let mut bytes = [0; 64];
    match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, 0)) | Err(Errno::CONNRESET) => None,
        Ok((_, len_bytes)) => Some(Reply::parse(&bytes[..len_bytes]).unwrap()),
        Err(error) => panic!("{error}"),
    }
}

pub fn hello() -> Hello {
    let pid_namespace = rustix::fs::stat("/proc/self/ns/pid").unwrap().st_ino;
    Hello {
        role: READER,
        pid_namespace,
    }
}

pub fn refuse<'a>() -> Option<BorrowedParts<'a>> {
    None
}

pub fn inode(fd: impl AsFd) -> u64 {
    rustix::fs::fstat(fd).unwrap().st_ino
}

/// A FIFO, with this mode, in a directory that everybody may search.
pub fn fifo(directory: &Path, mode: u32) -> OwnedFd {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("fifo");
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::empty(), 0).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
}
