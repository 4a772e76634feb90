//! What has passed so far, and the line on the terminal that says so.

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;

/// What is over sooner needs no progress.
const PATIENCE: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(250);
/// "Now" is the average over so long.
const NOW: Duration = Duration::from_secs(2);

/// Counts what passes.
#[derive(Debug)]
pub struct Meter {
    counts: Mutex<Counts>,
    pub started: Instant,
}

/// What passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub bytes: u64,
    /// What of it came through lanes.
    pub lane_bytes_read: u64,
    /// What of it left through lanes.
    pub lane_bytes_written: u64,
}

impl Meter {
    pub fn new() -> Self {
        Self {
            counts: Mutex::default(),
            started: Instant::now(),
        }
    }

    pub fn add(&self, bytes: usize) {
        self.lock().bytes += bytes as u64;
    }

    pub fn add_lane_bytes(&self, read: u64, written: u64) {
        let mut counts = self.lock();
        counts.lane_bytes_read += read;
        counts.lane_bytes_written += written;
    }

    pub fn counts(&self) -> Counts {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress on standard error, if that is a terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// `total_bytes` where it is known how much will pass.
    pub fn new(name: Option<&str>, total_bytes: Option<u64>, wanted: bool) -> Self {
        if !wanted || !io::stderr().is_terminal() {
            return Self {
                bar: ProgressBar::hidden(),
            };
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let bar = ProgressBar::with_draw_target(total_bytes, target);
        let line = match total_bytes {
            Some(_) => "{prefix}{msg}  {elapsed} [{wide_bar}] {percent:>3} %  ETA {eta}",
            None => "{prefix}{msg}  {elapsed}",
        };
        let style = ProgressStyle::with_template(line).expect("a valid template");
        bar.set_style(style.progress_chars("=> "));
        if let Some(name) = name {
            bar.set_prefix(format!("{name}: "));
        }
        Self { bar }
    }

    pub fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Draws until the other end of `done` is dropped. `level` says how full the reservoir is.
    pub fn show(&self, meter: &Meter, level: impl Fn() -> Option<f64>, done: &Receiver<()>) {
        let mut wait = PATIENCE;
        let mut history = vec![(meter.started, 0)];
        while done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            self.draw(meter, &mut history, level());
            wait = INTERVAL;
        }
        self.clear();
    }

    /// Takes the line away, for good.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Takes the line away for as long as `say` writes to standard error.
    pub fn suspend(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    /// `history`: when how much had passed, for so long as that is "now".
    fn draw(&self, meter: &Meter, history: &mut Vec<(Instant, u64)>, level: Option<f64>) {
        let (now, bytes) = (Instant::now(), meter.counts().bytes);
        history.retain(|(then, _)| now.duration_since(*then) <= NOW);
        history.push((now, bytes));
        let (then, before) = history[0];
        let rate = |bytes: u64, since| {
            let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
            units::amount(bytes as f64 / seconds)
        };
        self.bar.set_position(bytes);
        let level = level.map_or(String::new(), |level| {
            format!("  {:>3.0} % full", level * 100.0)
        });
        self.bar.set_message(format!(
            "{:>7}  {:>7}/s  avg {:>7}/s{level}",
            units::amount(bytes as f64),
            rate(bytes - before, then),
            rate(bytes, meter.started),
        ));
        self.bar.tick();
    }
}
