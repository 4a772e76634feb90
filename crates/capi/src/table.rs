//! Descriptor number to end: an array, in chunks that come when they are first needed.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use rustix::io::Errno;
use standpipe::end::End;
use standpipe_shm::sync::{AtomicUsize, Ordering};

use crate::border::{Answer, Refusal};
use crate::gate;
use crate::slot::{Claim, Kind, Slot, Visit};

const CHUNK_SLOTS: usize = 128;
/// Together as many numbers as a process of Linux may have (`fs.nr_open`), unless an administrator
/// raised that. Numbers beyond are the kernel's.
const CHUNKS: usize = (1 << 20) / CHUNK_SLOTS;

type Chunk = Box<[Slot]>;

static TABLE: [OnceLock<Chunk>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

/// No chunk from here on is there.
static CHUNKS_USED: AtomicUsize = AtomicUsize::new(0);

/// How long anybody waits for another thread that changes a slot. Beyond that (a signal handler that
/// interrupted the change) the call goes to the kernel's pipe.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// The slot of a number, if its chunk is there.
#[inline]
fn peek(fd: c_int) -> Option<&'static Slot> {
    // Negative numbers become large ones, which no chunk has.
    let number = fd.cast_unsigned() as usize;
    let chunk = TABLE.get(number / CHUNK_SLOTS)?.get()?;
    Some(&chunk[number % CHUNK_SLOTS])
}

/// The slot of a number, its chunk made if need be. `None` for a number out of range.
#[cold]
fn slot(fd: c_int) -> Option<&'static Slot> {
    let number = usize::try_from(fd).ok()?;
    // A fork must not find a chunk half made.
    let _gate = gate::enter();
    let place = number / CHUNK_SLOTS;
    let chunk = TABLE
        .get(place)?
        .get_or_init(|| (0..CHUNK_SLOTS).map(|_| Slot::new()).collect());
    CHUNKS_USED.fetch_max(place + 1, Ordering::Relaxed);
    Some(&chunk[number % CHUNK_SLOTS])
}

/// Does something with the end that `fd` is. A number seen for the first time is looked at, and
/// adopted if it is an end of a pipe or FIFO.
///
/// # Errors
/// [`Refusal::Kernel`] if it is none, `EBADF` if it was closed.
#[inline]
pub fn with<T>(fd: c_int, work: impl FnOnce(&End) -> Answer<T>) -> Answer<T> {
    with_slot(fd, |_, end| work(end))
}

