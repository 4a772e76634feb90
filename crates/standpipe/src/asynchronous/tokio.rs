//! For tokio: [`AsyncRead`], [`AsyncWrite`], driven by the runtime in which an end is made.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use ::tokio::runtime::Handle;
use ::tokio::task::coop;

use super::reactor::{Outcome, Share, sealed::Sealed, try_later};
use super::{CopyBuffer, Reactor, Source};

/// The end to read from.
pub type ReadEnd = super::ReadEnd<Tokio>;

/// The end to write to.
pub type WriteEnd = super::WriteEnd<Tokio>;

/// An end of a two-way pipe.
pub type DuplexEnd = super::DuplexEnd<Tokio>;

/// The reactor of the tokio runtime in which an end is made.
#[derive(Debug)]
pub enum Tokio {}

impl Sealed for Tokio {}

impl Reactor for Tokio {
    type Watched<T: Source> = AsyncFd<T>;
    type Share = coop::RestoreOnPending;

    fn watch<T: Source>(source: T) -> io::Result<AsyncFd<T>> {
        // Without this, tokio panics.
        Handle::try_current().map_err(io::Error::other)?;
        // SAFETY: a source has the same open descriptor as long as it is there; sources are made here.
        let watched = unsafe { AsyncFd::register_with_interest(source, Interest::READABLE) };
        Ok(watched?)
    }

    fn source<T: Source>(watched: &AsyncFd<T>) -> &T {
        watched.get_ref()
    }

    fn into_source<T: Source>(watched: AsyncFd<T>) -> io::Result<T> {
        Ok(watched.into_inner())
    }

    #[inline]
    fn poll_share(cx: &mut Context<'_>) -> Poll<coop::RestoreOnPending> {
        coop::poll_proceed(cx)
    }

    /// The runtime's events are edges, kept until somebody clears them; an edge that comes between the
    /// look at it and a try that finds nothing is kept.
    fn poll<T: Source, O>(
        watched: &AsyncFd<T>,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&T) -> io::Result<O>,
    ) -> Poll<io::Result<O>> {
        loop {
            let mut guard = ready!(watched.poll_read_ready(cx))?;
            match attempt(watched.get_ref()).into() {
                Outcome::Done(result) => return Poll::Ready(result),
                Outcome::WouldBlock => guard.clear_ready(),
                Outcome::Later => return try_later(cx),
            }
        }
    }
}

impl Share for coop::RestoreOnPending {
    #[inline]
    fn note_used(self) {
        self.made_progress();
    }
}

impl<R: Reactor> AsyncRead for super::ReadEnd<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = ready!(self.poll_read_some(cx, buf.initialize_unfilled()))?;
        buf.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<R: Reactor> AsyncWrite for super::WriteEnd<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_some(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Bytes are where the reader finds them as soon as they are written.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes this end. The stream ends when no other write end is left.
    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down();
        Poll::Ready(Ok(()))
    }
}

impl<R: Reactor> AsyncRead for super::DuplexEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.reader), cx, buf)
    }
}

impl<R: Reactor> AsyncWrite for super::DuplexEnd<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer.poll_write_some(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer.poll_write_slices(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Bytes are where the reader finds them as soon as they are written.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the direction that is written.
    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer.shut_down();
        Poll::Ready(Ok(()))
    }
}

/// Copies from `reader` to `writer` until the end of the stream; returns how many bytes that were.
///
/// To stop it midway and lose nothing, use [`copy_with`].
///
/// # Errors
/// Of the reader and of the writer; `WriteZero` if the writer takes nothing.
pub async fn copy<S, D>(reader: &mut S, writer: &mut D) -> io::Result<u64>
where
    S: AsyncRead + Unpin + ?Sized,
    D: AsyncWrite + Unpin + ?Sized,
{
    copy_with(&mut CopyBuffer::new(), reader, writer).await
}

/// The same by way of `buffer`. If the future is dropped, what was read and not yet written is in there:
/// another call with it goes on where this one stopped.
///
/// # Errors
/// As [`copy`]; what the writer did not take stays in the buffer.
pub async fn copy_with<S, D>(
    buffer: &mut CopyBuffer,
    reader: &mut S,
    writer: &mut D,
) -> io::Result<u64>
where
    S: AsyncRead + Unpin + ?Sized,
    D: AsyncWrite + Unpin + ?Sized,
{
    let mut ends = (reader, writer);
    let read = |(reader, _): &mut (&mut S, &mut D), cx: &mut Context<'_>, room: &mut [u8]| {
        let mut room = ReadBuf::new(room);
        ready!(Pin::new(&mut **reader).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(room.filled().len()))
    };
    let write = |(_, writer): &mut (&mut S, &mut D), cx: &mut Context<'_>, bytes: &[u8]| {
        Pin::new(&mut **writer).poll_write(cx, bytes)
    };
    let flush = |(_, writer): &mut (&mut S, &mut D), cx: &mut Context<'_>| {
        Pin::new(&mut **writer).poll_flush(cx)
    };
    buffer.copy(&mut ends, read, write, flush).await
}
