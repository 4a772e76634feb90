//! Completions: 128 pipes, 256 rounds of a read and a write on each, in one thread.
//!
//! In `empty` each round submits a read of every pipe, all of them empty, then a write to every pipe,
//! and ends when all completions are reaped: asynchronous reads are armed. In `ready` the writes come
//! first. The number behind is that of the bytes of each. A pass that is not timed goes before.

use super::Pace;
use crate::clock::now_ns;
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};

pub(super) mod rivals;

use rivals::{RIVALS, Rival};

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The reads, on empty pipes.
    Empty,
    /// The writes: data is there when it is read.
    Ready,
}

const ORDERS: [(&str, Order); 2] = [("empty", Order::Empty), ("ready", Order::Ready)];

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many pipes.
    pub pipes: usize,
    /// How many rounds on all of them.
    pub rounds: usize,
    /// Sizes of a read and of a write.
    pub sizes_bytes: Vec<usize>,
}

impl Plan {
    /// As published, and with pages. It is short at any pace.
    #[must_use]
    pub fn new(_: Pace) -> Self {
        Self {
            pipes: 128,
            rounds: 256,
            sizes_bytes: vec![1, 4096],
        }
    }

    /// One round a case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let sizes = self.sizes_bytes.iter();
        let cases = sizes.flat_map(|bytes| ORDERS.map(|(name, order)| (name, order, *bytes)));
        let round = |(name, order, bytes): (&str, Order, usize)| {
            let rival = |engine: Engine| {
                let case = format!("{name}-{bytes}");
                Contender::new(engine, case, move || self.run(engine, order, bytes))
            };
            RIVALS.map(rival).into()
        };
        cases.map(round).collect()
    }

    /// In a process of its own: workers of the kernel stay a while with the one that had them.
    fn run(&self, engine: Engine, order: Order, bytes: usize) -> anyhow::Result<Sample> {
        let mut family = Family::new()?;
        let load = Load {
            order,
            pipes: self.pipes,
            rounds: self.rounds,
        };
        let (pipes, bytes) = (self.pipes, bytes);
        family.spawn("completer", (), move |()| {
            rivals::run(engine, pipes, bytes, &load)
        })?;
        let reports = family.run()?;
        Ok(vec![(Metric::WallMs, reports[0][0] as f64 / 1e6)])
    }
}

#[derive(Clone, Copy)]
struct Load {
    order: Order,
    pipes: usize,
    rounds: usize,
}

impl rivals::Load for Load {
    type Outcome = Numbers;

    fn run(&self, rival: &mut impl Rival) -> anyhow::Result<Numbers> {
        let mut start_ns = 0;
        for round in 0..2 * self.rounds {
            if round == self.rounds {
                start_ns = now_ns();
            }
            match self.order {
                Order::Empty => {
                    self.read_all(rival)?;
                    self.write_all(rival, round)?;
                }
                Order::Ready => {
                    self.write_all(rival, round)?;
                    self.read_all(rival)?;
                }
            }
            rival.finish(self.pipes)?;
        }
        Ok(vec![now_ns() - start_ns])
    }
}

impl Load {
    fn read_all(&self, rival: &mut impl Rival) -> anyhow::Result<()> {
        (0..self.pipes).try_for_each(|pipe| rival.read(pipe))?;
        rival.submit()
    }

    fn write_all(&self, rival: &mut impl Rival, round: usize) -> anyhow::Result<()> {
        (0..self.pipes).try_for_each(|pipe| rival.write(pipe, letter(pipe, round)))?;
        rival.submit()
    }
}

/// What is written to a pipe in a round.
pub(super) fn letter(pipe: usize, round: usize) -> u8 {
    (pipe as u8).wrapping_mul(31).wrapping_add(round as u8)
}
