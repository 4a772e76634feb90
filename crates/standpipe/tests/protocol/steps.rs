//! Each system call and each store to shared memory is one step; between any two, everybody else may
//! take theirs, or somebody dies.

mod emptying;
mod leaving;
mod reading;
mod writing;

use std::fmt;

use crate::scenario::{Kind, Role, Rules, Scenario, Side};
use crate::world::{At, Byte, Lock, Party, Then, World};

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A byte was read before one that its writer wrote before it; or that one is lost.
    Overtaken { byte: Byte },
    /// It was read before.
    Doubled { byte: Byte },
    /// It was read before a byte of another writer, whose write had returned when this one began.
    Unordered { byte: Byte, before: Byte },
    /// The end of the stream came before its last bytes.
    EndedEarly { party: usize },
    /// It was written where nobody reads, after the last reader had closed its end.
    Unbroken { byte: Byte },
    /// Nobody can go on, and this one has not finished.
    Stuck { party: usize },
}

/// Who did what.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub party: usize,
    pub at: At,
    pub dies: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.dies { "killed before " } else { "" };
        f.pad(&format!(
            "{} {what}{:?}",
            char::from(b'a' + self.party as u8),
            self.at
        ))
    }
}

/// What may happen next.
pub struct Next {
    pub step: Step,
    pub world: World,
    pub flaw: Option<Flaw>,
}

/// Everything that may happen next.
pub fn steps(scenario: &Scenario, world: &World) -> Vec<Next> {
    let mut next = Vec::with_capacity(16);
    for (i, role) in scenario.roles.iter().enumerate() {
        let at = world.parties[i].at;
        if matches!(at, At::Gone | At::Unborn) {
            continue;
        }
        let step = Step {
            party: i,
            at,
            dies: false,
        };
        let mut turn = Turn {
            scenario,
            role: *role,
            i,
            world,
            step,
            next: &mut next,
        };
        turn.take();
        if world.deaths_left > 0 {
            let mut killed = *world;
            killed.deaths_left -= 1;
            killed.bury(i, true);
            scenario.companions(i).for_each(|j| killed.bury(j, true));
            next.push(Next {
                step: Step { dies: true, ..step },
                world: killed,
                flaw: None,
            });
        }
    }
    next
}

/// What is wrong with a moment in which nobody can go on.
pub fn verdict(scenario: &Scenario, world: &World, next: &[Next]) -> Option<Flaw> {
    if next.iter().any(|next| !next.step.dies) {
        return None;
    }
    let parties = || scenario.roles.iter().zip(&world.parties);
    let stays =
        |role: &Role, party: &Party| role.stays && party.at == At::Idle && party.done == role.bytes;
    // Readers wait for those who stay and write no more, unless there is something to read.
    let is_waiting_right = parties().any(|(role, party)| stays(role, party))
        && (world.is_all_read() || world.is_forgotten() && world.kernel.is_empty());
    parties()
        .position(|(role, party)| {
            let is_done = matches!(party.at, At::Gone | At::Unborn) || stays(role, party);
            let waits = role.side == Side::Reads && matches!(party.at, At::Sleep | At::Idle);
            !(is_done || waits && is_waiting_right)
        })
        .map(|party| Flaw::Stuck { party })
}

/// A participant's next step.
struct Turn<'a> {
    scenario: &'a Scenario,
    role: Role,
    i: usize,
    world: &'a World,
    step: Step,
    next: &'a mut Vec<Next>,
}

