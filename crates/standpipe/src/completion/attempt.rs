//! One try at an operation, without waiting.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use super::buffer::Buffer;
#[cfg(feature = "file")]
use super::file;
use super::flight::Flight;
use super::operation::{MOST_CHUNK_BYTES, Operation};
use super::outcome::{Failure, Outcome};
use crate::end::End;

/// What came of it.
pub enum Attempt {
    /// It is complete.
    Done(Result<Outcome, Failure>),
    /// Some bytes of a multishot read.
    Arrived(Vec<u8>),
    /// Some bytes of a write are in the pipe; there may be room for more.
    Moved,
    /// It would have to wait.
    Blocked,
    /// It would have to wait for something else than this end, which tells of itself.
    Elsewhere,
}

/// Tries once: one call of the end, which belongs to a ring and does not wait.
pub fn attempt(end: &End, flight: &mut Flight) -> Attempt {
    match &mut flight.operation {
        Operation::Read { buffer, .. } => of_read((&*end).read(buffer)),
        Operation::ReadVectored { buffers, .. } => {
            let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            of_read((&*end).read_vectored(&mut slices))
        }
        Operation::ReadMultishot { chunk_bytes, .. } => {
            let mut chunk = vec![0; MOST_CHUNK_BYTES.min(*chunk_bytes)];
            match of_read((&*end).read(&mut chunk)) {
                Attempt::Done(Ok(Outcome::Bytes(bytes))) if bytes > 0 => {
                    chunk.truncate(bytes);
                    Attempt::Arrived(chunk)
                }
                other => other,
            }
        }
        Operation::Write { buffer, .. } => {
            let written = (&*end).write(&buffer[flight.moved_bytes..]);
            outcome_of(flight, written)
        }
        Operation::WriteVectored { buffers, .. } => {
            let written = (&*end).write_vectored(&rest_of(buffers, flight.moved_bytes));
            let total = buffers.iter().map(|buffer| buffer.len()).sum();
            of_write(written, &mut flight.moved_bytes, total)
        }
        Operation::Poll { events, .. } => match end.events(*events) {
            Ok(events) if events.is_empty() => Attempt::Blocked,
            Ok(events) => Attempt::Done(Ok(Outcome::Events(events))),
            Err(error) => Attempt::Done(Err(error.into())),
        },
        #[cfg(feature = "file")]
        Operation::Splice { .. } => file::splice(end, flight),
        // Those of files and foreign descriptors are tried elsewhere; of an end there are none.
        Operation::ReadAt { .. } => Attempt::Elsewhere,
        // These are not of an end, and never come here.
        Operation::Timeout { .. } | Operation::Cancel { .. } | Operation::OpenFifo { .. } => {
            Attempt::Blocked
        }
    }
}

/// What a call means that moved so much.
pub fn outcome_of(flight: &mut Flight, moved: io::Result<usize>) -> Attempt {
    match &flight.operation {
        Operation::Write { buffer, .. } => of_write(moved, &mut flight.moved_bytes, buffer.len()),
        _ => of_read(moved),
    }
}

fn of_read(read: io::Result<usize>) -> Attempt {
    match read {
        Err(error) if is_for_later(&error) => Attempt::Blocked,
        read => Attempt::Done(read.map(Outcome::Bytes).map_err(Failure::Io)),
    }
}

fn of_write(written: io::Result<usize>, moved_bytes: &mut usize, total_bytes: usize) -> Attempt {
    match written {
        Ok(bytes) => {
            *moved_bytes += bytes;
            if *moved_bytes < total_bytes {
                Attempt::Moved
            } else {
                Attempt::Done(Ok(Outcome::Bytes(total_bytes)))
            }
        }
        Err(error) if is_for_later(&error) => Attempt::Blocked,
        // What is in the pipe is in the pipe: this one says so, the next gets the error.
        Err(_) if *moved_bytes > 0 => Attempt::Done(Ok(Outcome::Bytes(*moved_bytes))),
        Err(error) => Attempt::Done(Err(error.into())),
    }
}

/// Where a blocking call goes on waiting. (`Interrupted`: nothing was moved.)
fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn rest_of(buffers: &[Buffer], moved_bytes: usize) -> Vec<IoSlice<'_>> {
    let mut skip = moved_bytes;
    let rest = |buffer: &'_ Buffer| {
        let skipped = skip.min(buffer.len());
        skip -= skipped;
        skipped
    };
    let starts: Vec<usize> = buffers.iter().map(rest).collect();
    let parts = buffers.iter().zip(starts);
    parts
        .map(|(buffer, at)| IoSlice::new(&buffer[at..]))
        .collect()
}
