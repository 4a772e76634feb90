//! What this process has to know about its forks: a count of them, and who wants to be told.
//!
//! A lane must exist before a fork to be shared by both sides, so the pipes that have none yet make
//! theirs then; and a forked child must forget what is true of its parent only (thread ids, page
//! tables, lanes kept for later). `pthread_atfork` tells us of both moments. It is called for
//! `fork`, not for a raw `clone`: after one of those, no pipe must be used or made by both
//! sides: lanes made later would be on one side only, those of the pool on both.

use std::sync::Once;

use crate::sync::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Goes up in a child with each fork between the first process and it.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// What to do around a fork.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// In the parent, before.
    pub prepare: fn(),
    /// In the parent, after.
    pub parent: fn(),
    /// In the child, after.
    pub child: fn(),
}

static HOOKS: std::sync::OnceLock<Hooks> = std::sync::OnceLock::new();

/// Has `hooks` called around each fork from now on. The first caller's count.
///
/// # Panics
/// If there is no memory left to note three pointers.
pub fn watch(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
    count();
}

/// Has forks counted from now on, for [`generation`].
///
/// # Panics
/// As [`watch`].
pub fn count() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = PID_NAMESPACE.set(pid_namespace());
        // SAFETY: the three handlers are functions that live for ever.
        let status = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        // Without memory for this note there is none for pipes either.
        assert_eq!(status, 0, "pthread_atfork: out of memory");
    });
}

/// Whether this process has left the pid namespace that it was in when its forks were first watched.
/// Thread ids, which robust locks are made of, then mean something else here.
pub fn is_in_other_pid_namespace() -> bool {
    *PID_NAMESPACE.get_or_init(pid_namespace) != pid_namespace()
}

static PID_NAMESPACE: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();

/// See `pid_namespaces(7)`.
pub(crate) fn pid_namespace() -> Option<u64> {
    Some(rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino)
}

/// Closes a descriptor that a child inherited and has no owner in it.
pub fn close(fd: std::os::fd::RawFd) {
    crate::private_fd::forget(fd);
    // SAFETY: its owner was a thread of the parent, which does not exist in the child.
    unsafe { rustix::io::close(fd) };
}

extern "C" fn prepare() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.prepare)();
    }
}

extern "C" fn parent() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.parent)();
    }
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if let Some(hooks) = HOOKS.get() {
        (hooks.child)();
    }
}
