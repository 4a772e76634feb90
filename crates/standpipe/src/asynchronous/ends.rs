//! The two ends, whoever drives them.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::path::Path;
use std::task::{Context, Poll};

use standpipe_shm::lane::Side;

use super::open;
use super::reactor::{Polled, Reactor, poll_end};
use crate::end::End;
use crate::fifo::Access;
use crate::pipe::{self, PIPE_BUF};

macro_rules! end {
    ($(#[$doc:meta])* $end:ident, $name:literal, $side:expr) => {
        $(#[$doc])*
        pub struct $end<R: Reactor>(
            /// `None` once it was shut down.
            Option<R::Watched<Polled>>,
        );

        impl<R: Reactor> $end<R> {
            /// From now on, who calls it never waits but in a future.
            ///
            /// # Errors
            /// Without a runtime that drives it, and as `epoll_create(2)`, `epoll_ctl(2)`.
            ///
            /// # Panics
            /// In a runtime of tokio without I/O (`enable_io`).
            pub fn new(end: pipe::$end) -> io::Result<Self> {
                Self::try_from(End::from(end))
            }

            /// The end, for what is no matter of waiting: its size, what went through it. (Who waits
            /// for it by other means than this type may not hear of what other tasks do.)
            ///
            /// # Panics
            /// After it was shut down.
            #[must_use]
            pub fn as_end(&self) -> &End {
                let watched = self.0.as_ref().expect("the end was shut down");
                R::source(watched).end()
            }

            /// The end as it was, whose calls wait again.
            ///
            /// # Errors
            /// When the reactor can't forget it; `BrokenPipe` after it was shut down.
            pub fn into_inner(self) -> io::Result<pipe::$end> {
                Ok(self.into_end()?.try_into()?)
            }

            /// The same, whatever it may do.
            ///
            /// # Errors
            /// As [`into_inner`](Self::into_inner).
            pub fn into_end(self) -> io::Result<End> {
                let watched = self.0.ok_or_else(was_shut_down)?;
                Ok(R::into_source(watched)?.into_end())
            }

            fn watch(end: End) -> io::Result<Self> {
                Ok(Self(Some(R::watch(Polled::new(end, $side)?)?)))
            }

            #[inline]
            fn watched(&self) -> io::Result<&R::Watched<Polled>> {
                self.0.as_ref().ok_or_else(was_shut_down)
            }

            /// Waits until a transfer would do something.
            async fn ready(&mut self) -> io::Result<()> {
                let watched = self.watched()?;
                let wanted_bytes = if $side == Side::Reader { 1 } else { PIPE_BUF };
                let now = |end: &End, (): &mut ()| end.is_ready_in_task($side).then_some(());
                let anyhow = |end: &End, (): &mut ()| end.check_ready($side);
                poll_fn(|cx| {
                    poll_end::<R, _, _>(watched, cx, wanted_bytes, &mut (), now, anyhow)
                })
                .await
            }
        }

        impl<R: Reactor> TryFrom<pipe::$end> for $end<R> {
            type Error = io::Error;

            fn try_from(end: pipe::$end) -> io::Result<Self> {
                Self::new(end)
            }
        }

        impl<R: Reactor> fmt::Debug for $end<R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let end = self.0.as_ref().map(|watched| R::source(watched).end());
                f.debug_tuple($name).field(&end).finish()
            }
        }
    };
}

end! {
    /// The end to read from.
    ReadEnd, "ReadEnd", Side::Reader
}
end! {
    /// The end to write to.
    WriteEnd, "WriteEnd", Side::Writer
}

impl<R: Reactor> TryFrom<End> for ReadEnd<R> {
    type Error = io::Error;

    fn try_from(end: End) -> io::Result<Self> {
        if !end.can_read() {
            return Err(unfit("an end to write to, expected one to read from"));
        }
        Self::watch(end)
    }
}

impl<R: Reactor> TryFrom<End> for WriteEnd<R> {
    type Error = io::Error;

    fn try_from(end: End) -> io::Result<Self> {
        if !end.can_write() {
            return Err(unfit("an end to read from, expected one to write to"));
        }
        Self::watch(end)
    }
}

#[cold]
fn was_shut_down() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the end was shut down, expected one that is open",
    )
}

