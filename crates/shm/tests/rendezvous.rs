//! The rendezvous, with real sockets and real processes.
//!
//! Each test has a pipe, and hence a name, of its own. But they run one after the other: the forked
//! children of one would hold copies of the other's descriptors.

#![cfg(not(loom))]

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::cmsg_space;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{Errno, FdFlags};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, accept, listen, recv, send,
    sendmsg,
};
use rustix::pipe::pipe;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, pidfd_open, waitpid,
};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{BorrowedParts, Parts, Wake};
use standpipe_shm::rendezvous::message::{Bytes, Hello, Reply, VERSION};
use standpipe_shm::rendezvous::{Answer, Guest, Host, Malformed, Meeting, PipeId, Refusal, Role};

const READER: Role = Role {
    reads: true,
    writes: false,
    has_lane: false,
};
const NOBODY: u32 = 65534;
/// Longer than anything here takes, so that what hangs fails.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn size() -> PipeSize {
    PipeSize::new(2, 1).unwrap()
}

fn memory(len_bytes: usize, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&file, len_bytes as u64).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

/// Memory of huge pages: a place for one of them takes none yet.
fn huge_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let file = rustix::fs::memfd_create("test", flags | MemfdFlags::HUGE_2MB)?;
    rustix::fs::ftruncate(&file, 2 << 20)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
    Ok(file)
}

fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

fn parts() -> Parts {
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

fn borrow(parts: &Parts) -> BorrowedParts<'_> {
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

fn arrange(end: &OwnedFd) -> io::Result<Meeting> {
    Meeting::arrange(end.as_fd(), READER)
}

fn host(end: &OwnedFd) -> Host {
    match arrange(end).unwrap() {
        Meeting::Host(host) => host,
        Meeting::Guest(_) => panic!("somebody has the name"),
    }
}

fn guest(end: &OwnedFd) -> Guest {
    match arrange(end).unwrap() {
        Meeting::Guest(guest) => guest,
        Meeting::Host(_) => panic!("nobody has the name"),
    }
}

fn events(fd: BorrowedFd<'_>, patience: &Timespec) -> PollFlags {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(patience)).unwrap();
    fds[0].revents()
}

/// The next answer, slept for.
fn answer(guest: &mut Guest) -> Answer {
    assert!(!events(guest.as_fd(), &PATIENCE).is_empty(), "no answer");
    guest.look()
}

fn new_socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// A connection that says what it likes.
fn raw(end: &OwnedFd) -> Result<OwnedFd, Errno> {
    let socket = new_socket();
    connect(&socket, &address(end)).map(|()| socket)
}

fn address(end: &OwnedFd) -> SocketAddrUnix {
    let PipeId { device, inode } = PipeId::of(end.as_fd()).unwrap();
    let name = format!("standpipe/1/{device}/{inode}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()
}

fn say(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
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
fn heard(socket: &OwnedFd) -> Option<Reply> {
    let mut bytes = [0; 64];
    match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, 0)) | Err(Errno::CONNRESET) => None,
        Ok((_, len_bytes)) => Some(Reply::parse(&bytes[..len_bytes]).unwrap()),
        Err(error) => panic!("{error}"),
    }
}

fn hello() -> Hello {
    let pid_namespace = rustix::fs::stat("/proc/self/ns/pid").unwrap().st_ino;
    Hello {
        role: READER,
        pid_namespace,
    }
}

fn refuse<'a>() -> Option<BorrowedParts<'a>> {
    None
}

/// A child process, killed when the test is done with it.
struct Child(Pid);

