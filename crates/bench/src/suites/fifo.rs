//! Chunks of several sizes through a FIFO, between processes that know nothing of each other: the
//! benchmark of 2012 with which FIFOs were given the code of pipes (1000 chunks of each size).
//!
//! Each process opens the FIFO by its path. In the `cold` cases that is all: 1000 chunks, then the
//! FIFO is closed, and the next one opened, some times. In the others the 1000 chunks are repeated
//! many times over one opening, and the first 1000 are left out: strangers first have to find out
//! about each other. `open-close` and `open-1kib` are in one process: both ends opened, closed, and
//! in between nothing or 1 KiB carried.
//!
//! A chunk begins and ends with its number; one word in between is compared as well, another one
//! from chunk to chunk: at 64 bytes there is no time for more.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use super::Pace;
use crate::clock::{Stop, now_ns};
use crate::engine::{Face, Kind, Sink, Source};
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::record::Metric;
use crate::verify::Block;

/// Of the published benchmark; also how many are written between two looks at the clock.
const CHUNKS: u64 = 1000;
const WORD_BYTES: usize = size_of::<u64>();
/// FIFOs between two looks at the clock.
const OPENINGS_PER_LOOK: u64 = 32;

/// Sizes of a chunk, by the names of their cases.
pub const SIZES: [(&str, usize); 5] = [
    ("64", 64),
    ("512", 512),
    ("4k", 4 << 10),
    ("16k", 16 << 10),
    ("64k", 64 << 10),
];

/// What is carried between opening and closing, by the names of the cases.
const OPENINGS: [(&str, usize); 2] = [("open-close", 0), ("open-1kib", 1024)];

/// What to run.
#[derive(Debug)]
pub struct Plan {
    dir: TempDir,
    /// From where ours is used.
    pub face: Face,
    /// How many FIFOs a cold run goes through.
    pub openings: usize,
    /// When another run ends.
    pub stop: Stop,
}

impl Plan {
    /// All cases at the given pace.
    ///
    /// # Errors
    /// When there is no temporary directory.
    pub fn new(pace: Pace, face: Face) -> anyhow::Result<Self> {
        match pace {
            Pace::Quick => Self::of(face, 10, Stop::after(Duration::from_millis(250))),
            Pace::Full => Self::of(face, 30, Stop::after(Duration::from_secs(1))),
        }
    }

    /// All cases.
    ///
    /// # Errors
    /// When there is no temporary directory.
    pub fn of(face: Face, openings: usize, stop: Stop) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("cannot make a temporary directory (TMPDIR)")?;
        Ok(Self {
            dir,
            face,
            openings,
            stop,
        })
    }

    /// Two rounds a size, and one for each kind of opening.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let warm = SIZES
            .map(|(case, bytes)| rivals(self.face, case, move |kind| self.repeated(kind, bytes)));
        let cold = SIZES.map(|(case, bytes)| {
            rivals(self.face, &format!("cold-{case}"), move |kind| {
                self.cold(kind, bytes)
            })
        });
        let openings = OPENINGS
            .map(|(case, bytes)| rivals(self.face, case, move |kind| self.opened(kind, bytes)));
        warm.into_iter().chain(cold).chain(openings).collect()
    }

    /// Many thousands of chunks over one opening.
    fn repeated(&self, kind: Kind, bytes: usize) -> anyhow::Result<Sample> {
        // the time is that after the first thousand
        let stop = Stop {
            bytes: 2 * CHUNKS * bytes as u64,
            ..self.stop
        };
        let passages = self.stream(kind, bytes, 1, stop)?;
        let [passage] = &passages[..] else {
            bail!("{} passages of one", passages.len());
        };
        Ok(figures(
            bytes,
            passage.chunks - CHUNKS,
            passage.end_ns - passage.first_ns,
        ))
    }

    /// A thousand chunks over each of several openings.
    fn cold(&self, kind: Kind, bytes: usize) -> anyhow::Result<Sample> {
        let passages = self.stream(kind, bytes, self.openings, Stop::after(Duration::ZERO))?;
        let elapsed_ns = passages.iter().map(|p| p.first_ns - p.start_ns).sum();
        Ok(figures(bytes, CHUNKS * passages.len() as u64, elapsed_ns))
    }

    /// One writer, one reader, `openings` FIFOs one after the other.
    fn stream(
        &self,
        kind: Kind,
        bytes: usize,
        openings: usize,
        stop: Stop,
    ) -> anyhow::Result<Vec<Passage>> {
        let paths = self.make_fifos(openings)?;
        let mut family = Family::new()?;
        let paths = family.spawn("writer", paths, |paths| {
            let written = paths
                .iter()
                .map(|path| write(kind.open_sink(path)?, bytes, stop));
            Ok(written.collect::<anyhow::Result<Vec<_>>>()?.concat())
        })?;
        let paths = family.spawn("reader", paths, |paths| {
            let read = paths
                .iter()
                .map(|path| read(kind.open_source(path)?, bytes));
            Ok(read.collect::<anyhow::Result<Vec<_>>>()?.concat())
        })?;
        let reports = family.run()?;
        drop(paths);
        ensure!(
            (reports[0].len(), reports[1].len()) == (2 * openings, 3 * openings),
            "a side did not report each of {openings} openings"
        );
        let sides = reports[0].chunks_exact(2).zip(reports[1].chunks_exact(3));
        sides
            .map(|(written, read)| Passage::of(written, read))
            .collect()
    }

    /// Opens, carries `bytes`, closes, in one process.
    fn opened(&self, kind: Kind, bytes: usize) -> anyhow::Result<Sample> {
        let paths = self.make_fifos(1)?;
        let mut family = Family::new()?;
        family.spawn("opener", (), |()| open(kind, &paths.0[0], bytes, self.stop))?;
        let reports = family.run()?;
        Ok(vec![(
            Metric::AvgNs,
            reports[0][0] as f64 / reports[0][1] as f64,
        )])
    }

    fn make_fifos(&self, count: usize) -> anyhow::Result<Fifos> {
        let mut fifos = Fifos(Vec::with_capacity(count));
        for number in 0..count {
            let path = self.dir.path().join(number.to_string());
            standpipe::fifo::create(&path, 0o600)?;
            fifos.0.push(path);
        }
        Ok(fifos)
    }
}

