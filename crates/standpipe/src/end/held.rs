//! Somebody keeps a lock of the lane.
//!
//! It is held for the time of a copy. For longer if its holder is stopped (by job control, or in a
//! debugger), and for good if a hostile peer wrote a living thread's id into it. Nobody can tell the two
//! apart. So a call that may wait goes on trying, and one that may not says `WouldBlock`, as long as the
//! pipe has peers that could give it something to do.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use standpipe_shm::lane::{Held, LaneError, Side};

use super::{End, kernel};

/// How long to go on without peers: a stopped one is continued, or killed, by then.
const ALONE: Duration = Duration::from_secs(1);

/// Since when a call has found the lock kept.
#[derive(Default)]
pub struct Patience(Option<Instant>);

/// Since when, and until when at least, the calls of an end have found the lock kept.
#[derive(Default)]
pub struct Kept(Mutex<Option<[Instant; 2]>>);

impl Kept {
    /// It was found so again. For how long that has been the case.
    fn note(&self) -> Duration {
        // A forked child may inherit it taken.
        let Ok(mut kept) = self.0.try_lock() else {
            return Duration::ZERO;
        };
        let now = Instant::now();
        let since = match *kept {
            Some([since, seen]) if now.duration_since(seen) < ALONE => since,
            _ => now,
        };
        *kept = Some([since, now]);
        now.duration_since(since)
    }
}

impl End {
    /// A step of a call failed. `Ok` means: only since somebody keeps the lock, so try again.
    ///
    /// # Errors
    /// The step's, if it is another; `WouldBlock`, `TimedOut`; `InvalidData` if no peer is left.
    #[cold]
    pub(super) fn bear(
        &self,
        side: Side,
        error: io::Error,
        patience: &mut Patience,
    ) -> io::Result<()> {
        let Some(held) = held(&error) else {
            return Err(error);
        };
        if self.kept.note() >= ALONE && !self.has_peers(side)? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, held));
        }
        if self.ask_nonblocking()? {
            return Err(error);
        }
        let waited = patience.0.get_or_insert_with(Instant::now).elapsed();
        if self.timeout().is_some_and(|timeout| waited >= timeout) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn has_peers(&self, side: Side) -> io::Result<bool> {
        let gone = match side {
            Side::Reader => PollFlags::HUP,
            Side::Writer => PollFlags::ERR,
        };
        let events = kernel::events(self.borrow(), PollFlags::empty())?;
        Ok(!events.intersects(gone))
    }
}

/// Whose, if that is why the call failed.
pub(crate) fn held(error: &io::Error) -> Option<Held> {
    error.get_ref()?.downcast_ref::<LaneError>()?.held()
}
