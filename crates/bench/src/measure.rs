//! Runs the rivals of each case in turn, A B A B, and files their figures.

use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use crate::record::{Engine, Metric, Record};
use crate::stats::median;

/// The figures of one run.
pub type Sample = Vec<(Metric, f64)>;

/// Runs once.
pub type Run<'a> = Box<dyn FnMut() -> anyhow::Result<Sample> + 'a>;

/// One rival.
pub struct Contender<'a> {
    /// Who runs.
    pub engine: Engine,
    /// The cases under which its figures are filed: more than one where rivals of several cases
    /// share a run of the other engine.
    pub cases: Vec<String>,
    /// Runs once.
    pub run: Run<'a>,
}

impl<'a> Contender<'a> {
    /// A rival in one case.
    pub fn new(
        engine: Engine,
        case: impl Into<String>,
        run: impl FnMut() -> anyhow::Result<Sample> + 'a,
    ) -> Self {
        Self {
            engine,
            cases: vec![case.into()],
            run: Box::new(run),
        }
    }
}

/// Rivals that take turns.
pub type Round<'a> = Vec<Contender<'a>>;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often each rival runs.
    pub runs: usize,
    /// Where a suite has used up its share of this time, a round ends early, though not before
    /// each of its rivals ran [`FEWEST_RUNS`] times.
    pub budget: Option<Duration>,
}

/// Below this a median says nothing.
pub const FEWEST_RUNS: usize = 3;

/// Runs all rounds of a suite.
///
/// # Errors
/// The first failure of a run, naming suite, case and engine.
pub fn measure(
    suite: &str,
    mut rounds: Vec<Round<'_>>,
    effort: Effort,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Record>> {
    let start = Instant::now();
    let count = rounds.len();
    let total = rounds.iter().map(Vec::len).sum::<usize>() * effort.runs;
    progress.set_length(total as u64);
    progress.set_prefix(suite.to_owned());
    let mut records = Vec::new();
    for (index, round) in rounds.iter_mut().enumerate() {
        let share = |budget: Duration| budget * (index as u32 + 1) / count as u32;
        let deadline = effort.budget.map(|budget| start + share(budget));
        records.extend(take_turns(suite, round, effort.runs, deadline, progress)?);
        let before = rounds_before(total, index + 1, count);
        progress.set_position(before);
    }
    Ok(records)
}

fn rounds_before(total: usize, done: usize, count: usize) -> u64 {
    (total * done / count.max(1)) as u64
}

fn take_turns(
    suite: &str,
    round: &mut Round<'_>,
    runs: usize,
    deadline: Option<Instant>,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Record>> {
    let mut samples = vec![Vec::new(); round.len()];
    for turn in 0..runs {
        if turn >= FEWEST_RUNS && deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        for (contender, samples) in round.iter_mut().zip(&mut samples) {
            let (case, engine) = (contender.cases.join(" "), contender.engine);
            progress.set_message(format!("{case} {engine}"));
            progress.tick();
            let sample = (contender.run)().with_context(|| format!("{suite} {case}, {engine}"))?;
            samples.push(sample);
            progress.inc(1);
        }
    }
    let filed = round.iter().zip(&samples).flat_map(|(contender, samples)| {
        contender
            .cases
            .iter()
            .flat_map(move |case| file(suite, case, contender.engine, samples))
    });
    Ok(filed.collect())
}

/// The records of one rival in one case: one for each metric.
fn file(suite: &str, case: &str, engine: Engine, samples: &[Sample]) -> Vec<Record> {
    let metrics = samples.first().into_iter().flatten().enumerate();
    let record = |(index, &(metric, _)): (usize, &(Metric, f64))| {
        let runs = samples
            .iter()
            .map(|sample| sample[index].1)
            .collect::<Vec<_>>();
        Record {
            suite: suite.to_owned(),
            case: case.to_owned(),
            engine,
            metric,
            unit: metric.unit().to_owned(),
            value: median(&runs),
            runs,
            cpus: None,
        }
    };
    metrics.map(record).collect()
}

/// A progress bar on standard error; hidden where that is not a terminal. It draws when told to:
/// a thread that redraws would forbid to fork.
///
/// # Panics
/// Never: the template is a constant.
#[must_use]
pub fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} {bar:30} {percent:>3}% {wide_msg}");
    ProgressBar::new(0).with_style(style.expect("a valid template"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const THREE: Effort = Effort {
        runs: 3,
        budget: None,
    };

    #[test]
    fn rivals_take_turns_and_their_runs_are_filed_in_order() {
        let log = RefCell::new(String::new());
        let rival = |engine, letter: char, value: f64| {
            let log = &log;
            let mut value = value;
            Contender::new(engine, "case", move || {
                log.borrow_mut().push(letter);
                value += 1.0;
                Ok(vec![(Metric::MbPerS, value), (Metric::AvgNs, -value)])
            })
        };
        let round = vec![
            rival(Engine::Kernel, 'A', 10.0),
            rival(Engine::Standpipe, 'B', 20.0),
        ];
        let records = measure("suite", vec![round], THREE, &ProgressBar::hidden()).unwrap();
        assert_eq!(*log.borrow(), "ABABAB");
        let brief = records
            .iter()
            .map(|r| (r.engine, r.metric, r.value, r.runs.clone()));
        assert_eq!(
            brief.collect::<Vec<_>>(),
            [
                (Engine::Kernel, Metric::MbPerS, 12.0, vec![11.0, 12.0, 13.0]),
                (
                    Engine::Kernel,
                    Metric::AvgNs,
                    -12.0,
                    vec![-11.0, -12.0, -13.0]
                ),
                (
                    Engine::Standpipe,
                    Metric::MbPerS,
                    22.0,
                    vec![21.0, 22.0, 23.0]
                ),
                (
                    Engine::Standpipe,
                    Metric::AvgNs,
                    -22.0,
                    vec![-21.0, -22.0, -23.0]
                ),
            ]
        );
    }

    #[test]
    fn a_shared_run_is_filed_under_each_of_its_cases() {
        let run = Box::new(|| Ok(vec![(Metric::WallS, 1.0)]));
        let cases = vec!["a".into(), "b".into()];
        let round = vec![Contender {
            engine: Engine::Shell,
            cases,
            run,
        }];
        let records = measure("suite", vec![round], THREE, &ProgressBar::hidden()).unwrap();
        assert_eq!(
            records.iter().map(|r| r.case.as_str()).collect::<Vec<_>>(),
            ["a", "b"]
        );
    }

    #[test]
    fn a_spent_budget_ends_a_round_after_the_fewest_runs() {
        let effort = Effort {
            runs: 10,
            budget: Some(Duration::ZERO),
        };
        let rival = Contender::new(Engine::Kernel, "c", || Ok(vec![(Metric::AvgNs, 0.0)]));
        let records = measure("suite", vec![vec![rival]], effort, &ProgressBar::hidden()).unwrap();
        assert_eq!(records[0].runs.len(), FEWEST_RUNS);
    }

    #[test]
    fn a_failure_names_suite_case_and_engine() {
        let rival = Contender::new(Engine::Standpipe, "5x10", || anyhow::bail!("torn"));
        let error = measure("pipe", vec![vec![rival]], THREE, &ProgressBar::hidden());
        assert_eq!(
            format!("{:#}", error.unwrap_err()),
            "pipe 5x10, standpipe: torn"
        );
    }
}