impl Turn<'_> {
    fn take(&mut self) {
        match (self.me().at, self.role.side) {
            (At::Idle, Side::Writes) => self.writer_begins(),
            (At::Idle, Side::Reads) => self.reader_begins(),
            (at, _) => {
                let is_known =
                    self.writes(at) || self.empties(at) || self.leaves(at) || self.reads(at);
                assert!(is_known, "{at:?} is nobody's step");
            }
        }
    }

    fn me(&self) -> &Party {
        &self.world.parties[self.i]
    }

    fn rules(&self) -> Rules {
        self.scenario.rules
    }

    fn kernel_room(&self) -> u8 {
        self.scenario
            .kernel_capacity
            .saturating_sub(self.world.kernel.len())
    }

    fn happens(&mut self, world: World) {
        self.happens_with(world, None);
    }

    fn happens_with(&mut self, world: World, flaw: Option<Flaw>) {
        self.next.push(Next {
            step: self.step,
            world,
            flaw,
        });
    }

    /// One thing that may happen: `change`, then on to `at`.
    fn go(&mut self, at: At, change: impl FnOnce(&mut World, &mut Party)) {
        let mut world = *self.world;
        let mut me = world.parties[self.i];
        change(&mut world, &mut me);
        me.at = at;
        // What is not needed any more does not tell states apart.
        if matches!(at, At::Idle | At::Sleep | At::SleepForRoom) {
            (me.kernel_seen, me.tail_seen, me.then) = (0, None, Then::Write);
        }
        world.parties[self.i] = me;
        self.happens(world);
    }

    fn on(&mut self, at: At) {
        self.go(at, |_, _| {});
    }

    fn end(&mut self) {
        let mut world = *self.world;
        world.bury(self.i, false);
        self.happens(world);
    }

    fn lock_write(&mut self, at: At) {
        let by = self.i as u8;
        let repairs = self.rules().repairs_inside;
        match self.world.write_lock {
            Lock::Held { .. } => {}
            Lock::Free => self.go(at, |w, _| w.write_lock = Lock::Held { by }),
            Lock::OwnerDied => self.go(at, |w, _| {
                w.write_lock = Lock::Held { by };
                w.is_inside &= !repairs;
            }),
        }
    }

    fn unlock_write(&mut self, at: At) {
        self.go(at, |w, _| w.write_lock = Lock::Free);
    }

    fn lock_read(&mut self, at: At) {
        let by = self.i as u8;
        if !matches!(self.world.read_lock, Lock::Held { .. }) {
            self.go(at, |w, _| w.read_lock = Lock::Held { by });
        }
    }

    fn unlock_read(&mut self, at: At) {
        self.go(at, |w, _| w.read_lock = Lock::Free);
    }

    /// A byte is read. Here each promise is checked.
    fn deliver(&mut self, at: At, take: impl FnOnce(&mut World) -> Byte) {
        let mut world = *self.world;
        let byte = take(&mut world);
        let expected = &mut world.taken[usize::from(byte.writer)];
        let flaw = match byte.seq.cmp(expected) {
            std::cmp::Ordering::Less => Some(Flaw::Doubled { byte }),
            std::cmp::Ordering::Greater => Some(Flaw::Overtaken { byte }),
            std::cmp::Ordering::Equal => None,
        };
        *expected = byte.seq + 1;
        world.parties[self.i].at = at;
        let flaw = flaw.or_else(|| self.unordered(&world, byte));
        self.happens_with(world, flaw);
    }

    fn unordered(&self, world: &World, byte: Byte) -> Option<Flaw> {
        self.scenario.givers(byte).find_map(|baton| {
            // One that was killed in its write has promised nothing.
            let has_returned = world.parties[baton.giver].done >= baton.after;
            let is_read = world.taken[baton.giver] >= baton.after;
            let before = Byte {
                writer: baton.giver as u8,
                seq: baton.after - 1,
            };
            (has_returned && !is_read).then_some(Flaw::Unordered { byte, before })
        })
    }

    /// The end of the stream is seen. Bytes that are left are for other members, or known to nobody.
    fn ends_early(&self) -> bool {
        let (world, roles) = (self.world, &self.scenario.roles);
        let others_read = world
            .parties
            .iter()
            .enumerate()
            .any(|(i, party)| i != self.i && party.is_member && party.has_read_end);
        let is_missing = (0..roles.len())
            .any(|i| roles[i].side == Side::Writes && world.parties[i].done > world.taken[i]);
        is_missing && !others_read && !world.is_forgotten()
    }

    fn fail(&mut self, flaw: Flaw) {
        self.happens_with(*self.world, Some(flaw));
    }

    /// Between two calls a process may become a member.
    fn may_join(&mut self) {
        if self.role.kind == Kind::Joins {
            self.go(At::Idle, |_, me| me.is_member = true);
        }
    }
}
