//! Lanes kept for the next pipe.
//!
//! Making a lane takes ten times as long as making a kernel pipe: memory has to be had, cleared and
//! mapped. A program that opens and closes pipes all the time pays that once: a lane that nobody
//! else can reach any more is kept, with its memory, for the next pipe of the same size. Nobody
//! else can reach a lane that was made after this process's last fork; any other is unmapped.

use std::io;
use std::sync::{Mutex, PoisonError};

use standpipe_core::size::PipeSize;

use crate::lane::{Lane, Wake};

/// Most lanes kept. One is enough for a loop; a pipeline set up again and again has a few.
const MOST_LANES: usize = 8;
/// Largest lane kept: so at most 8 MiB stay with an idle process.
const MOST_BYTES: usize = 1 << 20;

static KEPT: Mutex<Vec<Lane>> = Mutex::new(Vec::new());

/// A lane: one that was kept, or a new one.
///
/// # Errors
/// As [`Lane::new`].
pub fn take(size: PipeSize, wake: Wake) -> io::Result<Lane> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = kept
        .iter()
        .position(|lane| lane.made_size() == size && lane.wake() == wake)
    {
        return Ok(kept.swap_remove(index));
    }
    drop(kept);
    Lane::new(size, wake)
}

/// Keeps a lane that nobody else can reach.
pub fn keep(mut lane: Lane) {
    // One that was resized is not what the next pipe asks for.
    if lane.size() != lane.made_size()
        || lane.size().capacity_bytes() > MOST_BYTES
        || lane.is_staged()
    {
        return;
    }
    lane.reset();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < MOST_LANES {
        kept.push(lane);
    }
}

/// Held over a fork, so that the child finds the pool whole.
pub type Pause = std::sync::MutexGuard<'static, Vec<Lane>>;

/// Keeps everybody out until the result is dropped. In a forked child, the lanes of the pool are
/// the parent's: [`Vec::clear`] them.
pub fn pause() -> Pause {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}
