//! A simulator for rings of completions: many pipes between two rings and peers outside, random
//! operations, links, cancels, ends that move and close, tiny rings, and a plain model of what must come
//! of it (`model.rs`). A seed that fails is named, and runs alone:
//!
//! ```sh
//! RING_SEED=17 cargo test -p standpipe --test ring_model
//! ```

mod model;
mod quiet;
mod run;
mod steps;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use run::Run;

const SEEDS: u64 = 300;
const STEPS: usize = 700;

fn simulate(seed: u64) {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.step();
    }
    run.end();
}

#[test]
fn what_completes_is_what_must_come_of_it() {
    let alone = std::env::var("RING_SEED").map(|seed| seed.parse().expect("a number"));
    let seeds = alone.map_or(0..SEEDS, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
            eprintln!("with RING_SEED={seed}");
            resume_unwind(panic);
        }
    }
}
