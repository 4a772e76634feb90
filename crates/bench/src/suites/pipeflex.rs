//! Pairs of a writer that never pauses and a reader that computes after each transfer: the
//! published `pipeflex`.
//!
//! Its options: `-c` children, two to a pipe; `-t` seconds of a run; `-r` microseconds of
//! computation after each transfer that was read, drawn from 0.5r to 1.5r; `-s` KiB of a transfer.
//! A reader computes when it has all of a transfer, however many reads that took: so the rivals
//! compute equally often for the same bytes. Grid and variants are those of [`super::bw`].

use std::io::Write;
use std::time::Duration;

use anyhow::ensure;

use super::{Pace, bw};
use crate::clock::{Stop, now_ns};
use crate::compute::Speed;
use crate::engine::{Face, Kind, Sink, Source};
use crate::family::{Family, Numbers};
use crate::measure::Round;
use crate::verify::{Block, Checker};

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of a transfer.
    pub transfers_kib: Vec<usize>,
    /// Sizes of the pipe.
    pub pipes_kib: Vec<usize>,
    /// From where ours is used.
    pub face: Face,
    /// Processes, two to a pipe.
    pub children: usize,
    /// Computation after a transfer, on average.
    pub compute_us: u64,
    /// When a run ends.
    pub stop: Stop,
    /// How fast this machine computes.
    pub speed: Speed,
}

impl Plan {
    /// The published grid at the given pace: one pair, 50 microseconds of computation. (The
    /// published figures do not say which they are of.)
    #[must_use]
    pub fn new(pace: Pace, face: Face) -> Self {
        let bw = bw::Plan::new(pace, face);
        let time = Duration::from_millis(match pace {
            Pace::Quick => 60,
            Pace::Full => 250,
        });
        Self {
            transfers_kib: bw.transfers_kib,
            pipes_kib: bw.pipes_kib,
            face,
            children: 2,
            compute_us: 50,
            stop: Stop::after(time),
            speed: Speed::measure(),
        }
    }

    /// One round for each transfer size and pipe size.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        bw::cells(
            &self.transfers_kib,
            &self.pipes_kib,
            self.face,
            |kind, transfer_bytes, pipe_bytes| self.run(kind, transfer_bytes, pipe_bytes),
        )
    }

    /// MB/s over all pairs.
    fn run(&self, kind: Kind, transfer_bytes: usize, pipe_bytes: usize) -> anyhow::Result<f64> {
        let mut family = Family::new()?;
        for pair in 0..self.children / 2 {
            let ends = kind.pipe(pipe_bytes)?;
            let ends = family.spawn(format!("writer {pair}"), ends, |(source, sink)| {
                drop(source);
                write(sink, transfer_bytes, self.stop)
            })?;
            let ends = family.spawn(format!("reader {pair}"), ends, |(source, sink)| {
                drop(sink);
                self.read(source, transfer_bytes, pair as u64)
            })?;
            drop(ends);
        }
        let reports = family.run()?;
        let (mut bytes, mut start_ns, mut end_ns) = (0, u64::MAX, 0);
        for pair in reports.chunks_exact(2) {
            let [(start, sent), (end, received)] =
                [0, 1].map(|side| (pair[side][0], pair[side][1]));
            ensure!(
                sent == received,
                "{sent} bytes were sent, {received} arrived"
            );
            bytes += received;
            start_ns = start_ns.min(start);
            end_ns = end_ns.max(end);
        }
        Ok(bytes as f64 * 1e3 / (end_ns - start_ns) as f64)
    }

    /// A reader's job; reports its end and its bytes. Readers of the same number draw the same
    /// times of computation in every run.
    fn read(
        &self,
        mut source: Source,
        transfer_bytes: usize,
        seed: u64,
    ) -> anyhow::Result<Numbers> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut checker = Checker::exact(transfer_bytes);
        let mut buf = vec![0xFF; transfer_bytes];
        let mut bytes = 0;
        loop {
            let count = source.read_full(&mut buf)?;
            checker.check(&buf[..count])?;
            bytes += count as u64;
            if count < transfer_bytes {
                return Ok(vec![now_ns(), bytes]);
            }
            self.speed
                .compute_us(random.u64(self.compute_us / 2..=self.compute_us * 3 / 2));
        }
    }
}

/// A writer's job; reports its begin and its bytes.
fn write(mut sink: Sink, transfer_bytes: usize, stop: Stop) -> anyhow::Result<Numbers> {
    let mut block = Block::new(0, transfer_bytes);
    let start_ns = now_ns();
    let (mut blocks, mut bytes) = (0, 0);
    loop {
        sink.write_all(block.stamped(blocks))?;
        blocks += 1;
        bytes += transfer_bytes as u64;
        if stop.reached(start_ns, now_ns(), bytes, 1) {
            return Ok(vec![start_ns, bytes]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canary: a reader that gets something else than was sent fails.
    #[test]
    fn a_reader_of_damaged_bytes_fails() {
        let plan = Plan {
            compute_us: 0,
            ..Plan::new(Pace::Quick, Face::Rust)
        };
        let receive = |bytes: &[u8]| {
            let (source, mut sink) = Kind::Kernel.pipe(1 << 16).unwrap();
            sink.write_all(bytes).unwrap();
            drop(sink);
            plan.read(source, 2048, 0)
        };
        let mut bytes = Block::new(0, 2048).stamped(0).to_vec();
        assert_eq!(receive(&bytes).unwrap()[1], 2048);
        bytes[7] ^= 0x40;
        assert!(receive(&bytes).is_err());
    }
}
