//! Whether an interrupted sleep is to be taken up again.
//!
//! `read` and `write` on a kernel pipe go on by themselves after a handler that was installed with
//! `SA_RESTART`; `ppoll` never does (signal(7)). A sleep in `ppoll` that came back with `EINTR` is
//! therefore followed by the question which handlers there are.

/// Whether every handler that this process has installed asks for interrupted calls to be
/// restarted. With handlers of both kinds nobody can tell which one ran; then the answer is no, and
/// the caller sees `EINTR`, as it must expect to. Without any, it was a signal of the C library's own,
/// which restarts.
#[must_use]
pub fn all_restart() -> bool {
    (1..=libc::SIGRTMAX())
        .filter(|signal| !FAULTS.contains(signal))
        .filter_map(handler_flags)
        .all(|flags| flags & libc::SA_RESTART != 0)
}

/// Signals of a thread's own faults: they do not interrupt a sleep. (Rust's runtime installs
/// handlers for two of them.)
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The flags of the handler of `signal`, if it has one.
fn handler_flags(signal: i32) -> Option<i32> {
    // SAFETY: all bits zero are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer means "change nothing"; the result goes into our struct.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    let is_handler = !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    (status == 0 && is_handler).then_some(action.sa_flags)
}

/// Keeps `SIGPIPE` from this thread: writes to a broken pipe then only fail.
pub fn block_broken_pipe() {
    // SAFETY: all bits zero are a valid signal set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGPIPE) };
    // SAFETY: the old set is not wanted, hence the null pointer.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Does `action` without the `SIGPIPE` that it may raise.
pub fn without_broken_pipe<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: all bits zero are a valid signal set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGPIPE) };
    // SAFETY: all bits zero are a valid signal set.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    let was_pending = is_pending(libc::SIGPIPE);
    // SAFETY: both sets are ours.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
    let done = action();
    if !was_pending && is_pending(libc::SIGPIPE) {
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: takes the pending signal off; its details are not wanted, hence the null pointer.
        unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const at_once) };
    }
    // SAFETY: as above; the old set is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    done
}

fn is_pending(signal: i32) -> bool {
    // SAFETY: all bits zero are a valid signal set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigpending(&raw mut set) };
    // SAFETY: as above.
    unsafe { libc::sigismember(&raw const set, signal) == 1 }
}
