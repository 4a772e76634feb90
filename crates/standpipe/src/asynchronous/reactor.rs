//! Who wakes a task: what the runtimes have in common.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll, Waker, ready};

use standpipe_shm::lane::Side;

use crate::end::task::TaskKey;
use crate::end::{End, held};

/// Something with a descriptor that becomes readable when a task should look at it. The descriptor is the
/// same for as long as the source is there, and open.
pub trait Source: sealed::Sealed + AsFd + AsRawFd + Send + Sync + Unpin + 'static {}

/// Drives tasks that wait for descriptors. There is one for each feature: the types in
/// [`tokio`](mod@super::tokio) and [`futures`](mod@super::futures) name it.
pub trait Reactor: sealed::Sealed + Sized + 'static {
    /// A source that is being watched.
    type Watched<T: Source>: Send + Sync + Unpin;

    /// What a task may do before others have their turn.
    type Share: Share;

    /// Watches a source from now on.
    ///
    /// # Errors
    /// When the runtime can't, or there is none.
    fn watch<T: Source>(source: T) -> io::Result<Self::Watched<T>>;

    /// What is watched.
    fn source<T: Source>(watched: &Self::Watched<T>) -> &T;

    /// Watches it no more.
    ///
    /// # Errors
    /// When the runtime can't forget it.
    fn into_source<T: Source>(watched: Self::Watched<T>) -> io::Result<T>;

    /// Pending where the task had its share, and others are to have theirs.
    fn poll_share(cx: &mut Context<'_>) -> Poll<Self::Share>;

    /// Tries each time that the runtime has told of the descriptor (or may have), until something comes of
    /// it other than `WouldBlock`; else has the task woken when it does so again.
    fn poll<T: Source, O>(
        watched: &Self::Watched<T>,
        cx: &mut Context<'_>,
        attempt: impl FnMut(&T) -> io::Result<O>,
    ) -> Poll<io::Result<O>>;
}

/// See [`Reactor::poll_share`].
pub trait Share {
    /// Something came of it: the share was used.
    fn note_used(self);
}

/// Tries `now`, which costs no system call, and `anyhow`, which looks everywhere, until something comes of
/// it; else has the task woken when `wanted_bytes` can be moved, or something else happens.
#[inline]
pub(super) fn poll_end<R: Reactor, B: ?Sized, O>(
    watched: &R::Watched<Polled>,
    cx: &mut Context<'_>,
    wanted_bytes: usize,
    bufs: &mut B,
    now: impl Fn(&End, &mut B) -> Option<O>,
    anyhow: impl Fn(&End, &mut B) -> io::Result<O>,
) -> Poll<io::Result<O>> {
    let share = ready!(R::poll_share(cx));
    if let Some(output) = now(R::source(watched).end(), bufs) {
        share.note_used();
        return Poll::Ready(Ok(output));
    }
    let outcome = poll_or_wait::<R, B, O>(watched, cx, wanted_bytes, bufs, now, anyhow);
    if outcome.is_ready() {
        share.note_used();
    }
    outcome
}

/// Not in the way of what goes fast.
fn poll_or_wait<R: Reactor, B: ?Sized, O>(
    watched: &R::Watched<Polled>,
    cx: &mut Context<'_>,
    wanted_bytes: usize,
    bufs: &mut B,
    now: impl Fn(&End, &mut B) -> Option<O>,
    anyhow: impl Fn(&End, &mut B) -> io::Result<O>,
) -> Poll<io::Result<O>> {
    let polled = R::source(watched);
    if let Poll::Ready(done) = R::poll(watched, cx, |polled| anyhow(polled.end(), bufs)) {
        return Poll::Ready(done);
    }
    // So there is nothing but what the lane may have had since.
    if polled.begin_to_wait(wanted_bytes, cx.waker()) {
        return Poll::Pending;
    }
    if let Some(output) = now(polled.end(), bufs) {
        return Poll::Ready(Ok(output));
    }
    // Something is there, but others come first.
    match anyhow(polled.end(), bufs).into() {
        Outcome::Done(result) => Poll::Ready(result),
        Outcome::WouldBlock | Outcome::Later => try_later(cx),
    }
}

/// Nothing tells when to try again.
pub(super) fn try_later<O>(cx: &mut Context<'_>) -> Poll<O> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

pub(super) mod sealed {
    /// Reactors and sources are made here.
    pub trait Sealed {}
}

/// What came of a try.
pub(super) enum Outcome<O> {
    Done(io::Result<O>),
    /// The descriptor tells when to try again.
    WouldBlock,
    /// Somebody keeps a lock: nothing tells when to try again.
    Later,
}

impl<O> From<io::Result<O>> for Outcome<O> {
    fn from(result: io::Result<O>) -> Self {
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if held::held(&error).is_some() {
                    Self::Later
                } else {
                    Self::WouldBlock
                }
            }
            // A signal handler ran; nothing was moved.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Self::Later,
            done => Self::Done(done),
        }
    }
}

/// An end that never waits, by the descriptor that tells when it is ready.
#[derive(Debug)]
pub struct Polled {
    /// `None` only when it is given back.
    end: Option<End>,
    side: Side,
    pollable: RawFd,
    key: TaskKey,
}

impl Polled {
    /// From now on, calls through the end do not wait.
    pub fn new(end: End, side: Side) -> io::Result<Self> {
        end.set_in_task(true);
        // Before the first call: what it does not find must be heard of.
        let pollable = end.pollable_of(side)?.as_raw_fd();
        Ok(Self {
            end: Some(end),
            side,
            pollable,
            key: TaskKey::new(),
        })
    }

    #[inline]
    pub fn end(&self) -> &End {
        self.end.as_ref().expect("it is there until given back")
    }

    fn begin_to_wait(&self, wanted_bytes: usize, waker: &Waker) -> bool {
        let end = self.end();
        end.await_in_task(self.side, wanted_bytes, self.key, waker)
    }

    /// The end, as it was.
    pub fn into_end(mut self) -> End {
        let end = self.end.take().expect("it is there until given back");
        end.leave_task(self.side, self.key);
        end.set_in_task(false);
        end
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            end.leave_task(self.side, self.key);
        }
    }
}

impl sealed::Sealed for Polled {}

impl Source for Polled {}

impl AsRawFd for Polled {
    fn as_raw_fd(&self) -> RawFd {
        self.pollable
    }
}

impl AsFd for Polled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the end made it once, and keeps it until dropped; it is borrowed from the same owner.
        unsafe { BorrowedFd::borrow_raw(self.pollable) }
    }
}
