//! The two ends of a pipe under test, whoever made it.
//!
//! Data goes through [`Reader`] and [`Writer`] only; facts about the descriptor are asked of
//! [`Reader::fd`] and [`Writer::fd`].
//!
//! Every end is known to a registry of the process, so that a forked peer can be left with
//! exactly the ends that it was given (`close_all_but`), as a thread is.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{OwnedFd, RawFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex, RwLock, Weak};

use crate::engine::{ReadSide, WriteSide};
use crate::fail::{Fail, Outcome};

/// A place for an end, which is empty once the end was closed on behalf of a forked peer.
type Slot<S> = Arc<RwLock<Option<Box<S>>>>;

/// The end to read from.
pub struct Reader(Slot<dyn ReadSide>);

/// The end to write to.
pub struct Writer(Slot<dyn WriteSide>);

/// An end as the registry knows it.
trait Closable: Send + Sync {
    fn close(&self);
}

impl<S: ?Sized + Send + Sync> Closable for RwLock<Option<Box<S>>> {
    fn close(&self) {
        // No thread of a forked child can hold the lock: the only one is here.
        self.try_write().expect("an end in use during fork").take();
    }
}

static REGISTRY: Mutex<Vec<Weak<dyn Closable>>> = Mutex::new(Vec::new());

fn register(end: Weak<dyn Closable>) {
    let mut registry = REGISTRY.lock().expect("nobody panics here");
    registry.retain(|known| known.strong_count() > 0);
    registry.push(end);
}

/// Identifies an end within a process.
pub type EndId = usize;

/// Closes every end of this process but those in `keep`: what a forked peer does first.
pub(crate) fn close_all_but(keep: &[EndId]) {
    let registry = std::mem::take(&mut *REGISTRY.lock().expect("nobody panics here"));
    for end in registry.iter().filter_map(Weak::upgrade) {
        if !keep.contains(&Arc::as_ptr(&end).cast::<()>().addr()) {
            end.close();
        }
    }
}

/// Ends that can be given to a peer.
pub trait Ends: Send + 'static {
    /// Adds the ids of the ends.
    fn ids(&self, into: &mut Vec<EndId>);
}

impl Ends for () {
    fn ids(&self, _: &mut Vec<EndId>) {}
}

impl<A: Ends, B: Ends> Ends for (A, B) {
    fn ids(&self, into: &mut Vec<EndId>) {
        self.0.ids(into);
        self.1.ids(into);
    }
}

macro_rules! end {
    ($end:ident, $side:ident) => {
        impl $end {
            pub(crate) fn boxed(side: Box<dyn $side>) -> Self {
                let slot = Arc::new(RwLock::new(Some(side)));
                let closable: Arc<dyn Closable> = slot.clone();
                register(Arc::downgrade(&closable));
                Self(slot)
            }

            fn with<T>(&self, f: impl FnOnce(&dyn $side) -> T) -> T {
                let side = self.0.read().expect("nobody panics here");
                f(side
                    .as_deref()
                    .expect("an end that this peer was not given"))
            }

            /// Another descriptor of the same end.
            #[must_use]
            pub fn try_clone(&self) -> Self {
                Self::boxed(self.with(|side| side.try_clone().expect("cannot clone the end")))
            }

            /// The number of the descriptor.
            #[must_use]
            pub fn fd(&self) -> RawFd {
                self.with(|side| side.as_raw_fd())
            }

            /// Sets or clears `O_NONBLOCK`, through the engine.
            pub fn set_nonblocking(&self, yes: bool) {
                self.with(|side| side.set_nonblocking(yes))
                    .expect("cannot set O_NONBLOCK");
            }

            /// The same end for somebody who knows nothing of standpipe: its bare descriptor.
            #[must_use]
            pub fn into_unaware(self) -> Self {
                Self::boxed(Box::new(self.into_fd()))
            }

            /// The bare descriptor, for a program that knows of nothing else.
            fn into_fd(self) -> OwnedFd {
                self.0
                    .write()
                    .expect("nobody panics here")
                    .take()
                    .expect("a closed end")
                    .into_fd()
            }
        }

        impl Ends for $end {
            fn ids(&self, into: &mut Vec<EndId>) {
                into.push(Arc::as_ptr(&self.0).cast::<()>().addr());
            }
        }

        impl From<$end> for Stdio {
            fn from(end: $end) -> Stdio {
                end.into_fd().into()
            }
        }
    };
}
end!(Reader, ReadSide);
end!(Writer, WriteSide);

impl Reader {
    /// One read of up to `bytes` bytes.
    ///
    /// # Errors
    /// What the engine's read fails with.
    pub fn read(&self, bytes: usize) -> Result<Vec<u8>, Fail> {
        let mut buf = vec![0; bytes];
        let got = self.read_into(&mut buf)?;
        buf.truncate(got);
        Ok(buf)
    }

    /// One read into `buf`.
    ///
    /// # Errors
    /// What the engine's read fails with.
    pub fn read_into(&self, buf: &mut [u8]) -> Outcome {
        Ok(self.with(|side| side.read(buf))?)
    }

    /// One vectored read.
    ///
    /// # Errors
    /// What the engine's read fails with.
    pub fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> Outcome {
        Ok(self.with(|side| side.read_vectored(bufs))?)
    }

    /// Exactly `bytes` bytes, in as many reads as it takes.
    ///
    /// # Panics
    /// If they do not come.
    #[must_use]
    pub fn read_exactly(&self, bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < bytes {
            let some = self.read(bytes - all.len()).expect("a read failed");
            assert!(
                !some.is_empty(),
                "end of file after {} of {bytes} bytes",
                all.len()
            );
            all.extend(some);
        }
        all
    }

    /// Everything up to the end of the file.
    ///
    /// # Panics
    /// If a read fails.
    #[must_use]
    pub fn read_to_end(&self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.read(1 << 16).expect("a read failed") {
                some if some.is_empty() => return all,
                some => all.extend(some),
            }
        }
    }

    /// Everything that is queued now, without sleeping.
    ///
    /// # Panics
    /// If a read fails with anything but `EAGAIN`.
    #[must_use]
    pub fn drain(&self) -> Vec<u8> {
        self.set_nonblocking(true);
        let mut all = Vec::new();
        let stopped_by = loop {
            match self.read(1 << 16) {
                Ok(some) if !some.is_empty() => all.extend(some),
                other => break other,
            }
        };
        assert!(
            matches!(&stopped_by, Ok(_) | Err(Fail::AGAIN)),
            "drained to {stopped_by:?}"
        );
        self.set_nonblocking(false);
        all
    }
}

impl Writer {
    /// One write.
    ///
    /// # Errors
    /// What the engine's write fails with.
    pub fn write(&self, bytes: &[u8]) -> Outcome {
        Ok(self.with(|side| side.write(bytes))?)
    }

    /// One vectored write.
    ///
    /// # Errors
    /// What the engine's write fails with.
    pub fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> Outcome {
        Ok(self.with(|side| side.write_vectored(bufs))?)
    }
}
