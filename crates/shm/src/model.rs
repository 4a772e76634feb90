//! Twins of what the lane stands on, for loom: same names, same promises, no kernel.

pub mod doorbell;
pub mod lock;
pub mod memory;
