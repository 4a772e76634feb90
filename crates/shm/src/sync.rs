//! The one door to atomics: `std`'s, or under `--cfg loom` those of loom, which explores every
//! order in which they may be seen. Clippy bars raw atomics everywhere else.
#![allow(clippy::disallowed_types)]

#[cfg(loom)]
use loom::sync::atomic as raw;
#[cfg(not(loom))]
use std::sync::atomic as raw;

pub use raw::Ordering;

#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::sync::{Mutex, MutexGuard};

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident, $value:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name(raw::$name);

        impl $name {
            /// With this value to begin with.
            #[cfg(not(loom))]
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(raw::$name::new(value))
            }

            /// With this value to begin with.
            #[cfg(loom)]
            #[must_use]
            pub fn new(value: $value) -> Self {
                Self(raw::$name::new(value))
            }

            /// See `std`.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// See `std`.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            /// See `std`.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }

            /// See `std`.
            ///
            /// # Errors
            /// The value that was there, if it was another.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
    (@numeric $name:ident, $value:ty) => {
        impl $name {
            /// See `std`.
            #[inline]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, order)
            }

            /// See `std`.
            #[inline]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, order)
            }

            /// See `std`.
            #[inline]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_and(value, order)
            }

            /// See `std`.
            #[inline]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, order)
            }

            /// See `std`.
            #[inline]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_max(value, order)
            }
        }
    };
}

atomic!(
    /// A flag.
    AtomicBool,
    bool
);
atomic!(
    /// A word, the size that a futex has.
    AtomicU32,
    u32
);
atomic!(
    /// A position, or a count.
    AtomicU64,
    u64
);
atomic!(
    /// A count within the process.
    AtomicUsize,
    usize
);
atomic!(@numeric AtomicU32, u32);
atomic!(@numeric AtomicU64, u64);
atomic!(@numeric AtomicUsize, usize);

/// A pointer within the process.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct AtomicPtr<T>(raw::AtomicPtr<T>);

#[cfg(not(loom))]
impl<T> AtomicPtr<T> {
    /// With this value to begin with.
    #[must_use]
    pub const fn new(pointer: *mut T) -> Self {
        Self(raw::AtomicPtr::new(pointer))
    }

    /// See `std`.
    #[inline]
    #[must_use]
    pub fn load(&self, order: Ordering) -> *mut T {
        self.0.load(order)
    }

    /// See `std`.
    #[inline]
    pub fn store(&self, pointer: *mut T, order: Ordering) {
        self.0.store(pointer, order);
    }

    /// See `std`.
    ///
    /// # Errors
    /// The pointer that was there, if it was another.
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

impl AtomicU32 {
    /// The word itself, for the futex calls.
    #[cfg(not(loom))]
    #[must_use]
    pub fn as_futex(&self) -> &raw::AtomicU32 {
        &self.0
    }
}

/// A fence of the strongest kind (`SeqCst`): orders a store before it and a load after it.
///
/// On x86-64, `std`'s is an `mfence`, which also waits for things that have nothing to do with
/// memory shared between processors; a locked instruction on the own stack does the same for half
/// the price.
#[inline]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: adds zero to a word of the own stack, below which nothing is promised to live: the
    // instruction changes no value. Without `nomem`, the compiler moves no access across it.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0", options(nostack));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    raw::fence(Ordering::SeqCst);
}

/// A [`full_fence`] right behind a read-modify-write of this thread, which is one already on x86-64: there
/// only the compiler has to be told.
#[inline]
pub fn full_fence_after_swap() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    raw::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    full_fence();
}
