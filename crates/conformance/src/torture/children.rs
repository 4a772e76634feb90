//! The children of a round, and what they complain of.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::board::Side;
use crate::asleep::Task;
use crate::peer;

/// A child at work.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) side: Side,
    pub(super) id: usize,
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.side, self.id)
    }
}

/// Forks a child that ends with its parent, whatever ends that.
pub(super) fn fork(body: impl FnOnce()) -> Pid {
    peer::fork(|| {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        body();
    })
}

/// Takes those of `doomed` out; the others stay.
pub(super) fn take_out(children: &mut Vec<Child>, doomed: Side) -> Vec<Child> {
    children
        .extract_if(.., |child| child.side == doomed)
        .collect()
}

/// `what` did not come to pass within `bound`, and what each child does instead; `note` adds to that.
pub(super) fn describe_hang(
    what: &str,
    bound: Duration,
    children: &[Child],
    note: impl Fn(&Child) -> String,
) -> String {
    let describe = |child: &Child| {
        let pid = child.pid.as_raw_nonzero().get();
        let doing = Task { pid, tid: pid }.doing();
        format!("\n    {child}: {}{doing}", note(child))
    };
    let children: String = children.iter().map(describe).collect();
    format!("hang: {what} within {bound:?}{children}")
}

/// Where children complain, line by line.
pub(super) struct Complaints {
    said: PipeReader,
    /// Dropped when the children are dead.
    say: Option<PipeWriter>,
}

impl Complaints {
    pub(super) fn new() -> io::Result<Self> {
        let (said, say) = io::pipe()?;
        let say = Some(say);
        Ok(Self { said, say })
    }

    /// For a child.
    pub(super) fn complain(&self, side: Side, id: usize, of: impl fmt::Display) {
        let line = format!("{side:?} {id}: {of}\n");
        // Atomic, and read by the parent; there is nobody to tell if it fails.
        let _ = self
            .say
            .as_ref()
            .map(|mut to| to.write_all(line.as_bytes()));
    }

    /// For the parent, when all children are dead: so the stream ends where its own copy does.
    pub(super) fn take(&mut self) -> io::Result<String> {
        let mut said = String::new();
        self.say = None;
        self.said.read_to_string(&mut said)?;
        Ok(said)
    }
}

impl AsFd for Complaints {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.said.as_fd()
    }
}
