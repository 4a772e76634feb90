//! Signals, as events of the loop that waits for the stages.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level;

use super::launch::Process;

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Ctrl-C or Ctrl-\: the terminal sent it to the stages as well. We outlive them, so as to
    /// leave the terminal tidy.
    Interrupt(i32),
    /// Sent to standpipe, meant for the pipeline.
    Forward(i32),
    /// Ctrl-Z: the stages stop, and so do we.
    Stop,
    /// The terminal has another size.
    Resize,
}

/// One stream per signal: its bytes say which came.
pub struct Signals {
    streams: Vec<(i32, UnixStream)>,
}

impl Signals {
    /// Takes over the signals. One that is ignored (`nohup`, a background job) stays ignored, for
    /// the stages too.
    pub fn take_over(stop_and_resize: bool) -> anyhow::Result<Self> {
        let ignored = ignored_mask();
        let mut signals = vec![SIGINT, SIGQUIT, SIGTERM, SIGHUP];
        if stop_and_resize {
            signals.extend([SIGTSTP, SIGWINCH]);
        }
        let mut streams = Vec::new();
        for signal in signals {
            if ignored & (1 << (signal - 1)) != 0 {
                continue;
            }
            let (ours, handlers) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            low_level::pipe::register(signal, handlers)?;
            streams.push((signal, ours));
        }
        Ok(Self { streams })
    }

    /// What to wait on.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.streams.iter().map(|(_, stream)| stream.as_fd())
    }

    /// What came since the last call.
    pub fn drain(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for (signal, stream) in &mut self.streams {
            let mut bytes = [0; 64];
            if matches!(stream.read(&mut bytes), Ok(1..)) {
                events.push(match *signal {
                    SIGINT | SIGQUIT => Event::Interrupt(*signal),
                    SIGTSTP => Event::Stop,
                    SIGWINCH => Event::Resize,
                    other => Event::Forward(other),
                });
            }
        }
        events
    }
}

/// The signals that this process ignores, as bits.
fn ignored_mask() -> u64 {
    let status = procfs::process::Process::myself().and_then(|myself| myself.status());
    status.map_or(0, |status| status.sigign)
}

/// Sends a signal to a stage that still runs.
pub fn forward(process: &Process, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = pidfd_send_signal(&process.pidfd, signal);
    }
}

/// Stops as Ctrl-Z stops any program; returns when continued.
pub fn stop() {
    let _ = low_level::emulate_default_handler(SIGTSTP);
}

/// Dies of the signal, so that whoever waits for standpipe learns of it.
pub fn die_of(signal: i32) {
    let _ = low_level::emulate_default_handler(signal);
}
