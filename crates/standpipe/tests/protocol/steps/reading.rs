//! Reading.

use super::emptying::repair_stage;
use super::{Flaw, Turn};
use crate::world::{At, Lock, World};

impl Turn<'_> {
    pub(super) fn reader_begins(&mut self) {
        let me = *self.me();
        let is_done = me.done == self.role.bytes || me.saw_end;
        if self.has_to_spawn() || is_done && me.is_member {
            self.reader_leaves();
        } else if is_done {
            self.end();
        } else if !me.is_member {
            self.read_plainly();
            self.may_join();
        } else if me.is_present || self.world.is_retired {
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
        } else if self.world.has_writers() {
        } else if self.ends_early() {
            self.fail(Flaw::EndedEarly { party: self.i });
        } else {
            self.end();
        }
    }

    pub(super) fn reads(&mut self, at: At) -> bool {
        let world = self.world;
        let rules = self.rules();
        match at {
            At::Enter => {
                let has_company = self.scenario.companions(self.i).next().is_some();
                let next = if has_company {
                    At::NoteEntered
                } else {
                    At::LockRead
                };
                self.go(next, |_, me| me.is_present = true);
            }
            At::NoteEntered => self.go(At::LockRead, |_, me| me.is_known_here = true),
            At::LockRead => self.lock_read(At::TakeTurn),
            At::TakeTurn => self.take_turn(),
            At::NoteServing => {
                let next = if rules.takes_off_first {
                    At::TakeMarkOff
                } else {
                    At::AskDue
                };
                self.go(next, |w, _| w.is_serving = rules.notes_serving);
            }
            At::TakeMarkOff => {
                let next = if rules.takes_off_first {
                    At::AskDue
                } else {
                    At::StoreDue
                };
                self.go(next, |w, _| w.mark = None);
            }
            At::AskDue => {
                let next = if rules.takes_off_first {
                    At::StoreDue
                } else {
                    At::TakeMarkOff
                };
                self.go(next, |w, me| me.kernel_seen = w.kernel.len());
            }
            At::StoreDue => self.go(At::ServingOff, |w, me| w.due = me.kernel_seen),
            At::ServingOff => self.go(At::TakeTurn, |w, _| w.is_serving = false),
            At::TakeDue if world.kernel.is_empty() => self.go(At::TakeTurn, |w, _| w.due = 0),
            At::TakeDue => self.deliver(At::CountDue, |w| w.kernel.take_first()),
            At::CountDue => self.go(At::Return, |w, _| w.due -= 1),
            At::RepairStage => self.go(At::TakeStage, |w, _| repair_stage(w)),
            At::TakeStage if world.stage.is_empty() => {
                self.go(At::TakeTurn, |w, _| w.staged_from = None);
            }
            At::TakeStage => self.deliver(At::Return, |w| w.stage.take_first()),
            At::TakeLane => self.deliver(At::ReturnFromLane, World::advance_head),
            At::AskInput => self.go(At::LookAgain, |w, me| {
                me.kernel_seen = w.kernel.len();
                me.saw_end = w.kernel.is_empty() && !w.has_writers();
            }),
            At::LookAgain => self.look_again(),
            At::TakeKernel if world.kernel.is_empty() => self.unlock_read(At::Sleep),
            At::TakeKernel => self.deliver(At::StoreRest, |w| w.kernel.take_first()),
            At::StoreRest => self.go(At::Return, |w, me| w.due = me.kernel_seen - 1),
            At::Return => self.return_to(At::Idle),
            At::ReturnFromLane => {
                self.return_to(At::Idle);
                // Now and then.
                self.return_to(At::LookBeside);
            }
            At::LookBeside if world.kernel.is_empty() => self.on(At::Idle),
            At::LookBeside => self.on(At::SeeTail),
            At::SeeTail => {
                self.go(At::MarkUnaware, |w, me| {
                    me.tail_seen = Some(w.tail());
                });
            }
            At::MarkUnaware => self.go(At::Idle, |w, me| w.mark = w.mark.or(me.tail_seen)),
            At::Sleep => {
                if !world.is_all_read() || !world.has_writers() {
                    self.on(At::Idle);
                }
            }
            _ => return false,
        }
        true
    }

    fn return_to(&mut self, at: At) {
        self.go(at, |w, me| {
            w.read_lock = Lock::Free;
            me.done += 1;
        });
    }

    /// Which bytes come first.
    fn take_turn(&mut self) {
        let world = self.world;
        let is_at_mark = match world.mark {
            Some(mark) if self.rules().serves_passed_marks => mark <= 0,
            mark => mark == Some(0),
        };
        self.on(if world.is_serving {
            At::AskDue
        } else if is_at_mark {
            At::NoteServing
        } else if world.due > 0 {
            At::TakeDue
        } else if world.staged_from.is_some() && self.rules().reads_stage {
            At::RepairStage
        } else if world.lane.is_empty() {
            At::AskInput
        } else {
            At::TakeLane
        });
    }

    fn look_again(&mut self) {
        if !self.world.lane.is_empty() {
            self.go(At::TakeTurn, |_, me| me.saw_end = false);
        } else if self.me().kernel_seen > 0 {
            self.on(At::TakeKernel);
        } else if !self.me().saw_end {
            self.unlock_read(At::Sleep);
        } else if self.ends_early() {
            self.fail(Flaw::EndedEarly { party: self.i });
        } else {
            self.unlock_read(At::Idle);
        }
    }
}
