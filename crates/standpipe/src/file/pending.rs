//! Reads that a ring tries until they are done.

use std::io::{self, IoSlice, Write};

use standpipe_cache::cache::{Pending, ReadError};

use super::{File, SPLICE_BYTES};

/// What a step of a splice came to.
pub(crate) enum Spliced {
    /// So many bytes are in the pipe; 0 at the end of the file.
    Moved(usize),
    /// A page is missing: `pending` is called when it comes.
    NoPages,
    /// So many bytes were offered to the pipe, which had no room.
    NoRoom(usize),
}

impl File {
    /// Reads what is there, from `offset` or else the position on; then the position is behind it.
    pub(crate) fn try_read(
        &self,
        to: &mut [u8],
        offset: Option<u64>,
        pending: &mut Pending,
    ) -> Result<usize, ReadError> {
        if let Some(offset) = offset {
            return self.reader.try_read_at(to, offset, pending);
        }
        let mut position = self.position();
        let bytes = self.reader.try_read_at(to, *position, pending)?;
        *position += bytes as u64;
        Ok(bytes)
    }

    /// One call of the pipe: moves what it takes of the pages that are there, `len_bytes` at most.
    pub(crate) fn try_splice(
        &self,
        to: &mut impl Write,
        offset: Option<u64>,
        len_bytes: usize,
        pending: &mut Pending,
    ) -> io::Result<Spliced> {
        if let Some(offset) = offset {
            return self.try_splice_at(to, offset, len_bytes, pending);
        }
        let mut position = self.position();
        let spliced = self.try_splice_at(to, *position, len_bytes, pending)?;
        if let Spliced::Moved(bytes) = spliced {
            *position += bytes as u64;
        }
        Ok(spliced)
    }

    fn try_splice_at(
        &self,
        to: &mut impl Write,
        offset: u64,
        len_bytes: usize,
        pending: &mut Pending,
    ) -> io::Result<Spliced> {
        let len_bytes = len_bytes.min(SPLICE_BYTES);
        let bytes = match self.reader.try_borrow_at(offset, len_bytes, pending) {
            Err(ReadError::WouldBlock) => return Ok(Spliced::NoPages),
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(Spliced::Moved(0));
        }
        let slices: Vec<IoSlice<'_>> = bytes.slices().map(IoSlice::new).collect();
        match to.write_vectored(&slices) {
            // Nothing was moved by one that was interrupted: a blocking call goes on.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(Spliced::NoRoom(bytes.len()))
            }
            written => written.map(Spliced::Moved),
        }
    }
}
