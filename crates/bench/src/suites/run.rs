//! Ten pipelines as people write them, `sh -c` against `standpipe run`.

use std::cell::RefCell;
use std::path::PathBuf;

use super::Pace;
use crate::corpus::Corpus;
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};
use crate::shell::{Expected, Runner, run, without_input};

/// Cases and their pipelines. The inputs, all text: `big`, `middle`, `small` (files), `tree` (a
/// directory), `middle.gz`.
const PIPELINES: [(&str, &str); 10] = [
    ("cat-wc", "cat big | wc -l"),
    (
        "cat-grep-sort-uniq",
        "cat small | grep -oE '[[:alpha:]]{6,}' | sort | uniq -c",
    ),
    ("tar-gzip", "tar cf - tree | gzip -1"),
    (
        "zcat-awk",
        "zcat middle.gz | awk '{ words += NF } END { print NR, words }'",
    ),
    (
        "dd-sha256sum",
        "dd if=middle bs=64k status=none | sha256sum",
    ),
    (
        "slow-producer",
        "sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do head -c 200000 small; sleep 0.02; done' | cat | wc -c",
    ),
    ("slow-consumer", "cat small | gzip -9 | wc -c"),
    (
        "many-stages",
        "cat middle | cat | cat | cat | tr a-z A-Z | cat | cat | wc -c",
    ),
    (
        "word-count",
        "tr -cs A-Za-z '\\n' < small | sort | uniq -c | sort -n | tail -n 20",
    ),
    ("base64", "base64 -w 0 middle | base64 -d | wc -l"),
];

/// Sizes of the inputs.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of `big`.
    pub big_bytes: usize,
    /// Of `middle`.
    pub middle_bytes: usize,
    /// Of `small` and `tree`.
    pub small_bytes: usize,
}

impl Sizes {
    /// Such that a suite keeps the pace.
    #[must_use]
    pub const fn new(pace: Pace) -> Self {
        let (middle_bytes, small_bytes) = match pace {
            Pace::Quick => (64_000_000, 10_000_000),
            Pace::Full => (400_000_000, 40_000_000),
        };
        Self {
            big_bytes: 1_000_000_000,
            middle_bytes,
            small_bytes,
        }
    }
}

/// What to run.
#[derive(Debug)]
pub struct Plan {
    corpus: Corpus,
    standpipe: PathBuf,
}

impl Plan {
    /// Makes the inputs. `standpipe` is the program that knows `run`.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn new(sizes: Sizes, standpipe: PathBuf) -> anyhow::Result<Self> {
        let corpus = Corpus::new()?;
        corpus.text("small", sizes.small_bytes)?;
        corpus.tree("tree", 50, sizes.small_bytes)?;
        corpus.text("middle", sizes.middle_bytes)?;
        corpus.text("big", sizes.big_bytes)?;
        let gzip = Runner::Shell.command("gzip -1 < middle > middle.gz");
        let (_, outcome) = run(without_input(gzip), corpus.dir(), || Ok(()))?;
        Expected::status(0).check(&outcome)?;
        Ok(Self { corpus, standpipe })
    }

    /// One round a pipeline.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let round = |(case, pipeline): (&'static str, &'static str)| {
            let expected = std::rc::Rc::new(RefCell::new(Expected::status(0)));
            let rivals = [
                (Engine::Shell, Runner::Shell),
                (Engine::Standpipe, Runner::Standpipe(self.standpipe.clone())),
            ];
            let rival = |(engine, runner): (Engine, Runner)| {
                let expected = std::rc::Rc::clone(&expected);
                Contender::new(engine, case, move || {
                    self.run(&runner, pipeline, &mut expected.borrow_mut())
                })
            };
            rivals.map(rival).into()
        };
        PIPELINES.map(round).into()
    }

    fn run(
        &self,
        runner: &Runner,
        pipeline: &str,
        expected: &mut Expected,
    ) -> anyhow::Result<Sample> {
        let command = without_input(runner.command(pipeline));
        let (wall_s, outcome) = run(command, self.corpus.dir(), || Ok(()))?;
        expected.check(&outcome)?;
        Ok(vec![(Metric::WallS, wall_s)])
    }
}
