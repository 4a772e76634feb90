//! The rendezvous, with real sockets and real processes.
//!
//! Each test has a pipe, and hence a name, of its own. But they run one after the other: the forked
//! children of one would hold copies of the other's descriptors.

#![cfg(not(loom))]

mod child;
mod deaths;
mod false_hosts;
mod meeting;
mod strangers;
mod support;
mod users;
