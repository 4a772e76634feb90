//! Rounds until enough were killed.

use std::time::{Duration, Instant};

use anyhow::Context;
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};

use super::board::{Board, Side};
use super::plan::{Canary, Peers, Plan};
use super::report::Summary;
use super::residue::Residue;
use super::round::{Round, leak_if};
use crate::engine::Engine;

/// Rounds after which what the parent holds is compared.
const ROUNDS_PER_CHECK: u64 = 32;

/// What to torture, and how much.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose pipes.
    pub engine: Engine,
    /// Stop after so many kills.
    pub kills: u64,
    /// Stop after so long.
    pub most: Option<Duration>,
    /// What the random choices start from.
    pub seed: u64,
    /// Who is not told, or moves nothing, within this time hangs.
    pub hang_bound: Duration,
    /// How those who share a pipe come by it.
    pub peers: Peers,
    /// No writer is unaware of standpipe.
    pub aware_only: bool,
    /// A defect put in on purpose.
    pub canary: Option<Canary>,
}

/// Runs rounds until enough were killed, or the first fault.
///
/// # Errors
/// If the harness itself cannot work: no descriptors, no processes.
pub fn run(settings: &Settings) -> anyhow::Result<Summary> {
    let engine = if settings.engine == Engine::Kernel {
        "kernel"
    } else {
        "standpipe"
    };
    let mut summary = Summary {
        engine,
        seed: settings.seed,
        ..Summary::default()
    };
    let mut told_ns = Vec::new();
    let board = Board::new().context("no memory to share with the children")?;
    let progress = progress_bar(settings.kills);
    let mut rng = Rng::with_seed(settings.seed);
    let started = Instant::now();
    let mut baseline = None;
    let is_over = |summary: &Summary| {
        let late = settings.most.is_some_and(|most| started.elapsed() >= most);
        summary.kills >= settings.kills || late || !summary.faults.is_empty()
    };
    while !is_over(&summary) {
        let mut plan = Plan::new(&mut rng, summary.rounds, settings.peers);
        plan.mixed &= !settings.aware_only;
        let round = Round::new(settings, &board, &plan, rng.fork()).context("no pipe")?;
        let outcome = round.run().with_context(|| format!("in {plan:?}"))?;
        summary.rounds += 1;
        summary.writers_killed += outcome.killed[Side::Writer as usize] as u64;
        summary.readers_killed += outcome.killed[Side::Reader as usize] as u64;
        summary.kills = summary.writers_killed + summary.readers_killed;
        summary.records += outcome.records;
        told_ns.extend(outcome.told_ns);
        summary.faults.extend(
            outcome
                .faults
                .iter()
                .map(|fault| format!("{fault}\n    in {plan:?}")),
        );
        leak_if(settings.canary)?;
        if summary.rounds.is_multiple_of(ROUNDS_PER_CHECK) || is_over(&summary) {
            summary.faults.extend(leaked(&mut baseline)?);
        }
        progress.set_position(summary.kills.min(settings.kills));
    }
    progress.finish_and_clear();
    summary.wall_s = started.elapsed().as_secs_f64();
    summary.set_told(told_ns);
    Ok(summary)
}

/// Compares with what was held at the first check.
fn leaked(baseline: &mut Option<Residue>) -> std::io::Result<Option<String>> {
    let now = Residue::now()?;
    let before = *baseline.get_or_insert(now);
    Ok((now != before).then(|| format!("leaked: the parent held {before:?}, now {now:?}")))
}

/// Shown on a terminal only.
pub(super) fn progress_bar(kills: u64) -> ProgressBar {
    let template = "{wide_bar} {pos}/{len} kills, {per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    ProgressBar::new(kills).with_style(style)
}
