//! Each system call and each store to shared memory is one step; between any two, everybody else may
//! take theirs, or somebody dies.

use std::fmt;

use crate::scenario::{Kind, Role, Scenario, Side};
use crate::world::{At, Byte, Party, Then, World};

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A byte was read before one that its writer wrote before it, or that one is lost.
    Overtaken { byte: Byte },
    /// It was read before.
    Doubled { byte: Byte },
    /// It was read before a byte of another writer that was written before this one was begun.
    Unordered { byte: Byte, before: Byte },
    /// The end of the stream came before its last bytes.
    EndedEarly { party: usize },
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
        let text = format!(
            "{} {what}{:?}",
            char::from(b'a' + self.party as u8),
            self.at
        );
        f.pad(&text)
    }
}

pub type Outcome = Result<World, (Flaw, World)>;

/// Everything that may happen next.
pub fn steps(scenario: &Scenario, world: &World, next: &mut Vec<(Step, Outcome)>) {
    for i in 0..scenario.roles.len() {
        let at = world.parties[i].at;
        if matches!(at, At::Gone | At::Unborn) {
            continue;
        }
        let mut turn = Turn {
            scenario,
            role: scenario.roles[i],
            i,
            world,
            outcomes: Vec::new(),
        };
        turn.take();
        let step = Step {
            party: i,
            at,
            dies: false,
        };
        next.extend(turn.outcomes.into_iter().map(|outcome| (step, outcome)));
        if world.deaths_left > 0 {
            next.push((Step { dies: true, ..step }, Ok(killed(world, i))));
        }
    }
}

fn killed(world: &World, i: usize) -> World {
    let mut world = *world;
    world.deaths_left -= 1;
    world.last_member_was_killed |= world.parties[i].is_member;
    bury(&mut world, i);
    world
}

/// The kernel closes what it had, and passes its locks on.
fn bury(world: &mut World, i: usize) {
    let Party { done, .. } = world.parties[i];
    let party = &mut world.parties[i];
    *party = Party {
        done,
        ..Party::GONE
    };
    for lock in [&mut world.write_lock, &mut world.read_lock] {
        if *lock == Some(i as u8) {
            *lock = None;
        }
    }
}

/// What is wrong with a moment in which nobody can go on.
pub fn verdict(scenario: &Scenario, world: &World, next: &[(Step, Outcome)]) -> Option<Flaw> {
    if next.iter().any(|(step, _)| !step.dies) {
        return None;
    }
    let is_all_read = world.kernel.is_empty() && world.stage.is_empty() && world.lane.is_empty();
    let idles = |i: usize| {
        let (role, party) = (scenario.roles[i], world.parties[i]);
        matches!(party.at, At::Gone | At::Unborn)
            || role.stays && party.at == At::Idle && party.done >= role.bytes
    };
    let somebody_stays = (0..scenario.roles.len())
        .any(|i| scenario.roles[i].stays && world.parties[i].at == At::Idle);
    // Bytes that nobody alive knows of.
    let is_forgotten = !world.has_members() && world.last_member_was_killed;
    let may_wait = |i: usize| {
        let waits = matches!(world.parties[i].at, At::Sleep | At::Plain | At::Idle);
        waits && somebody_stays && (is_all_read || is_forgotten && world.kernel.is_empty())
    };
    (0..scenario.roles.len())
        .find(|&i| !idles(i) && !may_wait(i))
        .map(|party| Flaw::Stuck { party })
}

/// A participant's next step.
struct Turn<'a> {
    scenario: &'a Scenario,
    role: Role,
    i: usize,
    world: &'a World,
    outcomes: Vec<Outcome>,
}

