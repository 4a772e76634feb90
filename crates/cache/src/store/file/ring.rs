//! Reads through [io_uring(7)](https://man7.org/linux/man-pages/man7/io_uring.7.html).
//!
//! One thread has the ring to itself: it submits, waits and completes. Others put their jobs in a queue, and
//! ring its bell if it sleeps. That costs a wake-up, which read-ahead hides, and spares what submitting from
//! the readers' own threads would bring: completions that the kernel runs as work of the thread that submitted
//! interrupt whatever that thread waits in (`epoll_wait` then fails with `EINTR`), and a thread that ends has
//! its reads cancelled. It also allows the kernel to put off that work until the ring's thread asks
//! (`IORING_SETUP_DEFER_TASKRUN`).
//!
//! The bell is an eventfd that the ring polls. Whoever rings it does so only if the thread said, under the
//! lock of the queue, that it goes to sleep.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::{EventfdFlags, PollFlags};
use rustix::io::Errno;

use super::engine::guard;
use super::job::{Job, Next};
use super::pool::Pool;

/// Entries of the submission queue.
const ENTRIES: u32 = 128;
/// Reads under way at once, at most: the others wait in our queue. More than disks have use for, and one entry
/// is left for the bell.
const SEATS: usize = ENTRIES as usize - 1;
/// The completion that says that the bell was rung. Others carry the number of their seat.
const BELL: u64 = u64::MAX;

/// Where jobs are given to the thread that has the ring.
pub struct Ring {
    shared: Arc<Shared>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    bell: OwnedFd,
}

#[derive(Default)]
struct Inbox {
    jobs: VecDeque<Job>,
    /// The thread waits for completions, or is about to, and has not seen what comes now.
    is_asleep: bool,
}

