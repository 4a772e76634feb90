//! `standpipe trace recommend`.

use std::fmt::Write as _;

use serde::Serialize;
use standpipe::file::Policy;

use super::RecommendArgs;
use super::accesses::Accesses;
use super::replay::{Run, Settings, World, headline, settings};
use super::table::{Steps, print, print_json};
use crate::units;

/// As fast as the fastest, but for measurement's worth.
const WITHIN: f64 = 1.01;

/// The least memory that a cache is recommended to have.
const LEAST_BYTES: u64 = 1 << 20;

/// The shortest that is tried.
const LEAST_AHEAD_BYTES: u64 = 64 << 10;

/// What was tried, and what is best of it.
#[derive(Serialize)]
struct Advice {
    store: &'static str,
    /// What is recommended, and what comes of it.
    best: Run,
    /// Every policy, with the most memory, reading as far ahead as allowed.
    policies: Vec<Run>,
    /// The best policy, reading ahead less and less far.
    max_ahead: Vec<Run>,
    /// The same, reading ahead as far as is best, with less and less memory.
    cache: Vec<Run>,
}

pub fn main(args: &RecommendArgs) -> anyhow::Result<()> {
    let accesses = Accesses::of_file(&args.file)?;
    let store = args.world.store.preset();
    let world = World::new(&accesses, store, false);
    let most = settings(&args.world, Policy::Adaptive);
    let steps = Steps::new(count(&most));
    let advice = advise(&world, most, store.name(), &steps);
    drop(steps);
    if args.json {
        return print_json(&advice);
    }
    print(&format!(
        "{}\n\n{}",
        headline(&accesses, store),
        advice.words()
    ))
}

/// How many replays there are going to be.
fn count(most: &Settings) -> usize {
    let ahead = halves(most.max_ahead_bytes, LEAST_AHEAD_BYTES).count();
    Policy::ALL.len() + ahead + halves(most.cache_bytes, LEAST_BYTES).count()
}

fn advise(world: &World, most: Settings, store: &'static str, steps: &Steps) -> Advice {
    let try_all = |all: Vec<Settings>| -> Vec<Run> {
        all.into_iter()
            .map(|settings| steps.step(|| world.run(settings)))
            .collect()
    };
    let with = |policy| Settings { policy, ..most };
    let policies = try_all(Policy::ALL.map(with).to_vec());
    let best = best_policy(&policies).settings;

    let with = |max_ahead_bytes| Settings {
        max_ahead_bytes,
        ..best
    };
    let max_ahead = halves(best.max_ahead_bytes, LEAST_AHEAD_BYTES);
    let max_ahead = try_all(max_ahead.map(with).collect());
    let best = least(&max_ahead).settings;

    let with = |cache_bytes| Settings {
        cache_bytes,
        ..best
    };
    let cache = halves(best.cache_bytes, LEAST_BYTES);
    let cache = try_all(cache.map(with).collect());
    Advice {
        store,
        best: least(&cache).clone(),
        policies,
        max_ahead,
        cache,
    }
}

/// Of those that are about as fast as the fastest, one that reads about the least; of equals, ours,
/// which is the last one.
fn best_policy(runs: &[Run]) -> &Run {
    let fastest = fastest_s(runs);
    let fast = || runs.iter().filter(|run| run.seconds <= fastest * WITHIN);
    let least = fast().map(|run| run.io_bytes).min().unwrap_or(0);
    let best = fast().rfind(|run| run.io_bytes as f64 <= least as f64 * WITHIN);
    best.expect("the fastest one is as fast as itself")
}

/// The least that is about as fast as the fastest, and everything above it, too.
fn least(runs: &[Run]) -> &Run {
    let fastest = fastest_s(runs);
    let is_good = |run: &&Run| run.seconds <= fastest * WITHIN;
    let from = runs.iter().position(|run| is_good(&run)).unwrap_or(0);
    let good = runs[from..].iter().take_while(is_good);
    good.last().expect("the fastest one is as fast as itself")
}

fn fastest_s(runs: &[Run]) -> f64 {
    runs.iter()
        .map(|run| run.seconds)
        .fold(f64::INFINITY, f64::min)
}

fn halves(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from), move |bytes| Some(bytes / 2))
        .enumerate()
        .take_while(move |(number, bytes)| *number == 0 || *bytes >= to)
        .map(|(_, bytes)| bytes)
}

impl Advice {
    fn words(&self) -> String {
        let settings = &self.best.settings;
        let (ahead, cache) = (settings.max_ahead_bytes, settings.cache_bytes);
        let mut text = String::new();
        let mut line = |option: &str, value: &str, why: &str| {
            let _ = writeln!(text, "{:<24}{why}", format!("--{option} {value}"));
        };
        line("policy", settings.policy.name(), &self.why_policy());
        let why = why(&self.max_ahead, ahead, |s| s.max_ahead_bytes);
        line("max-ahead", &option(ahead), &why);
        let why = self::why(&self.cache, cache, |s| s.cache_bytes);
        line("cache", &option(cache), &why);
        let _ = write!(
            text,
            "\nTogether: {}, {} I/Os of {} on average, {:.1} % hits, {} wasted.\n\
             For `standpipe cat`, the options as they are; for a program that uses `standpipe::file`:\n  \
             STANDPIPE_CACHE_BYTES={}\n  \
             Options::new().policy(Policy::{:?}).max_ahead_bytes({})\n",
            rate(&self.best),
            self.best.ios,
            units::binary(self.best.avg_io_bytes as usize),
            self.best.hit_rate * 100.0,
            units::amount(self.best.wasted_bytes as f64),
            option(cache),
            settings.policy,
            in_rust(ahead),
        );
        text
    }