fn unfit(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

impl<R: Reactor> ReadEnd<R> {
    /// Opens a FIFO to read, when somebody opens it to write: as open(2), though no thread waits in it.
    /// Dropped before that, it was never open.
    ///
    /// It waits with the FIFO open and non-blocking, and is told by inotify(7) of others who open it.
    ///
    /// # Errors
    /// As [`fifo::open_read`](crate::fifo::open_read), and as [`new`](Self::new).
    pub async fn open_fifo(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::try_from(open::open::<R>(path.as_ref(), Access::Read).await?)
    }

    /// Waits until there is something to read: bytes, or the end of the stream. Another reader may be
    /// faster: go on with [`try_read`](Self::try_read), and wait again if it says `WouldBlock`.
    ///
    /// # Errors
    /// As poll(2).
    pub async fn readable(&mut self) -> io::Result<()> {
        self.ready().await
    }

    /// Reads what is there, or the end of the stream (0).
    ///
    /// # Errors
    /// `WouldBlock` if nothing is; else as read(2).
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let bufs = &mut [IoSliceMut::new(buf)];
        let mut end = R::source(self.watched()?).end();
        match read_now(end, bufs) {
            Some(bytes) => Ok(bytes),
            None => end.read_vectored(bufs),
        }
    }

    #[inline]
    pub(super) fn poll_read_some(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_slices(cx, &mut [IoSliceMut::new(buf)])
    }

    #[inline]
    pub(super) fn poll_read_slices(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let anyhow = |mut end: &End, bufs: &mut [IoSliceMut<'_>]| end.read_vectored(bufs);
        let now = |end: &End, bufs: &mut [IoSliceMut<'_>]| read_now(end, bufs);
        let watched = self.watched()?;
        poll_end::<R, _, _>(watched, cx, 1, bufs, now, anyhow)
    }
}

impl<R: Reactor> WriteEnd<R> {
    /// Opens a FIFO to write, when somebody opens it to read: as open(2), though no thread waits in it.
    ///
    /// A process that waits in open(2) is told by no descriptor, so while it waits this looks now and
    /// then, each 16 milliseconds at most. Others who open the FIFO without waiting, such as
    /// [`ReadEnd::open_fifo`], are noticed at once (inotify(7)). And to others that open it to read it
    /// does not count as a writer until then: two who both wait for a writer each wait for this look.
    ///
    /// # Errors
    /// As [`fifo::open_write`](crate::fifo::open_write), and as [`new`](Self::new).
    pub async fn open_fifo(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::try_from(open::open::<R>(path.as_ref(), Access::Write).await?)
    }

    /// Waits until there is room for any write of up to `PIPE_BUF` bytes, or nobody left to read them.
    /// Another writer may be faster: go on with [`try_write`](Self::try_write), and wait again if it says
    /// `WouldBlock`.
    ///
    /// # Errors
    /// As poll(2); `BrokenPipe` after the end was shut down.
    pub async fn writable(&mut self) -> io::Result<()> {
        self.ready().await
    }

    /// Closes the end: who reads comes to the end of the stream, unless there are other ends to write to.
    /// Writes fail with `BrokenPipe` from now on.
    pub(super) fn shut_down(&mut self) {
        self.0 = None;
    }

    /// Writes what there is room for: up to `PIPE_BUF` bytes all or nothing.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else as write(2).
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        let bufs = [IoSlice::new(buf)];
        let mut end = R::source(self.watched()?).end();
        match write_now(end, &bufs) {
            Some(bytes) => Ok(bytes),
            None => end.write_vectored(&bufs),
        }
    }

    /// Writes all of `bytes`, and takes from them what is written: if the future is dropped, they are what
    /// is left to write.
    ///
    /// # Errors
    /// As write(2).
    pub async fn write_all_from(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.poll_write_some(cx, bytes)).await?;
            *bytes = &bytes[written..];
        }
        Ok(())
    }

    #[inline]
    pub(super) fn poll_write_some(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(cx, &[IoSlice::new(buf)])
    }

    #[inline]
    pub(super) fn poll_write_slices(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wanted_bytes = bufs.iter().map(|buf| buf.len()).sum();
        let now = |end: &End, (): &mut ()| write_now(end, bufs);
        let anyhow = |mut end: &End, (): &mut ()| end.write_vectored(bufs);
        let watched = self.watched()?;
        poll_end::<R, _, _>(watched, cx, wanted_bytes, &mut (), now, anyhow)
    }
}

/// Few slices, of the size of one call: anything else takes the long way, which checks it.
fn is_plain(count: usize, bytes: usize) -> bool {
    count <= 16 && bytes > 0 && bytes <= 1 << 30
}

#[inline]
fn read_now(end: &End, bufs: &mut [IoSliceMut<'_>]) -> Option<usize> {
    let room_bytes = bufs.iter().map(|buf| buf.len()).sum();
    if is_plain(bufs.len(), room_bytes) {
        end.read_in_task(bufs)
    } else {
        None
    }
}

#[inline]
fn write_now(end: &End, bufs: &[IoSlice<'_>]) -> Option<usize> {
    let bytes = bufs.iter().map(|buf| buf.len()).sum();
    if is_plain(bufs.len(), bytes) {
        end.write_in_task(bufs)
    } else {
        None
    }
}
