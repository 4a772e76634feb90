//! Making and closing pipes and FIFOs, in one process: most pipes of a shell script carry little.
//!
//! `memory` is what each of 10,000 pipes (or as many as the limit on descriptors allows) takes that
//! are open and carried nothing: of the process and of the kernel together. `memory-kernel` is the
//! kernel's part of it. The kernel's figures are those of the whole machine: it should be quiet.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use super::Pace;
use crate::clock::{Stop, now_ns};
use crate::engine::{Face, Kind, Sink, Source};
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::memory::{Memory, raise_descriptors};
use crate::record::Metric;

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Pipe,
    /// With its name, removed at the end.
    Fifo,
}

/// Cases by name, with the bytes that are carried.
const CASES: [(&str, Made, usize); 4] = [
    ("1kib", Made::Pipe, 1024),
    ("idle", Made::Pipe, 0),
    ("fifo-1kib", Made::Fifo, 1024),
    ("fifo-idle", Made::Fifo, 0),
];
/// Pipes between two looks at the clock.
const PIPES_PER_LOOK: u64 = 32;
/// Descriptors that a process needs beside its pipes.
const OTHER_DESCRIPTORS: u64 = 64;

/// What to run.
#[derive(Debug)]
pub struct Plan {
    dir: TempDir,
    /// From where ours is used.
    pub face: Face,
    /// When a run ends.
    pub stop: Stop,
    /// How many pipes are open when the memory is looked at.
    pub open: u64,
}

impl Plan {
    /// All cases at the given pace.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn new(pace: Pace, face: Face) -> anyhow::Result<Self> {
        let time = Duration::from_millis(match pace {
            Pace::Quick => 300,
            Pace::Full => 1000,
        });
        Self::of(face, Stop::after(time), 10_000)
    }

    /// All cases.
    ///
    /// # Errors
    /// When there is no temporary directory.
    pub fn of(face: Face, stop: Stop, open: u64) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("cannot make a temporary directory (TMPDIR)")?;
        Ok(Self {
            dir,
            face,
            stop,
            open,
        })
    }

    /// One round a case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let round = |(case, made, bytes): (&'static str, Made, usize)| -> Round<'_> {
            let rival = |kind: Kind| {
                Contender::new(kind.engine(), case, move || self.run(kind, made, bytes))
            };
            self.face.rivals().map(rival).into()
        };
        let memory = |(case, part): (&'static str, Part)| -> Round<'_> {
            let rival =
                |kind: Kind| Contender::new(kind.engine(), case, move || self.memory(kind, part));
            self.face.rivals().map(rival).into()
        };
        let memories = [("memory", Part::Both), ("memory-kernel", Part::Kernel)];
        CASES
            .map(round)
            .into_iter()
            .chain(memories.map(memory))
            .collect()
    }

    fn run(&self, kind: Kind, made: Made, bytes: usize) -> anyhow::Result<Sample> {
        let path = self.dir.path().join("fifo");
        let mut family = Family::new()?;
        family.spawn("maker", (), |()| match made {
            Made::Pipe => make(bytes, self.stop, || kind.default_pipe()),
            Made::Fifo => make(bytes, self.stop, || fifo(kind, &path)),
        })?;
        let reports = family.run()?;
        Ok(vec![(
            Metric::AvgNs,
            reports[0][0] as f64 / reports[0][1] as f64,
        )])
    }

    fn memory(&self, kind: Kind, part: Part) -> anyhow::Result<Sample> {
        let mut family = Family::new()?;
        family.spawn("keeper", (), |()| keep(kind, self.open))?;
        let reports = family.run()?;
        let [process, kernel, pipes] = reports[0][..] else {
            anyhow::bail!("a report of {} numbers", reports[0].len());
        };
        let bytes = match part {
            Part::Both => process + kernel,
            Part::Kernel => kernel,
        };
        // others may have freed more than these pipes took
        Ok(vec![(
            Metric::BytesEach,
            (bytes as f64 / pipes as f64).max(1.0),
        )])
    }
}

/// Whose memory.
#[derive(Clone, Copy, Debug)]
enum Part {
    Both,
    Kernel,
}

/// A FIFO with both ends open, its name gone already.
fn fifo(kind: Kind, path: &Path) -> anyhow::Result<(Source, Sink)> {
    standpipe::fifo::create(path, 0o600)?;
    let ends = kind.open_fifo(path)?;
    std::fs::remove_file(path)?;
    Ok(ends)
}

/// Makes pipes, carries `bytes` through each; reports the time and how many.
fn make(
    bytes: usize,
    stop: Stop,
    create: impl Fn() -> anyhow::Result<(Source, Sink)>,
) -> anyhow::Result<Numbers> {
    let (mut sent, mut received) = (vec![0; bytes], vec![0; bytes]);
    let mut pipes = 0_u64;
    let start_ns = now_ns();
    loop {
        for _ in 0..PIPES_PER_LOOK {
            pipes += 1;
            sent.fill(pipes as u8);
            let (mut source, mut sink) = create()?;
            if bytes > 0 {
                sink.write_all(&sent)?;
                let count = source.read_full(&mut received)?;
                ensure!(
                    count == bytes && sent == received,
                    "pipe {pipes} changed its bytes"
                );
            }
        }
        let now_ns = now_ns();
        if stop.reached(start_ns, now_ns, pipes, 1) {
            return Ok(vec![now_ns - start_ns, pipes]);
        }
    }
}

/// Holds pipes open; reports the memory of the process and of the kernel, and how many.
fn keep(kind: Kind, wanted: u64) -> anyhow::Result<Numbers> {
    let descriptors = raise_descriptors(2 * wanted + OTHER_DESCRIPTORS)?;
    let count = wanted.min(descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2);
    let mut pipes = Vec::with_capacity(count as usize);
    // the first one brings what all share
    pipes.push(kind.default_pipe()?);
    let before = Memory::now()?;
    for _ in 1..count {
        pipes.push(kind.default_pipe()?);
    }
    let grown = Memory::now()?.since(before);
    Ok(vec![
        grown.process_bytes,
        grown.kernel_bytes,
        pipes.len() as u64 - 1,
    ])
}
