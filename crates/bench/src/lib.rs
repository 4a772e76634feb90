//! Benchmarks of standpipe against the kernel's pipes and the shell's pipelines.
//!
//! A suite ([`suites`]) makes rounds of contenders; [`measure`] runs them in turn and files what
//! they report as [`record`]s; [`table`] and [`report`] show them. The pipes under test have one
//! face ([`engine`]), their processes are forked anew for each run ([`family`]), and what arrives
//! is checked ([`verify`]).

mod args;
pub mod clock;
pub mod compute;
pub mod corpus;
mod dispatch;
pub mod engine;
pub mod family;
pub mod measure;
pub mod memory;
pub mod noise;
mod policies;
pub mod pressure;
pub mod processors;
pub mod record;
pub mod report;
pub mod shell;
pub mod stats;
pub mod stream;
pub mod suites;
pub mod table;
pub mod verify;

pub use args::BenchArgs;
pub use dispatch::main;
