//! The place of one descriptor number: what it is, and for ends the [`End`] itself.
//!
//! A word says what the number is ([`Kind`]) and how many calls are using its end at this moment.
//! - A call *visits*: it counts itself in, looks at the kind, and if the number is ours works with
//!   the end until it counts itself out. Calls on different descriptors touch different slots.
//! - Whoever changes what a number is *claims* the slot first ([`Kind::Busy`]), alone. An end is taken
//!   out only when nobody visits it.
//! - Closing while others visit marks the slot [`Kind::Leaving`]; the last visitor closes. So the
//!   end lives as long as a sleeper sleeps in it, as the kernel has it, and so does its number.
//!
//! Completion rings have descriptors of their own of what they use, ends or not. A slot knows whether there
//! are any, and tells the rings when what it is goes; and it counts what it was ([`Life`]), so that a ring
//! tells what it knows from another file that has the number now.
//!
//! A fork copies all this into a child that has but one thread. Claims are held behind the [gate], so
//! a child never sees one; and visits are noted on a list of the visiting thread, by which the child
//! knows which ones are its own.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

use standpipe::end::End;
use standpipe_shm::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::{gate, ring};

/// What a descriptor number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// Nobody looked yet.
    Unknown = 0,
    /// The kernel's business.
    Foreign = 1,
    /// An end of a pipe or FIFO, in the slot.
    Ours = 2,
    /// An end that was closed while somebody uses it. The last one closes the number.
    Leaving = 3,
    /// An end whose number was closed behind our back and is something else now, while somebody uses
    /// it. The last one forgets it.
    Stale = 4,
    /// Being changed by one thread.
    Busy = 5,
    /// A descriptor that a completion ring has for itself.
    Held = 6,
}

const KIND_BITS: u64 = 0xff;
/// One visitor.
const VISITOR: u64 = 0x100;

impl Kind {
    fn of(word: u64) -> Self {
        match word & KIND_BITS {
            0 => Self::Unknown,
            1 => Self::Foreign,
            2 => Self::Ours,
            3 => Self::Leaving,
            4 => Self::Stale,
            6 => Self::Held,
            _ => Self::Busy,
        }
    }
}

fn has_end(kind: Kind) -> bool {
    matches!(kind, Kind::Ours | Kind::Leaving | Kind::Stale)
}

/// The place of a descriptor number. On a line of its own: neighbours don't slow each other down.
#[repr(align(64))]
pub struct Slot {
    word: AtomicU64,
    /// Initialised while the kind is `Ours`, `Leaving` or `Stale`. Shared with visitors; taken out
    /// and put in by the claimant alone.
    end: UnsafeCell<MaybeUninit<End>>,
    /// How many ends were taken out so far, and how often it was foreign. Goes up in the hands of the
    /// claimant.
    life: AtomicU32,
    /// Rings use what it is. Set by visitors and claimants, cleared by the claimant who ends that life.
    is_in_rings: AtomicBool,
}

const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<End>();

// SAFETY: the end is `Send` and `Sync` (checked above), and the word says who may touch it.
unsafe impl Sync for Slot {}

impl Slot {
    /// Of a number that nobody looked at.
    pub const fn new() -> Self {
        Self {
            word: AtomicU64::new(Kind::Unknown as u64),
            end: UnsafeCell::new(MaybeUninit::uninit()),
            life: AtomicU32::new(0),
            is_in_rings: AtomicBool::new(false),
        }
    }

    /// What it is at this moment.
    pub fn kind(&self) -> Kind {
        Kind::of(self.word.load(Ordering::Acquire))
    }

    /// A ring uses what it is from now on: an end, which is visited, or something foreign, which is claimed.
    pub fn note_ring(&'static self, kind: Kind) -> Life {
        debug_assert!(matches!(kind, Kind::Ours | Kind::Foreign));
        self.is_in_rings.store(true, Ordering::Relaxed);
        Life {
            slot: self,
            is_end: kind == Kind::Ours,
            number: self.life.load(Ordering::Relaxed),
        }
    }