/// A round of both engines.
fn rivals<'a>(
    face: Face,
    case: &str,
    run: impl Fn(Kind) -> anyhow::Result<Sample> + Copy + 'a,
) -> Round<'a> {
    let rival = |kind: Kind| Contender::new(kind.engine(), case, move || run(kind));
    face.rivals().map(rival).into()
}

fn figures(bytes: usize, chunks: u64, elapsed_ns: u64) -> Sample {
    let avg_ns = elapsed_ns as f64 / chunks as f64;
    vec![
        (Metric::MbPerS, bytes as f64 * 1e3 / avg_ns),
        (Metric::AvgNs, avg_ns),
    ]
}

/// FIFOs, removed in the end.
#[derive(Debug)]
struct Fifos(Vec<PathBuf>);

impl std::ops::Deref for Fifos {
    type Target = [PathBuf];

    fn deref(&self) -> &[PathBuf] {
        &self.0
    }
}

impl Drop for Fifos {
    fn drop(&mut self) {
        for path in &self.0 {
            let _gone = std::fs::remove_file(path);
        }
    }
}

/// One opening of a FIFO, seen from both sides.
#[derive(Debug)]
struct Passage {
    /// Before the first chunk was written.
    start_ns: u64,
    /// When the first thousand had been read.
    first_ns: u64,
    /// At the end of the file.
    end_ns: u64,
    chunks: u64,
}

impl Passage {
    fn of(written: &[u64], read: &[u64]) -> anyhow::Result<Self> {
        let (&[start_ns, sent], &[first_ns, end_ns, chunks]) = (written, read) else {
            bail!("reports of {} and {} numbers", written.len(), read.len());
        };
        ensure!(
            sent == chunks && sent >= CHUNKS,
            "{sent} chunks were sent, {chunks} arrived"
        );
        Ok(Self {
            start_ns,
            first_ns,
            end_ns,
            chunks,
        })
    }
}

/// Chunks as they are sent and expected.
struct Chunk {
    bytes: Vec<u8>,
    /// Beginning of the last word.
    last: usize,
}

impl Chunk {
    fn new(bytes: usize) -> Self {
        let bytes = Block::new(0, bytes).stamped(0).to_vec();
        Self {
            last: bytes.len() - WORD_BYTES,
            bytes,
        }
    }

    fn numbered(&mut self, number: u64) -> &[u8] {
        self.bytes[..WORD_BYTES].copy_from_slice(&number.to_ne_bytes());
        self.bytes[self.last..].copy_from_slice(&number.to_ne_bytes());
        &self.bytes
    }

