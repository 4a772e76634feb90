//! The two ends of a pipe under test, whoever made it.
//!
//! Data goes through [`Reader`] and [`Writer`] only; facts about the descriptor are asked of
//! [`Reader::fd`] and [`Writer::fd`].
//!
//! Every end is known to a registry of the process, so that a forked peer can be left with
//! exactly the ends that it was given (`all_but`), as a thread is.

use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, Weak};

use rustix::event::PollFlags;

use crate::engine::Engine;
use crate::fail::{Fail, Outcome};
use crate::paths::Path;
use crate::side::Side;

/// An end, and what is needed to come by it in another process.
pub(crate) struct Held {
    pub(crate) side: Box<dyn Side>,
    pub(crate) engine: Engine,
    pub(crate) path: Path,
}

/// A place for an end, which is empty once the end was closed on behalf of a forked peer.
#[doc(hidden)]
pub struct Slot(RwLock<Option<Held>>);

impl Slot {
    /// Takes the end. No thread of a forked child can hold the lock: the only one is here.
    pub(crate) fn take(&self) -> Option<Held> {
        let mut slot = self.0.try_write().expect("an end in use during fork");
        slot.take()
    }

    /// What is in it.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Option<Held>> {
        self.0.read().expect("nobody panics here")
    }

    /// The number of the descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        let slot = self.read();
        slot.as_ref().expect("a closed end").side.as_raw_fd()
    }

    /// Puts an end where one was taken.
    pub(crate) fn put(&self, held: Held) {
        *self.0.try_write().expect("an end in use during fork") = Some(held);
    }
}

static REGISTRY: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

fn register(end: &Arc<Slot>) {
    let mut registry = REGISTRY.lock().expect("nobody panics here");
    registry.retain(|known| known.strong_count() > 0);
    registry.push(Arc::downgrade(end));
}

/// Every end of this process but those in `keep`.
pub(crate) fn all_but(keep: &Slots) -> Vec<Arc<Slot>> {
    let registry = REGISTRY.lock().expect("nobody panics here");
    let others = registry
        .iter()
        .filter(|end| !keep.0.iter().any(|kept| Weak::ptr_eq(kept, end)));
    others.filter_map(Weak::upgrade).collect()
}

/// Ends that can be given to a peer.
pub trait Ends: Send + 'static {
    /// Adds the places of the ends.
    #[doc(hidden)]
    fn slots(&self, into: &mut Slots);
}

/// The places of ends, which they do not keep open.
#[derive(Default)]
pub struct Slots(Vec<Weak<Slot>>);

impl Slots {
    pub(crate) fn get(&self) -> Vec<Arc<Slot>> {
        let places = self.0.iter().map(Weak::upgrade);
        places
            .map(|end| end.expect("an end that was given"))
            .collect()
    }
}

impl Ends for () {
    fn slots(&self, _: &mut Slots) {}
}

impl<A: Ends, B: Ends> Ends for (A, B) {
    fn slots(&self, into: &mut Slots) {
        self.0.slots(into);
        self.1.slots(into);
    }
}

/// An end: for what, `K` says.
pub struct EndOf<K>(Arc<Slot>, PhantomData<fn() -> K>);

/// The end to read from.
pub type Reader = EndOf<kind::Read>;

/// The end to write to.
pub type Writer = EndOf<kind::Write>;

/// A FIFO opened for both.
pub type Both = EndOf<kind::Both>;

/// What ends are for.
pub mod kind {
    /// To read.
    pub enum Read {}
    /// To write.
    pub enum Write {}
    /// Both.
    pub enum Both {}

    /// Those that read.
    pub trait Reads {}
    impl Reads for Read {}
    impl Reads for Both {}

    /// Those that write.
    pub trait Writes {}
    impl Writes for Write {}
    impl Writes for Both {}
}

impl<K: 'static> Ends for EndOf<K> {
    fn slots(&self, into: &mut Slots) {
        into.0.push(Arc::downgrade(&self.0));
    }
}

impl<K> From<EndOf<K>> for Stdio {
    fn from(end: EndOf<K>) -> Self {
        end.into_fd().into()
    }
}

impl<K> EndOf<K> {
    pub(crate) fn of(held: Held) -> Self {
        let slot = Arc::new(Slot(RwLock::new(Some(held))));
        register(&slot);
        Self(slot, PhantomData)
    }

