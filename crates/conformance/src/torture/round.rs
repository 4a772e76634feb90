//! One round: fork, kill at random instants, end one side for good, see the other told.

use std::io;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Signal, WaitStatus, kill_process};

use super::board::{Board, Field, IDS, Side, now_ns};
use super::children::{Child, Complaints, describe_hang, fork, take_out};
use super::common::Common;
use super::plan::{Canary, Plan};
use super::worker::Worker;
use super::{audit, run::Settings};
use crate::peer::{ends_before, wait};

/// What a round came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Children killed, by side.
    pub(super) killed: [usize; 2],
    pub(super) records: u64,
    /// For each survivor, how long after its last peer's death it was told, in nanoseconds.
    pub(super) told_ns: Vec<u64>,
    pub(super) faults: Vec<String>,
}

pub(super) struct Round<'a> {
    plan: &'a Plan,
    board: &'a Board,
    settings: &'a Settings,
    rng: Rng,
    /// The parent's ends, from which children are made; dropped for the last act.
    ends: Option<Common>,
    complaints: Complaints,
    children: Vec<Child>,
    /// Ids used so far, by side.
    ids: [usize; 2],
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
        let ends = Some(Common::new(settings.engine, plan)?);
        let complaints = Complaints::new()?;
        let (children, ids, outcome) = (Vec::new(), [0; 2], Outcome::default());
        Ok(Self {
            plan,
            board,
            settings,
            rng,
            ends,
            complaints,
            children,
            ids,
            outcome,
        })
    }

    pub(super) fn run(mut self) -> io::Result<Outcome> {
        (0..self.plan.writers).for_each(|_| self.spawn(Side::Writer));
        (0..self.plan.readers).for_each(|_| self.spawn(Side::Reader));
        for _ in 0..self.plan.kills {
            self.pause();
            self.kill_and_replace();
            if self.rng.u32(..8) == 0 {
                self.expect_progress();
            }
        }
        self.pause();
        self.expect_progress();
        self.last_act()?;
        self.take_complaints()?;
        if self.outcome.faults.is_empty() {
            audit::check(self.plan, self.board, &mut self.outcome);
        }
        self.outcome.records = self.board.total(Side::Reader, Field::Done);
        Ok(self.outcome)
    }

    fn spawn(&mut self, side: Side) {
        let id = self.ids[side as usize];
        self.ids[side as usize] += 1;
        let rng = self.rng.fork();
        let unaware = self.plan.mixed && self.rng.bool();
        let (plan, board, canary) = (self.plan, self.board, self.settings.canary);
        let (ends, complaints) = (&mut self.ends, &self.complaints);
        let pid = fork(|| {
            let worker = Worker {
                plan,
                board,
                id,
                rng,
                canary,
            };
            let ends = ends.take();
            let ends = ends.expect("children are made from the parent's ends");
            let result = match side {
                Side::Writer => worker.write(&ends.into_writer(unaware)),
                Side::Reader => worker.read(&ends.into_reader(unaware)),
            };
            if let Err(complaint) = result {
                complaints.complain(side, id, complaint);
            }
        });
        self.children.push(Child { pid, side, id });
    }

    /// Some milliseconds at most, more often short: random instants are the point.
    fn pause(&mut self) {
        if self.rng.bool() {
            let spins = self.rng.u32(..20_000);
            (0..spins).for_each(|_| std::hint::spin_loop());
        } else {
            // Strangers take a while to meet.
            let longest_ns = if self.plan.strangers {
                8_000_000
            } else {
                2_000_000
            };
            let most = self.rng.u64(1..longest_ns);
            std::thread::sleep(Duration::from_nanos(self.rng.u64(..most)));
        }
    }

    fn living(&self, side: Side) -> usize {
        self.children
            .iter()
            .filter(|child| child.side == side)
            .count()
    }

    fn kill_and_replace(&mut self) {
        let mortal = |child: &&Child| self.plan.mortal.contains(&child.side);
        let candidates = self.children.iter().filter(mortal).count();
        let Some(choice) = (candidates > 0).then(|| self.rng.usize(..candidates)) else {
            return;
        };
        let is_chosen = |(_, child): &(usize, &Child)| self.plan.mortal.contains(&child.side);
        let chosen = self
            .children
            .iter()
            .enumerate()
            .filter(is_chosen)
            .nth(choice);
        let (index, _) = chosen.expect("one of the candidates");
        let child = self.children.swap_remove(index);
        self.kill(&child);
        let alone = self.living(child.side) == 0;
        if self.ids[child.side as usize] < IDS && (alone || self.rng.u32(..8) > 0) {
            self.spawn(child.side);
        }
    }

    /// Kills a child; when this returns, its descriptors are closed.
    fn kill(&mut self, child: &Child) {
        // It may have ended by itself, which is seen when it is waited for.
        let _ = kill_process(child.pid, Signal::KILL);
        let status = wait(child.pid);
        if status.terminating_signal() == Some(libc::SIGKILL) {
            self.outcome.killed[child.side as usize] += 1;
        } else {
            self.expect_clean(child, status);
        }
    }

    /// A writer may end by itself once it sent all its records; who panics did not end clean.
    fn expect_clean(&mut self, child: &Child, status: WaitStatus) {
        if status.exit_status() != Some(0) {
            self.fault(format!("{child} ended with {status:?}"));
        }
    }

    fn fault(&mut self, what: String) {
        self.outcome.faults.push(what);
    }

    /// Rule 5: something more is written and something more comes, unless all writers are through.
    fn expect_progress(&mut self) {
        let deadline = Instant::now() + self.settings.hang_bound;
        let sent = || self.board.total(Side::Writer, Field::Done);
        let came = || self.board.total(Side::Reader, Field::Done);
        let (sent_before, came_before) = (sent(), came());
        while sent() == sent_before || came() == came_before {
            if self.all_records_sent() {
                return;
            }
            if Instant::now() > deadline {
                return self.fault(self.describe_hang("nothing flows"));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn all_records_sent(&self) -> bool {
        let done = |id| self.board.get(Side::Writer, id, Field::Done) == super::board::RECORDS;
        self.children
            .iter()
            .filter(|child| child.side == Side::Writer)
            .all(|child| done(child.id))
    }

    /// Kills one side for good, and sees the other told.
    fn last_act(&mut self) -> io::Result<()> {
        let alone_since_ns = now_ns();
        self.ends = None;
        for victim in take_out(&mut self.children, self.plan.doomed) {
            self.pause();
            self.kill(&victim);
        }
        let dead_ns = now_ns();
        let deadline = Instant::now() + self.settings.hang_bound;
        while let Some(child) = self.children.pop() {
            self.see_told(&child, alone_since_ns, dead_ns, deadline)?;
        }
        Ok(())
    }

    fn see_told(
        &mut self,
        child: &Child,
        alone_since_ns: u64,
        dead_ns: u64,
        deadline: Instant,
    ) -> io::Result<()> {
        let Child { pid, side, id } = *child;
        if !ends_before(pid, deadline)? {
            self.children.push(Child { pid, side, id });
            self.fault(self.describe_hang("all peers are dead, and nobody was told"));
            let hung = std::mem::take(&mut self.children);
            for child in hung {
                self.kill(&child);
            }
            return Ok(());
        }
        let status = wait(pid);
        self.expect_clean(child, status);
        let told_ns = self.board.get(side, id, Field::ToldNs);
        if told_ns == 0 {
            return Ok(()); // it complained, or sent all its records
        }
        if told_ns < alone_since_ns {
            self.fault(format!(
                "{side:?} {id} was told of its peers' end while one lived"
            ));
        }
        // A peer that was resting, or had bytes left to read, is told later, but not late.
        let busy_until_ns = self.last_call_ns(side);
        self.outcome
            .told_ns
            .push(told_ns.saturating_sub(dead_ns.max(busy_until_ns)));
        Ok(())
    }

    /// When the last call of any child of this side was begun.
    fn last_call_ns(&self, side: Side) -> u64 {
        (0..IDS)
            .map(|id| self.board.get(side, id, Field::CalledNs))
            .max()
            .unwrap_or(0)
    }

    fn describe_hang(&self, what: &str) -> String {
        let done = |child: &Child| {
            let records = self.board.get(child.side, child.id, Field::Done);
            format!("{records} records, ")
        };
        describe_hang(what, self.settings.hang_bound, &self.children, done)
    }

    fn take_complaints(&mut self) -> io::Result<()> {
        let said = self.complaints.take()?;
        // First, since what a child complains of is often why others hang.
        self.outcome
            .faults
            .splice(..0, said.lines().map(str::to_owned));
        Ok(())
    }
}

/// Forgets a descriptor, for the canary of leaks.
pub(super) fn leak_if(canary: Option<Canary>) -> io::Result<()> {
    if canary == Some(Canary::Leak) {
        std::mem::forget(std::fs::File::open("/dev/null")?);
    }
    Ok(())
}