impl Child {
    /// Runs `work` in a forked child; what it returns (true: all is well) is its exit status.
    fn run(work: impl FnOnce() -> bool) -> Self {
        // SAFETY: the child runs `work` and exits, on memory that the C library makes usable after a
        // fork; it waits for no other thread.
        match unsafe { libc::fork() } {
            0 => {
                let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!done)) }
            }
            pid => Self(Pid::from_raw(pid).unwrap()),
        }
    }

    fn kill(&self) {
        rustix::process::kill_process(self.0, Signal::KILL).unwrap();
    }

    fn ends_well(self) -> bool {
        let (_, status) = waitpid(Some(self.0), WaitOptions::empty())
            .unwrap()
            .unwrap();
        std::mem::forget(self);
        status.exit_status() == Some(0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}

/// Until killed.
fn sleep_for_ever() -> ! {
    let (never, _writer) = pipe().unwrap();
    loop {
        events(never.as_fd(), &PATIENCE);
    }
}

fn inode(fd: impl AsFd) -> u64 {
    rustix::fs::fstat(fd).unwrap().st_ino
}

#[test]
fn a_guest_is_handed_the_lane_and_hears_when_the_host_goes() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut guest = guest(&writer);
    assert!(matches!(guest.look(), Answer::NotYet));
    assert_eq!(events(host.as_fd(), &PATIENCE), PollFlags::IN);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
    let Answer::Welcome(parts) = answer(&mut guest) else {
        panic!("no welcome");
    };
    assert_eq!((parts.size, parts.wake), (size(), Wake::PerTransfer));
    let given = borrow(&offered).fds;
    for (given, got) in given.into_iter().zip(borrow(&parts).fds) {
        assert_eq!(inode(given), inode(got));
        assert_eq!(rustix::io::fcntl_getfd(got).unwrap(), FdFlags::CLOEXEC);
    }
    assert!(matches!(guest.look(), Answer::NotYet));
    drop(host);
    assert!(matches!(answer(&mut guest), Answer::HostGone));
    assert!(matches!(arrange(&writer).unwrap(), Meeting::Host(_)));
}

#[test]
fn a_guest_that_leaves_or_talks_on_wakes_nobody() {
    let _alone = alone();
    let (reader, _writer) = pipe().unwrap();
    let mut host = host(&reader);
    let guest = raw(&reader).unwrap();
    say(&guest, &hello().encode(), &[]);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    say(&guest, b"more", &[]);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
    drop(guest);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
}

#[test]
fn all_who_wait_are_served_and_the_parts_are_asked_for_once() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let offered = parts();
    let mut asked = 0;
    let mut offer = |host: &mut Host| {
        host.serve(|| {
            asked += 1;
            Some(borrow(&offered))
        })
    };
    assert_eq!(offer(&mut host), 0);
    let mut guests = [guest(&writer), guest(&reader), guest(&writer)];
    assert_eq!(offer(&mut host), 3);
    assert_eq!(asked, 1);
    assert!(
        guests
            .iter_mut()
            .all(|guest| matches!(answer(guest), Answer::Welcome(_)))
    );
}

#[test]
fn a_host_without_a_lane_refuses() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut guest = guest(&writer);
    assert_eq!(host.serve(refuse), 0);
    assert!(matches!(
        answer(&mut guest),
        Answer::Refused(Refusal::NoLane)
    ));
    assert!(matches!(answer(&mut guest), Answer::HostGone));
}

#[test]
fn another_version_and_another_pid_namespace_are_told_so() {
    let _alone = alone();
    let (reader, _writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut later: Bytes = hello().encode();
    later[4] += 1;
    let elsewhere = Hello {
        pid_namespace: hello().pid_namespace + 1,
        ..hello()
    };
    for (bytes, refusal) in [
        (later, Refusal::Version { host: VERSION }),
        (elsewhere.encode(), Refusal::Namespace),
    ] {
        let stranger = raw(&reader).unwrap();
        say(&stranger, &bytes, &[]);
        assert_eq!(host.serve(|| panic!("nobody to let in")), 0);
        assert_eq!(heard(&stranger), Some(Reply::Refusal(refusal)));
        assert_eq!(heard(&stranger), None);
    }
}

#[test]
fn nonsense_is_hung_up_on_and_descriptors_with_it_are_closed() {
    let _alone = alone();
    let (reader, _writer) = pipe().unwrap();
    let mut host = host(&reader);
    let good = hello().encode();
    let too_long = [&good[..], &[0]].concat();
    let huge = vec![0x53; 100_000];
    for bytes in [&good[..15], &too_long, &huge, b"GET / HTTP/1.1\r\n", &[0]] {
        let stranger = raw(&reader).unwrap();
        send(&stranger, bytes, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(host.serve(|| panic!("nobody to let in")), 0);
        assert_eq!(heard(&stranger), None, "{bytes:?}");
    }
    // even with a good hello, descriptors are not received
    let (watched, sent) = pipe().unwrap();
    let stranger = raw(&reader).unwrap();
    say(&stranger, &good, &[sent.as_fd()]);
    drop(sent);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert_eq!(events(watched.as_fd(), &NOW), PollFlags::HUP);
}

#[test]
fn silent_strangers_cost_a_bounded_number_of_descriptors() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut flood = Vec::new();
    for _ in 0..4 {
        // nobody looks: after a while nobody gets in, and nobody else takes the name
        let busy = loop {
            match raw(&reader) {
                Ok(stranger) => flood.push(stranger),
                Err(error) => break error,
            }
        };
        assert_eq!(busy, Errno::AGAIN);
        let error = arrange(&writer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(host.serve(refuse), 0);
    }
    assert!(flood.len() > 200);
    let connected = flood
        .iter()
        .filter(|stranger| !events(stranger.as_fd(), &NOW).contains(PollFlags::HUP))
        .count();
    assert_eq!(connected, 16);
    let mut guest = guest(&writer);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert!(matches!(answer(&mut guest), Answer::Welcome(_)));
}

#[test]
fn a_full_table_refuses_until_a_guest_has_left() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let offered = parts();
    let mut guests = Vec::new();
    for _ in 0..64 {
        guests.push(guest(&writer));
        assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    }
    let mut late = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 0);
    assert!(matches!(answer(&mut late), Answer::Refused(Refusal::Full)));
    guests.remove(10);
    let mut late = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert!(matches!(answer(&mut late), Answer::Welcome(_)));
}

