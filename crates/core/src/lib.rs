//! The rules of standpipe, pure: no I/O, no clock, no atomics, no unsafe. Time and randomness are
//! arguments, so that what the property tests explore is what ships.
//!
//! - [`accounting`]: room, atomic writes, and when a sleeping peer is worth waking.
//! - [`free_map`]: which pages of an arena are free.
//! - [`readahead`]: which pages to read before they are asked for.
//! - [`size`]: capacities and segments, as the pair `Po So`.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod free_map;
pub mod readahead;
pub mod size;

// Counts are `u64` in shared memory and `usize` in the API.
const _: () = assert!(usize::BITS == 64, "standpipe needs a 64-bit target");
