//! What the stages did so far: the sum of the samples, and the exact account at exit.

use std::time::Instant;

use super::launch::{Pipe, Process};
use super::sample::{self, Ends, Level, Sample, State};

/// One stage, from its start to its exit.
#[derive(Clone, Debug)]
pub struct StageTally {
    pub last: Sample,
    /// Seconds seen in each state: running, waiting to read, to write, for disk, elsewhere.
    pub seen: Seen,
    /// The same, forgetting with a half-life of about a second.
    pub lately: Seen,
    pub ended: Option<Ended>,
    /// What it splices is not accounted to it.
    splices: bool,
}

/// Long enough for a steady word, short enough to follow a change of phase.
const FADE_S: f64 = 1.5;

/// Seconds in each state, by sampling.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub running_s: f64,
    pub to_read_s: f64,
    pub to_write_s: f64,
    pub elsewhere_s: f64,
    looks: u32,
}

/// With less, a stage's life was too short to say what it waited for.
const ENOUGH_LOOKS: u32 = 3;

impl Seen {
    fn add(&mut self, state: State, seconds: f64) {
        self.looks += 1;
        match state {
            State::Running => self.running_s += seconds,
            State::WaitingToRead => self.to_read_s += seconds,
            State::WaitingToWrite => self.to_write_s += seconds,
            State::WaitingForDisk | State::Elsewhere => self.elsewhere_s += seconds,
        }
    }

    fn fade(&mut self, seconds: f64) {
        let kept = (-seconds / FADE_S).exp();
        self.running_s *= kept;
        self.to_read_s *= kept;
        self.to_write_s *= kept;
        self.elsewhere_s *= kept;
    }

    fn busy_s(&self) -> f64 {
        self.running_s + self.elsewhere_s
    }

    pub fn total_s(&self) -> f64 {
        self.running_s + self.to_read_s + self.to_write_s + self.elsewhere_s
    }
}

/// How a stage ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Since the start of the pipeline.
    pub after_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    pub exit: Exit,
}

/// An exit status, or the signal that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Status(i32),
    Signal(i32),
}

impl Exit {
    /// As the shell counts: 128 + N for signal N.
    pub fn code(self) -> u8 {
        match self {
            Self::Status(status) => u8::try_from(status).unwrap_or(u8::MAX),
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// How full a pipe is, and was.
#[derive(Clone, Copy, Debug)]
pub struct PipeTally {
    pub pipe: Pipe,
    pub filled_bytes: usize,
    fill_seconds: f64,
    seconds: f64,
}

impl PipeTally {
    /// Between 0 and 1, over the time.
    pub fn mean_fill(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.fill_seconds / self.seconds)
    }

    pub fn fill(&self) -> f64 {
        (self.filled_bytes as f64 / self.pipe.capacity_bytes as f64).min(1.0)
    }
}

/// All stages and pipes.
#[derive(Debug)]
pub struct Tally {
    pub started: Instant,
    pub stages: Vec<StageTally>,
    pub pipes: Vec<PipeTally>,
    last_look: Instant,
}

impl Tally {
    pub fn new(started: Instant, stages: usize, pipes: &[Pipe]) -> Self {
        let stage = StageTally {
            last: Sample::default(),
            seen: Seen::default(),
            lately: Seen::default(),
            ended: None,
            splices: false,
        };
        let pipe = |pipe: &Pipe| PipeTally {
            pipe: *pipe,
            filled_bytes: 0,
            fill_seconds: 0.0,
            seconds: 0.0,
        };
        Self {
            started,
            stages: vec![stage; stages],
            pipes: pipes.iter().map(pipe).collect(),
            last_look: started,
        }
    }

    /// Counts for this stage what its reader reads.
    pub fn splices(&mut self, index: usize) {
        self.stages[index].splices = true;
    }

    /// Looks at everything that still runs.
    pub fn look(&mut self, processes: &[Option<Process>]) {
        let now = Instant::now();
        let elapsed_s = (now - self.last_look).as_secs_f64();
        self.last_look = now;
        for (index, tally) in self.pipes.iter_mut().enumerate() {
            let (writer, reader) = (&processes[index], &processes[index + 1]);
            let filled = sample::filled_bytes(&tally.pipe, writer.as_ref(), reader.as_ref());
            tally.filled_bytes = filled.unwrap_or(0);
            tally.fill_seconds += tally.fill() * elapsed_s;
            tally.seconds += elapsed_s;
        }
        for (index, process) in processes.iter().enumerate() {
            if self.stages[index].ended.is_none()
                && let Some(process) = process
            {
                self.look_at(index, process);
                let stage = &mut self.stages[index];
                stage.seen.add(stage.last.state, elapsed_s);
                stage.lately.fade(elapsed_s);
                stage.lately.add(stage.last.state, elapsed_s);
            }
        }
    }

    /// Takes the last account of a stage; also right for one that exited and is not yet reaped.
    pub fn look_at(&mut self, index: usize, process: &Process) {
        let level = |pipe: &PipeTally| Level {
            pipe: pipe.pipe,
            filled_bytes: pipe.filled_bytes,
        };
        let ends = Ends {
            input: index
                .checked_sub(1)
                .and_then(|before| self.pipes.get(before))
                .map(level),
            output: self.pipes.get(index).map(level),
        };
        if let Some(sample) = sample::sample(process, ends) {
            self.stages[index].last = sample;
        }
    }

    /// How many bytes went through a pipe: what one side wrote and the other read. A side that
    /// splices shows less; one that also uses other files shows more.
    pub fn pipe_bytes(&self, index: usize) -> u64 {
        let written = self.stages[index].last.written_bytes;
        let read = self.stages[index + 1].last.read_bytes;
        match (written, read) {
            _ if self.stages[index].splices => read,
            (0, bytes) | (bytes, 0) => bytes,
            (written, read) => written.min(read),
        }
    }

    /// Bytes into a stage: through its input pipe, or read from anywhere by the first one.
    pub fn bytes_in(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(before) => self.pipe_bytes(before),
            None if self.stages[0].splices => self.pipe_bytes(0),
            None => self.stages[0].last.read_bytes,
        }
    }

    /// Bytes out of a stage: through its output pipe, or written to anywhere by the last one.
    pub fn bytes_out(&self, index: usize) -> u64 {
        if index < self.pipes.len() {
            self.pipe_bytes(index)
        } else {
            self.stages[index].last.written_bytes
        }
    }

    /// Where the time of a stage went.
    pub fn shares(&self, index: usize) -> Shares {
        let stage = &self.stages[index];
        let life_s = stage
            .ended
            .map_or_else(|| self.started.elapsed().as_secs_f64(), |e| e.after_s);
        Shares::new(&stage.seen, self.cpu_s(index) / life_s.max(1e-9))
    }

    /// Processor time so far, of the stage and its descendants.
    pub fn cpu_s(&self, index: usize) -> f64 {
        let stage = &self.stages[index];
        stage
            .ended
            .map_or(stage.last.cpu_s, |ended| ended.user_s + ended.system_s)
    }

    /// The stage that the others wait for: the one that spent most time on anything but waiting
    /// for its neighbours. `None` where there are no neighbours, or hardly a look was taken.
    pub fn bottleneck(&self) -> Option<usize> {
        let busy_s = |index: &usize| {
            let end = self.stages[*index]
                .ended
                .map_or(f64::MAX, |ended| ended.after_s);
            self.shares(*index).busy() * end.min(self.started.elapsed().as_secs_f64())
        };
        let stages = (0..self.stages.len()).filter(|index| busy_s(index) > 0.0);
        let bottleneck = stages.max_by(|a, b| busy_s(a).total_cmp(&busy_s(b)));
        let looked = self
            .stages
            .iter()
            .all(|stage| stage.seen.looks >= ENOUGH_LOOKS);
        bottleneck.filter(|_| looked && !self.pipes.is_empty())
    }

    /// The bottleneck of the last seconds, among those that still run.
    pub fn bottleneck_now(&self) -> Option<usize> {
        let busy = |index: &usize| self.stages[*index].lately.busy_s();
        let running = (0..self.stages.len()).filter(|index| self.stages[*index].ended.is_none());
        running
            .max_by(|a, b| busy(a).total_cmp(&busy(b)))
            .filter(|_| !self.pipes.is_empty())
    }
}

/// Fractions of a stage's life; they add up to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    pub running: f64,
    pub to_read: f64,
    pub to_write: f64,
    /// Ready to run, while the processors were busy with others.
    pub for_processor: f64,
    pub elsewhere: f64,
}

