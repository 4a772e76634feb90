//! One suite of pipe behaviours, run against the kernel as oracle and against standpipe.
//!
//! A behaviour is written once, generic over the [`setting::Setting`]: whose pipe it is shown on
//! and whether the peers are threads, forked children or strangers. On the kernel's pipe it proves the
//! test, on standpipe it holds the pipe to the kernel, and on a kernel pipe with a
//! [`flaw::Flaw`] it must fail.

pub mod ends;
pub mod engine;
pub mod fail;
pub mod flaw;
pub mod peer;
pub mod raw;
pub mod remote;
pub mod setting;
pub mod signals;
pub mod suite;
pub mod torture;
pub mod watch;

mod asleep;
mod items;
mod paths;
mod program;
mod side;
mod stranger;
mod through_ring;
