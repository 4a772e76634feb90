//! For any runtime: the traits of `futures`, driven by `async-io`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};

use super::reactor::{Outcome, Share, sealed::Sealed, try_later};
use super::{CopyBuffer, Reactor, Source};

/// The end to read from.
pub type ReadEnd = super::ReadEnd<AsyncIo>;

/// The end to write to.
pub type WriteEnd = super::WriteEnd<AsyncIo>;

/// An end of a two-way pipe.
pub type DuplexEnd = super::DuplexEnd<AsyncIo>;

/// The reactor of `async-io`, one for the process.
#[derive(Debug)]
pub enum AsyncIo {}

impl Sealed for AsyncIo {}

impl Reactor for AsyncIo {
    type Watched<T: Source> = Async<T>;
    type Share = Unlimited;

    fn watch<T: Source>(source: T) -> io::Result<Async<T>> {
        Async::new_nonblocking(source)
    }

    fn source<T: Source>(watched: &Async<T>) -> &T {
        watched.get_ref()
    }

    fn into_source<T: Source>(watched: Async<T>) -> io::Result<T> {
        watched.into_inner()
    }

    #[inline]
    fn poll_share(_cx: &mut Context<'_>) -> Poll<Unlimited> {
        Poll::Ready(Unlimited)
    }

    /// The reactor's events are levels: what is ready when the task begins to wait wakes it at once. It
    /// does not tell the task that it woke it for this, so each call is a try.
    fn poll<T: Source, O>(
        watched: &Async<T>,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&T) -> io::Result<O>,
    ) -> Poll<io::Result<O>> {
        loop {
            match attempt(watched.get_ref()).into() {
                Outcome::Done(result) => return Poll::Ready(result),
                Outcome::WouldBlock => ready!(watched.poll_readable(cx))?,
                Outcome::Later => return try_later(cx),
            }
        }
    }
}

/// The executors of this world leave it to their tasks when to yield.
#[derive(Debug)]
pub struct Unlimited;

impl Share for Unlimited {
    fn note_used(self) {}
}

impl<R: Reactor> AsyncRead for super::ReadEnd<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_some(cx, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [io::IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_slices(cx, bufs)
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

    /// Bytes are where the reader finds them as soon as they are written.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes this end. The stream ends when no other write end is left.
    fn poll_close(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down();
        Poll::Ready(Ok(()))
    }
}

impl<R: Reactor> AsyncRead for super::DuplexEnd<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.reader.poll_read_some(cx, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [io::IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.reader.poll_read_slices(cx, bufs)
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

    /// Bytes are where the reader finds them as soon as they are written.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the direction that is written.
    fn poll_close(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        Pin::new(&mut **reader).poll_read(cx, room)
    };
    let write = |(_, writer): &mut (&mut S, &mut D), cx: &mut Context<'_>, bytes: &[u8]| {
        Pin::new(&mut **writer).poll_write(cx, bytes)
    };
    let flush = |(_, writer): &mut (&mut S, &mut D), cx: &mut Context<'_>| {
        Pin::new(&mut **writer).poll_flush(cx)
    };
    buffer.copy(&mut ends, read, write, flush).await
}
