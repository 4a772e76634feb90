//! One round: some honest ones, one hostile one, and the end of a side.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal, getpid, kill_process};
use standpipe::pipe::{Builder, ReadEnd, WriteEnd};

use super::scribbler::Scribbler;
use crate::peer::{ends_before, wait};
use crate::torture::board::{Board, Field, IDS, Side, now_ns};
use crate::torture::children::{Child, Complaints, describe_hang, fork, take_out};
use crate::torture::plan::Canary;
use crate::torture::run::Settings;

/// How often an honest one goes on after it was told that the lane is corrupted.
const MOST_CORRUPTED: u64 = 3;

/// Where the hostile one tells how much it wrote: nobody else has this place.
const HOSTILE: (Side, usize, Field) = (Side::Writer, IDS - 1, Field::CalledNs);

/// A round.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    capacity_bytes: usize,
    nonblocking: bool,
    writers: usize,
    readers: usize,
    /// For how long the hostile one is at it.
    hostile_for: Duration,
    /// Whose honest ones are killed in the end.
    doomed: Side,
}

impl Plan {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            capacity_bytes: 4096 << rng.u32(..=6),
            nonblocking: rng.bool(),
            writers: rng.usize(1..=2),
            readers: rng.usize(1..=2),
            hostile_for: Duration::from_micros(rng.u64(..60_000)),
            doomed: if rng.bool() {
                Side::Writer
            } else {
                Side::Reader
            },
        }
    }
}

/// What a round came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) scribbles: u64,
    pub(super) calls: u64,
    pub(super) corrupted: u64,
    pub(super) faults: Vec<String>,
}

