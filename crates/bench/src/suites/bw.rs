//! One writer, one reader, transfers and pipes of several sizes: the published `bw_pipe`.
//!
//! It moved 10 MB a run; that takes today's machines a few milliseconds, so a run goes on until it
//! has taken a while as well. Variant A wakes the peer at the end of a transfer, A+B also after
//! each segment (a quarter of the pipe, at least a page). The kernel has no segments: its one run
//! of a turn is the rival of both.

use std::time::Duration;

use standpipe::pipe::Wake;

use super::Pace;
use crate::clock::Stop;
use crate::engine::{Face, Kind};
use crate::measure::{Contender, Round};
use crate::record::Metric;
use crate::stream::Stream;

/// Kinds of wake-ups by their published names.
pub const VARIANTS: [(&str, Wake); 2] = [("A", Wake::PerTransfer), ("A+B", Wake::PerSegment)];

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of a transfer.
    pub transfers_kib: Vec<usize>,
    /// Sizes of the pipe.
    pub pipes_kib: Vec<usize>,
    /// From where ours is used.
    pub face: Face,
    /// When a run ends.
    pub stop: Stop,
}

impl Plan {
    /// The published grid at the given pace.
    #[must_use]
    pub fn new(pace: Pace, face: Face) -> Self {
        let time = Duration::from_millis(match pace {
            Pace::Quick => 30,
            Pace::Full => 200,
        });
        Self {
            transfers_kib: vec![2, 4, 6, 8, 12, 16, 24, 32],
            pipes_kib: vec![4, 8, 16, 32],
            face,
            stop: Stop {
                time,
                bytes: 10_000_000,
            },
        }
    }

    /// One round for each transfer size and pipe size.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        cells(
            &self.transfers_kib,
            &self.pipes_kib,
            self.face,
            |kind, transfer_bytes, pipe_bytes| {
                let stream = Stream {
                    kind,
                    capacity_bytes: pipe_bytes,
                    writers: 1,
                    readers: 1,
                    block_bytes: transfer_bytes,
                    stop: self.stop,
                    timed_writes: false,
                };
                stream.run().map(|flow| flow.mb_per_s())
            },
        )
    }
}

/// The grid of transfer sizes, pipe sizes and variants; `run` says how many MB/s a kind of pipe
/// makes with a transfer size and a pipe size, both in bytes.
pub fn cells<'a>(
    transfers_kib: &[usize],
    pipes_kib: &[usize],
    face: Face,
    run: impl Fn(Kind, usize, usize) -> anyhow::Result<f64> + Copy + 'a,
) -> Vec<Round<'a>> {
    let pipes = |&transfer_kib: &usize| pipes_kib.iter().map(move |&pipe| (transfer_kib, pipe));
    let cell = |(transfer_kib, pipe_kib): (usize, usize)| {
        let case = move |variant: &str| format!("ts{transfer_kib}k-pipe{pipe_kib}k-{variant}");
        let rival = |kind: Kind, cases: Vec<String>| {
            let once = move || {
                let mb_per_s = run(kind, transfer_kib << 10, pipe_kib << 10)?;
                Ok(vec![(Metric::MbPerS, mb_per_s)])
            };
            Contender {
                engine: kind.engine(),
                cases,
                run: Box::new(once),
            }
        };
        let ours = VARIANTS.map(|(name, wake)| Some((case(name), face.ours(wake)?)));
        let ours = ours.into_iter().flatten().collect::<Vec<_>>();
        let all = ours.iter().map(|(case, _)| case.clone()).collect();
        let ours = ours.into_iter().map(|(case, kind)| rival(kind, vec![case]));
        std::iter::once(rival(Kind::Kernel, all))
            .chain(ours)
            .collect()
    };
    transfers_kib.iter().flat_map(pipes).map(cell).collect()
}
