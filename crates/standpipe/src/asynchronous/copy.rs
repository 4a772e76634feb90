//! Copying, so that it can be stopped anywhere and nothing is lost.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

/// As much as a pipe holds that nobody configured: one read takes all there is.
const BUFFER_BYTES: usize = 64 << 10;

/// What a copy has read and not yet written, and how far it came.
#[derive(Debug)]
pub struct CopyBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    copied_bytes: u64,
}

impl Default for CopyBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl CopyBuffer {
    /// Of 64 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bytes: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            copied_bytes: 0,
        }
    }

    /// What was read and is not yet written.
    #[must_use]
    pub fn unwritten(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How many bytes were written, in all calls.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// Copies to the end of the stream. Between two steps everything is accounted for, and nothing but
    /// a step is ever waited for. Before it waits for the reader, the writer passes on what it has.
    pub(super) async fn copy<E>(
        &mut self,
        ends: &mut E,
        mut read: impl FnMut(&mut E, &mut Context<'_>, &mut [u8]) -> Poll<io::Result<usize>>,
        mut write: impl FnMut(&mut E, &mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
        mut flush: impl FnMut(&mut E, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> io::Result<u64> {
        loop {
            while self.start < self.end {
                let written = poll_fn(|cx| write(ends, cx, self.unwritten())).await;
                match uninterrupted(written)? {
                    Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                    written => self.note_written(written.unwrap_or(0)),
                }
            }
            let mut is_flushed = false;
            let taken = poll_fn(|cx| {
                let taken = read(ends, cx, &mut self.bytes);
                if taken.is_pending() && !is_flushed {
                    ready!(flush(ends, cx))?;
                    is_flushed = true;
                }
                taken
            });
            match uninterrupted(taken.await)? {
                Some(0) => break,
                taken => (self.start, self.end) = (0, taken.unwrap_or(0)),
            }
        }
        poll_fn(|cx| flush(ends, cx)).await?;
        Ok(self.copied_bytes)
    }

    fn note_written(&mut self, bytes: usize) {
        self.start += bytes;
        self.copied_bytes += bytes as u64;
    }
}

/// `None`: a signal handler ran, and the call is made again.
fn uninterrupted(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        result => result.map(Some),
    }
}
