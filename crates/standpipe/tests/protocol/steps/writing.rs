//! Writing.

use super::{Flaw, Turn};
use crate::scenario::{Keeps, Side};
use crate::world::{At, Byte, Lock, Then};

impl Turn<'_> {
    pub(super) fn writer_begins(&mut self) {
        let me = *self.me();
        if self.has_to_spawn() {
            self.on(At::AnnounceWriter);
        } else if me.done == self.role.bytes {
            self.writer_is_done();
        } else if !self.has_batons() {
        } else if me.is_member {
            self.begin_write();
        } else {
            self.write_plainly();
            self.may_join();
        }
    }

    fn writer_is_done(&mut self) {
        if self.role.stays {
        } else if self.me().is_member {
            self.go(At::LookEmpty, |_, me| me.then = Then::LeaveWriter);
        } else {
            self.end();
        }
    }

    /// Whether those before it have written, or never will.
    fn has_batons(&self) -> bool {
        self.scenario.givers(self.next_byte()).all(|baton| {
            let giver = &self.world.parties[baton.giver];
            giver.at == At::Gone || giver.done >= baton.after && !baton.ends
        })
    }

    fn next_byte(&self) -> Byte {
        Byte {
            writer: self.i as u8,
            seq: self.me().done,
        }
    }

    fn write_plainly(&mut self) {
        if !self.world.has_readers() {
            self.end();
        } else if self.kernel_room() > 0 {
            let byte = self.next_byte();
            self.go(At::Idle, |w, me| {
                w.kernel.push(byte);
                me.done += 1;
            });
        }
    }

    fn begin_write(&mut self) {
        // Of those who die it may hear a little later.
        let nobody_died = self.world.deaths_left == self.scenario.deaths;
        let began_unread = nobody_died && !self.world.has_readers();
        // Noting the departures that it knows of, before it asks.
        self.go(At::AskPresence, |_, me| {
            me.has_news = false;
            me.began_unread = began_unread;
        });
        // Or asking is not due.
        let me = self.me();
        if !me.has_news && !self.world.has_unaware_writers {
            let way = if self.goes_in() {
                At::LockWrite
            } else {
                At::LookEmpty
            };
            self.go(way, |_, me| me.began_unread = began_unread);
        }
    }

    fn goes_in(&self) -> bool {
        self.me().thinks_present && !self.is_retired()
    }

    /// Whether a reader of its own process is at the lane, which nobody has to be asked about.
    fn is_read_here(&self) -> bool {
        let reader = self.role.beside.map(|reader| &self.world.parties[reader]);
        reader.is_some_and(|reader| reader.is_known_here)
    }

    fn is_retired(&self) -> bool {
        let retires = self.rules().unaware_writers_retire;
        self.world.is_retired || retires && self.world.has_unaware_writers
    }

    pub(super) fn writes(&mut self, at: At) -> bool {
        self.asks(at) || self.goes_inside(at) || self.puts_into_lane(at) || self.writes_outside(at)
    }

    /// Which way the bytes take.
    fn asks(&mut self, at: At) -> bool {
        match at {
            At::AskPresence if self.is_read_here() => {
                let way = if self.is_retired() {
                    At::LookEmpty
                } else {
                    At::LockWrite
                };
                self.go(way, |_, me| me.thinks_present = true);
            }
            At::AskPresence if !self.world.has_readers() => self.end(),
            At::AskPresence => self.go(At::AskKernel, |w, me| {
                me.thinks_present = w.is_reader_present();
            }),
            At::AskKernel if !self.goes_in() => self.on(At::LookEmpty),
            At::AskKernel if self.world.kernel.is_empty() => self.on(At::LockWrite),
            At::AskKernel => self.on(At::NoteKernelBytes),
            At::NoteKernelBytes => self.go(At::LockWrite, |w, _| w.is_inside = false),
            At::SleepForRoom => {
                let world = self.world;
                let is_alone = !world.is_reader_present() || !world.has_readers();
                if !self.is_lane_full() || is_alone || self.me().has_news {
                    self.go(At::AskPresence, |_, me| me.has_news = false);
                }
            }
            _ => return false,
        }
        true
    }

    fn goes_inside(&mut self, at: At) -> bool {
        let rules = self.rules();
        let has_news = self.me().has_news || self.is_retired();
        let (before, after) = if rules.goes_inside_first {
            (At::GoInside, At::Publish)
        } else {
            (At::AskForMark, At::GoInside)
        };
        match at {
            At::LockWrite => self.lock_write(At::LookForNews),
            At::LookForNews if has_news && rules.looks_for_news => {
                self.go(At::AskPresence, |w, me| {
                    w.write_lock = Lock::Free;
                    me.has_news = false;
                });
            }
            At::LookForNews => self.on(At::LookInside),
            At::LookInside => {
                let is_inside = self.world.is_inside || !rules.marks;
                self.on(if is_inside { At::Publish } else { before });
            }
            At::GoInside => {
                let next = if rules.goes_inside_first {
                    At::AskForMark
                } else {
                    At::Publish
                };
                self.go(next, |w, _| w.is_inside = true);
            }
            At::AskForMark if self.world.kernel.is_empty() => self.on(after),
            At::AskForMark if rules.marks_first => self.on(At::PutMark),
            At::AskForMark => self.on(At::PublishUnmarked),
            At::PutMark => self.go(after, |w, _| w.mark = w.mark.or(Some(w.tail()))),
            _ => return false,
        }
        true
    }

    fn puts_into_lane(&mut self, at: At) -> bool {
        match at {
            At::Publish | At::PublishUnmarked if self.is_lane_full() => {
                self.unlock_write(At::SleepForRoom);
            }
            At::Publish if self.me().began_unread => self.fail(Flaw::Unbroken {
                byte: self.next_byte(),
            }),
            At::Publish => self.publish(At::UnlockWrite),
            At::PublishUnmarked => self.publish(At::PutMarkLate),
            At::PutMarkLate => self.go(At::UnlockWrite, |w, _| {
                w.mark = w.mark.or(Some(w.tail() - 1));
            }),
            At::UnlockWrite => self.go(At::Idle, |w, me| {
                w.write_lock = Lock::Free;
                me.done += 1;
            }),
            _ => return false,
        }
        true
    }

    fn writes_outside(&mut self, at: At) -> bool {
        match at {
            At::WriteKernel if !self.world.has_readers() => self.end(),
            At::WriteKernel => {
                if self.kernel_room() > 0 {
                    let byte = self.next_byte();
                    self.go(At::NoteOutside, |w, _| w.kernel.push(byte));
                }
            }
            At::NoteOutside => self.go(At::Idle, |w, me| {
                w.is_inside = false;
                me.done += 1;
            }),
            _ => return false,
        }
        true
    }

    fn is_lane_full(&self) -> bool {
        self.world.lane.len() >= self.scenario.lane_capacity
    }

    fn publish(&mut self, at: At) {
        let byte = self.next_byte();
        self.go(at, |w, _| w.lane.push(byte));
    }

    /// Whether it is time to start the child.
    pub(super) fn has_to_spawn(&self) -> bool {
        self.role.spawns.is_some_and(|spawn| {
            let is_unborn = self.world.parties[spawn.child].at == At::Unborn;
            is_unborn && spawn.after == self.me().done && !self.me().saw_end
        })
    }

    /// A child begins with a copy of the end.
    pub(super) fn spawn(&mut self) {
        let Some(spawn) = self.role.spawns else {
            return;
        };
        let side = self.role.side;
        let mut world = *self.world;
        let child = &mut world.parties[spawn.child];
        child.at = At::Idle;
        child.has_read_end = side == Side::Reads;
        child.has_write_end = side == Side::Writes;
        if spawn.keeps == Keeps::Nothing {
            world.bury(self.i, false);
        } else {
            world.parties[self.i].at = At::Idle;
        }
        self.happens(world);
    }
}
