//! How the last peer left.

use std::io;

use rustix::event::PollFlags;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use standpipe_shm::lane::{Side, Standing};

use super::{End, kernel};

/// How the last process at the other side left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Somebody is there.
    Open,
    /// It closed its end, or handed it on.
    Closed {
        /// Which process.
        pid: u32,
    },
    /// It said that it gave up ([`End::cancel`]).
    Cancelled {
        /// Which process.
        pid: u32,
    },
    /// It ended with the end open: killed, crashed, or without closing.
    Died {
        /// Which process.
        pid: u32,
        /// The signal that killed it, where that is known: to its parent, until it waits for it.
        signal: Option<i32>,
    },
    /// Nobody who knows standpipe was there.
    Unknown,
}

/// What a survivor can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// How the last peer left.
    pub reason: CloseReason,
    /// How many bytes those at the other side who know standpipe, and met somebody, wrote (seen by a
    /// reader) or read (seen by a writer).
    pub committed_bytes: u64,
}

impl End {
    /// How the last process at the other side left, and how much it had moved.
    ///
    /// # Errors
    /// As poll(2).
    pub fn close_reason(&self) -> io::Result<Close> {
        let peers = if self.can_read() {
            Side::Writer
        } else {
            Side::Reader
        };
        let lane = self.shared.lane();
        let committed_bytes = lane.map_or(0, |lane| lane.moved_bytes(peers));
        let gone = PollFlags::HUP | PollFlags::ERR;
        let is_open = !kernel::events(self.borrow(), PollFlags::empty())?.intersects(gone);
        let reason = if is_open {
            CloseReason::Open
        } else {
            reason(lane.and_then(|lane| lane.last_of(peers)))
        };
        Ok(Close {
            reason,
            committed_bytes,
        })
    }
}

fn reason(last: Option<(u32, Standing)>) -> CloseReason {
    match last {
        None => CloseReason::Unknown,
        Some((pid, Standing::Closed)) => CloseReason::Closed { pid },
        Some((pid, Standing::Cancelled)) => CloseReason::Cancelled { pid },
        Some((pid, Standing::Open)) => CloseReason::Died {
            pid,
            signal: signal_of(pid),
        },
    }
}

/// Which signal killed a child of ours. It stays to be waited for.
fn signal_of(pid: u32) -> Option<i32> {
    // A peer may have written any number there.
    let pid = Pid::from_raw(pid.try_into().ok()?)?;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), options)
        .ok()??
        .terminating_signal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_no_process_has_is_no_child() {
        for pid in [0, 1 << 31, u32::MAX] {
            assert_eq!(signal_of(pid), None);
        }
    }
}
