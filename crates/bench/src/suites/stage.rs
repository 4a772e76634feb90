//! `cat FILE | X | cat`: what evens out a pipeline from within it, against the known tools.
//!
//! The output goes to `/dev/null` while the time is taken: reading it once more would add the same
//! to all and hide the differences. After each timed run, the same pipeline runs into a checksum.
//!
//! Cases are named after the rival and its options. A rival as it comes, and with the options that
//! measured best among those tried (pv: 64 KiB to 4 MiB with and without splice; mbuffer: blocks of
//! 64 KiB to 4 MiB). In `own-cats` the two `cat` around ours are `standpipe cat`.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use super::Pace;
use crate::corpus::Corpus;
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};
use crate::shell::{Expected, Runner, is_program, run, without_input};

const FILE: &str = "text";
/// The case in which ours has its own kind on both sides.
const OWN_CATS: &str = "own-cats";

/// A tool that stands in the middle of a pipeline.
#[derive(Clone, Debug)]
pub struct Rival {
    /// Who it is.
    pub engine: Engine,
    /// The name of its case.
    pub case: &'static str,
    /// How it is called.
    pub stage: &'static str,
}

/// All rivals.
const RIVALS: [Rival; 4] = [
    Rival {
        engine: Engine::Pv,
        case: "pv",
        stage: "pv -q",
    },
    Rival {
        engine: Engine::Pv,
        case: "pv-1M",
        stage: "pv -q -B 1M",
    },
    Rival {
        engine: Engine::Mbuffer,
        case: "mbuffer",
        stage: "mbuffer -q -Q",
    },
    Rival {
        engine: Engine::Mbuffer,
        case: "mbuffer-128k",
        stage: "mbuffer -q -Q -s 128k -m 64M",
    },
];

/// The rivals that this machine has; says which it lacks.
///
/// # Errors
/// When it has none.
pub fn installed() -> anyhow::Result<Vec<Rival>> {
    let program = |rival: &Rival| rival.engine.to_string();
    let (here, missing): (Vec<_>, Vec<_>) = RIVALS
        .into_iter()
        .partition(|rival| is_program(&program(rival)));
    ensure!(
        !here.is_empty(),
        "neither pv nor mbuffer is installed; on Debian: apt-get install pv mbuffer"
    );
    let mut names = missing.iter().map(program).collect::<Vec<_>>();
    names.dedup();
    for name in names {
        eprintln!("note: {name} is not installed (apt-get install {name}): its cases are left out");
    }
    Ok(here)
}

/// What to run.
#[derive(Debug)]
pub struct Plan {
    corpus: Corpus,
    standpipe: PathBuf,
    rivals: Vec<Rival>,
    bytes: usize,
    expected: RefCell<Expected>,
}

impl Plan {
    /// Makes the file, of a size that keeps the pace.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn new(pace: Pace, standpipe: PathBuf, rivals: Vec<Rival>) -> anyhow::Result<Self> {
        let bytes = match pace {
            Pace::Quick => 256 << 20,
            Pace::Full => 1 << 30,
        };
        Self::of(bytes, standpipe, rivals)
    }

    /// Makes the file. `standpipe` is the program that knows `buffer` and `cat`.
    ///
    /// # Errors
    /// When the file cannot be made or read.
    pub fn of(bytes: usize, standpipe: PathBuf, rivals: Vec<Rival>) -> anyhow::Result<Self> {
        let corpus = Corpus::new()?;
        corpus.text(FILE, bytes)?;
        let plan = Self {
            corpus,
            standpipe,
            rivals,
            bytes,
            expected: Expected::status(0).into(),
        };
        // the first outcome is the one that the others are held against
        plan.outcome(&format!("cksum < {FILE}"))?;
        Ok(plan)
    }

    /// One round.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let rival = |(index, rival): (usize, &Rival)| {
            let stage = rival.stage;
            let mut contender =
                Contender::new(rival.engine, rival.case, move || self.run("cat", stage));
            if index == 0 {
                contender.cases.push(OWN_CATS.into());
            }
            contender
        };
        let ours = Contender {
            engine: Engine::Standpipe,
            cases: self
                .rivals
                .iter()
                .map(|rival| rival.case.to_owned())
                .collect(),
            run: Box::new(|| self.run("cat", BUFFER)),
        };
        let among_our_own = Contender::new(Engine::Standpipe, OWN_CATS, || {
            self.run("\"$STANDPIPE\" cat", BUFFER)
        });
        let rivals = self.rivals.iter().enumerate().map(rival);
        vec![rivals.chain([ours, among_our_own]).collect()]
    }

    fn run(&self, cat: &str, stage: &str) -> anyhow::Result<Sample> {
        let pipeline = format!("{cat} {FILE} | {stage} | {cat}");
        let command = self.command(&format!("{pipeline} > /dev/null"));
        let (wall_s, outcome) = run(command, self.corpus.dir(), || Ok(()))?;
        Expected::status(0).check(&outcome)?;
        self.outcome(&format!("{pipeline} | cksum"))?;
        let mb_per_s = self.bytes as f64 / 1e6 / wall_s;
        Ok(vec![(Metric::MbPerS, mb_per_s), (Metric::WallS, wall_s)])
    }

    /// Holds what the pipeline prints against what was printed before.
    fn outcome(&self, pipeline: &str) -> anyhow::Result<()> {
        let (_, outcome) = run(self.command(pipeline), self.corpus.dir(), || Ok(()))?;
        self.expected.borrow_mut().check(&outcome)
    }

    fn command(&self, pipeline: &str) -> Command {
        let mut command = without_input(Runner::Shell.command(pipeline));
        command.env("STANDPIPE", &self.standpipe);
        command
    }
}

/// Ours.
const BUFFER: &str = "\"$STANDPIPE\" buffer --quiet";
