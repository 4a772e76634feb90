//! The kernel's ring ([io_uring(7)](https://man7.org/linux/man-pages/man7/io_uring.7.html)), for what is
//! neither a pipe nor a file of the cache.
//!
//! An operation that the kernel has sits in a seat, with the memory that it reads to or writes from and the
//! descriptor, and is there until the kernel gives it back. So nothing is freed that the kernel may still
//! touch: not even when the ring is dropped, which cancels what it can, and leaves the rest behind.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use standpipe_shm::{fork, private_fd};

use super::buffer::Buffer;
use super::flight::FlightId;
use crate::end::registry;

/// Entries of the submission queue: it is emptied by each submission.
const ENTRIES: u32 = 64;

/// Completions that the kernel has room for; it keeps others elsewhere, which takes it longer.
const COMPLETIONS: u32 = 1024;

/// Most bytes of one call (`MAX_RW_COUNT` of Linux: 2 GiB less a page).
const MOST_BYTES: usize = 0x7fff_f000;

/// The completion of a cancellation, which says nothing that the operation's own does not.
const CANCELLATION: u64 = u64::MAX;

/// At the position, or of a stream.
const NO_OFFSET: u64 = u64::MAX;

/// No file reaches so far: the kernel refuses it, as it would refuse the one above from `pread(2)`.
const LAST_OFFSET: u64 = NO_OFFSET - 1;

/// The kernel's ring, and who sits in it.
pub struct Kernel {
    ring: ManuallyDrop<IoUring>,
    seats: ManuallyDrop<Vec<Option<Seat>>>,
    vacant: Vec<usize>,
    /// See [`fork::generation`].
    generation: u32,
}

/// An operation that the kernel has.
struct Seat {
    flight: FlightId,
    /// Keeps it open until the kernel has looked it up; taken when the ring goes.
    fd: Option<Arc<OwnedFd>>,
    memory: Vec<Buffer>,
    /// What the kernel was told of the memory.
    _slices: Vec<Slice>,
}

/// A `struct iovec`; the kernel alone follows the address.
#[repr(C)]
struct Slice {
    base: usize,
    len_bytes: usize,
}

/// What is asked of the kernel: one call.
pub enum Call {
    /// Up to as much as there is memory, from an offset, or at the position.
    Read(Option<u64>),
    /// What is in the memory.
    Write,
    /// Until one of these events is there.
    Poll(PollFlags),
}

/// What it gave back.
pub struct Returned {
    pub flight: FlightId,
    pub memory: Vec<Buffer>,
    /// What the call would have returned.
    pub result: Result<usize, Errno>,
}

