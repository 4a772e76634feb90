//! The shared memory of standpipe. All the unsafe lives here, in few files.
//!
//! - [`arena`]: pages with owners, for what is read once and handed on by reference.
//! - [`board`]: numbers that other processes may look at.
//! - [`lane`]: the protocol between writers and readers: positions, locks, wake-ups.
//! - [`sync`]: the one door to atomics; under `--cfg loom` it leads to loom's.
//! - `header`, `memory`, `doorbell`, `lock`: what the protocol stands on; `memory`, `doorbell` and
//!   `lock` have a twin for loom in `model`.
//! - [`fork`]: what this process has to know about its forks.
//! - [`patience`]: how long to spin or yield before sleeping.
//! - [`pool`]: lanes kept for the next pipe.
//! - [`private_fd`]: descriptors out of the way of the program.
//! - [`rendezvous`]: how processes that never heard of each other come to share a lane.

mod frontier;
mod gather;
mod header;
pub mod lane;
pub mod sync;

#[cfg(not(loom))]
pub mod arena;
#[cfg(not(loom))]
pub mod board;
#[cfg(not(loom))]
pub mod fork;
#[cfg(not(loom))]
pub mod patience;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod private_fd;
#[cfg(not(loom))]
pub mod rendezvous;
#[cfg(not(loom))]
mod robust_list;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
pub mod watch;

#[cfg(not(loom))]
mod doorbell;
#[cfg(not(loom))]
mod lock;
#[cfg(not(loom))]
mod mapping;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod presence;
#[cfg(not(loom))]
mod stage;

#[cfg(loom)]
mod model;
#[cfg(loom)]
use model::{doorbell, lock, memory};
