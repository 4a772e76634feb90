//! Several writers, several readers, large writes: the published `pipe_bench`.

use std::time::Duration;

use super::Pace;
use crate::clock::Stop;
use crate::engine::{Face, Kind};
use crate::measure::{Contender, Round, Sample};
use crate::record::Metric;
use crate::stats::latencies;
use crate::stream::Stream;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Writers and readers of each case.
    pub cells: Vec<(usize, usize)>,
    /// Bytes of a write.
    pub block_bytes: usize,
    /// How much the pipe holds.
    pub capacity_bytes: usize,
    /// From where ours is used.
    pub face: Face,
    /// When a run ends.
    pub stop: Stop,
}

impl Plan {
    /// The published grid at the given pace.
    #[must_use]
    pub fn new(pace: Pace, face: Face) -> Self {
        let cells = [1, 2, 5]
            .into_iter()
            .flat_map(|w| [1, 5, 10].map(|r| (w, r)))
            .collect();
        let time = Duration::from_millis(match pace {
            Pace::Quick => 250,
            Pace::Full => 1000,
        });
        Self {
            cells,
            block_bytes: 64 << 10,
            capacity_bytes: 1 << 20,
            face,
            stop: Stop::after(time),
        }
    }

    /// The same in less time, for a suite that has used up some of it before.
    #[must_use]
    pub fn hurried(self) -> Self {
        let stop = Stop {
            time: self.stop.time / 2,
            ..self.stop
        };
        Self { stop, ..self }
    }

    /// One round a cell.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let cell = |&(writers, readers): &(usize, usize)| {
            let rival = |kind: Kind| {
                let case = format!("{writers}x{readers}");
                Contender::new(kind.engine(), case, move || {
                    self.run(kind, writers, readers)
                })
            };
            self.face.rivals().map(rival).into()
        };
        self.cells.iter().map(cell).collect()
    }

    fn run(&self, kind: Kind, writers: usize, readers: usize) -> anyhow::Result<Sample> {
        let stream = Stream {
            kind,
            capacity_bytes: self.capacity_bytes,
            writers,
            readers,
            block_bytes: self.block_bytes,
            stop: self.stop,
            timed_writes: true,
        };
        let mut flow = stream.run()?;
        let mut sample = vec![(Metric::MbPerS, flow.mb_per_s())];
        sample.extend(latencies(&mut flow.write_ns));
        Ok(sample)
    }
}
