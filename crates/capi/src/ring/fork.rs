//! All rings of the process, and what becomes of them in a forked child: it has copies of descriptors that
//! it knows nothing of, and must not keep, or its parent's peers would never see the end of a stream.

use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{State, sp_ring};
use crate::table::{self, PATIENCE};

static RINGS: Mutex<Vec<&'static sp_ring>> = Mutex::new(Vec::new());

fn rings() -> MutexGuard<'static, Vec<&'static sp_ring>> {
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It is known from now on.
pub fn note_made(ring: &'static sp_ring) {
    rings().push(ring);
}

/// It is about to be freed. Nobody is in it afterwards: closers hold the list while they are.
pub fn note_gone(ring: *const sp_ring) {
    rings().retain(|one| !std::ptr::eq(*one, ring));
}

/// The end that was `fd` is gone: no ring uses it any more.
pub fn let_go(fd: c_int) {
    for ring in &*rings() {
        ring.turn.leave_note(fd);
    }
}

/// What the forking thread holds. Given back in this order: a closer that gets at the list finds nobody in
/// the rings, who would have to look for its notes.
struct Held {
    states: Vec<MutexGuard<'static, Option<State>>>,
    rings: MutexGuard<'static, Vec<&'static sp_ring>>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Before a fork: nobody is in any ring, as far as that can be had.
pub fn hold_for_fork() {
    let rings = rings();
    let deadline = Instant::now() + PATIENCE;
    let states = (rings.iter())
        .filter_map(|ring| ring.turn.hold(deadline))
        .collect();
    HELD.set(Some(Held { states, rings }));
}

/// After it, in the parent and the child.
pub fn release_after_fork() {
    drop(HELD.take());
}

/// In the child: the rings are the parent's. Ends are closed as usual; those of rings that somebody was in,
/// who does not exist here, by their number.
pub fn abandon_in_child() {
    if let Some(mut held) = HELD.take() {
        for state in &mut held.states {
            drop(state.take());
        }
        drop(held.states);
        drop(held.rings);
    }
    table::close_held();
}
