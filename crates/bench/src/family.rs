//! The processes of one run: forked, released together, heard out, reaped.
//!
//! A parent makes the pipes, [`Family::spawn`]s its children, and calls [`Family::run`]. Each child
//! says that it is ready, waits at the gate, does its job, and sends back a list of numbers, or
//! what went wrong. All of that goes over plain pipes of the kernel, apart from those under test.
//! Whatever happens (an error, a time-out, the parent killed) no child is left behind.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitpid,
};

/// What a child reports.
pub type Numbers = Vec<u64>;

/// A run that reports nothing for so long is stuck: no run takes more than a few seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const OK: u8 = 0;
const FAILED: u8 = 1;

/// The children of one run.
#[derive(Debug)]
pub struct Family {
    children: Vec<Child>,
    /// Each child reads one byte from here when the run begins.
    gate: (OwnedFd, OwnedFd),
    /// Each child writes one byte to here when it is ready.
    ready: (OwnedFd, OwnedFd),
}

#[derive(Debug)]
struct Child {
    pid: Pid,
    name: String,
    report: File,
}

impl Family {
    /// A family without children.
    ///
    /// # Errors
    /// When the pipes for gate and readiness cannot be had.
    pub fn new() -> anyhow::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe to the children");
        Ok(Self {
            children: Vec::new(),
            gate: pipe()?,
            ready: pipe()?,
        })
    }

    /// Forks a child that does `job` with its own copy of `state` once the gate opens. The
    /// parent's `state` comes back: for the next child, or to be dropped.
    ///
    /// # Errors
    /// When there can be no further process, or this process has a second thread: what that
    /// thread holds locked would stay locked in the child for ever.
    pub fn spawn<S>(
        &mut self,
        name: impl Into<String>,
        state: S,
        job: impl FnOnce(S) -> anyhow::Result<Numbers>,
    ) -> anyhow::Result<S> {
        ensure!(
            threads()? == 1,
            "refusing to fork while a second thread runs"
        );
        let (report, send) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
        let parent = getpid();
        // SAFETY: this is the only thread (checked above), so the child finds every lock free and
        // every invariant whole.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()).context("cannot fork"),
            0 => {
                drop(report);
                self.live(parent, File::from(send), || job(state))
            }
            pid => {
                let pid = Pid::from_raw(pid).context("fork gave no process")?;
                self.children.push(Child {
                    pid,
                    name: name.into(),
                    report: report.into(),
                });
                Ok(state)
            }
        }
    }

    /// A child's whole life; `_exit` at its end, since the parent's destructors and buffers are
    /// the parent's.
    fn live(
        &self,
        parent: Pid,
        mut send: File,
        job: impl FnOnce() -> anyhow::Result<Numbers>,
    ) -> ! {
        let life = AssertUnwindSafe(|| {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            ensure!(getppid() == Some(parent), "the parent is gone");
            rustix::io::write(&self.ready.1, b"r")?;
            rustix::io::retry_on_intr(|| rustix::io::read(&self.gate.0, &mut [0; 1]))?;
            job()
        });
        let outcome = catch_unwind(life).unwrap_or_else(|_| Err(anyhow!("panicked")));
        let message = match &outcome {
            Ok(numbers) => {
                let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
                std::iter::once(OK).chain(bytes).collect::<Vec<u8>>()
            }
            Err(error) => format!("{}{error:#}", char::from(FAILED)).into_bytes(),
        };
        let heard = send.write_all(&message).is_ok();
        // SAFETY: ends this process at once, as intended; nothing in it is used afterwards.
        unsafe { libc::_exit(i32::from(!heard || outcome.is_err())) }
    }

    /// Waits until all children are ready, opens the gate, and returns their reports in the order
    /// in which they were spawned.
    ///
    /// # Errors
    /// When a child failed, died, or said nothing for a minute.
    pub fn run(mut self) -> anyhow::Result<Vec<Numbers>> {
        self.open_gate()?;
        self.finish()
    }

    /// Waits until all children are ready, then lets them go.
    ///
    /// # Errors
    /// When a child does not get ready.
    pub fn open_gate(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for _ in 0..self.children.len() {
            await_readable(&self.ready.0, deadline).context("a process did not start")?;
            rustix::io::read(&self.ready.0, &mut [0; 1])?;
        }
        rustix::io::write(&self.gate.1, &vec![b'g'; self.children.len()])?;
        Ok(())
    }

    /// Returns the reports of children that have been let go.
    ///
    /// # Errors
    /// When a child failed, died, or said nothing for a minute.
    pub fn finish(mut self) -> anyhow::Result<Vec<Numbers>> {
        let deadline = Instant::now() + PATIENCE;
        let reports = self.children.iter_mut().map(|child| child.hear(deadline));
        // every child is heard before an error is returned: where a reader found the stream
        // damaged, its writer has no more to say than EPIPE, and is spawned first
        let (mut numbers, mut errors) = (Vec::new(), Vec::new());
        for report in reports {
            match report {
                Ok(report) => numbers.push(report),
                Err(error) => errors.push(error),
            }
        }
        let damage = |error: &anyhow::Error| !format!("{error:#}").contains("Broken pipe");
        let telling = errors.iter().position(damage).unwrap_or(0);
        if errors.is_empty() {
            Ok(numbers)
        } else {
            Err(errors.swap_remove(telling))
        }
    }
}

impl Child {
    fn hear(&mut self, deadline: Instant) -> anyhow::Result<Numbers> {
        let message = self.message(deadline).with_context(|| self.name.clone())?;
        match message.split_first() {
            Some((&OK, bytes)) => {
                let words = bytes
                    .chunks_exact(8)
                    .map(|word| word.try_into().map(u64::from_le_bytes));
                Ok(words.collect::<Result<_, _>>()?)
            }
            Some((_, text)) => bail!("{}: {}", self.name, String::from_utf8_lossy(text)),
            None => bail!("{}: died without a word", self.name),
        }
    }

    fn message(&mut self, deadline: Instant) -> anyhow::Result<Vec<u8>> {
        let mut message = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        loop {
            await_readable(&self.report, deadline)?;
            match self.report.read(&mut chunk)? {
                0 => return Ok(message),
                count => message.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// No child outlives its family.
impl Drop for Family {
    fn drop(&mut self) {
        for child in &self.children {
            let _gone = kill_process(child.pid, Signal::KILL);
        }
        for child in &self.children {
            let _status =
                rustix::io::retry_on_intr(|| waitpid(Some(child.pid), WaitOptions::empty()));
        }
    }
}

/// Waits until `fd` has something to read, or its end.
pub(crate) fn await_readable(fd: impl AsFd, deadline: Instant) -> anyhow::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left)?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => bail!("stuck: it was given up on"),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How many threads this process has.
fn threads() -> anyhow::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")
        .context("cannot count threads")?
        .count())
}
