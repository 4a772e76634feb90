//! The end of a two-way pipe.

use std::fmt;
use std::io;

use super::{Reactor, ReadEnd, WriteEnd};
use crate::duplex;

/// An end of a two-way pipe (see [`crate::duplex`]). To shut it down closes the direction that is written;
/// the other goes on until it is dropped.
pub struct DuplexEnd<R: Reactor> {
    pub(super) reader: ReadEnd<R>,
    pub(super) writer: WriteEnd<R>,
}

impl<R: Reactor> DuplexEnd<R> {
    /// From now on, who calls it never waits but in a future.
    ///
    /// # Errors
    /// As [`ReadEnd::new`].
    pub fn new(end: duplex::DuplexEnd) -> io::Result<Self> {
        let (reader, writer) = end.split();
        Ok(Self {
            reader: ReadEnd::new(reader)?,
            writer: WriteEnd::new(writer)?,
        })
    }

    /// The two directions, for two that use them at a time.
    pub fn halves(&mut self) -> (&mut ReadEnd<R>, &mut WriteEnd<R>) {
        (&mut self.reader, &mut self.writer)
    }

    /// The two directions, each an end of its own from now on.
    #[must_use]
    pub fn split(self) -> (ReadEnd<R>, WriteEnd<R>) {
        (self.reader, self.writer)
    }

    /// The end as it was, whose calls wait again.
    ///
    /// # Errors
    /// As [`ReadEnd::into_inner`], [`WriteEnd::into_inner`].
    pub fn into_inner(self) -> io::Result<duplex::DuplexEnd> {
        Ok(duplex::DuplexEnd::from_halves(
            self.reader.into_inner()?,
            self.writer.into_inner()?,
        ))
    }
}

impl<R: Reactor> TryFrom<duplex::DuplexEnd> for DuplexEnd<R> {
    type Error = io::Error;

    fn try_from(end: duplex::DuplexEnd) -> io::Result<Self> {
        Self::new(end)
    }
}

impl<R: Reactor> fmt::Debug for DuplexEnd<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplexEnd")
            .field("reader", &self.reader)
            .field("writer", &self.writer)
            .finish()
    }
}