#[test]
fn a_host_without_free_descriptors_can_still_sleep_and_serves_later() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let child = Child::run(|| {
        let mut host = host(&reader);
        let mut guest = guest(&writer);
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let none = Rlimit {
            // (poll(2) wants to be allowed as many as it looks at)
            current: Some(1),
            ..limit
        };
        rustix::process::setrlimit(Resource::Nofile, none).unwrap();
        assert_eq!(host.serve(refuse), 0);
        assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
        rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(host.serve(refuse), 0);
        let refused = matches!(guest.look(), Answer::Refused(Refusal::NoLane));
        let _next = self::guest(&writer);
        refused && events(host.as_fd(), &NOW) == PollFlags::IN
    });
    assert!(child.ends_well());
}

#[test]
fn a_killed_host_is_heard_of_and_its_name_is_free() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let (mut ready, tell) = pipe().map(|(r, w)| (std::fs::File::from(r), w)).unwrap();
    let child = Child::run(|| {
        let mut host = host(&reader);
        rustix::io::write(&tell, b"!").unwrap();
        let offered = parts();
        loop {
            events(host.as_fd(), &PATIENCE);
            host.serve(|| Some(borrow(&offered)));
        }
    });
    ready.read_exact(&mut [0]).unwrap();
    let mut welcomed = guest(&writer);
    assert!(matches!(answer(&mut welcomed), Answer::Welcome(_)));
    rustix::process::kill_process(child.0, Signal::STOP).unwrap();
    let mut unheard = guest(&writer);
    child.kill();
    assert!(matches!(answer(&mut welcomed), Answer::HostGone));
    assert!(matches!(answer(&mut unheard), Answer::HostGone));
    assert!(matches!(arrange(&writer).unwrap(), Meeting::Host(_)));
}

#[test]
fn a_forked_child_that_drops_its_copy_is_no_host() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut meeting = Some(host(&reader));
    let mut early = guest(&writer);
    let (mut ready, tell) = pipe().map(|(r, w)| (std::fs::File::from(r), w)).unwrap();
    let _child = Child::run(|| {
        drop(meeting.take());
        rustix::io::write(&tell, b"!").unwrap();
        sleep_for_ever()
    });
    ready.read_exact(&mut [0]).unwrap();
    let mut host = meeting.unwrap();
    let offered = parts();
    let mut late = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 2);
    assert_eq!(events(host.as_fd(), &NOW), PollFlags::empty());
    assert!(matches!(answer(&mut early), Answer::Welcome(_)));
    assert!(matches!(answer(&mut late), Answer::Welcome(_)));
    drop(host);
    assert!(matches!(answer(&mut early), Answer::HostGone));
    assert!(matches!(arrange(&writer).unwrap(), Meeting::Host(_)));
}