    /// The best policy, then the others, the fastest first.
    fn why_policy(&self) -> String {
        let is_best = |run: &&Run| run.settings.policy == self.best.settings.policy;
        let (best, mut others): (Vec<&Run>, Vec<&Run>) = self.policies.iter().partition(is_best);
        others.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let mut text = rate(best[0]);
        for equals in others.chunk_by(|a, b| rate(a) == rate(b)) {
            let names = equals.iter().map(|run| run.settings.policy.name());
            let names = names.collect::<Vec<_>>().join(", ");
            let _ = write!(text, "; {names} {}", rate(equals[0]));
        }
        let next = others.first();
        if let Some(next) = next.filter(|next| next.seconds <= best[0].seconds * WITHIN)
            && best[0].io_bytes as f64 * WITHIN < next.io_bytes as f64
        {
            let spared = units::amount((next.io_bytes - best[0].io_bytes) as f64);
            let _ = write!(
                text,
                "; it reads {spared} less than {}",
                next.settings.policy
            );
        }
        text
    }
}

/// Why not more, and why not less.
fn why(runs: &[Run], bytes: u64, of: impl Fn(&Settings) -> u64) -> String {
    let at = runs.iter().position(|run| of(&run.settings) == bytes);
    let at = at.unwrap_or_default();
    let mut text = rate(&runs[at]);
    if at > 0 {
        let (most, run) = (of(&runs[0].settings), &runs[0]);
        let _ = write!(text, ", with {} {}", option(most), rate(run));
    }
    if let Some(less) = runs.get(at + 1) {
        let _ = write!(text, ", with {} {}", option(of(&less.settings)), rate(less));
    }
    text
}

fn rate(run: &Run) -> String {
    format!("{}/s", units::amount(run.mb_per_s * 1e6))
}

/// A size as programs have it.
fn in_rust(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        0..10 => bytes.to_string(),
        10..20 => format!("{} << 10", bytes >> 10),
        _ => format!("{} << 20", bytes >> 20),
    }
}

/// A size as options take it.
fn option(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: Policy, max_ahead_bytes: u64, seconds: f64, io_bytes: u64) -> Run {
        Run {
            settings: Settings {
                policy,
                max_ahead_bytes,
                cache_bytes: 1 << 20,
            },
            seconds,
            mb_per_s: 1.0 / seconds,
            ios: 1,
            io_bytes,
            avg_io_bytes: io_bytes,
            hit_rate: 1.0,
            wasted_bytes: 0,
            most_bytes: 0,
        }
    }

    #[test]
    fn the_policy_that_reads_least_wins_among_the_fast() {
        let off = run(Policy::Off, 0, 2.0, 10);
        let legacy = run(Policy::Legacy, 0, 1.0, 30);
        let context = run(Policy::Context, 0, 1.005, 20);
        let adaptive = run(Policy::Adaptive, 0, 1.002, 20);
        let runs = [off, legacy, context, adaptive];
        assert_eq!(best_policy(&runs).settings.policy, Policy::Adaptive);
        assert_eq!(best_policy(&runs[..3]).settings.policy, Policy::Context);
        assert_eq!(best_policy(&runs[..2]).settings.policy, Policy::Legacy);
        assert_eq!(best_policy(&runs[..1]).settings.policy, Policy::Off);
    }

    #[test]
    fn the_least_is_taken_that_costs_nothing() {
        let runs = |seconds: &[f64]| -> Vec<Run> {
            let ahead = seconds.iter().zip(halves(64, 1));
            ahead
                .map(|(s, ahead)| run(Policy::Off, ahead, *s, 1))
                .collect()
        };
        for (seconds, expected) in [
            (&[1.0, 1.0, 1.009, 1.02][..], 16),
            (&[1.0], 64),
            (&[2.0, 1.0, 1.0, 1.5, 1.0], 16),
            (&[1.0, 2.0, 3.0], 64),
        ] {
            let runs = runs(seconds);
            assert_eq!(
                least(&runs).settings.max_ahead_bytes,
                expected,
                "{seconds:?}"
            );
        }
    }

    #[test]
    fn sizes_are_halved_down_to_the_least() {
        assert_eq!(halves(100, 25).collect::<Vec<_>>(), [100, 50, 25]);
        assert_eq!(halves(10, 25).collect::<Vec<_>>(), [10]);
        for (bytes, text) in [
            (64 << 20, "64M"),
            (1 << 30, "1G"),
            (512, "512"),
            (3072, "3K"),
        ] {
            assert_eq!(option(bytes), text);
        }
    }
}
