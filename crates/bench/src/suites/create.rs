//! Making and closing pipes, in one process: most pipes of a shell script carry little.

use std::io::Write;
use std::time::Duration;

use anyhow::ensure;

use super::Pace;
use crate::clock::{Stop, now_ns};
use crate::engine::Kind;
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::record::Metric;

/// Cases by name, with the bytes that a pipe carries.
const CASES: [(&str, usize); 2] = [("1kib", 1024), ("idle", 0)];
/// Pipes between two looks at the clock.
const PIPES_PER_LOOK: u64 = 32;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When a run ends.
    pub stop: Stop,
}

impl Plan {
    /// Both cases at the given pace.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        let time = Duration::from_millis(match pace {
            Pace::Quick => 300,
            Pace::Full => 1000,
        });
        Self {
            stop: Stop::after(time),
        }
    }

    /// One round a case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let round = |(case, bytes): (&'static str, usize)| {
            let rival =
                |kind: Kind| Contender::new(kind.engine(), case, move || self.run(kind, bytes));
            Kind::RIVALS.map(rival).into()
        };
        CASES.map(round).into()
    }

    fn run(&self, kind: Kind, bytes: usize) -> anyhow::Result<Sample> {
        let mut family = Family::new()?;
        family.spawn("maker", (), |()| make(kind, bytes, self.stop))?;
        let reports = family.run()?;
        Ok(vec![(
            Metric::AvgNs,
            reports[0][0] as f64 / reports[0][1] as f64,
        )])
    }
}

/// Makes pipes, carries `bytes` through each; reports the time and how many.
fn make(kind: Kind, bytes: usize, stop: Stop) -> anyhow::Result<Numbers> {
    let (mut sent, mut received) = (vec![0; bytes], vec![0; bytes]);
    let mut pipes = 0_u64;
    let start_ns = now_ns();
    loop {
        for _ in 0..PIPES_PER_LOOK {
            pipes += 1;
            sent.fill(pipes as u8);
            let (mut source, mut sink) = kind.default_pipe()?;
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
