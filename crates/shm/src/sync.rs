//! The one door to atomics: `std`'s, or under `--cfg loom` those of loom, which explores every
//! order in which they may be seen. Everything else is barred from using raw atomics by clippy.
#![allow(clippy::disallowed_types)]

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
