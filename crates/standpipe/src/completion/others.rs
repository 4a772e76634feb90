//! What a ring has besides ends of pipes: files, foreign descriptors, FIFOs that are being opened; and what
//! its descriptor tells of them.

use slotmap::{Key, KeyData, SlotMap};

#[cfg(feature = "file")]
use super::file::{AttachedFile, FileJob};
use super::flight::FlightId;
use super::foreign::{Foreign, KernelJob};
use super::opening::Waiting;
use super::operation::{Operation, SubmitError};
use super::outcome::Failure;
use super::{EndId, Ring};

/// What the events carry: no key of an end has these values. (The alarm and the news have some before.)
pub const OPENS: u64 = 2;
#[cfg(feature = "file")]
pub const ARRIVALS: u64 = 3;
pub const KERNEL: u64 = 4;
const LAST: u64 = KERNEL;

/// Whether an event is one of these.
pub fn is_other(data: u64) -> bool {
    (OPENS..=LAST).contains(&data)
}

/// What an operation keeps that none of the ends' queues keeps for it.
pub enum Job {
    /// It opens a FIFO.
    Opening(Box<Waiting>),
    /// It reads a file, or splices from one.
    #[cfg(feature = "file")]
    File(Box<FileJob>),
    /// The kernel has it.
    Kernel(KernelJob),
}

/// Something that is no end of a pipe.
pub enum Other {
    #[cfg(feature = "file")]
    File(AttachedFile),
    Foreign(Foreign),
}

/// All of them. Their ids are of another kind than those of ends, though users need not know.
#[derive(Default)]
pub struct Others(SlotMap<EndId, Other>);

/// Their ids have this bit of the index, those of ends never do: there are not as many.
const OTHER: u64 = 1 << 31;

/// Whether an id is one of theirs.
#[inline]
pub fn has(id: EndId) -> bool {
    id.data().as_ffi() & OTHER != 0
}

fn flipped(id: EndId) -> EndId {
    KeyData::from_ffi(id.data().as_ffi() ^ OTHER).into()
}

impl Others {
    pub fn add(&mut self, other: Other) -> EndId {
        flipped(self.0.insert(other))
    }

    pub fn get(&self, id: EndId) -> Option<&Other> {
        self.0.get(flipped(id))
    }

    pub fn get_mut(&mut self, id: EndId) -> Option<&mut Other> {
        self.0.get_mut(flipped(id))
    }

    pub fn remove(&mut self, id: EndId) -> Option<Other> {
        self.0.remove(flipped(id))
    }

    /// Whether this is a file of the cache.
    #[cfg(feature = "file")]
    pub fn check_file(&self, id: EndId) -> Result<(), SubmitError> {
        match self.get(id) {
            Some(Other::File(_)) => Ok(()),
            Some(Other::Foreign(_)) => Err(SubmitError::Unfit(
                "a splice from a foreign descriptor, expected a file of the cache",
            )),
            None if has(id) => Err(SubmitError::NoSuchEnd),
            None => Err(SubmitError::Unfit(
                "a splice from a pipe, expected a file of the cache",
            )),
        }
    }

    /// Whether an operation is one for what it is on, which is no end.
    pub fn check(&self, id: EndId, operation: &Operation) -> Result<(), SubmitError> {
        match self.get(id).ok_or(SubmitError::NoSuchEnd)? {
            #[cfg(feature = "file")]
            Other::File(_) => match operation {
                Operation::Write { .. } | Operation::WriteVectored { .. } => {
                    Err(SubmitError::WrongDirection)
                }
                Operation::ReadMultishot { .. } => Err(SubmitError::Unfit(
                    "a read of all arrivals of a file, expected a stream",
                )),
                Operation::Splice { .. } => Err(SubmitError::Unfit(
                    "a splice to a file, expected an end of a pipe",
                )),
                _ => Ok(()),
            },
            Other::Foreign(foreign) => {
                let side = operation.place().and_then(|(_, side)| side);
                if side.is_some_and(|side| !foreign.role.has(side)) {
                    return Err(SubmitError::WrongDirection);
                }
                #[cfg(feature = "file")]
                if let Operation::Splice { .. } = operation {
                    return Err(SubmitError::Unfit(
                        "a splice to something else, expected an end of a pipe",
                    ));
                }
                Ok(())
            }
        }
    }
}

impl Ring {
    pub(super) fn hear(&mut self, data: u64) {
        match data {
            OPENS => self.hear_opens(),
            #[cfg(feature = "file")]
            ARRIVALS => self.hear_arrivals(),
            KERNEL => {
                // Who asks next is told why it failed.
                let _ = self.run_kernel();
            }
            _ => {}
        }
    }

    /// Begins an operation on what is no end.
    pub(super) fn start_on_other(&mut self, id: FlightId, other: EndId) {
        match self.others.get(other) {
            #[cfg(feature = "file")]
            Some(Other::File(_)) => self.start_on_file(id, other),
            Some(Other::Foreign(_)) => self.start_on_foreign(id, other),
            // Linked, and detached meanwhile.
            None => self.finish(id, Err(Failure::Cancelled)),
        }
    }

    /// An operation is to be cancelled: takes it out of where it waits besides ends. False if it can't be
    /// had back at once; then it completes later.
    pub(super) fn stop_elsewhere(&mut self, id: FlightId) -> bool {
        match self.flights[id].job {
            Some(Job::Opening(_)) => self.stop_opening(id),
            #[cfg(feature = "file")]
            Some(Job::File(_)) => self.stop_file_read(id),
            Some(Job::Kernel(_)) | None => return self.stop_foreign(id),
        }
        true
    }

    /// What is under way on something that is no end.
    pub(super) fn all_on(&self, other: EndId) -> Vec<FlightId> {
        let on_it = self.flights.iter();
        let on_it = on_it.filter(|(_, flight)| flight.operation.has(other));
        on_it.map(|(id, _)| id).collect()
    }
}
