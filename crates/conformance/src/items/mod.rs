//! The behaviours, by the sections of `semantics.md`.

mod capacity;
mod creation;
mod descriptors;
mod differences;
mod epolling;
mod fifo_life;
mod fifo_names;
mod fifo_open;
mod limits;
mod packets;
mod polling;
mod reading;
mod references;
mod sigio;
mod sigpipe;
mod unaware;
mod unread;
mod writing;

use crate::ends::Writer;
use crate::suite::Behaviour;

/// Every behaviour.
pub(crate) fn all() -> impl Iterator<Item = &'static Behaviour> {
    let files = [
        creation::BEHAVIOURS,
        descriptors::BEHAVIOURS,
        reading::BEHAVIOURS,
        writing::BEHAVIOURS,
        sigpipe::BEHAVIOURS,
        polling::BEHAVIOURS,
        epolling::BEHAVIOURS,
        unread::BEHAVIOURS,
        fifo_names::BEHAVIOURS,
        fifo_open::BEHAVIOURS,
        fifo_life::BEHAVIOURS,
        references::BEHAVIOURS,
        capacity::BEHAVIOURS,
        limits::BEHAVIOURS,
        packets::BEHAVIOURS,
        sigio::BEHAVIOURS,
        differences::BEHAVIOURS,
        unaware::BEHAVIOURS,
    ];
    files.into_iter().flatten().copied().flatten()
}

const PAGE: usize = 4096;
const PIPE_BUF: usize = 4096;
/// What a pipe holds that nobody configured.
const CAPACITY: usize = 65536;

/// `n` bytes whose order shows: no two stretches of 251 bytes at different offsets look the same.
fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

/// Fills an empty pipe to its capacity.
fn fill(w: &Writer) -> Vec<u8> {
    let bytes = pattern(CAPACITY);
    assert_eq!(
        w.write(&bytes),
        Ok(CAPACITY),
        "an empty pipe holds {CAPACITY} bytes"
    );
    bytes
}
