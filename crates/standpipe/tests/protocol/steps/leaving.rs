//! Leaving the lane, and handing ends to programs.

use super::Turn;
use crate::scenario::Keeps;
use crate::world::{At, Then};

impl Turn<'_> {
    pub(super) fn reader_leaves(&mut self) {
        if self.me().is_known_here && self.rules().forgets_first {
            self.on(At::Forget);
        } else {
            self.close_presence();
        }
    }

    fn close_presence(&mut self) {
        let closes_first = self.rules().closes_presence_first;
        self.on(if closes_first {
            At::ClosePresence
        } else {
            At::NoteDeparture
        });
    }

    pub(super) fn leaves(&mut self, at: At) -> bool {
        let rules = self.rules();
        let spawns = self.role.spawns.filter(|_| self.has_to_spawn());
        let retires = spawns.is_some_and(|spawn| spawn.keeps == Keeps::RetiredEnd);
        match at {
            At::Forget => self.go(At::Idle, |_, me| me.is_known_here = false),
            At::ClosePresence => self.go(At::NoteDeparture, |_, me| me.is_present = false),
            At::NoteDeparture => {
                let next = if rules.passes_write_lock {
                    At::PassWriteLock
                } else {
                    At::LookEmpty
                };
                self.go(if retires { At::Retire } else { next }, |w, me| {
                    w.parties.iter_mut().for_each(|party| party.has_news = true);
                    me.then = Then::LeaveReader;
                });
            }
            At::Retire => self.go(At::PassWriteLock, |w, _| w.is_retired = true),
            At::PassWriteLock => self.lock_write(At::PassedWriteLock),
            At::PassedWriteLock => self.unlock_write(At::LookEmpty),
            At::ClosePresenceLate => self.go(At::GoOn, |_, me| me.is_present = false),
            At::AnnounceWriter => {
                let next = if rules.empties_before_hand_over {
                    At::LookEmpty
                } else {
                    At::GoOn
                };
                self.go(next, |w, me| {
                    w.has_unaware_writers = true;
                    me.then = Then::HandWriterOver;
                });
            }
            At::GoOn if self.has_to_spawn() => self.spawn(),
            At::GoOn => self.end(),
            _ => return false,
        }
        true
    }
}