impl Ring {
    /// Starts the thread. Jobs that the ring can't do go to the pool.
    ///
    /// # Errors
    /// As `io_uring_setup(2)`: `ENOSYS` where there is none, `EPERM` where it is forbidden.
    pub fn start(pool: &'static Pool) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            bell: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let (tell, told) = mpsc::sync_channel(1);
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("standpipe-ring".into());
        thread.spawn(move || match set_up() {
            Ok(ring) => {
                let _ = tell.send(Ok(()));
                Worker::new(ring, for_thread, pool).run();
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        })?;
        told.recv().unwrap_or(Err(Errno::NOSYS.into()))?;
        Ok(Self { shared })
    }

    /// Has a job done.
    pub fn push(&self, job: Job) {
        let mut inbox = self.shared.lock();
        inbox.jobs.push_back(job);
        let was_asleep = std::mem::take(&mut inbox.is_asleep);
        drop(inbox);
        if was_asleep {
            // It can't be full: it is rung once for each sleep.
            let _ = rustix::io::write(&self.shared.bell, &1_u64.to_ne_bytes());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ring of the calling thread's own. Kernels before 6.1 don't know of that.
fn set_up() -> io::Result<IoUring> {
    let mut own = IoUring::builder();
    own.dontfork().setup_single_issuer().setup_defer_taskrun();
    own.build(ENTRIES)
        .or_else(|_| IoUring::builder().dontfork().build(ENTRIES))
}

/// The thread that has the ring.
struct Worker {
    /// Neither this nor the seats are ever dropped, not even by a panic: the kernel may still write to the
    /// memory that they hold.
    ring: ManuallyDrop<IoUring>,
    seats: ManuallyDrop<Vec<Option<Seat>>>,
    vacant: Vec<usize>,
    waiting: VecDeque<Job>,
    shared: Arc<Shared>,
    pool: &'static Pool,
    is_bell_polled: bool,
}

/// A read that the kernel has, or is about to be given.
struct Seat {
    job: Job,
    offset_bytes: u64,
    /// What the kernel was told of the job's memory.
    slices: Vec<Slice>,
}

/// A `struct iovec`.
#[repr(C)]
struct Slice {
    base: *mut u8,
    len_bytes: usize,
}

impl Worker {
    fn new(ring: IoUring, shared: Arc<Shared>, pool: &'static Pool) -> Self {
        Self {
            ring: ManuallyDrop::new(ring),
            seats: ManuallyDrop::new((0..SEATS).map(|_| None).collect()),
            vacant: (0..SEATS).rev().collect(),
            waiting: VecDeque::new(),
            shared,
            pool,
            is_bell_polled: false,
        }
    }

    fn run(mut self) -> ! {
        loop {
            self.fetch();
            self.submit_and_wait();
            self.complete();
        }
    }

    /// Takes new jobs, seats as many as there is room for, and announces sleep if that was all.
    fn fetch(&mut self) {
        let mut inbox = self.shared.lock();
        self.waiting.append(&mut inbox.jobs);
        // Nothing is missed: whoever comes now rings.
        inbox.is_asleep = true;
        drop(inbox);
        if !self.is_bell_polled {
            let bell = types::Fd(self.shared.bell.as_raw_fd());
            let poll = opcode::PollAdd::new(bell, PollFlags::IN.bits().into()).build();
            self.is_bell_polled = self.submit(&poll.user_data(BELL));
        }
        while let Some(seat) = self.vacant.pop() {
            let Some(job) = self.waiting.pop_front() else {
                return self.vacant.push(seat);
            };
            self.seat(seat, job);
        }
    }

    fn seat(&mut self, number: usize, mut job: Job) {
        let (offset_bytes, buffers) = job.call();
        let slices = buffers.into_iter().map(|mut buffer| Slice {
            base: buffer.as_mut_ptr(),
            len_bytes: buffer.len(),
        });
        let slices = slices.collect::<Vec<_>>();
        let file = types::Fd(job.source().as_fd().as_raw_fd());
        let read = match &slices[..] {
            [one] => opcode::Read::new(file, one.base, one.len_bytes as u32)
                .offset(offset_bytes)
                .build(),
            many => opcode::Readv::new(file, many.as_ptr().cast(), many.len() as u32)
                .offset(offset_bytes)
                .build(),
        };
        // From here on the seat keeps the file open and the memory leased until the read completes.
        self.seats[number] = Some(Seat {
            job,
            offset_bytes,
            slices,
        });
        let is_submitted = self.submit(&read.user_data(number as u64));
        debug_assert!(
            is_submitted,
            "there is an entry for each seat, and one for the bell"
        );
    }

    /// False if there is no room, which there is once the kernel was told of what is there.
    fn submit(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: what the entry refers to is a seat's: the file, which its job keeps open; the memory of its
        // job's lease, which nobody else sees; the slices. A seat is emptied by the completion only, and
        // never dropped. The bell belongs to `self.shared`, which lives as long as this thread.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.is_ok()
    }

    /// Sleeps until something is completed, or the bell rings.
    fn submit_and_wait(&mut self) {
        match self.ring.submit_and_wait(1) {
            Ok(_) => (),
            // EBUSY, EAGAIN: the kernel wants completions taken first, or has no memory just now.
            Err(error) if is_transient(&error) => (),
            Err(error) => panic!("io_uring_enter(2): {error}"),
        }
    }

    fn complete(&mut self) {
        // Under this, as it is awake, nobody needs to ring.
        self.shared.lock().is_asleep = false;
        let completions = self.ring.completion().collect::<Vec<cqueue::Entry>>();
        for completion in completions {
            if completion.user_data() == BELL {
                self.is_bell_polled = false;
                let _ = rustix::io::read(&self.shared.bell, &mut [0_u8; 8]);
            } else {
                self.complete_seat(completion.user_data() as usize, completion.result());
            }
        }
    }

    fn complete_seat(&mut self, number: usize, result: i32) {
        let seat = self.seats[number].take().expect("a read that was seated");
        self.vacant.push(number);
        drop(seat.slices);
        let job = seat.job;
        match u32::try_from(result) {
            Ok(bytes) => guard(|| {
                if let Next::Again(job) = job.note(seat.offset_bytes, bytes as usize) {
                    self.waiting.push_back(job);
                }
            }),
            Err(_) => self.retry(job, Errno::from_raw_os_error(-result)),
        }
    }

    /// A read that the ring could not do.
    fn retry(&mut self, job: Job, error: Errno) {
        match error {
            Errno::INTR | Errno::CANCELED => self.waiting.push_back(job),
            // A thread can wait where the ring would spin.
            Errno::AGAIN | Errno::OPNOTSUPP => self.pool.push(job),
            // The file system can't read this file directly, or not at this place.
            Errno::INVAL => match job.source().stop_direct() {
                Ok(()) => self.pool.push(job),
                Err(error) => guard(|| job.fail(error)),
            },
            error => guard(|| job.fail(error.into())),
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
