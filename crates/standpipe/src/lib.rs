//! Pipes over shared memory with the semantics of the kernel's, several times faster.

pub mod pipe;
