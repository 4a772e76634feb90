//! Computation that takes a known amount of a processor, not of the clock on the wall: a process
//! that shares its processor takes longer over it, as over any real work.

use std::hint::black_box;

use crate::clock::now_ns;

/// How fast this machine computes.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    steps_per_us: u64,
}

impl Speed {
    /// Measures it, in some milliseconds: the best of several tries, the others having been
    /// disturbed.
    #[must_use]
    pub fn measure() -> Self {
        const STEPS: u64 = 1 << 20;
        let tries = (0..7).map(|_| {
            let start_ns = now_ns();
            steps(STEPS);
            now_ns() - start_ns
        });
        let best_ns = tries.min().unwrap_or(1).max(1);
        Self {
            steps_per_us: (STEPS * 1000 / best_ns).max(1),
        }
    }

    /// Computes for so many microseconds.
    pub fn compute_us(self, us: u64) {
        steps(us * self.steps_per_us);
    }
}

/// One step of a linear congruential generator after the other: each needs the one before it.
fn steps(count: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    black_box(state);
}
