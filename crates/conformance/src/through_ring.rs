//! Ends each of whose calls is an operation of a completion ring, submitted and waited for: what holds for
//! the call has to hold for the operation.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use standpipe::completion::{
    Buffers, Completion, EndId, Failure, Operation, Outcome, Ring, SubmitError,
};
use standpipe::end::End;

use crate::side::Side;

/// Such an end.
pub(crate) struct ThroughRing(pub(crate) End);

/// Whether to wait for an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Until it completes.
    Yes,
    /// What is not complete at once is cancelled.
    No,
}

const TOKEN: u64 = 1;

impl ThroughRing {
    /// A call that waits or does not, as the mode says.
    fn call(&self, operation: impl FnOnce(EndId) -> Operation) -> io::Result<(usize, Buffers)> {
        let nonblocking = rustix::fs::fcntl_getfl(&self.0)?.contains(OFlags::NONBLOCK);
        let waits = if nonblocking { Waits::No } else { Waits::Yes };
        match self.run(operation, waits)? {
            Some(completion) => {
                let (bytes, buffers) = completion.into_bytes();
                Ok((bytes?, buffers))
            }
            None => Ok((0, Buffers::None)),
        }
    }

    /// `None` if there was nothing to do.
    fn run(
        &self,
        operation: impl FnOnce(EndId) -> Operation,
        waits: Waits,
    ) -> io::Result<Option<Completion>> {
        let mut ring = Ring::new(1)?;
        let end = ring.attach(self.0.try_clone()?);
        match ring.submit(TOKEN, operation(end)).map_err(|no| no.reason) {
            Ok(()) => finish(&mut ring, waits).map(Some),
            Err(SubmitError::ZeroLength) => Ok(None),
            Err(SubmitError::WrongDirection) => Err(Errno::BADF.into()),
            Err(SubmitError::TooManyBuffers(_)) => Err(Errno::INVAL.into()),
            Err(reason) => panic!("{reason}"),
        }
    }
}

/// The completion of the only operation.
fn finish(ring: &mut Ring, waits: Waits) -> io::Result<Completion> {
    let at_once = ring.reap()?.next();
    let (completion, instead) = match (at_once, waits) {
        (Some(completion), _) => return Ok(completion),
        (None, Waits::Yes) => match ring.wait(None) {
            Ok(mut reaped) => (reaped.next(), Errno::AGAIN),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (None, Errno::INTR),
            Err(error) => return Err(error),
        },
        (None, Waits::No) => (None, Errno::AGAIN),
    };
    if let Some(completion) = completion {
        return Ok(completion);
    }
    assert!(ring.cancel(TOKEN), "neither complete nor under way");
    let completion = ring.reap()?.next().expect("a cancelled one completes");
    match completion.result {
        Err(Failure::Cancelled) => Err(instead.into()),
        _ => Ok(completion),
    }
}

/// Copies what was read to where it is wanted.
fn scatter<'a>(from: &[u8], into: impl Iterator<Item = &'a mut [u8]>) {
    let mut rest = from;
    for slice in into {
        let (part, behind) = rest.split_at(slice.len().min(rest.len()));
        slice[..part.len()].copy_from_slice(part);
        rest = behind;
    }
}

impl AsRawFd for ThroughRing {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Side for ThroughRing {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let room = vec![0; buf.len()];
        let (bytes, buffers) = self.call(|end| Operation::read(end, room))?;
        if let Buffers::One(buffer) = buffers {
            scatter(&buffer[..bytes], std::iter::once(buf));
        }
        Ok(bytes)
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let room = bufs.iter().map(|buf| vec![0; buf.len()]);
        let (bytes, buffers) = self.call(|end| Operation::read_vectored(end, room))?;
        if let Buffers::Many(buffers) = buffers {
            let got: Vec<u8> = buffers
                .iter()
                .flat_map(|part| part.iter().copied())
                .collect();
            scatter(&got[..bytes], bufs.iter_mut().map(|buf| &mut **buf));
        }
        Ok(bytes)
    }
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Ok(self.call(|end| Operation::write(end, buf.to_vec()))?.0)
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = bufs.iter().map(|buf| buf.to_vec());
        Ok(self.call(|end| Operation::write_vectored(end, bytes))?.0)
    }
    fn events(&self, events: PollFlags) -> io::Result<PollFlags> {
        match self.run(|end| Operation::Poll { end, events }, Waits::No) {
            Ok(Some(completion)) => events_of(completion),
            Ok(None) => unreachable!("a poll moves nothing"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(PollFlags::empty()),
            Err(error) => Err(error),
        }
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>> {
        Ok(Box::new(Self(self.0.try_clone()?)))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.0.set_nonblocking(yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        Box::new(self.0).into_fd()
    }
    fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        self.0.pollable()
    }
    fn unread_bytes(&self) -> io::Result<usize> {
        self.0.unread_bytes()
    }
    fn capacity_bytes(&self) -> io::Result<usize> {
        self.0.capacity_bytes()
    }
    fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        self.0.set_capacity_bytes(bytes)
    }
    fn use_kernel(&self) -> io::Result<()> {
        self.0.use_kernel()
    }
    fn lane_bytes(&self) -> u64 {
        self.0.stats().bytes
    }
    fn as_end(&self) -> Option<&End> {
        Some(&self.0)
    }
}

fn events_of(completion: Completion) -> io::Result<PollFlags> {
    match completion.result {
        Ok(Outcome::Events(events)) => Ok(events),
        Ok(other) => panic!("{other:?} of a poll"),
        Err(failure) => Err(failure.into()),
    }
}

/// poll(2) of several ends, each an operation of the same ring.
pub(crate) fn poll<const N: usize>(
    wanted: [(&End, PollFlags); N],
    timeout: Option<Duration>,
) -> io::Result<(usize, [PollFlags; N])> {
    let mut ring = Ring::new(N)?;
    for (token, (end, events)) in (0..).zip(wanted) {
        let end = ring.attach(end.try_clone()?);
        ring.submit(token, Operation::Poll { end, events })
            .expect("a poll is taken");
    }
    let mut came = [PollFlags::empty(); N];
    for completion in ring.wait(timeout)? {
        let index = completion.token as usize;
        came[index] = events_of(completion)?;
    }
    let count = came.iter().filter(|events| !events.is_empty()).count();
    Ok((count, came))
}
