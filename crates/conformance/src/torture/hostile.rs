//! Rounds with a hostile peer: a child that holds the lane's memory, and writes whatever it likes
//! into the shared page, at any time, while others read and write.
//!
//! Nothing is promised about the bytes that come then. What is:
//!
//! 1. Nobody crashes: no signal, no panic.
//! 2. A call gives bytes, the end of the file, `EPIPE`, `WouldBlock`, or says that the lane is
//!    corrupted. There is no other error.
//! 3. A call of a non-blocking end comes back, whatever the hostile one does meanwhile.
//! 4. Once the hostile one is dead, and all peers of the other side, everybody is told: the calls of
//!    blocking ends come back, and the process ends.

mod round;
mod scribbler;

use std::fmt;
use std::time::Instant;

use anyhow::Context;
use fastrand::Rng;
use serde::Serialize;

use super::board::Board;
use super::run::{Settings, progress_bar};
use round::{Plan, Round};

/// What a run with hostile peers came to.
#[derive(Debug, Default, Serialize)]
pub struct HostileSummary {
    /// What the run can be repeated from, as far as random instants can.
    pub seed: u64,
    /// Rounds, each with a pipe and a hostile peer of its own.
    pub rounds: u64,
    /// Words that the hostile ones wrote.
    pub scribbles: u64,
    /// Calls of the honest ones that came back.
    pub calls: u64,
    /// Of these, those that said that the lane is corrupted.
    pub corrupted: u64,
    /// How long it took.
    pub wall_s: f64,
    /// What went wrong, with the round.
    pub faults: Vec<String>,
}

/// Runs one round for each kill that is asked for, or up to the first fault.
///
/// # Errors
/// If the harness itself cannot work: no descriptors, no processes.
pub fn run_hostile(settings: &Settings) -> anyhow::Result<HostileSummary> {
    let mut summary = HostileSummary {
        seed: settings.seed,
        ..HostileSummary::default()
    };
    let board = Board::new().context("no memory to share with the children")?;
    let progress = progress_bar(settings.kills);
    let mut rng = Rng::with_seed(settings.seed);
    let started = Instant::now();
    let is_late = || settings.most.is_some_and(|most| started.elapsed() >= most);
    while summary.rounds < settings.kills && !is_late() && summary.faults.is_empty() {
        let plan = Plan::new(&mut rng);
        let outcome = Round::new(settings, &board, &plan, rng.fork())
            .context("no pipe")?
            .run()
            .with_context(|| format!("in {plan:?}"))?;
        summary.rounds += 1;
        summary.scribbles += outcome.scribbles;
        summary.calls += outcome.calls;
        summary.corrupted += outcome.corrupted;
        let number = summary.rounds;
        let in_plan = |fault| format!("{fault}\n    in round {number}, {plan:?}");
        summary
            .faults
            .extend(outcome.faults.into_iter().map(in_plan));
        progress.set_position(summary.rounds);
    }
    progress.finish_and_clear();
    summary.wall_s = started.elapsed().as_secs_f64();
    Ok(summary)
}

impl fmt::Display for HostileSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            rounds,
            scribbles,
            calls,
            corrupted,
            wall_s,
            faults,
        } = self;
        for fault in faults {
            writeln!(f, "FAULT: {fault}")?;
        }
        write!(
            f,
            "torture hostile: {rounds} hostile peers wrote {scribbles} words, {calls} calls came back, \
             {corrupted} of them with \"corrupted\", {wall_s:.1} s, seed {seed}\n{}",
            if faults.is_empty() {
                "nobody crashed, nobody hung"
            } else {
                "FAILED"
            }
        )
    }
}