pub(super) struct Round<'a> {
    plan: &'a Plan,
    board: &'a Board,
    settings: &'a Settings,
    rng: Rng,
    ends: Option<(ReadEnd, WriteEnd)>,
    complaints: Complaints,
    /// The honest ones.
    children: Vec<Child>,
    outcome: Outcome,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        board: &'a Board,
        plan: &'a Plan,
        rng: Rng,
    ) -> io::Result<Self> {
        board.wipe();
        let ends = Builder::new()
            .capacity_bytes(plan.capacity_bytes)
            .nonblocking(plan.nonblocking)
            .close_on_exec(true)
            .build()?;
        Ok(Self {
            plan,
            board,
            settings,
            rng,
            ends: Some(ends),
            complaints: Complaints::new()?,
            children: Vec::new(),
            outcome: Outcome::default(),
        })
    }

    pub(super) fn run(mut self) -> io::Result<Outcome> {
        (0..self.plan.writers).for_each(|id| self.spawn(Side::Writer, id));
        (0..self.plan.readers).for_each(|id| self.spawn(Side::Reader, id));
        let (ready, go) = (io::pipe()?, io::pipe()?);
        let hostile = self.spawn_hostile(ready.1, &go.0);
        // While the lane is in order: the judge must not meet the hostile one itself.
        self.ends = None;
        // Ends without a byte if it died, which is seen below.
        let _ = (&ready.0).read(&mut [0])?;
        (&go.1).write_all(b"!")?;
        self.watch_calls();
        let _ = kill_process(hostile, Signal::KILL);
        self.expect_killed(hostile);
        self.last_act()?;
        self.sum_up()?;
        Ok(self.outcome)
    }

    fn spawn(&mut self, side: Side, id: usize) {
        let mut rng = self.rng.fork();
        let (plan, board, canary) = (self.plan, self.board, self.settings.canary);
        let (ends, complaints) = (&mut self.ends, &self.complaints);
        let pid = fork(|| {
            let (reader, writer) = ends.take().expect("the parent's ends");
            let honest = Honest {
                plan,
                board,
                side,
                id,
            };
            let mut buf = vec![7; 1 << 17];
            let result = match side {
                Side::Writer => {
                    drop(reader);
                    honest.work(|| (&writer).write(&buf[..rng.usize(1..=buf.len())]))
                }
                Side::Reader => {
                    drop(writer);
                    honest.work(|| {
                        let most = buf.len();
                        (&reader).read(&mut buf[..rng.usize(1..=most)])
                    })
                }
            };
            if let Err(error) = result {
                complaints.complain(side, id, format_args!("{error:?} ({error})"));
            }
            if canary == Some(Canary::Hang) {
                std::thread::sleep(Duration::MAX);
            }
        });
        self.children.push(Child { pid, side, id });
    }

    /// It knows the lane by inheritance, and starts when told to.
    fn spawn_hostile(&mut self, ready: PipeWriter, mut go: &PipeReader) -> Pid {
        let rng = self.rng.fork();
        let mut living: Vec<_> = self.children.iter().map(|child| child.pid).collect();
        living.extend([getpid(), Pid::INIT]);
        let (ends, board, complaints) = (&mut self.ends, self.board, &self.complaints);
        fork(|| {
            living.push(getpid());
            let (reader, writer) = ends.as_ref().expect("the parent's ends");
            let spared = [
                reader.as_end().as_fd(),
                writer.as_end().as_fd(),
                ready.as_fd(),
                go.as_fd(),
                complaints.as_fd(),
            ];
            let scribbler = Scribbler::new(rng, living, &spared).expect("cannot look for lanes");
            assert!(scribbler.has_lane(), "no lane to write into");
            // It is a member that nobody waits for.
            drop(ends.take());
            (&ready).write_all(b"!").expect("the parent waits for this");
            drop(ready);
            let _ = go.read(&mut [0]);
            let (side, id, field) = HOSTILE;
            let done = scribbler.work(|count| board.set(side, id, field, count));
            panic!("the hostile one stopped: {done:?}");
        })
    }

    /// Rule 3, for as long as the hostile one is at it.
    fn watch_calls(&mut self) {
        let over = Instant::now() + self.plan.hostile_for;
        while Instant::now() < over {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Whoever is in a call now has to come back from it.
        let begun = |child: &Child| self.board.get(child.side, child.id, Field::CalledNs);
        let calls: Vec<_> = self.children.iter().map(begun).collect();
        let deadline = Instant::now() + self.hang_bound();
        let is_stuck = |(child, &call): (&Child, &u64)| call != 0 && begun(child) == call;
        while self.plan.nonblocking && self.children.iter().zip(&calls).any(is_stuck) {
            if Instant::now() > deadline {
                let what = "a call of a non-blocking end does not come back";
                return self.outcome.faults.push(self.describe_hang(what));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Rule 4: one side is killed, the other has to end by itself.
    fn last_act(&mut self) -> io::Result<()> {
        for victim in take_out(&mut self.children, self.plan.doomed) {
            // It may have ended by itself.
            let _ = kill_process(victim.pid, Signal::KILL);
            self.expect_killed(victim.pid);
        }
        let deadline = Instant::now() + self.hang_bound();
        while let Some(child) = self.children.pop() {
            if !ends_before(child.pid, deadline)? {
                self.children.push(child);
                let what = "all peers are dead, and somebody stays";
                self.outcome.faults.push(self.describe_hang(what));
                for hung in std::mem::take(&mut self.children) {
                    let _ = kill_process(hung.pid, Signal::KILL);
                    wait(hung.pid);
                }
                return Ok(());
            }
            self.expect_killed(child.pid);
        }
        Ok(())
    }

    /// Rule 1: ends well, or by our own kill.
    fn expect_killed(&mut self, pid: Pid) {
        let status = wait(pid);
        let is_ours = status.terminating_signal() == Some(libc::SIGKILL);
        if !is_ours && status.exit_status() != Some(0) {
            self.outcome.faults.push(format!("crash: {status:?}"));
        }
    }

    /// A lock that a living thread seems to hold is waited for, a second at most once peers are gone;
    /// and whoever is told goes on for some calls.
    fn hang_bound(&self) -> Duration {
        5 * self.settings.hang_bound
    }

    fn describe_hang(&self, what: &str) -> String {
        describe_hang(what, self.hang_bound(), &self.children, |_| String::new())
    }

    fn sum_up(&mut self) -> io::Result<()> {
        let said = self.complaints.take()?;
        let strange = said.lines().map(|line| format!("strange: {line}"));
        self.outcome.faults.splice(..0, strange);
        let (side, id, field) = HOSTILE;
        self.outcome.scribbles = self.board.get(side, id, field);
        for side in [Side::Writer, Side::Reader] {
            self.outcome.calls += self.board.total(side, Field::Done);
            self.outcome.corrupted += self.board.total(side, Field::ToldNs);
        }
        Ok(())
    }
}

/// An honest child at work.
struct Honest<'a> {
    plan: &'a Plan,
    board: &'a Board,
    side: Side,
    id: usize,
}

impl Honest<'_> {
    /// Calls until the other side is gone, or the lane often said to be corrupted. Fails with an error
    /// that nobody should see (rule 2).
    fn work(&self, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
        let tell = |field, value| self.board.set(self.side, self.id, field, value);
        let mut corrupted = 0;
        for done in 1.. {
            tell(Field::CalledNs, now_ns());
            let result = call();
            tell(Field::CalledNs, 0);
            tell(Field::Done, done);
            match result {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock if self.plan.nonblocking => {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    io::ErrorKind::BrokenPipe if self.side == Side::Writer => break,
                    io::ErrorKind::InvalidData if corrupted < MOST_CORRUPTED => {
                        corrupted += 1;
                        tell(Field::ToldNs, corrupted);
                    }
                    io::ErrorKind::InvalidData => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}