impl Shares {
    /// From what was seen and the exact processor time (per second of life; more than one for a
    /// stage with threads): what was seen running and was not is time ready for a processor.
    fn new(seen: &Seen, cpu: f64) -> Self {
        let total_s = seen.total_s();
        let cpu = cpu.clamp(0.0, 1.0);
        if total_s <= 0.0 {
            return Self {
                running: cpu,
                elsewhere: 1.0 - cpu,
                ..Self::default()
            };
        }
        let seen_running = (seen.running_s / total_s).max(cpu);
        let waiting_s = total_s - seen.running_s;
        let scale = if waiting_s > 0.0 {
            (1.0 - seen_running) / waiting_s
        } else {
            0.0
        };
        Self {
            running: cpu,
            for_processor: seen_running - cpu,
            to_read: seen.to_read_s * scale,
            to_write: seen.to_write_s * scale,
            elsewhere: seen.elsewhere_s * scale,
        }
    }

    /// Neither waiting for input nor for room in the output.
    pub fn busy(&self) -> f64 {
        self.running + self.for_processor + self.elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_honour_the_exact_processor_time() {
        let seen = Seen {
            running_s: 1.0,
            to_read_s: 2.0,
            to_write_s: 1.0,
            ..Seen::default()
        };
        for cpu in [0.0, 0.25, 0.5, 1.0, 3.0] {
            let shares = Shares::new(&seen, cpu);
            let sum = shares.busy() + shares.to_read + shares.to_write;
            assert!((sum - 1.0).abs() < 1e-9, "{shares:?}");
            assert!((shares.running - cpu.min(1.0)).abs() < 1e-9, "{shares:?}");
        }
        assert!((Shares::new(&seen, 0.5).to_read - 1.0 / 3.0).abs() < 1e-9);
        assert!((Shares::new(&Seen::default(), 0.3).elsewhere - 0.7).abs() < 1e-9);
    }

    #[test]
    fn exits_count_as_in_the_shell() {
        assert_eq!(Exit::Status(3).code(), 3);
        assert_eq!(Exit::Signal(13).code(), 141);
    }
}
