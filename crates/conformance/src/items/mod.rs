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
mod strangers;
mod unaware;
mod unread;
mod writing;

use crate::ends::{Reader, Writer};
use crate::remote::Warmth;
use crate::setting::Setting;
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
        strangers::BEHAVIOURS,
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

/// A pipe that was used, within this process: standpipe's bytes go through the lane from here on.
fn used_pipe(s: Setting) -> (Reader, Writer) {
    let (r, w) = s.pipe();
    warm_up(s, &r, &w, Warmth::Warm);
    (r, w)
}

/// Traffic within this process.
fn warm_up(s: Setting, r: &Reader, w: &Writer, warmth: Warmth) {
    for _ in 0..warmth.pieces() {
        assert_eq!(w.write(&[b'w'; PAGE]), Ok(PAGE));
        assert_eq!(r.read_exactly(PAGE), [b'w'; PAGE]);
    }
    if warmth == Warmth::Warm {
        s.assert_in_lane(w.lane_bytes());
    }
}
