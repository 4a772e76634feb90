//! A peer that writes anything into the shared memory, at any time, can stop its own stream and
//! nothing else: no panic, no call that never returns, no access outside the ring.

#![cfg(not(loom))]

use proptest::prelude::*;

#[path = "support/hostile.rs"]
mod hostile;

use hostile::{STEP_BYTES, Scene};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_peer_writes_each_call_comes_back(
        program in prop::collection::vec(any::<[u8; STEP_BYTES]>(), 1..60)
    ) {
        Scene::new().play(&program.concat());
    }
}
