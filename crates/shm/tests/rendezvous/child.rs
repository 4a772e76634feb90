//! Processes beside the test.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::pipe::pipe;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::support::{PATIENCE, events};

/// A child process, killed when the test is done with it.
pub struct Child(pub Pid);

impl Child {
    /// Runs `work` in a forked child; what it returns (true: all is well) is its exit status.
    pub fn run(work: impl FnOnce() -> bool) -> Self {
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

    pub fn kill(&self) {
        rustix::process::kill_process(self.0, Signal::KILL).unwrap();
    }

    pub fn ends_well(self) -> bool {
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
pub fn sleep_for_ever() -> ! {
    let (never, _writer) = pipe().unwrap();
    loop {
        events(never.as_fd(), &PATIENCE);
    }
}
