//! A peer that writes anything into the shared memory, at any time, can stop its own stream and
//! nothing else: no panic, no call that never returns, no access outside the ring.

#![cfg(not(loom))]

use proptest::prelude::*;

#[path = "support/hostile.rs"]
mod hostile;

use hostile::{STEP_BYTES, Scene};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_a_peer_writes_each_call_comes_back(
        program in prop::collection::vec(any::<[u8; STEP_BYTES]>(), 1..60)
    ) {
        Scene::new().play(&program.concat());
    }
}

/// The same while a call is under way: what it has checked may change before it is used.
#[test]
fn whenever_a_peer_writes_each_call_comes_back() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        let honest = scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(1);
            for _ in 0..30_000 {
                let mut step = [0; STEP_BYTES];
                random.fill(&mut step);
                step[0] = random.u8(6..16);
                scene.play(&step);
            }
        });
        let mut random = fastrand::Rng::with_seed(2);
        while !honest.is_finished() {
            for _ in 0..64 {
                scene.scribble(random.u8(0..6), random.u16(..), random.u64(..));
            }
            // Else a lock soon names nobody for good.
            scene.make_up();
        }
    });
}
