//! Emptying the lane into the kernel pipe.

use super::Turn;
use crate::world::{At, Then, World};

impl Turn<'_> {
    pub(super) fn empties(&mut self, at: At) -> bool {
        let world = self.world;
        let rules = self.rules();
        match at {
            At::LookEmpty => {
                let is_empty = world.lane.is_empty() && world.staged_from.is_none();
                let skips = !rules.empties_first && self.me().then == Then::Write;
                let after = self.after_emptying();
                self.on(if is_empty || skips {
                    after
                } else {
                    At::EmptyLock
                });
            }
            At::EmptyLock => self.lock_read(At::EmptyRepair),
            At::EmptyRepair => self.go(At::EmptyMark, |w, _| repair_stage(w)),
            At::EmptyMark => {
                let is_staged = world.staged_from.is_some();
                self.go(
                    if is_staged {
                        At::EmptySplice
                    } else {
                        At::EmptyNoteStage
                    },
                    |w, _| {
                        if rules.marks_while_emptying {
                            w.mark = Some(0);
                        }
                    },
                );
            }
            At::EmptySplice if !world.has_readers() => self.on(At::EmptyUnlock),
            At::EmptySplice => {
                let room = self.kernel_room();
                let fits = world.stage.len() <= room;
                self.go(
                    if fits {
                        At::EmptyStageOff
                    } else {
                        At::EmptyUnlock
                    },
                    |w, _| {
                        for _ in 0..w.stage.len().min(room) {
                            let byte = w.stage.take_first();
                            w.kernel.push(byte);
                        }
                    },
                );
            }
            At::EmptyStageOff => self.go(At::EmptyNoteStage, |w, _| w.staged_from = None),
            At::EmptyNoteStage if world.lane.is_empty() => self.on(At::EmptyUnlock),
            At::EmptyNoteStage => self.go(At::EmptyCopy, |w, _| {
                // Broken: noted, but not where.
                w.staged_from = Some(if rules.notes_staged { 0 } else { -1 });
            }),
            At::EmptyCopy => {
                let piece = self.scenario.stage_capacity;
                self.go(At::EmptyHead, |w, _| {
                    let piece: Vec<_> = w.lane.iter().copied().take(piece.into()).collect();
                    for byte in piece {
                        w.stage.push(byte);
                    }
                });
            }
            At::EmptyHead => self.go(At::EmptyMark, |w, _| {
                for _ in 0..w.stage.len() {
                    w.advance_head();
                }
            }),
            At::EmptyUnlock => {
                let rest = !world.lane.is_empty() || world.staged_from.is_some();
                let waits = rest && self.me().then == Then::Write && world.has_readers();
                let after = self.after_emptying();
                self.unlock_read(if waits { At::EmptyWait } else { after });
            }
            At::EmptyWait => {
                if self.kernel_room() > 0 || !world.has_readers() {
                    self.on(At::LookEmpty);
                }
            }
            _ => return false,
        }
        true
    }

    fn after_emptying(&self) -> At {
        match self.me().then {
            Then::Write => At::WriteKernel,
            Then::LeaveReader if !self.rules().closes_presence_first => At::ClosePresenceLate,
            Then::LeaveReader | Then::LeaveWriter | Then::HandWriterOver => At::GoOn,
        }
    }
}

/// What a predecessor has copied into the stage has left the lane.
pub fn repair_stage(world: &mut World) {
    if world.staged_from != Some(0) {
        return;
    }
    for _ in 0..world.stage.len() {
        world.advance_head();
    }
    if world.stage.is_empty() {
        world.staged_from = None;
    }
}
