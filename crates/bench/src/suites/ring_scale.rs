//! What an event costs when many pipes are armed: a read waits on each, one after the other, in no order, is
//! written to, and read from again.
//!
//! In `idle` all but 128 of the pipes only wait, which should cost nothing; the others see 8 events each, and
//! ours have no lanes yet. In `armed` all see 8, so that each event touches memory, ours and the kernel's,
//! that was not touched for as many events as there are pipes. In `busy` all have seen so many before that
//! those have a lane that get one. The number behind is that of the pipes: the largest is 10,000, or as many
//! as the limit on descriptors allows.

use super::Pace;
use super::ring::letter;
use super::ring::rivals::{self, Rival};
use crate::clock::now_ns;
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::memory::raise_descriptors;
use crate::record::{Engine, Metric};

/// Of each pipe that is timed.
const EVENTS_EACH: usize = 8;
/// What pipes do beside waiting.
const TEMPERS: [Temper; 3] = [
    Temper {
        name: "idle",
        most_active: 128,
        before: 0,
    },
    Temper {
        name: "armed",
        most_active: usize::MAX,
        before: 0,
    },
    Temper {
        name: "busy",
        most_active: usize::MAX,
        before: 32,
    },
];
/// Descriptors that a process needs beside its pipes.
const OTHER_DESCRIPTORS: u64 = 64;
const MOST_PIPES: u64 = 10_000;
/// Of a pipe that has its lane.
const DESCRIPTORS_EACH: u64 = 10;
/// Fewer pipes than that are a multiple of this.
const ROUNDED_TO: usize = 100;

#[derive(Clone, Copy)]
struct Temper {
    name: &'static str,
    /// How many see events.
    most_active: usize,
    /// Events of each before the clock runs: none, or enough for a lane.
    before: usize,
}

/// Without `io_uring` that is made to use its workers: one thread for each pipe.
const RIVALS: [Engine; 3] = [Engine::IoUring, Engine::Epoll, Engine::Standpipe];

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many pipes at a time.
    pub pipes: Vec<usize>,
    /// So many events at least are timed in a run: with few pipes, of several lots of them.
    pub events: usize,
}

impl Plan {
    /// 1 to 10,000 pipes.
    ///
    /// # Errors
    /// When the limit on descriptors can't be set.
    pub fn new(pace: Pace) -> anyhow::Result<Self> {
        let descriptors = raise_descriptors(MOST_PIPES * DESCRIPTORS_EACH)?;
        let most = descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let most = if most < MOST_PIPES as usize {
            most / ROUNDED_TO * ROUNDED_TO
        } else {
            MOST_PIPES as usize
        };
        Ok(Self {
            pipes: [1, 16, 128, 1024, most].into(),
            events: match pace {
                Pace::Quick => 10_000,
                Pace::Full => 100_000,
            },
        })
    }

    /// One round a case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let pipes = self.pipes.iter();
        let cases = pipes.flat_map(|pipes| TEMPERS.map(|temper| (*pipes, temper)));
        let round = |(pipes, temper): (usize, Temper)| {
            let rival = |engine: Engine| {
                let case = format!("{}-{pipes}", temper.name);
                Contender::new(engine, case, move || self.run(engine, pipes, temper))
            };
            RIVALS.map(rival).into()
        };
        cases.map(round).collect()
    }

    fn run(&self, engine: Engine, pipes: usize, temper: Temper) -> anyhow::Result<Sample> {
        let load = Load {
            pipes,
            active: pipes.min(temper.most_active),
            before: temper.before,
        };
        let lots = self.events.div_ceil(pipes * EVENTS_EACH);
        let mut family = Family::new()?;
        family.spawn("completer", (), move |()| {
            let mut total_ns = 0;
            for _ in 0..lots {
                total_ns += rivals::run(engine, pipes, 1, &load)?;
            }
            Ok(vec![total_ns] as Numbers)
        })?;
        let reports = family.run()?;
        let events = lots * load.active * EVENTS_EACH;
        Ok(vec![(Metric::AvgNs, reports[0][0] as f64 / events as f64)])
    }
}

#[derive(Clone, Copy)]
struct Load {
    pipes: usize,
    active: usize,
    before: usize,
}

impl rivals::Load for Load {
    type Outcome = u64;

    fn run(&self, rival: &mut impl Rival) -> anyhow::Result<u64> {
        (0..self.pipes).try_for_each(|pipe| rival.read(pipe))?;
        rival.submit()?;
        rival.settle()?;
        let mut start_ns = 0;
        for round in 0..self.before + EVENTS_EACH {
            if round == self.before {
                start_ns = now_ns();
            }
            for index in 0..self.active {
                let pipe = self.pipe(index);
                rival.write(pipe, letter(pipe, round))?;
                rival.finish(1)?;
                rival.read(pipe)?;
                rival.submit()?;
            }
        }
        Ok(now_ns() - start_ns)
    }
}

impl Load {
    /// Each active one once, and none close to the one before: a prime number of steps on.
    fn pipe(&self, index: usize) -> usize {
        const STEP: usize = 7919;
        let active = index * STEP % self.active;
        active * self.pipes / self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_active_pipe_has_its_turn() {
        for (pipes, active) in [(1, 1), (128, 128), (1024, 128), (9900, 128), (9900, 9900)] {
            let load = Load {
                pipes,
                active,
                before: 0,
            };
            let mut turns: Vec<_> = (0..active).map(|index| load.pipe(index)).collect();
            turns.sort_unstable();
            turns.dedup();
            assert_eq!(turns.len(), active);
            assert!(turns.into_iter().all(|pipe| pipe < pipes));
        }
    }
}
