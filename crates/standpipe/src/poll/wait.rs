//! Look, sleep, look again: what poll and select have in common.

use std::io;
use std::time::{Duration, Instant};

use standpipe_shm::watch::{HeldSignals, sigset_t};

/// Something that can be looked at and slept on.
pub trait Watch {
    /// Takes down what is ready now; returns how much that is.
    fn look(&mut self) -> io::Result<usize>;

    /// How long at most to sleep until the next look.
    fn look_up(&self) -> Option<Duration>;

    /// Sleeps until something may be ready; called after a look.
    fn sleep(&mut self, timeout: Option<Duration>, mask: Option<&sigset_t>) -> io::Result<usize>;
}

/// Waits until a look finds something, or time is up.
pub fn wait(
    watch: &mut impl Watch,
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> io::Result<usize> {
    // One too far to be counted to never comes.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let ready = watch.look()?;
    let is_over = timeout.is_some_and(|timeout| timeout.is_zero());
    // A mask may let a pending signal in even when there is no time to wait.
    if ready > 0 || (is_over && mask.is_none()) {
        return Ok(ready);
    }
    let held = HeldSignals::hold()?;
    loop {
        // Signals came in up to the moment they were held; since then something may be ready.
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let nap = left.into_iter().chain(watch.look_up()).min();
        watch.sleep(nap, Some(mask.unwrap_or(held.mask())))?;
        let ready = watch.look()?;
        if ready > 0 || left.is_some_and(|left| left.is_zero()) {
            return Ok(ready);
        }
    }
}
