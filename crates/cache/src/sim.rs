//! A cache and a disk in virtual time: what a policy makes of a workload.
//!
//! A [`Scenario`] says who reads what in which order, from which kind of store ([`Preset`]), with how
//! much memory and which policy. [`Scenario::run`] plays it on a [`Book`](crate::book::Book) without
//! memory of pages, and tells what came of it. The same scenario has the same [`Outcome`] on every
//! run and every machine: there is no clock but the virtual one, and randomness comes from a seed.
//!
//! # The disk
//! A head moves over one linear address space on turning platters. A read costs a fixed overhead, a
//! seek by the square root of the distance (none within a track), the wait until its first byte
//! comes by, and the transfer. Where the head is when, is known exactly, so nothing is random here.
//! Reads that wait are merged with their neighbours, and of the oldest 31 of them the one that can
//! be reached first goes first, as with native command queuing; but after every sixteen, one that
//! waited for more than half a second (the deadline and the batch of an elevator).
//!
//! The drive's own buffer goes on reading behind the last read, so that a sequential reader who
//! comes back a little late does not wait for a turn of the platters. It does not read what lies
//! before: drives that keep whole tracks make reading backwards look like reading forwards.

mod device;
mod outcome;
mod pattern;
mod platter;
mod run;
mod scenario;
#[cfg(test)]
mod tests;
pub mod workload;

pub use device::Preset;
pub use outcome::{Outcome, Sample};
pub use pattern::{Pattern, Read};
pub use scenario::{File, Reader, Scenario, Setup};
