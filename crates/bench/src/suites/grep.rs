//! `cat` of a 50 MB file into a `grep` that finds nothing: the published `grep`.
//!
//! Cases: `run` puts the shell against `standpipe run`; `aware-cat` puts it against a process that
//! copies the file into a standpipe, the other end of which is the standard input of the same
//! unsuspecting `grep`.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use standpipe::pipe::{Builder, WriteEnd};

use crate::corpus::Corpus;
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};
use crate::shell::{Expected, Runner, run, without_input};

const PATTERN: &str = "no line of any text has this in it";
const FILE: &str = "text";
/// What `cat` reads at a time.
const CAT_BYTES: usize = 128 << 10;
/// The largest that the kernel gives to anybody, as `standpipe run` takes.
const CAPACITY_BYTES: usize = 1 << 20;

/// What to run.
#[derive(Debug)]
pub struct Plan {
    corpus: Corpus,
    standpipe: PathBuf,
    expected: RefCell<Expected>,
}

impl Plan {
    /// Makes the file. `standpipe` is the program that knows `run`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn new(file_bytes: usize, standpipe: PathBuf) -> anyhow::Result<Self> {
        let corpus = Corpus::new()?;
        corpus.text(FILE, file_bytes)?;
        // grep's way of saying that there was no such line
        Ok(Self {
            corpus,
            standpipe,
            expected: Expected::status(1).into(),
        })
    }

    /// One round.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let [run, aware] = ["run", "aware-cat"];
        let shell = Contender {
            engine: Engine::Shell,
            cases: vec![run.into(), aware.into()],
            run: Box::new(|| self.pipeline(&Runner::Shell)),
        };
        let ours = Contender::new(Engine::Standpipe, run, || {
            self.pipeline(&Runner::Standpipe(self.standpipe.clone()))
        });
        let aware = Contender::new(Engine::Standpipe, aware, || self.aware_cat());
        vec![vec![shell, ours, aware]]
    }

    fn pipeline(&self, runner: &Runner) -> anyhow::Result<Sample> {
        let pipeline = format!("cat {FILE} | grep -c '{PATTERN}'");
        let command = without_input(runner.command(&pipeline));
        let (wall_s, outcome) = run(command, self.corpus.dir(), || Ok(()))?;
        self.expected.borrow_mut().check(&outcome)?;
        Ok(vec![(Metric::WallS, wall_s)])
    }

    fn aware_cat(&self) -> anyhow::Result<Sample> {
        let (source, sink) = Builder::new().capacity_bytes(CAPACITY_BYTES).build()?;
        let mut grep = Command::new("grep");
        grep.args(["-c", PATTERN]).stdin(source);
        let file = self.corpus.dir().join(FILE);
        let mut family = Family::new()?;
        let (wall_s, outcome) = run(grep, self.corpus.dir(), || {
            let sink = family.spawn("cat", sink, |sink| cat(&file, sink))?;
            drop(sink);
            family.open_gate()
        })?;
        family.finish()?;
        self.expected.borrow_mut().check(&outcome)?;
        Ok(vec![(Metric::WallS, wall_s)])
    }
}

/// Copies the file into the pipe.
fn cat(path: &Path, mut sink: WriteEnd) -> anyhow::Result<Numbers> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut buf = vec![0; CAT_BYTES];
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(Vec::new()),
            count => sink.write_all(&buf[..count])?,
        }
    }
}
