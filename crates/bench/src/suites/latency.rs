//! Ping-pong: one byte there, one byte back, over two pipes.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::ensure;

use super::Pace;
use crate::clock::{Stop, now_ns};
use crate::engine::{Face, Kind, Sink, Source};
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::processors;
use crate::record::Metric;
use crate::stats::latencies;

/// As of a pipe that nobody configured.
const CAPACITY_BYTES: usize = 64 << 10;
/// More round trips than this say nothing new.
const MOST_TRIPS: usize = 1 << 20;

/// Where the two processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A processor for each.
    Free,
    /// Both on one.
    Shared,
    /// Where the scheduler puts them, from turn to turn.
    Unpinned,
}

impl Place {
    const ALL: [(&'static str, Self); 3] = [
        ("free", Self::Free),
        ("shared", Self::Shared),
        ("unpinned", Self::Unpinned),
    ];

    /// Puts the calling process, one of the two, where it belongs.
    fn settle(self, process: usize) -> anyhow::Result<()> {
        match self {
            Self::Free => processors::take(process),
            Self::Shared => processors::take(0),
            Self::Unpinned => Ok(()),
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cases of two processors too.
    pub free: bool,
    /// From where ours is used.
    pub face: Face,
    /// When a run ends.
    pub stop: Stop,
}

impl Plan {
    /// All cases at the given pace; only the shared one where there is one processor.
    #[must_use]
    pub fn new(pace: Pace, face: Face, processors: usize) -> Self {
        let time = Duration::from_millis(match pace {
            Pace::Quick => 500,
            Pace::Full => 1000,
        });
        Self {
            free: processors > 1,
            face,
            stop: Stop::after(time),
        }
    }

    /// One round a case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let round = |(case, place): (&'static str, Place)| {
            let rival =
                |kind: Kind| Contender::new(kind.engine(), case, move || self.run(kind, place));
            self.face.rivals().map(rival).into()
        };
        Place::ALL
            .into_iter()
            .filter(|(_, place)| *place == Place::Shared || self.free)
            .map(round)
            .collect()
    }

    fn run(&self, kind: Kind, place: Place) -> anyhow::Result<Sample> {
        let pipes = (kind.pipe(CAPACITY_BYTES)?, kind.pipe(CAPACITY_BYTES)?);
        let mut family = Family::new()?;
        let pipes = family.spawn(
            "ping",
            pipes,
            |((there_out, there_in), (back_out, back_in))| {
                drop((there_out, back_in));
                place.settle(0)?;
                ping(there_in, back_out, self.stop)
            },
        )?;
        let pipes = family.spawn(
            "pong",
            pipes,
            |((there_out, there_in), (back_out, back_in))| {
                drop((there_in, back_out));
                place.settle(1)?;
                pong(there_out, back_in)
            },
        )?;
        drop(pipes);
        let mut reports = family.run()?;
        let trips = reports[0].len() as u64;
        ensure!(
            reports[1] == [trips],
            "{trips} round trips, {:?} echoes",
            reports[1]
        );
        Ok(latencies(&mut reports[0])
            .into_iter()
            .filter(|(m, _)| *m != Metric::AvgNs)
            .collect())
    }
}

/// Sends bytes and awaits their echoes; reports the time of each round trip.
fn ping(mut sink: Sink, mut source: Source, stop: Stop) -> anyhow::Result<Numbers> {
    let mut trips_ns = Vec::with_capacity(MOST_TRIPS);
    let start_ns = now_ns();
    let mut before_ns = start_ns;
    let mut byte = 0_u8;
    let mut echo = [0];
    loop {
        sink.write_all(&[byte])?;
        let count = source.read(&mut echo)?;
        let after_ns = now_ns();
        ensure!(
            count == 1 && echo[0] == !byte,
            "sent {byte}, expected {}, got {echo:?}",
            !byte
        );
        trips_ns.push(after_ns - before_ns);
        before_ns = after_ns;
        byte = byte.wrapping_add(1);
        let enough = stop.reached(start_ns, after_ns, trips_ns.len() as u64, 1);
        if enough || trips_ns.len() == MOST_TRIPS {
            return Ok(trips_ns);
        }
    }
}

/// Echoes each byte, inverted, until the end of the stream; reports how many.
fn pong(mut source: Source, mut sink: Sink) -> anyhow::Result<Numbers> {
    let mut byte = [0];
    let mut echoes = 0;
    while source.read(&mut byte)? == 1 {
        sink.write_all(&[!byte[0]])?;
        echoes += 1;
    }
    Ok(vec![echoes])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canary: an echo that is not the echo fails.
    #[test]
    fn a_wrong_echo_is_an_error() {
        for (echoes, right) in [([0xFF, 0xFE], true), ([0xFF, 0xFF], false)] {
            let (_there, sink) = Kind::Kernel.pipe(4096).unwrap();
            let (source, mut back) = Kind::Kernel.pipe(4096).unwrap();
            back.write_all(&echoes).unwrap();
            drop(back);
            let stop = Stop {
                time: Duration::ZERO,
                bytes: 2,
            };
            assert_eq!(ping(sink, source, stop).is_ok(), right, "{echoes:?}");
        }
    }
}
