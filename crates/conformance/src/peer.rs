//! A peer at the other end of a pipe: a thread, a forked child or a stranger, by the setting.
//!
//! A peer owns the ends that it is given and no others: a thread because they are moved into it,
//! a child because it closes all others first (and the parent its copies of those given away).
//! So a test says who holds what in the same words for both.

use std::any::Any;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open};
use serde::{Serialize, de::DeserializeOwned};

use crate::asleep::Task;
use crate::ends::{Ends, Slots};
use crate::setting::{PeerKind, Setting};
use crate::stranger::{self, Meeting};

/// What a peer can report.
pub trait Report: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> Report for T {}

/// A peer at work.
pub struct Peer<R> {
    task: Task,
    work: Work<R>,
}

enum Work<R> {
    Thread(JoinHandle<R>),
    /// The child writes its report, as JSON, to a kernel pipe.
    Child(Pid, OwnedFd),
}

impl Setting {
    /// A peer that does `body` with `ends`.
    #[must_use]
    pub fn spawn<E: Ends, R: Report>(
        self,
        ends: E,
        body: impl FnOnce(E) -> R + Send + 'static,
    ) -> Peer<R> {
        match self.peers {
            PeerKind::Thread => spawn_thread(ends, body),
            kind => spawn_child(kind, ends, body),
        }
    }
}

fn spawn_thread<E: Ends, R: Report>(
    ends: E,
    body: impl FnOnce(E) -> R + Send + 'static,
) -> Peer<R> {
    let (tell, told) = mpsc::channel();
    let handle = std::thread::spawn(move || {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        tell.send(tid).expect("the spawner waits for this");
        body(ends)
    });
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let tid = told.recv().expect("a thread tells its number first");
    Peer {
        task: Task { pid, tid },
        work: Work::Thread(handle),
    }
}

fn spawn_child<E: Ends, R: Report>(kind: PeerKind, ends: E, body: impl FnOnce(E) -> R) -> Peer<R> {
    let (reported, report) = std::io::pipe().expect("no pipe for the report");
    let mut given = Slots::default();
    ends.slots(&mut given);
    let meeting = Meeting::of(kind);
    // The parent keeps its copies until the child has come by its own.
    let mut work = Some((ends, body));
    let pid = fork(|| {
        match &meeting {
            Some(meeting) => meeting.come_by(&given),
            None => stranger::keep_only(&given),
        }
        let (ends, body) = work.take().expect("done once");
        let done = catch_unwind(AssertUnwindSafe(|| body(ends))).map_err(|panic| message(&*panic));
        let json = serde_json::to_vec(&done).expect("reports are plain data");
        (&report)
            .write_all(&json)
            .expect("the spawner reads the report");
    });
    if let Some(meeting) = meeting {
        meeting.see_it_done(&given.get());
    }
    drop(work);
    let task = Task {
        pid: pid.as_raw_nonzero().get(),
        tid: pid.as_raw_nonzero().get(),
    };
    Peer {
        task,
        work: Work::Child(pid, reported.into()),
    }
}

/// The exit code of a forked child that panicked: as of any Rust program.
const PANICKED: i32 = 101;

/// Forks; the child does `body` and exits without running anything of its parent's.
pub(crate) fn fork(body: impl FnOnce()) -> Pid {
    // SAFETY: only the calling thread goes on in the child. The processes of this crate fork
    // from their only thread (or, in a setting of threads, while the others sleep in a pipe
    // call, outside of the allocator), so no lock that the child needs is held by another.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(body)).map_or(PANICKED, |()| 0);
            // SAFETY: ends the child here; its parent's exit handlers are not for it to run.
            unsafe { libc::_exit(code) }
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).expect("cannot fork"),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
        .to_owned()
}

impl<R: Report> Peer<R> {
    /// Waits until the peer sleeps in a call that waits for its own peer.
    pub fn until_asleep(&self) {
        self.task.until_asleep();
    }

    /// Sends a signal to the peer.
    ///
    /// # Panics
    /// If it is gone.
    pub fn signal(&self, signal: Signal) {
        let Task { pid, tid } = self.task;
        // SAFETY: no memory is involved; the peer was not waited for, so the number is its own.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal.as_raw()) };
        assert_eq!(sent, 0, "cannot signal the peer");
    }

    /// The number of the peer's thread.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.task.tid
    }

    /// Waits for the peer's report.
    ///
    /// # Panics
    /// If the peer did, or was killed.
    #[allow(
        clippy::must_use_candidate,
        reason = "many peers have nothing to report"
    )]
    pub fn join(self) -> R {
        match self.work {
            Work::Thread(handle) => handle
                .join()
                .unwrap_or_else(|panic| panic!("the peer: {}", message(&*panic))),
            Work::Child(pid, reported) => {
                let mut json = Vec::new();
                File::from(reported)
                    .read_to_end(&mut json)
                    .expect("cannot read the report");
                let status = wait(pid);
                let report: Result<R, String> = serde_json::from_slice(&json)
                    .unwrap_or_else(|_| panic!("the peer ended without a report: {status:?}"));
                report.unwrap_or_else(|message| panic!("the peer: {message}"))
            }
        }
    }

    /// Stops the peer, which is a child, and returns when it has stopped.
    ///
    /// # Panics
    /// If it ended instead.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_raw(self.task.pid);
        let waited = rustix::process::waitpid(pid, WaitOptions::UNTRACED);
        let (_, status) = waited.expect("cannot wait for a child").expect("it blocks");
        assert!(status.stopped(), "{status:?}");
    }

    /// Kills the peer, which is a child, and returns when it is gone.
    ///
    /// # Panics
    /// If it ended by itself.
    pub fn kill(self) {
        self.signal(Signal::KILL);
        assert_eq!(self.wait().terminating_signal(), Some(libc::SIGKILL));
    }

    /// Waits for the end of the peer, which is a child.
    ///
    /// # Panics
    /// If the peer is a thread.
    #[must_use]
    pub fn wait(self) -> WaitStatus {
        match self.work {
            Work::Thread(_) => panic!("a thread has no exit status"),
            Work::Child(pid, _) => wait(pid),
        }
    }
}

/// Whether a child ends before `deadline`. It stays to be waited for.
pub(crate) fn ends_before(pid: Pid, deadline: Instant) -> io::Result<bool> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec::try_from(left).expect("seconds");
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ended => return Ok(ended? > 0),
        }
    }
}

/// Waits for the end of a child.
pub(crate) fn wait(pid: Pid) -> WaitStatus {
    let waited = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    waited
        .expect("cannot wait for a child")
        .expect("it blocks")
        .1
}