impl Kernel {
    /// # Errors
    /// As `io_uring_setup(2)`: `ENOSYS` where there is none, `EPERM` where it is forbidden.
    pub fn new() -> io::Result<Self> {
        let mut live = registry::hold_forks();
        let mut builder = IoUring::builder();
        let ring = builder
            .dontfork()
            .setup_clamp()
            .setup_cqsize(COMPLETIONS)
            .build(ENTRIES)?;
        fork::count();
        registry::close_in_children(&mut live, &ring);
        private_fd::note(ring.as_raw_fd());
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            seats: ManuallyDrop::default(),
            vacant: Vec::new(),
            generation: fork::generation(),
        })
    }

    /// Whether this is a child of the process that made it: its memory is not there, its number another's.
    fn is_forked(&self) -> bool {
        fork::generation() != self.generation
    }

    /// Whether it has anything.
    pub fn is_idle(&self) -> bool {
        self.vacant.len() == self.seats.len()
    }

    /// Has a call made; the first `skip_bytes` of the memory are done already. Says where it sits.
    ///
    /// # Errors
    /// `Unsupported` in a forked child, with the memory.
    pub fn begin(
        &mut self,
        flight: FlightId,
        fd: &Arc<OwnedFd>,
        call: &Call,
        mut memory: Vec<Buffer>,
        skip_bytes: usize,
    ) -> Result<usize, (io::Error, Vec<Buffer>)> {
        if self.is_forked() {
            let text = "the ring belongs to the process that this one was forked from";
            let error = io::Error::new(io::ErrorKind::Unsupported, text);
            return Err((error, memory));
        }
        let slices = slices(&mut memory, skip_bytes);
        let entry = entry(call, Fd(fd.as_raw_fd()), &slices);
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        self.seats[number] = Some(Seat {
            flight,
            fd: Some(Arc::clone(fd)),
            memory,
            _slices: slices,
        });
        self.push(&entry.user_data(number as u64));
        Ok(number)
    }

    /// Asks for an operation back. It comes as soon as the kernel lets it go: with what it moved, or
    /// `ECANCELED`.
    pub fn cancel(&mut self, seat: usize) {
        if !self.is_forked() {
            let entry = opcode::AsyncCancel::new(seat as u64).build();
            self.push(&entry.user_data(CANCELLATION));
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: what the entry refers to is in a seat, which is emptied by the completion only: the
            // descriptor is open, nobody else touches the memory, and neither moves.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                return;
            }
            // The queue is full: there is room when the kernel has taken it.
            let _ = self.ring.submit();
        }
    }

    /// Tells the kernel of what it has not been told of, and takes what is complete.
    ///
    /// # Errors
    /// As `io_uring_enter(2)`, but for what passes.
    pub fn run(&mut self) -> io::Result<Vec<Returned>> {
        if self.is_forked() {
            return Ok(Vec::new());
        }
        let queue = self.ring.submission();
        let has_news = !queue.is_empty() || queue.cq_overflow();
        drop(queue);
        if has_news {
            match self.ring.submit() {
                Err(error) if !is_transient(&error) => return Err(error),
                // What was not taken is when it is tried again.
                _ => {}
            }
        }
        let completions: Vec<cqueue::Entry> = self.ring.completion().collect();
        let returned = completions.iter().filter_map(|completion| {
            let number = completion.user_data() as usize;
            let seat = self.seats.get_mut(number)?.take()?;
            self.vacant.push(number);
            Some(Returned {
                flight: seat.flight,
                memory: seat.memory,
                result: usize::try_from(completion.result())
                    .map_err(|_| Errno::from_raw_os_error(-completion.result())),
            })
        });
        Ok(returned.collect())
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring has it open for as long as it is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl Drop for Kernel {
    /// Memory that the kernel does not give back at once stays in its hands, and is never freed.
    fn drop(&mut self) {
        if self.is_forked() {
            // The number is somebody else's now, the queues are not mapped; and the kernel does not know of
            // this copy of the seats.
            // SAFETY: not used after this.
            return unsafe { ManuallyDrop::drop(&mut self.seats) };
        }
        if !self.is_idle() {
            let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
            self.push(&entry.user_data(CANCELLATION));
            let _ = self.run();
        }
        let mut live = registry::hold_forks();
        registry::closes(&mut live, &*self.ring);
        private_fd::forget(self.ring.as_raw_fd());
        // SAFETY: not used after this.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
        drop(live);
        // What the kernel has it has looked up, and it takes no more: others are to hear of the end of it.
        for seat in self.seats.iter_mut().flatten() {
            seat.fd.take();
        }
        if self.is_idle() {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.seats) };
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::NOMEM | Errno::TIME)
    )
}

/// What is left of the memory behind `skip_bytes`, as much as one call moves.
fn slices(memory: &mut [Buffer], mut skip_bytes: usize) -> Vec<Slice> {
    let mut left = MOST_BYTES;
    let part = |buffer: &mut Buffer| {
        let skipped = skip_bytes.min(buffer.len());
        skip_bytes -= skipped;
        let rest = buffer.get_mut(skipped..).unwrap_or_default();
        let len_bytes = rest.len().min(left);
        left -= len_bytes;
        Slice {
            base: rest.as_mut_ptr().expose_provenance(),
            len_bytes,
        }
    };
    let parts = memory.iter_mut().map(part);
    parts.filter(|slice| slice.len_bytes > 0).collect()
}

fn entry(call: &Call, fd: Fd, slices: &[Slice]) -> squeue::Entry {
    let (start, count) = (slices.as_ptr().cast(), slices.len() as u32);
    match *call {
        Call::Read(offset) => opcode::Readv::new(fd, start, count)
            .offset(offset.map_or(NO_OFFSET, |offset| offset.min(LAST_OFFSET)))
            .build(),
        Call::Write => opcode::Writev::new(fd, start, count)
            .offset(NO_OFFSET)
            .build(),
        Call::Poll(events) => opcode::PollAdd::new(fd, events.bits().into()).build(),
    }
}
