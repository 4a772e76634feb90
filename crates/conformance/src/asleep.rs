//! Knowing that a task sleeps in a system call, instead of waiting and hoping.
//!
//! `/proc/PID/task/TID` tells the state, the system call and how often the task went to sleep. A
//! task that is seen in the same nap a few times in a row, in a call that waits for a peer, is
//! asleep for good: what could wake it comes from the test.

use std::fs;

/// The system calls in which an end may wait for its peer.
const WAITING_CALLS: [libc::c_long; 18] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_io_uring_enter,
];

/// How often the same nap must be seen. Two would do; a page fault or a lock of the loader can
/// look like a nap, but not for several looks in a row.
const SIGHTINGS: usize = 4;

/// A task: a thread, of this process or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
}

/// One stay in one system call.
#[derive(PartialEq, Eq)]
struct Nap {
    call: libc::c_long,
    /// Times the task gave up the processor by itself: changes with every nap.
    switches: u64,
}

impl Task {
    /// Waits until the task sleeps in a call that waits for a peer.
    ///
    /// # Panics
    /// If the task ends instead. The watchdog of the test is the bound of the wait.
    pub(crate) fn until_asleep(self) {
        let mut last = None;
        let mut sightings = 0;
        while sightings < SIGHTINGS {
            let nap = self.nap();
            sightings = if nap.is_some() && nap == last {
                sightings + 1
            } else {
                0
            };
            last = nap;
            std::thread::yield_now();
        }
    }

    /// What the task does, for people: its state and system call.
    pub(crate) fn doing(self) -> String {
        let status = self.file("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        format!(
            "state {}, system call {}",
            state.unwrap_or("gone").trim(),
            self.file("syscall").trim()
        )
    }

    fn nap(self) -> Option<Nap> {
        let status = self.file("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map_or("", str::trim)
        };
        let state = field("State:");
        assert!(
            !status.is_empty() && !state.starts_with('Z'),
            "the peer ended, asleep expected"
        );
        let call = self.file("syscall").split(' ').next()?.parse().ok()?;
        let waits = state.starts_with('S') && WAITING_CALLS.contains(&call);
        let switches = field("voluntary_ctxt_switches:").parse().ok()?;
        waits.then_some(Nap { call, switches })
    }

    /// A file about the task; empty once the task is gone.
    fn file(self, name: &str) -> String {
        let Self { pid, tid } = self;
        fs::read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).unwrap_or_default()
    }
}