    pub(crate) fn slot(&self) -> Arc<Slot> {
        self.0.clone()
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&Held) -> T) -> T {
        let slot = self.0.read();
        let held = slot.as_ref();
        f(held.expect("an end that this peer was not given"))
    }

    fn side<T>(&self, f: impl FnOnce(&dyn Side) -> io::Result<T>) -> Result<T, Fail> {
        Ok(self.with(|held| f(&*held.side))?)
    }

    /// Another descriptor of the same end.
    ///
    /// # Panics
    /// If there is none left.
    #[must_use]
    pub fn try_clone(&self) -> Self {
        Self::of(self.with(|held| Held {
            side: held.side.try_clone().expect("cannot clone the end"),
            engine: held.engine,
            path: held.path.clone(),
        }))
    }

    /// The same end for somebody who knows nothing of standpipe: its bare descriptor.
    #[must_use]
    pub fn into_unaware(self) -> Self {
        let Held { side, path, .. } = self.take();
        let side = Box::new(side.into_fd());
        let engine = Engine::Kernel;
        Self::of(Held { side, engine, path })
    }

    /// The bare descriptor, for a program that knows of nothing else.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.take().side.into_fd()
    }

    fn take(&self) -> Held {
        let mut slot = self.0.0.write().expect("nobody panics here");
        slot.take().expect("a closed end")
    }

    pub(crate) fn path(&self) -> Path {
        self.with(|held| held.path.clone())
    }

    /// The number of the descriptor.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.with(|held| held.side.as_raw_fd())
    }

    /// Sets or clears `O_NONBLOCK`, through the engine.
    ///
    /// # Panics
    /// If that fails.
    pub fn set_nonblocking(&self, yes: bool) {
        self.side(|side| side.set_nonblocking(yes))
            .expect("cannot set O_NONBLOCK");
    }

    /// What poll would report now, all bits wanted.
    #[must_use]
    pub fn events(&self) -> PollFlags {
        self.events_of(PollFlags::all())
    }

    /// What poll would report now if it was asked for `wanted`.
    ///
    /// # Panics
    /// If it cannot be asked.
    #[must_use]
    pub fn events_of(&self, wanted: PollFlags) -> PollFlags {
        self.side(|side| side.events(wanted))
            .expect("cannot ask for events")
    }

    /// The number of the descriptor for raw poll and epoll.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn pollable(&self) -> RawFd {
        self.side(|side| Ok(side.pollable()?.as_raw_fd()))
            .expect("cannot get the pollable descriptor")
    }

    /// How many bytes went through standpipe's lane, on the side of the end.
    #[must_use]
    pub fn lane_bytes(&self) -> u64 {
        self.with(|held| held.side.lane_bytes())
    }

    /// How many bytes are unread.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn unread_bytes(&self) -> Outcome {
        self.side(|side| side.unread_bytes())
    }

    /// The capacity.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn capacity_bytes(&self) -> Outcome {
        self.side(|side| side.capacity_bytes())
    }

    /// Sets the capacity; what it became.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn set_capacity_bytes(&self, bytes: usize) -> Outcome {
        self.side(|side| side.set_capacity_bytes(bytes))
    }

    /// From now on, system calls on the bare descriptor do what they say.
    ///
    /// # Panics
    /// If that cannot be.
    pub fn use_kernel(&self) {
        self.side(|side| side.use_kernel())
            .expect("cannot go to the kernel pipe");
    }
}

impl<K: kind::Reads> EndOf<K> {
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
        self.side(|side| side.read(buf))
    }

    /// One vectored read.
    ///
    /// # Errors
    /// What the engine's read fails with.
    pub fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> Outcome {
        self.side(|side| side.read_vectored(bufs))
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

impl<K: kind::Writes> EndOf<K> {
    /// One write.
    ///
    /// # Errors
    /// What the engine's write fails with.
    pub fn write(&self, bytes: &[u8]) -> Outcome {
        self.side(|side| side.write(bytes))
    }

    /// One vectored write.
    ///
    /// # Errors
    /// What the engine's write fails with.
    pub fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> Outcome {
        self.side(|side| side.write_vectored(bufs))
    }
}
