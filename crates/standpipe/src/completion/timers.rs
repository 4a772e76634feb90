//! What is due at a time.

use std::collections::BTreeSet;
use std::time::Instant;

use super::EndId;
use super::flight::FlightId;

/// What is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A time-out.
    Flight(FlightId),
    /// A look at an end.
    End(EndId),
}

#[derive(Default)]
pub struct Timers(BTreeSet<(Instant, Due)>);

impl Timers {
    pub fn add(&mut self, at: Instant, due: Due) {
        self.0.insert((at, due));
    }

    pub fn remove(&mut self, at: Instant, due: Due) {
        self.0.remove(&(at, due));
    }

    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// One that is due, taken off.
    pub fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let (at, due) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.pop_first();
            due
        })
    }
}