/// The same with the end's slot.
///
/// # Errors
/// As [`with`].
#[inline]
pub fn with_slot<T>(fd: c_int, work: impl FnOnce(&'static Slot, &End) -> Answer<T>) -> Answer<T> {
    loop {
        let Some(slot) = peek(fd) else {
            first_look(fd)?;
            continue;
        };
        let visit = Visit::new(slot);
        match visit.enter() {
            Kind::Ours => return work(slot, visit.end()),
            kind => settle(fd, slot, kind)?,
        }
    }
}

/// Does something with the slot of a number that is foreign, and open; nobody changes it meanwhile.
///
/// # Errors
/// [`Refusal::Kernel`] if it is something else.
pub fn with_foreign<T>(
    fd: c_int,
    work: impl FnOnce(&'static Slot, BorrowedFd<'_>) -> Answer<T>,
) -> Answer<T> {
    let slot = peek(fd).ok_or(Refusal::Kernel)?;
    loop {
        if let Some(_claim) = slot.claim(Kind::Foreign) {
            // SAFETY: only copied and asked about, and the kernel says so if it is closed.
            return work(slot, unsafe { BorrowedFd::borrow_raw(fd) });
        }
        // Another one does the same.
        if wait_while_busy(slot) != Kind::Foreign {
            return Err(Refusal::Kernel);
        }
    }
}

/// The same for many at a time, which stay visited as long as the result lives: `None` for those
/// of others.
pub struct Visits(Vec<Visit>);

impl Visits {
    /// Room for `n`.
    pub fn with_capacity(n: usize) -> Self {
        Self(Vec::with_capacity(n))
    }

    /// Visits `fd`; returns where, for [`Visits::end`].
    ///
    /// # Errors
    /// As [`with`].
    ///
    /// # Panics
    /// If there are more than there is room for: visits must stay where they are.
    pub fn enter(&mut self, fd: c_int) -> Answer<usize> {
        assert!(self.0.len() < self.0.capacity());
        loop {
            let Some(slot) = peek(fd) else {
                first_look(fd)?;
                continue;
            };
            self.0.push(Visit::new(slot));
            match self.0[self.0.len() - 1].enter() {
                Kind::Ours => return Ok(self.0.len() - 1),
                kind => {
                    self.0.pop();
                    settle(fd, slot, kind)?;
                }
            }
        }
    }

    /// Whether none was ours.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them.
    pub fn end(&self, i: usize) -> &End {
        self.0[i].end()
    }
}

impl Drop for Visits {
    fn drop(&mut self) {
        // The last one first.
        while self.0.pop().is_some() {}
    }
}

/// What to do about a number that is not ours, or not yet: `Ok` to look again.
#[cold]
fn settle(fd: c_int, slot: &'static Slot, kind: Kind) -> Answer<()> {
    match kind {
        Kind::Ours => Ok(()),
        Kind::Unknown => first_look(fd),
        Kind::Foreign | Kind::Stale => Err(Refusal::Kernel),
        Kind::Leaving | Kind::Held => Err(Errno::BADF.into()),
        Kind::Busy => {
            if wait_while_busy(slot) == Kind::Busy {
                Err(Refusal::Kernel)
            } else {
                Ok(())
            }
        }
    }
}

/// Looks at a number for the first time.
#[cold]
fn first_look(fd: c_int) -> Answer<()> {
    check_not_private(fd)?;
    let Some(slot) = slot(fd) else {
        return Err(Refusal::Kernel);
    };
    if let Some(claim) = slot.claim(Kind::Unknown) {
        match look(fd) {
            Some(true) => adopt(fd, claim),
            Some(false) => claim.become_kind(Kind::Foreign),
            // Closed: it may be anything next time.
            None => {
                claim.become_kind(Kind::Unknown);
                return Err(Refusal::Kernel);
            }
        }
    }
    settle_known(slot)
}

/// `Ok` if there is an end, or will be.
fn settle_known(slot: &Slot) -> Answer<()> {
    match slot.kind() {
        Kind::Ours | Kind::Busy => Ok(()),
        _ => Err(Refusal::Kernel),
    }
}

/// Whether it is an end of a pipe or FIFO; `None` if it is closed. See fstat(2).
fn look(fd: c_int) -> Option<bool> {
    if fd < 0 {
        return None;
    }
    // SAFETY: only asked about, and the kernel says so if it is closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let stat = rustix::fs::fstat(borrowed).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Makes the open descriptor `fd` an end; the kernel's if it can be none.
fn adopt(fd: c_int, claim: Claim) {
    // SAFETY: C hands the descriptor to us; from now on it is closed through us.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    match End::from_fd(owned) {
        Ok(end) => {
            gate::watch_forks();
            claim.put(end);
        }
        Err(error) => {
            // It stays open.
            let _ = error.fd.into_raw_fd();
            claim.become_kind(Kind::Foreign);
        }
    }
}

/// The kernel has just given out the number `fd`, for something of that kind: `Unknown` has it looked
/// at. Whatever the slot said before was about another file.
pub fn publish(fd: c_int, kind: Kind) {
    let Some(claim) = slot(fd).and_then(|slot| claim_fresh(fd, slot)) else {
        return;
    };
    match kind {
        Kind::Unknown if look(fd) == Some(false) => claim.become_kind(Kind::Foreign),
        Kind::Unknown => adopt(fd, claim),
        kind => become_like(fd, claim, kind),
    }
}

/// A new end has the number that is returned.
pub fn publish_end(end: End) -> c_int {
    let fd = end.as_raw_fd();
    match slot(fd).and_then(|slot| claim_fresh(fd, slot)) {
        Some(claim) => {
            gate::watch_forks();
            claim.put(end);
        }
        // Without a place in the table it is the kernel's.
        None => drop(end.try_into_fd().map(IntoRawFd::into_raw_fd)),
    }
    fd
}

/// The kernel has given out the number `fd` to somebody else, or closed it.
pub fn forget(fd: c_int) {
    if let Some(slot) = peek(fd)
        && let Some(claim) = claim_fresh(fd, slot)
    {
        claim.become_kind(Kind::Unknown);
    }
}

/// Claims the slot of a number whose end, if there is one, was closed behind our back. `None` if somebody is
/// still in it: calls go to the kernel from now on.
fn claim_fresh(fd: c_int, slot: &'static Slot) -> Option<Claim> {
    loop {
        let kind = match slot.kind() {
            Kind::Busy => wait_while_busy(slot),
            kind => kind,
        };
        if let Some(claim) = slot.claim(kind) {
            if matches!(kind, Kind::Ours | Kind::Leaving | Kind::Stale) {
                // Its number is another file's.
                std::mem::forget(claim.take());
            }
            claim.end_foreign(fd);
            return Some(claim);
        }
        if matches!(kind, Kind::Leaving | Kind::Stale | Kind::Busy)
            || slot.retire(Kind::Stale) == Some(true)
        {
            return None;
        }
    }
}

/// Claims the slot of a number that is about to become another file, if nobody uses its end.
///
/// # Errors
/// `EBUSY` if somebody does, or the library holds it for itself.
pub fn claim_for_change(fd: c_int) -> Answer<Option<Claim>> {
    check_not_private(fd).map_err(|_| Errno::BUSY)?;
    let Some(slot) = slot(fd) else {
        return Ok(None);
    };
    let begin = Instant::now();
    loop {
        let kind = slot.kind();
        if kind != Kind::Busy
            && let Some(claim) = slot.claim(kind)
        {
            return Ok(Some(claim));
        }
        // Calls that don't sleep are over soon.
        if begin.elapsed() > PATIENCE {
            return Err(Errno::BUSY.into());
        }
        std::thread::yield_now();
    }
}

fn wait_while_busy(slot: &Slot) -> Kind {
    let begin = Instant::now();
    loop {
        let kind = slot.kind();
        if kind != Kind::Busy || begin.elapsed() > PATIENCE {
            return kind;
        }
        std::thread::yield_now();
    }
}

/// Ends a claim: its number is open, and like one of that kind.
pub fn become_like(fd: c_int, claim: Claim, kind: Kind) {
    match kind {
        Kind::Ours => adopt(fd, claim),
        Kind::Foreign => claim.become_kind(Kind::Foreign),
        _ => claim.become_kind(Kind::Unknown),
    }
}

/// What the number is, as far as somebody looked.
pub fn kind(fd: c_int) -> Kind {
    peek(fd).map_or(Kind::Unknown, |slot| match slot.kind() {
        Kind::Busy => wait_while_busy(slot),
        kind => kind,
    })
}

/// To a program, what the library holds for itself is not there.
///
/// # Errors
/// `EBADF`.
pub fn check_not_private(fd: c_int) -> Result<(), Errno> {
    let is_held = || peek(fd).is_some_and(|slot| slot.kind() == Kind::Held);
    if standpipe::end::is_private(fd) || is_held() {
        Err(Errno::BADF)
    } else {
        Ok(())
    }
}

/// The library has the open descriptor `fd` for itself from now on. Called inside of the gate: a child
/// must know of it.
pub fn hold(fd: c_int) {
    if let Some(claim) = slot(fd).and_then(|slot| claim_fresh(fd, slot)) {
        claim.become_kind(Kind::Held);
    }
}

/// `fd` is about to be closed, and the program's again.
pub fn release(fd: c_int) {
    if let Some(slot) = peek(fd) {
        slot.turn(Kind::Held, Kind::Unknown);
    }
}

/// In a forked child: closes what is held by nobody here, each as the end that it is: the child has no such
/// end any more, under a number that it gives to other files.
pub fn close_held() {
    for (fd, slot) in numbered_slots() {
        if slot.turn(Kind::Held, Kind::Unknown) {
            // SAFETY: the library's own, and those who have it are the parent's.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            drop(End::of_missing_thread(fd));
        }
    }
}

/// All numbers from `first` to `last` that the library has for itself, in order.
pub fn private_between(first: c_int, last: c_int) -> Vec<c_int> {
    let held = known_between(first, last).filter(|fd| kind(*fd) == Kind::Held);
    let mut all: Vec<c_int> = standpipe::end::private_between(first, last)
        .chain(held)
        .collect();
    all.sort_unstable();
    all
}

/// Whether the kernel knows the number. See `F_GETFD` in fcntl(2).
pub fn is_open(fd: c_int) -> bool {
    // SAFETY: only asks.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Closes the number if it is ours.
///
/// # Errors
/// [`Refusal::Kernel`] if it is the kernel's to close, `EBADF` if it was closed before.
pub fn close(fd: c_int) -> Answer<c_int> {
    check_not_private(fd)?;
    loop {
        let Some(slot) = peek(fd) else {
            return Err(Refusal::Kernel);
        };
        match slot.kind() {
            Kind::Unknown | Kind::Stale => return Err(Refusal::Kernel),
            kind @ Kind::Foreign => {
                if let Some(claim) = slot.claim(kind) {
                    claim.end_foreign(fd);
                    return Err(Refusal::Kernel);
                }
            }
            Kind::Leaving | Kind::Held => return Err(Errno::BADF.into()),
            Kind::Busy => {
                if wait_while_busy(slot) == Kind::Busy {
                    return Err(Refusal::Kernel);
                }
            }
            Kind::Ours => match slot.retire(Kind::Leaving) {
                Some(false) => {
                    slot.finish();
                    return Ok(0);
                }
                Some(true) => return Ok(0),
                None => {}
            },
        }
    }
}

/// Leaves `fd` to the kernel for good: to code that does not know standpipe. Its end leaves the pipe
/// as that of an aware process; queued bytes move into the kernel's pipe.
pub fn give_up(fd: c_int) {
    let Some(slot) = slot(fd) else {
        return;
    };
    loop {
        let kind = slot.kind();
        match kind {
            Kind::Unknown => {
                if slot.turn(kind, Kind::Foreign) {
                    return;
                }
            }
            Kind::Ours => {
                if let Ok(Some(claim)) = claim_for_change(fd) {
                    part(fd, &claim);
                    claim.become_kind(Kind::Foreign);
                } else {
                    // Somebody sleeps in it: at least the bytes take the kernel's pipe.
                    let _ = with(fd, |end| Ok(end.use_kernel()?));
                }
                return;
            }
            Kind::Busy if wait_while_busy(slot) != Kind::Busy => {}
            _ => return,
        }
    }
}

/// Takes the end out of the claimed slot of `fd`, if there is one, and leaves the number open.
pub fn part(fd: c_int, claim: &Claim) {
    claim.end_foreign(fd);
    if claim.has_end() {
        // If its bytes can't be moved, it is closed.
        let _ = claim.take().try_into_fd().map(IntoRawFd::into_raw_fd);
    }
}

/// All numbers from `first` to `last` that somebody looked at.
pub fn known_between(first: c_int, last: c_int) -> impl Iterator<Item = c_int> {
    let end = c_int::try_from(CHUNKS_USED.load(Ordering::Relaxed) * CHUNK_SLOTS).unwrap_or(last);
    (first..=last.min(end)).filter(|fd| kind(*fd) != Kind::Unknown)
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    numbered_slots().map(|(_, slot)| slot)
}

/// There may be chunks that nobody needed before those that are there.
fn numbered_slots() -> impl Iterator<Item = (c_int, &'static Slot)> {
    let chunks = TABLE[..CHUNKS_USED.load(Ordering::Relaxed)].iter();
    let chunks = (0..).step_by(CHUNK_SLOTS).zip(chunks);
    chunks
        .filter_map(|(first, chunk)| Some((first, chunk.get()?)))
        .flat_map(|(first, chunk)| (first..).zip(chunk))
}

/// In a forked child: of all visits, only those of this thread go on.
pub fn forget_other_threads() {
    slots().for_each(Slot::forget_other_threads);
    Visit::count_own_again();
}

/// In a forked child: closes what a thread that doesn't exist here would have closed.
pub fn finish_closes() {
    slots().for_each(Slot::finish);
}
