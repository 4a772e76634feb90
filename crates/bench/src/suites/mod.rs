//! The suites, one a file.
//!
//! Each has a plan, a value that says what to run and how long, with a `quick` and a `full` form,
//! and makes of it rounds for [`crate::measure`].

pub mod bw;
pub mod create;
pub mod latency;
pub mod pipe;
pub mod small;

/// How much time to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At most 40 seconds a suite.
    Quick,
    /// Long enough for figures to publish.
    Full,
}
