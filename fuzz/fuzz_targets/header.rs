//! The shared header: a peer writes anything into it while an honest user works with the lane.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/shm/tests/support/hostile.rs"]
mod hostile;

fuzz_target!(|program: &[u8]| hostile::Scene::new().play(program));