    /// Checks what was received as chunk `number`.
    fn check(&self, received: &[u8], number: u64) -> anyhow::Result<()> {
        let words = (self.bytes.len() / WORD_BYTES - 2).max(1) as u64;
        let at = (1 + number % words) as usize * WORD_BYTES;
        let word = at..at + WORD_BYTES;
        let expected = number.to_ne_bytes();
        if received.len() == self.bytes.len()
            && received.starts_with(&expected)
            && received.ends_with(&expected)
            && received[word.clone()] == self.bytes[word]
        {
            return Ok(());
        }
        bail!(
            "chunk {number}: got {} bytes that begin with {:?}, expected {} that begin and end \
             with its number",
            received.len(),
            &received[..received.len().min(WORD_BYTES)],
            self.bytes.len()
        )
    }
}

/// A writer's job over one opening; reports its begin and its chunks.
fn write(mut sink: Sink, bytes: usize, stop: Stop) -> anyhow::Result<Numbers> {
    let mut chunk = Chunk::new(bytes);
    let mut number = 0;
    let start_ns = now_ns();
    loop {
        for _ in 0..CHUNKS {
            number += 1;
            sink.write_all(chunk.numbered(number))?;
        }
        if stop.reached(start_ns, now_ns(), number * bytes as u64, 1) {
            return Ok(vec![start_ns, number]);
        }
    }
}

/// A reader's job over one opening; reports when it had the first thousand, its end, its chunks.
fn read(mut source: Source, bytes: usize) -> anyhow::Result<Numbers> {
    let chunk = Chunk::new(bytes);
    let mut buf = vec![0xFF; bytes];
    let (mut number, mut first_ns) = (0, 0);
    loop {
        let count = source.read_full(&mut buf)?;
        if count == 0 {
            return Ok(vec![first_ns, now_ns(), number]);
        }
        number += 1;
        chunk.check(&buf[..count], number)?;
        if number == CHUNKS {
            first_ns = now_ns();
        }
    }
}

/// Opens and closes a FIFO again and again; reports the time and how often.
fn open(kind: Kind, path: &Path, bytes: usize, stop: Stop) -> anyhow::Result<Numbers> {
    let (mut sent, mut received) = (vec![0; bytes], vec![0; bytes]);
    let mut openings = 0_u64;
    let start_ns = now_ns();
    loop {
        for _ in 0..OPENINGS_PER_LOOK {
            openings += 1;
            sent.fill(openings as u8);
            let (mut source, mut sink) = kind.open_fifo(path)?;
            sink.write_all(&sent)?;
            let count = source.read_full(&mut received)?;
            ensure!(
                count == bytes && sent == received,
                "opening {openings} changed its bytes"
            );
        }
        let now_ns = now_ns();
        if stop.reached(start_ns, now_ns, openings, 1) {
            return Ok(vec![now_ns - start_ns, openings]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canary: chunks damaged anywhere, cut short or swapped are errors.
    #[test]
    fn a_damaged_chunk_is_an_error() {
        let receive = |bytes: &[u8], size| {
            let (source, mut sink) = Kind::Kernel.pipe(1 << 16).unwrap();
            sink.write_all(bytes).unwrap();
            drop(sink);
            read(source, size)
        };
        for size in [64, 4096] {
            let chunks = (1..=6).map(|number| Chunk::new(size).numbered(number).to_vec());
            let intact = chunks.collect::<Vec<_>>().concat();
            assert_eq!(receive(&intact, size).unwrap()[2], 6);
            // the second word of the first chunk, the third of the second, and both ends
            for at in [
                0,
                2 * WORD_BYTES,
                size + 3 * WORD_BYTES + 7,
                size - 1,
                size,
                3 * size - 1,
            ] {
                let mut damaged = intact.clone();
                damaged[at] ^= 1;
                assert!(receive(&damaged, size).is_err(), "{size}: byte {at}");
            }
            assert!(receive(&intact[..size + 9], size).is_err(), "cut short");
            let swapped = [&intact[size..2 * size], &intact[..size]].concat();
            assert!(receive(&swapped, size).is_err(), "swapped");
        }
    }

    #[test]
    fn chunks_that_did_not_arrive_are_an_error() {
        assert_eq!(Passage::of(&[5, 2000], &[7, 9, 2000]).unwrap().end_ns, 9);
        let error = Passage::of(&[5, 2000], &[7, 9, 1999]).unwrap_err();
        assert_eq!(error.to_string(), "2000 chunks were sent, 1999 arrived");
    }
}
