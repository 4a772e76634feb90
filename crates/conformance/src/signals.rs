//! Signal handlers that tell the test, wherever it runs, that they ran.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

/// What a handler saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The signal.
    pub signal: i32,
    /// Its `si_code`.
    pub code: i32,
    /// The thread that handled it.
    pub tid: i32,
}

/// A kernel pipe that handlers write to; over fork the child's handlers write to it, too.
static BELL: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();

fn bell() -> &'static (OwnedFd, OwnedFd) {
    BELL.get_or_init(|| {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        rustix::pipe::pipe_with(flags).expect("no pipe for the handlers")
    })
}

extern "C" fn ring(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the place of this thread's errno is always valid.
    let errno_place = unsafe { libc::__errno_location() };
    // SAFETY: as above; a handler must leave errno as it was.
    let errno = unsafe { *errno_place };
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let ring = [
        signal,
        code,
        rustix::thread::gettid().as_raw_nonzero().get(),
    ];
    let fd: RawFd = BELL
        .get()
        .expect("hung before the handler was installed")
        .1
        .as_raw_fd();
    // SAFETY: `ring` is 12 readable bytes, and write is safe in a handler.
    unsafe { libc::write(fd, ring.as_ptr().cast(), size_of_val(&ring)) };
    // SAFETY: as above.
    unsafe { *errno_place = errno };
}

/// Installs a handler that rings, with or without `SA_RESTART`.
pub fn handle(signal: Signal, restart: bool) {
    bell();
    let flags = libc::SA_SIGINFO | if restart { libc::SA_RESTART } else { 0 };
    install(signal, ring as *const () as libc::sighandler_t, flags);
}

/// Gives a signal its default action.
pub fn by_default(signal: Signal) {
    install(signal, libc::SIG_DFL, 0);
}

/// Ignores a signal.
pub fn ignore(signal: Signal) {
    install(signal, libc::SIG_IGN, 0);
}

fn install(signal: Signal, handler: libc::sighandler_t, flags: i32) {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is valid, and `ring` calls only what is safe in a handler.
    let done = unsafe { libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut()) };
    assert_eq!(done, 0, "cannot install a handler");
}

fn only(signal: Signal) -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid, empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
    set
}

/// Blocks a signal in this thread.
pub fn block(signal: Signal) {
    let set = only(signal);
    // SAFETY: `set` is a valid set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Whether a blocked signal waits for this thread.
#[must_use]
pub fn is_pending(signal: Signal) -> bool {
    let mut set = only(signal);
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigpending(&raw mut set) };
    // SAFETY: `set` is a valid set.
    unsafe { libc::sigismember(&raw const set, signal.as_raw()) == 1 }
}

/// Waits for the next ring.
///
/// # Panics
/// If there is no bell.
#[must_use]
pub fn next_ring() -> Ring {
    let mut bytes = [0; 12];
    let got = loop {
        match rustix::io::read(&bell().0, &mut bytes) {
            Err(rustix::io::Errno::INTR) => {}
            got => break got.expect("cannot read the bell"),
        }
    };
    assert_eq!(got, bytes.len(), "a ring is written whole");
    let word = |i| i32::from_ne_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
    Ring {
        signal: word(0),
        code: word(4),
        tid: word(8),
    }
}

/// Whether no handler ran since the last ring.
///
/// # Panics
/// If there is no bell.
#[must_use]
pub fn is_silent() -> bool {
    let mut fds = [PollFd::new(&bell().0, PollFlags::IN)];
    poll(&mut fds, Some(&rustix::time::Timespec::default())).expect("cannot poll the bell") == 0
}

/// What came with a signal of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its `si_code`.
    pub code: i32,
    /// Its `si_band`.
    pub band: i64,
    /// Its `si_fd`.
    pub fd: RawFd,
}

/// The kernel's siginfo of such a signal, which Rust's `libc` shows the first part of only.
#[repr(C, align(8))]
#[derive(Default)]
struct PollInfo {
    signal: i32,
    errno: i32,
    code: i32,
    band: i64,
    fd: i32,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<PollInfo>() == size_of::<libc::siginfo_t>());

/// Takes a signal that this thread blocks, if one is there.
#[must_use]
pub fn take(signal: Signal) -> Option<Notice> {
    let set = only(signal);
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut info = PollInfo::default();
    let room = (&raw mut info).cast();
    // SAFETY: all three are valid, and there is room for a siginfo.
    let taken = unsafe { libc::sigtimedwait(&raw const set, room, &raw const now) };
    let PollInfo { code, band, fd, .. } = info;
    (taken == signal.as_raw()).then_some(Notice { code, band, fd })
}