/// A FIFO, with this mode, in a directory that everybody may search.
fn fifo(directory: &Path, mode: u32) -> OwnedFd {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("fifo");
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::empty(), 0).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

/// Whether a test that needs another user can run: only root can become one.
fn can_be_nobody() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("not run: needs root, to become another user");
    }
    is_root
}

fn become_nobody() {
    // SAFETY: changes this process's own user; the process has one thread (it was forked).
    assert_eq!(unsafe { libc::setgroups(0, std::ptr::null()) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
}

#[test]
fn another_user_is_let_in_where_the_fifo_lets_him_and_nowhere_else() {
    let _alone = alone();
    if !can_be_nobody() {
        return;
    }
    let [open, shut] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let offered = parts();
    for (pipe, admitted) in [
        (pipe().unwrap().0, false),
        (fifo(open.path(), 0o666), true),
        (fifo(shut.path(), 0o622), false),
    ] {
        let mut host = host(&pipe);
        let child = Child::run(|| {
            become_nobody();
            match answer(&mut guest(&pipe)) {
                Answer::Welcome(_) => admitted,
                Answer::Refused(Refusal::Credentials) => !admitted,
                other => panic!("{other:?}"),
            }
        });
        let exit = pidfd_open(child.0, PidfdFlags::empty()).unwrap();
        let mut served = 0;
        while events(exit.as_fd(), &NOW).is_empty() {
            let mut fds = [
                PollFd::new(&host, PollFlags::IN),
                PollFd::new(&exit, PollFlags::IN),
            ];
            poll(&mut fds, Some(&PATIENCE)).unwrap();
            served += host.serve(|| Some(borrow(&offered)));
        }
        assert_eq!(served, usize::from(admitted));
        assert!(child.ends_well(), "admitted: {admitted}");
    }
}

#[test]
fn a_host_of_another_user_is_trusted_where_the_fifo_lets_him_and_nowhere_else() {
    let _alone = alone();
    if !can_be_nobody() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (end, trusted) in [
        (pipe().unwrap().0, false),
        (fifo(directory.path(), 0o666), true),
    ] {
        let (mut ready, tell) = pipe().map(|(r, w)| (std::fs::File::from(r), w)).unwrap();
        let _child = Child::run(|| {
            become_nobody();
            let host = host(&end);
            rustix::io::write(&tell, b"!").unwrap();
            let _host = host;
            sleep_for_ever()
        });
        ready.read_exact(&mut [0]).unwrap();
        match arrange(&end) {
            Ok(Meeting::Guest(_)) => assert!(trusted),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert!(!trusted);
            }
            Ok(Meeting::Host(_)) => panic!("the name was taken"),
        }
    }
}

/// A listener with the name of the pipe that says nothing by itself, and a guest of it.
fn false_host(reader: &OwnedFd, writer: &OwnedFd) -> (OwnedFd, Guest) {
    let name = new_socket();
    bind(&name, &address(reader)).unwrap();
    listen(&name, 1).unwrap();
    (name, guest(writer))
}

/// What a guest makes of a host that says this.
fn told(bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Answer {
    let (reader, writer) = pipe().unwrap();
    let (name, mut guest) = false_host(&reader, &writer);
    let host = accept(&name).unwrap();
    say(&host, bytes, descriptors);
    answer(&mut guest)
}

fn welcome() -> Bytes {
    let (size, wake) = (size(), Wake::PerSegment);
    Reply::Welcome { size, wake }.encode()
}

/// The same file, opened in another way.
fn reopened(fd: &OwnedFd, flags: OFlags) -> OwnedFd {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

#[test]
fn a_host_that_talks_on_is_none() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let (name, mut guest) = false_host(&reader, &writer);
    let host = accept(&name).unwrap();
    let offered = parts();
    let welcome = welcome();
    say(&host, &welcome, &borrow(&offered).fds);
    say(&host, &welcome, &borrow(&offered).fds);
    assert!(matches!(answer(&mut guest), Answer::Welcome(_)));
    assert!(matches!(answer(&mut guest), Answer::HostGone));
}

#[test]
fn the_wrong_descriptor_is_named() {
    let _alone = alone();
    let offered = parts();
    let good = borrow(&offered).fds;
    let welcome = welcome();
    assert!(matches!(told(&welcome, &good), Answer::Welcome(_)));

    let len_bytes = 4096 + size().capacity_bytes();
    let unsealed = memory(len_bytes, SealFlags::GROW);
    let short = memory(len_bytes - 1, SealFlags::SHRINK);
    let read_only = memory(len_bytes, SealFlags::SHRINK | SealFlags::WRITE);
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let blocking = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let (from_other, to_other) = pipe().unwrap();
    let only_a_path = reopened(&from_other, OFlags::PATH);
    let half = reopened(&offered.memory, OFlags::RDONLY);
    let silent = reopened(&from_other, OFlags::RDONLY | OFlags::NONBLOCK);
    let directory = tempfile::tempdir().unwrap();
    let named = reopened(
        &fifo(directory.path(), 0o600),
        OFlags::RDONLY | OFlags::NONBLOCK,
    );
    let huge = huge_memory().unwrap_or_else(|error| {
        eprintln!("not run with huge pages: {error}");
        memory(1, SealFlags::SHRINK)
    });
    for (place, wrong, field) in [
        (0, &unsealed, "memory"),
        (0, &huge, "memory"),
        (0, &short, "memory"),
        (0, &read_only, "memory"),
        (0, &half, "memory"),
        (0, &file, "memory"),
        (0, &offered.reader_bell, "memory"),
        (1, &blocking, "reader bell"),
        (1, &offered.memory, "reader bell"),
        (1, &silent, "reader bell"),
        (2, &offered.presence, "writer bell"),
        (3, &to_other, "presence"),
        (3, &named, "presence"),
        (3, &only_a_path, "presence"),
        (3, &offered.reader_bell, "presence"),
        (4, &offered.presence, "stage, to read from"),
        (4, &to_other, "stage, to read from"),
        (4, &from_other, "stage, to write to"),
        (5, &to_other, "stage, to write to"),
        (5, &offered.stage[0], "stage, to write to"),
    ] {
        let mut sent = good;
        sent[place] = wrong.as_fd();
        let Answer::Malformed(error) = told(&welcome, &sent) else {
            panic!("{field} taken");
        };
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[test]
fn the_pipe_itself_is_not_taken_for_one_of_the_lane() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut offered = parts();
    offered.presence = reader.try_clone().unwrap();
    let mut host = host(&reader);
    let mut guest = guest(&writer);
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert!(matches!(
        answer(&mut guest),
        Answer::Malformed(Malformed::Descriptor {
            field: "presence",
            ..
        })
    ));
}

#[test]
fn too_many_and_too_few_descriptors_are_refused_and_closed() {
    let _alone = alone();
    let offered = parts();
    let welcome = welcome();
    let refusal = Reply::Refusal(Refusal::Full).encode();
    for (bytes, first, error) in [
        (
            welcome,
            0,
            Malformed::Descriptors {
                found: 1,
                expected: 6,
            },
        ),
        (
            welcome,
            4,
            Malformed::Descriptors {
                found: 5,
                expected: 6,
            },
        ),
        (
            welcome,
            6,
            Malformed::Descriptors {
                found: 7,
                expected: 6,
            },
        ),
        (welcome, 12, Malformed::DescriptorsCut),
        (
            refusal,
            0,
            Malformed::Descriptors {
                found: 1,
                expected: 0,
            },
        ),
        ([b'!'; 16], 5, Malformed::Magic { found: *b"!!!!" }),
    ] {
        let (watched, sent) = pipe().unwrap();
        let mut descriptors: Vec<_> = borrow(&offered)
            .fds
            .into_iter()
            .cycle()
            .take(first)
            .collect();
        descriptors.push(sent.as_fd());
        let answer = told(&bytes, &descriptors);
        assert!(
            matches!(&answer, Answer::Malformed(found) if *found == error),
            "{answer:?}"
        );
        drop(descriptors);
        drop(sent);
        assert_eq!(events(watched.as_fd(), &NOW), PollFlags::HUP, "{error}");
    }
}

#[test]
fn what_is_no_pipe_is_refused_by_name() {
    let _alone = alone();
    let file: OwnedFd = tempfile::tempfile().unwrap().into();
    let error = arrange(&file).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("expected an end of a pipe"));
}
