//! A page cache that reads ahead of its readers, in a byte budget that it never exceeds.
//!
//! - [`book`]: which pages are there, which are being read, which have to go. Pure: no I/O, no clock,
//!   no lock, and no memory of pages.
//! - [`cache`]: the book, the memory of its pages, and the stores that fill them.
//! - [`sim`]: a simulated disk in virtual time, and workloads on it.
//! - [`store`]: where the bytes come from: one version of one object.

pub mod book;
pub mod cache;
pub mod sim;
pub mod store;