    /// Changes a kind that needs no claim: there is no end before or after, nor what rings use. False if it
    /// isn't `from`.
    pub fn turn(&self, from: Kind, to: Kind) -> bool {
        debug_assert!(matches!(from, Kind::Unknown | Kind::Held));
        self.exchange(from, to, |_| true).is_some()
    }

    /// Claims the slot if it is of that kind and, where there is an end, nobody visits it.
    pub fn claim(&'static self, from: Kind) -> Option<Claim> {
        let gate = gate::enter();
        self.exchange(from, Kind::Busy, |visitors| !has_end(from) || visitors == 0)?;
        Some(Claim {
            slot: self,
            then: Cell::new(from),
            _gate: gate,
        })
    }

    /// Marks an end as one that its last visitor gets rid of; returns whether there is a visitor.
    /// `None` if there is no end.
    pub fn retire(&self, to: Kind) -> Option<bool> {
        debug_assert!(matches!(to, Kind::Leaving | Kind::Stale));
        self.exchange(Kind::Ours, to, |_| true)
            .map(|visitors| visitors > 0)
    }

    /// From one kind to another, if `condition` holds of the number of visitors, which is returned.
    fn exchange(&self, from: Kind, to: Kind, condition: impl Fn(u64) -> bool) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        while Kind::of(word) == from && condition(word / VISITOR) {
            let new = word & !KIND_BITS | to as u64;
            // Acquire pairs with the Release of visitors that left and of the last claim.
            match self
                .word
                .compare_exchange(word, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Some(word / VISITOR),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Gets rid of a retired end that nobody visits any more. See [`Kind`].
    #[cold]
    pub fn finish(&'static self) {
        if !matches!(self.kind(), Kind::Leaving | Kind::Stale) {
            return;
        }
        if let Some(claim) = self.claim(Kind::Leaving) {
            drop(claim.take());
            claim.become_kind(Kind::Unknown);
        } else if let Some(claim) = self.claim(Kind::Stale) {
            std::mem::forget(claim.take());
            claim.become_kind(Kind::Unknown);
        }
    }

    /// In a forked child: nobody visits but the forking thread itself, and nobody else claims.
    pub fn forget_other_threads(&self) {
        let word = self.word.load(Ordering::Relaxed);
        if Kind::of(word) == Kind::Busy && !gate::is_inside() {
            self.word.store(Kind::Unknown as u64, Ordering::Relaxed);
        } else if word >= VISITOR {
            self.word.store(word & KIND_BITS, Ordering::Relaxed);
        }
    }
}

/// What a slot was when a ring first used it.
pub struct Life {
    slot: &'static Slot,
    is_end: bool,
    number: u32,
}

impl Life {
    /// Whether the slot is that still, and it is not about to be closed.
    #[inline]
    pub fn goes_on(&self) -> bool {
        // What is foreign is counted by who closes it; claims that leave it as it is are no matter. The
        // Acquire in `kind` pairs with the Release of the claim that put another end there.
        (!self.is_end || self.slot.kind() == Kind::Ours)
            && self.slot.life.load(Ordering::Relaxed) == self.number
    }
}

/// The right to change a slot. Dropped without a change, it leaves the slot as it was.
pub struct Claim {
    slot: &'static Slot,
    then: Cell<Kind>,
    _gate: gate::Pass,
}

impl Claim {
    /// Whether there is an end in the slot.
    pub fn has_end(&self) -> bool {
        has_end(self.then.get())
    }

    /// What the slot is if nothing else is done.
    pub fn kind(&self) -> Kind {
        self.then.get()
    }

    /// Takes the end out of a slot that has one. Rings let go of it.
    pub fn take(&self) -> End {
        let then = self.then.replace(Kind::Unknown);
        assert!(has_end(then));
        // SAFETY: the claim keeps everybody else out.
        let place = unsafe { &*self.slot.end.get() };
        // SAFETY: kinds with an end have it initialised, and `then` has just changed: once.
        let end = unsafe { place.assume_init_read() };
        self.end_life(end.as_raw_fd());
        end
    }

    /// The number `fd` is foreign no more, if it was. Rings let go of it.
    pub fn end_foreign(&self, fd: c_int) {
        if self.then.get() == Kind::Foreign {
            self.then.set(Kind::Unknown);
            self.end_life(fd);
        }
    }

    fn end_life(&self, fd: c_int) {
        // To those who look at the life this is visible with the kind: by the Release that ends the claim.
        self.slot.life.fetch_add(1, Ordering::Relaxed);
        if self.slot.is_in_rings.load(Ordering::Relaxed) {
            self.slot.is_in_rings.store(false, Ordering::Relaxed);
            ring::let_go(fd);
        }
    }

    /// Puts an end into a slot without one: it is ours from now on.
    pub fn put(self, end: End) {
        assert!(!self.has_end());
        // SAFETY: the claim keeps everybody else out.
        let place = unsafe { &mut *self.slot.end.get() };
        place.write(end);
        self.then.set(Kind::Ours);
    }

    /// Ends the claim of a slot without an end.
    pub fn become_kind(self, kind: Kind) {
        debug_assert!(matches!(kind, Kind::Unknown | Kind::Foreign | Kind::Held));
        self.then.set(kind);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Only the claimant changes the kind of a claimed slot; visitors come and go meanwhile.
        let step = (self.then.get() as u64).wrapping_sub(Kind::Busy as u64);
        // Release pairs with the Acquire of visitors and of the next claim.
        self.slot.word.fetch_add(step, Ordering::Release);
    }
}

thread_local! {
    /// This thread's visits, the innermost first: a signal handler's come before those of what it
    /// interrupted.
    static INNERMOST: Cell<*const Visit> = const { Cell::new(ptr::null()) };
}

/// Whether this thread is in a call that uses an end.
pub fn is_inside() -> bool {
    !INNERMOST.get().is_null()
}

/// A call's use of a slot. Stays where it is from [`Visit::enter`] on, and visits of one thread end
/// in reverse order.
pub struct Visit {
    slot: &'static Slot,
    outer: Cell<*const Visit>,
    is_in: Cell<bool>,
}

impl Visit {
    /// Not yet in.
    #[inline]
    pub fn new(slot: &'static Slot) -> Self {
        Self {
            slot,
            outer: Cell::new(ptr::null()),
            is_in: Cell::new(false),
        }
    }

    /// Enters, if it is an end; returns what it is.
    #[inline]
    pub fn enter(&self) -> Kind {
        let kind = self.slot.kind();
        if kind != Kind::Ours {
            return kind;
        }
        self.outer.set(INNERMOST.replace(self));
        self.is_in.set(true);
        // Acquire pairs with the Release of the claim that put the end there.
        let word = self.slot.word.fetch_add(VISITOR, Ordering::Acquire);
        let kind = Kind::of(word);
        if kind != Kind::Ours {
            self.leave();
        }
        kind
    }

    /// The end, once [`Visit::enter`] said `Ours`.
    #[inline]
    pub fn end(&self) -> &End {
        assert!(self.is_in.get());
        // SAFETY: visited ends are not taken out.
        let place = unsafe { &*self.slot.end.get() };
        // SAFETY: the kind was `Ours` when this visit was counted.
        unsafe { place.assume_init_ref() }
    }

    #[inline]
    fn leave(&self) {
        self.is_in.set(false);
        // Release pairs with the Acquire of the claim that takes the end out.
        let word = self.slot.word.fetch_sub(VISITOR, Ordering::Release);
        INNERMOST.set(self.outer.get());
        if word / VISITOR == 1 && matches!(Kind::of(word), Kind::Leaving | Kind::Stale) {
            self.slot.finish();
        }
    }

    /// In a forked child, after [`Slot::forget_other_threads`]: the visits that this thread is in.
    pub fn count_own_again() {
        let mut visit = INNERMOST.get();
        while !visit.is_null() {
            // SAFETY: visits on the list stand on this thread's stack, or in an allocation owned by
            // it, and leave the list before they go.
            let this = unsafe { &*visit };
            this.slot.word.fetch_add(VISITOR, Ordering::Relaxed);
            visit = this.outer.get();
        }
    }
}

impl Drop for Visit {
    #[inline]
    fn drop(&mut self) {
        if self.is_in.get() {
            self.leave();
        }
    }
}
