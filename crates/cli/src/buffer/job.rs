//! One run of `buffer`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::BufferArgs;
use super::checksum::Checksum;
use super::outputs::Outputs;
use super::pace::Pace;
use super::reservoir::{Block, Reservoir};
use super::summary::{ReservoirSummary, Summary};
use crate::progress::{Meter, Progress};
use crate::stream::{Input, Trouble, Watch, die_of_sigpipe, pass};

pub struct Job<'a> {
    pub args: &'a BufferArgs,
    pub meter: Meter,
    pub progress: Progress,
    /// None where bytes go from pipe to pipe.
    pub reservoir: Option<Reservoir>,
}

/// How it went.
#[derive(Default)]
pub struct Outcome {
    /// Some input or output failed.
    failed: bool,
    /// The readers of all outputs are gone.
    unwanted: bool,
    checksums: BTreeMap<&'static str, String>,
}

/// How much will pass, if that is known.
pub fn total_bytes(args: &BufferArgs) -> Option<u64> {
    let known = args.files().iter().map(|file| Input::expected_bytes(file));
    args.total.map(|bytes| bytes as u64).or_else(|| known.sum())
}

impl Job<'_> {
    pub fn run(&self, outputs: Outputs) -> Outcome {
        let (working, done) = mpsc::channel();
        thread::scope(|scope| {
            if self.progress.is_shown() {
                let level = || self.reservoir.as_ref().map(Reservoir::level);
                scope.spawn(move || self.progress.show(&self.meter, level, &done));
            }
            let outcome = match &self.reservoir {
                Some(reservoir) => self.through(reservoir, outputs),
                None => self.past(&outputs),
            };
            drop(working);
            outcome
        })
    }

    /// Says what there is to say at the end, and what to exit with.
    pub fn conclude(&self, outcome: Outcome) -> ExitCode {
        let Outcome {
            failed, unwanted, ..
        } = outcome;
        let told = self.tell(&self.summary(outcome));
        if unwanted {
            die_of_sigpipe();
        }
        if failed || !told {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    /// From pipe to pipe.
    fn past(&self, outputs: &Outputs) -> Outcome {
        let mut outcome = Outcome::default();
        let mut valve = Valve {
            meter: &self.meter,
            pace: self.pace(),
        };
        let output = outputs.first();
        for file in self.args.files() {
            let passed = Input::open(file).and_then(|input| {
                let passed = pass(&input, output, &mut valve);
                self.meter.add_lane_bytes(input.lane_bytes(), 0);
                passed
            });
            match passed {
                Ok(()) => {}
                Err(trouble) if trouble.is_closed_pipe() => {
                    outcome.unwanted = true;
                    break;
                }
                Err(trouble) => {
                    self.complain(&trouble);
                    outcome.failed = true;
                    if matches!(trouble, Trouble::Output(..)) {
                        break;
                    }
                }
            }
        }
        self.meter.add_lane_bytes(0, output.lane_bytes());
        outcome
    }

    /// Through the reservoir, with a thread that reads and this one, which writes.
    fn through(&self, reservoir: &Reservoir, mut outputs: Outputs) -> Outcome {
        thread::scope(|scope| {
            let reader = scope.spawn(|| self.fill(reservoir));
            self.empty(reservoir, &mut outputs);
            self.meter.add_lane_bytes(0, outputs.lane_bytes());
            let mut outcome = Outcome {
                unwanted: outputs.unwanted(),
                ..Outcome::default()
            };
            if !outputs.any_left() {
                // the reader may wait for its input for ever, and nobody wants that any more
                self.progress.clear();
                outcome.failed = outputs.failed();
                let code = self.conclude(outcome);
                std::process::exit(i32::from(code != ExitCode::SUCCESS));
            }
            let (failed, checksums) = reader.join().expect("the reader does not panic");
            Outcome {
                failed: failed || outputs.failed(),
                checksums,
                ..outcome
            }
        })
    }

    /// Reads everything; says whether some input failed, and the checksums.
    fn fill(&self, reservoir: &Reservoir) -> (bool, BTreeMap<&'static str, String>) {
        let algorithms = self.args.checksum.iter();
        let mut sums: Vec<_> = algorithms
            .map(|algorithm| Checksum::new(*algorithm))
            .collect();
        let mut failed = false;
        for file in self.args.files() {
            let filled = Input::open(file).and_then(|input| {
                let filled = fill_from(&input, reservoir, &mut sums);
                self.meter.add_lane_bytes(input.lane_bytes(), 0);
                filled
            });
            if let Err(trouble) = filled {
                self.complain(&trouble);
                failed = true;
            }
        }
        reservoir.end();
        (
            failed,
            sums.into_iter()
                .map(|sum| (sum.algorithm.name(), sum.finish()))
                .collect(),
        )
    }

    /// Writes everything, or as much as anybody takes.
    fn empty(&self, reservoir: &Reservoir, outputs: &mut Outputs) {
        let mut valve = Valve {
            meter: &self.meter,
            pace: self.pace(),
        };
        while let Some(block) = reservoir.full_block() {
            let mut rest = block.bytes();
            while !rest.is_empty() && outputs.any_left() {
                let (now, later) = rest.split_at(valve.admit(rest.len()));
                outputs.write_all(now, |trouble| self.complain(trouble));
                valve.moved(now.len());
                rest = later;
            }
            reservoir.give_back(block);
            if !outputs.any_left() {
                return reservoir.abandon();
            }
        }
    }

    fn pace(&self) -> Option<Pace> {
        let rate = self.args.rate_limit;
        rate.map(|bytes_per_s| Pace::new(bytes_per_s as u64, Instant::now()))
    }

    fn complain(&self, trouble: &Trouble) {
        self.progress.suspend(|| eprintln!("standpipe: {trouble}"));
    }

    fn summary(&self, outcome: Outcome) -> Summary {
        let seconds = self.meter.started.elapsed().as_secs_f64();
        let counts = self.meter.counts();
        let seen = |r: &Reservoir| ReservoirSummary::new(r.capacity_bytes(), r.waits());
        Summary {
            name: self.args.name.clone(),
            bytes: counts.bytes,
            seconds,
            bytes_per_s: counts.bytes as f64 / seconds,
            lane_bytes_read: counts.lane_bytes_read,
            lane_bytes_written: counts.lane_bytes_written,
            reservoir: self.reservoir.as_ref().map(seen),
            complete: !outcome.failed && !outcome.unwanted,
            checksums: outcome.checksums,
        }
    }

    /// `false` if it could not be written.
    fn tell(&self, summary: &Summary) -> bool {
        if let Some(target) = &self.args.json {
            let written = target.write(summary);
            return written
                .map_err(|error| eprintln!("standpipe: {error:#}"))
                .is_ok();
        }
        for (algorithm, checksum) in &summary.checksums {
            eprintln!("{algorithm} {checksum}");
        }
        if self.args.report || self.progress.is_shown() {
            eprintln!("{}", summary.line());
        }
        true
    }
}

fn fill_from(input: &Input, reservoir: &Reservoir, sums: &mut [Checksum]) -> Result<(), Trouble> {
    while let Some(mut block) = reservoir.empty_block() {
        let length = match input.read(block.memory()) {
            Ok(length @ 1..) => length,
            other => {
                reservoir.give_back(block);
                return other.map(|_end| ());
            }
        };
        let block: Block = block.filled(length);
        for sum in &mut *sums {
            sum.update(block.bytes());
        }
        reservoir.put(block);
    }
    Ok(())
}

/// Counts what passes, and holds it to the rate.
struct Valve<'a> {
    meter: &'a Meter,
    pace: Option<Pace>,
}

impl Watch for Valve<'_> {
    fn admit(&mut self, bytes: usize) -> usize {
        self.pace.as_ref().map_or(bytes, |pace| pace.admit(bytes))
    }

    fn moved(&mut self, bytes: usize) {
        self.meter.add(bytes);
        if let Some(pace) = &mut self.pace {
            thread::sleep(pace.after(bytes, Instant::now()));
        }
    }
}