impl Turn<'_> {
    fn me(&self) -> &Party {
        &self.world.parties[self.i]
    }

    /// One thing that may happen: `change`, then on to `at`.
    fn go(&mut self, at: At, change: impl FnOnce(&mut World, &mut Party)) {
        let mut world = *self.world;
        let mut me = world.parties[self.i];
        change(&mut world, &mut me);
        me.at = at;
        // What is not needed any more does not tell states apart.
        if matches!(at, At::Idle | At::Sleep | At::SleepForRoom) {
            (me.kernel_seen, me.then) = (0, Then::Write);
        }
        world.parties[self.i] = me;
        self.outcomes.push(Ok(world));
    }

    fn on(&mut self, at: At) {
        self.go(at, |_, _| {});
    }

    fn lock_write(&mut self, at: At) {
        let me = self.i as u8;
        if self.world.write_lock.is_none() {
            self.go(at, |w, _| w.write_lock = Some(me));
        }
    }

    fn lock_read(&mut self, at: At) {
        let me = self.i as u8;
        if self.world.read_lock.is_none() {
            self.go(at, |w, _| w.read_lock = Some(me));
        }
    }

    fn leave(&mut self) {
        let mut world = *self.world;
        if world.parties[self.i].is_member {
            world.last_member_was_killed = false;
        }
        bury(&mut world, self.i);
        self.outcomes.push(Ok(world));
    }

    fn fail(&mut self, flaw: Flaw) {
        self.outcomes.push(Err((flaw, *self.world)));
    }

    /// A byte is read. Here each promise is checked.
    fn deliver(&mut self, at: At, take: impl FnOnce(&mut World) -> Byte) {
        let mut world = *self.world;
        let byte = take(&mut world);
        let writer = usize::from(byte.writer);
        let expected = world.taken[writer];
        let flaw = if byte.seq < expected {
            Some(Flaw::Doubled { byte })
        } else if byte.seq > expected {
            Some(Flaw::Overtaken { byte })
        } else {
            self.unordered(&world, byte)
        };
        world.taken[writer] = expected + 1;
        world.parties[self.i].at = at;
        match flaw {
            Some(flaw) => self.outcomes.push(Err((flaw, world))),
            None => self.outcomes.push(Ok(world)),
        }
    }

    fn unordered(&self, world: &World, byte: Byte) -> Option<Flaw> {
        self.scenario.givers(byte).find_map(|baton| {
            let was_given = world.parties[baton.giver].done >= baton.writes;
            let before = Byte {
                writer: baton.giver as u8,
                seq: baton.writes - 1,
            };
            (was_given && world.taken[baton.giver] < baton.writes)
                .then_some(Flaw::Unordered { byte, before })
        })
    }

    fn take(&mut self) {
        match (self.me().at, self.role.side) {
            (At::Idle | At::Plain, Side::Writes) => self.writer_begins(),
            (At::Idle | At::Plain, Side::Reads) => self.reader_begins(),
            (at, _) => {
                self.write_step(at);
                self.empty_step(at);
                self.leave_step(at);
                self.read_step(at);
            }
        }
    }

    // ---- between calls ----

    fn writer_begins(&mut self) {
        let me = *self.me();
        if let Some(spawn) = self.role.spawns
            && spawn.after == me.done
            && self.world.parties[spawn.child].at == At::Unborn
        {
            self.go(At::Idle, |w, _| {
                w.has_unaware_writers = true;
                let child = &mut w.parties[spawn.child];
                (child.at, child.has_write_end) = (At::Idle, true);
            });
            return;
        }
        if me.done == self.role.bytes {
            if self.role.stays {
            } else if me.is_member {
                self.go(At::EmptyLock, |_, me| me.then = Then::LeaveWriter);
            } else {
                self.leave();
            }
            return;
        }
        if !self.has_batons() {
            return;
        }
        if !me.is_member {
            self.write_plainly();
            if self.role.kind == Kind::Joins {
                self.join();
            }
            return;
        }
        self.on(At::AskDepartures);
        // Not due.
        if me.thinks_present && !self.world.has_unaware_writers {
            self.go(At::LockWrite, |_, me| me.kernel_seen = 0);
        }
    }

    fn has_batons(&self) -> bool {
        let write = Byte {
            writer: self.i as u8,
            seq: self.me().done,
        };
        self.scenario.givers(write).all(|baton| {
            let giver = &self.world.parties[baton.giver];
            giver.done >= baton.writes || giver.at == At::Gone
        })
    }

    fn join(&mut self) {
        let sets_outside =
            self.scenario.rules.joiner_sets_outside && self.role.side == Side::Writes;
        self.go(At::Idle, |w, me| {
            me.is_member = true;
            w.is_outside |= sets_outside && me.done > 0;
        });
    }

    fn write_plainly(&mut self) {
        if !self.world.has_readers() {
            self.leave();
        } else if self.world.kernel_room(self.scenario.kernel_capacity) > 0 {
            let byte = self.next_byte();
            self.go(At::Idle, |w, me| {
                w.kernel.push(byte);
                me.done += 1;
            });
        }
    }

    fn next_byte(&self) -> Byte {
        Byte {
            writer: self.i as u8,
            seq: self.me().done,
        }
    }

    fn reader_begins(&mut self) {
        let me = *self.me();
        if let Some(spawn) = self.role.spawns
            && spawn.after == me.done
            && self.world.parties[spawn.child].at == At::Unborn
        {
            self.reader_leaves();
            return;
        }
        if me.done == self.role.bytes || me.saw_end {
            if me.is_member {
                self.reader_leaves();
            } else {
                self.leave();
            }
            return;
        }
        if !me.is_member {
            self.read_plainly();
            if self.role.kind == Kind::Joins {
                self.join();
            }
        } else if me.is_present {
            self.on(At::LockRead);
        } else {
            self.on(At::Enter);
        }
    }

    fn read_plainly(&mut self) {
        if !self.world.kernel.is_empty() {
            let i = self.i;
            self.deliver(At::Idle, |w| {
                w.parties[i].done += 1;
                w.kernel.take_first()
            });
        } else if !self.world.has_writers() {
            if self.is_end_too_early() {
                self.fail(Flaw::EndedEarly { party: self.i });
            } else {
                self.leave();
            }
        }
    }

    fn is_end_too_early(&self) -> bool {
        let world = self.world;
        let is_forgotten = !world.has_members() && world.last_member_was_killed;
        let others_read = world
            .parties
            .iter()
            .enumerate()
            .any(|(i, party)| i != self.i && party.is_member && party.has_read_end);
        let is_reader = |i: usize| {
            self.scenario
                .roles
                .get(i)
                .is_some_and(|r| r.side == Side::Reads)
        };
        let missing = (0..self.scenario.roles.len())
            .any(|i| !is_reader(i) && world.parties[i].done > world.taken[i]);
        missing && !is_forgotten && !others_read
    }

    // ---- a member writes ----

    fn write_step(&mut self, at: At) {
        let rules = self.scenario.rules;
        let world = self.world;
        match at {
            At::AskDepartures => self.go(At::AskPresence, |_, me| me.has_news = false),
            At::AskPresence if !world.has_readers() => self.leave(),
            At::AskPresence => self.go(At::AskKernel, |w, me| {
                me.thinks_present = w.is_reader_present() && !w.is_retired;
            }),
            At::AskKernel => {
                let at = if self.me().thinks_present {
                    At::LockWrite
                } else {
                    At::EmptyLock
                };
                self.go(at, |w, me| {
                    me.kernel_seen = w.kernel.len();
                    me.then = Then::Write;
                });
            }
            At::LockWrite => self.lock_write(At::CheckNote),
            At::CheckNote => {
                let has_news = self.me().has_news || world.is_retired;
                if has_news && rules.looks_for_departures {
                    self.go(At::AskDepartures, |w, _| w.write_lock = None);
                } else if world.lane.len() == self.scenario.lane_capacity {
                    self.go(At::SleepForRoom, |w, _| w.write_lock = None);
                } else {
                    self.on(At::LookOutside);
                }
            }
            At::SleepForRoom => {
                let wakes = world.lane.len() < self.scenario.lane_capacity
                    || !world.is_reader_present()
                    || !world.has_readers()
                    || self.me().has_news;
                if wakes {
                    self.on(At::AskDepartures);
                }
            }
            At::LookOutside => {
                let marks = world.is_outside || self.me().kernel_seen > 0;
                self.on(if !marks {
                    At::Publish
                } else if rules.marks && rules.marks_first {
                    At::PutMark
                } else if rules.marks {
                    At::PutMarkLate
                } else {
                    At::ClearOutside
                });
            }
            At::PutMark => self.go(At::ClearOutside, |w, _| {
                w.mark = w.mark.or(Some(w.lane.len()));
            }),
            At::ClearOutside => self.go(At::Publish, |w, _| w.is_outside = false),
            // Broken: published first.
            At::PutMarkLate => {
                let byte = self.next_byte();
                self.go(At::ClearOutsideLate, |w, _| w.lane.push(byte));
            }
            At::ClearOutsideLate => self.go(At::UnlockWrite, |w, _| {
                w.mark = w.mark.or(Some(w.lane.len() - 1));
                w.is_outside = false;
            }),
            At::Publish => {
                let byte = self.next_byte();
                self.go(At::UnlockWrite, |w, _| w.lane.push(byte));
            }
            At::UnlockWrite => self.go(At::Idle, |w, me| {
                w.write_lock = None;
                me.done += 1;
            }),
            At::WriteKernel if !world.has_readers() => self.leave(),
            At::WriteKernel => {
                if world.kernel_room(self.scenario.kernel_capacity) > 0 {
                    let byte = self.next_byte();
                    let at = if rules.sets_outside_locked {
                        At::LockOutside
                    } else {
                        At::SetOutside
                    };
                    self.go(at, |w, _| w.kernel.push(byte));
                }
            }
            At::LockOutside => self.lock_write(At::SetOutside),
            At::SetOutside if rules.sets_outside_locked => {
                self.go(At::UnlockOutside, |w, _| w.is_outside = true);
            }
            At::SetOutside => self.go(At::Idle, |w, me| {
                w.is_outside = true;
                me.done += 1;
            }),
            At::UnlockOutside => self.go(At::Idle, |w, me| {
                w.write_lock = None;
                me.done += 1;
            }),
            _ => {}
        }
    }

    // ---- emptying the lane ----

    fn empty_step(&mut self, at: At) {
        let world = self.world;
        let rules = self.scenario.rules;
        match at {
            At::EmptyLock if !rules.asks_empty_locked && world.lane.is_empty() => {
                let at = self.after_emptying();
                self.on(at);
            }
            At::EmptyLock => self.lock_read(At::EmptyRecover),
            At::EmptyRecover => {
                let is_empty = world.lane.is_empty() && world.stage.is_empty();
                let at = if is_empty {
                    At::EmptyUnlock
                } else {
                    At::EmptyMark
                };
                self.go(at, |w, _| recover(w));
            }
            At::EmptyMark => {
                let at = if world.stage.is_empty() {
                    At::EmptyNoteStage
                } else {
                    At::EmptySplice
                };
                self.go(at, |w, _| w.mark = Some(0));
            }
            At::EmptyNoteStage if world.lane.is_empty() => self.on(At::EmptyUnlock),
            At::EmptyNoteStage => self.go(At::EmptyCopy, |w, _| {
                if rules.notes_staged {
                    w.is_staged_from_head = true;
                }
            }),
            At::EmptyCopy => {
                let piece = self.scenario.stage_capacity.min(world.lane.len());
                self.go(At::EmptyHead, |w, _| {
                    let mut lane = w.lane;
                    (0..piece).for_each(|_| w.stage.push(lane.take_first()));
                });
            }
            At::EmptyHead => self.go(At::EmptySplice, |w, _| advance_by_stage(w)),
            At::EmptySplice => {
                let room = world.kernel_room(self.scenario.kernel_capacity);
                let fits = world.stage.len() <= room;
                let goes_on = fits && !world.lane.is_empty() && world.has_readers();
                self.go(
                    if goes_on {
                        At::EmptyNoteStage
                    } else {
                        At::EmptyUnlock
                    },
                    |w, _| {
                        splice(w, room);
                    },
                );
            }
            At::EmptyUnlock => {
                let rest = !world.lane.is_empty() || !world.stage.is_empty();
                let waits = rest && self.me().then == Then::Write && world.has_readers();
                let at = if waits {
                    At::EmptyWait
                } else {
                    self.after_emptying()
                };
                self.go(at, |w, _| w.read_lock = None);
            }
            At::EmptyWait if !world.has_readers() => self.leave(),
            At::EmptyWait => {
                if world.kernel_room(self.scenario.kernel_capacity) > 0 {
                    self.on(At::EmptyLock);
                }
                if world.is_reader_present() && !world.is_retired {
                    self.on(At::AskDepartures);
                }
            }
            _ => {}
        }
    }

    fn after_emptying(&self) -> At {
        match self.me().then {
            Then::Write => At::WriteKernel,
            Then::LeaveReader if !self.scenario.rules.closes_presence_first => {
                At::ClosePresenceLate
            }
            Then::LeaveReader | Then::LeaveWriter => At::GoOn,
        }
    }

    // ---- leaving ----

    fn reader_leaves(&mut self) {
        let keeps = self
            .role
            .spawns
            .is_some_and(|spawn| spawn.keeps && !self.me().saw_end);
        let closes_first = self.scenario.rules.closes_presence_first;
        self.on(if keeps {
            At::Retire
        } else if closes_first {
            At::ClosePresence
        } else {
            At::NoteDeparture
        });
    }

    fn leave_step(&mut self, at: At) {
        match at {
            At::Retire => self.go(At::ClosePresence, |w, _| w.is_retired = true),
            At::ClosePresence => self.go(At::NoteDeparture, |_, me| me.is_present = false),
            At::NoteDeparture => {
                let passes = self.scenario.rules.passes_write_lock;
                self.go(
                    if passes {
                        At::PassWriteLock
                    } else {
                        At::EmptyLock
                    },
                    |w, me| {
                        w.parties.iter_mut().for_each(|party| party.has_news = true);
                        me.then = Then::LeaveReader;
                    },
                );
            }
            At::PassWriteLock => self.lock_write(At::PassedWriteLock),
            At::PassedWriteLock => self.go(At::EmptyLock, |w, _| w.write_lock = None),
            At::ClosePresenceLate => self.go(At::GoOn, |_, me| me.is_present = false),
            At::GoOn => self.go_on(),
            _ => {}
        }
    }

    /// The end is closed, or a program gets it.
    fn go_on(&mut self) {
        let unborn = self
            .role
            .spawns
            .filter(|spawn| self.world.parties[spawn.child].at == At::Unborn)
            .filter(|_| self.role.side == Side::Reads && !self.me().saw_end);
        let Some(spawn) = unborn else {
            self.leave();
            return;
        };
        let mut world = *self.world;
        let child = &mut world.parties[spawn.child];
        (child.at, child.has_read_end) = (At::Idle, true);
        if spawn.keeps {
            world.parties[self.i].at = At::Idle;
        } else {
            world.last_member_was_killed = false;
            bury(&mut world, self.i);
        }
        self.outcomes.push(Ok(world));
    }

    // ---- a member reads ----

    fn read_step(&mut self, at: At) {
        let world = self.world;
        let rules = self.scenario.rules;
        match at {
            At::Enter => self.go(At::LockRead, |_, me| me.is_present = true),
            At::LockRead => self.lock_read(At::Recover),
            At::Recover if rules.readers_finish_stage && !world.stage.is_empty() => {
                self.go(At::FinishStage, |w, _| recover(w));
            }
            At::Recover => self.on(At::Decide),
            At::FinishStage => {
                let room = world.kernel_room(self.scenario.kernel_capacity);
                let fits = world.stage.len() <= room;
                self.go(if fits { At::Decide } else { At::TakeKernel }, |w, _| {
                    splice(w, room)
                });
            }
            At::Decide => self.decide(),
            At::NoteServing => self.go(At::TakeMarkOff, |w, _| w.is_serving = rules.notes_serving),
            At::TakeMarkOff if !rules.takes_off_first => {
                self.go(At::AskDue, |w, me| me.kernel_seen = w.kernel.len());
            }
            At::TakeMarkOff => self.go(At::AskDue, |w, _| w.mark = None),
            At::AskDue if !rules.takes_off_first => self.go(At::StoreDue, |w, _| w.mark = None),
            At::AskDue => self.go(At::StoreDue, |w, me| me.kernel_seen = w.kernel.len()),
            At::StoreDue => self.go(At::ServingOff, |w, me| w.due = me.kernel_seen),
            At::ServingOff => self.go(At::Decide, |w, _| w.is_serving = false),
            At::TakeDue if world.kernel.is_empty() => self.go(At::Decide, |w, _| w.due = 0),
            At::TakeDue => self.deliver(At::CountDue, |w| w.kernel.take_first()),
            At::CountDue => self.go(At::Return, |w, _| w.due -= 1),
            At::TakeLane => self.deliver(At::Return, World::leave_lane),
            At::SeeTail => self.go(At::MarkForKernel, |w, me| me.kernel_seen = w.lane.len()),
            At::MarkForKernel => {
                self.go(At::Decide, |w, me| w.mark = w.mark.or(Some(me.kernel_seen)));
            }
            At::AskInput => self.go(At::LookAgain, |w, me| {
                me.kernel_seen = w.kernel.len();
                me.saw_end = w.kernel.is_empty() && !w.has_writers();
            }),
            At::LookAgain => self.look_again(),
            At::TakeKernel if world.kernel.is_empty() => {
                self.go(At::Sleep, |w, _| w.read_lock = None);
            }
            At::TakeKernel => self.deliver(At::Return, |w| w.kernel.take_first()),
            At::Return => self.go(At::Idle, |w, me| {
                w.read_lock = None;
                me.done += 1;
            }),
            At::Sleep => {
                let wakes =
                    !world.kernel.is_empty() || !world.lane.is_empty() || !world.has_writers();
                if wakes {
                    self.on(At::Idle);
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self) {
        let world = self.world;
        if world.is_serving {
            self.on(At::TakeMarkOff);
        } else if world.due > 0 {
            self.on(At::TakeDue);
        } else if world.mark == Some(0) {
            self.on(At::NoteServing);
        } else if world.lane.is_empty() {
            self.on(At::AskInput);
        } else {
            self.on(At::TakeLane);
            if world.mark.is_none() && !world.kernel.is_empty() {
                self.on(At::SeeTail);
            }
        }
    }

    fn look_again(&mut self) {
        if !self.world.lane.is_empty() {
            self.go(At::Decide, |_, me| me.saw_end = false);
        } else if self.me().kernel_seen > 0 {
            self.on(At::TakeKernel);
        } else if self.me().saw_end && self.is_end_too_early() {
            self.fail(Flaw::EndedEarly { party: self.i });
        } else {
            let at = if self.me().saw_end {
                At::Idle
            } else {
                At::Sleep
            };
            self.go(at, |w, _| w.read_lock = None);
        }
    }
}

/// What a predecessor has copied into the stage has left the lane.
fn recover(world: &mut World) {
    if world.is_staged_from_head {
        advance_by_stage(world);
    }
}

fn advance_by_stage(world: &mut World) {
    for _ in 0..world.stage.len() {
        world.leave_lane();
    }
}

fn splice(world: &mut World, room: u8) {
    for _ in 0..world.stage.len().min(room) {
        let byte = world.stage.take_first();
        world.kernel.push(byte);
    }
}
