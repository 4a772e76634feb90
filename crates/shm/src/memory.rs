//! The memory of a lane: one page of [`Header`], and rings, of which one counts.
//!
//! ```text
//! memfd:    | header |  ring  |  (the next ring, after a change of capacity)
//! address:  |  ring  |  ring again |
//! ```
//! A ring is mapped twice in a row, so that a copy never has to be split at its end. Which one counts
//! is a word in the header; a change of capacity takes the ring of that capacity, which is added at the
//! end of the file the first time, copies what is queued, and stores that word. Rings that counted before
//! stay mapped until the lane goes: somebody may still be looking.
//!
//! The file is sealed against shrinking, so no page that was populated can vanish under us. It has no
//! name: it is gone with the processes that share it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use standpipe_core::accounting::Corrupted;
use standpipe_core::size::{MAX_ORDER, PAGE_BYTES, PIPE_BUF};

use crate::frontier::Frontier;
use crate::header::Header;
use crate::lane::Ends;
use crate::mapping::Mapping;
use crate::private_fd::PrivateFd;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// Most rings of one lane, more than there are capacities: a peer that changes the word again and again
/// must not use up our address space.
const MOST_RINGS: usize = 64;

/// Of rings of up to this capacity, the header knows where writes ended.
const ENDS_IN_HEADER_BYTES: usize = 1 << 20;

/// A mapped lane.
pub struct Memory {
    header: Mapping,
    /// The ring that counted when we last looked; one of `rings`.
    ring: AtomicPtr<Ring>,
    /// Boxes that are filled in one after the other, and stay until the end. Without a lock: a child that
    /// is forked meanwhile would find it taken for ever.
    rings: [AtomicPtr<Ring>; MOST_RINGS],
    file: PrivateFd,
}

/// A ring of a lane.
pub struct Ring {
    mapping: Mapping,
    /// Where writes ended; of small ones, the header knows.
    ends: Option<Mapping>,
    place: Place,
    /// How far writers have it in this process's page tables.
    pub written: Frontier,
    /// How far readers have.
    pub read: Frontier,
}

/// Where a ring lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    first_page: u64,
    /// It has `2^order` pages.
    order: u8,
}

impl Place {
    /// As in the header: 0 is no place.
    fn from_word(word: u64) -> Option<Self> {
        let (first_page, order) = (word >> 8, word as u8);
        (first_page > 0 && order <= MAX_ORDER).then_some(Self { first_page, order })
    }

    fn word(self) -> u64 {
        self.first_page << 8 | u64::from(self.order)
    }

    fn capacity_bytes(self) -> usize {
        PAGE_BYTES << self.order
    }

    /// Nonsense (of a hostile peer) gives an offset that can't be mapped.
    fn offset_bytes(self) -> u64 {
        self.first_page.saturating_mul(PAGE_BYTES as u64)
    }

    /// Where the words begin that say where writes ended, if the header has too few of them.
    fn ends_offset_bytes(self) -> u64 {
        self.offset_bytes()
            .saturating_add(self.capacity_bytes() as u64)
    }

    /// How long they are: a word for each of twice as many blocks as the ring has.
    fn ends_bytes(self) -> usize {
        if self.capacity_bytes() > ENDS_IN_HEADER_BYTES {
            2 * self.capacity_bytes() / PIPE_BUF * size_of::<AtomicU32>()
        } else {
            0
        }
    }

    fn end_bytes(self) -> u64 {
        self.ends_offset_bytes()
            .saturating_add(self.ends_bytes() as u64)
    }
}

impl Memory {
    /// Maps a new lane of `capacity_bytes` (a power of two of pages). No ring memory is populated.
    pub fn new(capacity_bytes: usize) -> io::Result<Self> {
        let order = (capacity_bytes / PAGE_BYTES).trailing_zeros() as u8;
        let place = Place {
            first_page: 1,
            order,
        };
        Self::create_over(sealed_file(place.end_bytes() as usize)?, capacity_bytes)
    }

    /// Makes a lane in `file`, which is empty.
    pub(crate) fn create_over(file: PrivateFd, capacity_bytes: usize) -> io::Result<Self> {
        assert!(capacity_bytes.is_power_of_two() && capacity_bytes >= PAGE_BYTES);
        let order = (capacity_bytes / PAGE_BYTES).trailing_zeros() as u8;
        let header = map_header(&file)?;
        let place = Place {
            first_page: 1,
            order,
        };
        let ring = Ring::map(&file, place)?;
        let memory = Self::with_header(file, header);
        memory.note_place(place, Ordering::Relaxed);
        memory.install(memory.add(ring).expect("room for the first"));
        Ok(memory)
    }

    /// Maps a lane that somebody else made in `file`.
    pub(crate) fn over(file: PrivateFd) -> io::Result<Self> {
        let header = map_header(&file)?;
        let memory = Self::with_header(file, header);
        memory.follow()?;
        Ok(memory)
    }

    /// Without a ring: one has to be added before anything else is done with it.
    fn with_header(file: PrivateFd, header: Mapping) -> Self {
        Self {
            header,
            ring: AtomicPtr::new(ptr::null_mut()),
            rings: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            file,
        }
    }

    /// The shared page.
    #[inline]
    pub fn header(&self) -> &Header {
        header_of(&self.header)
    }

    /// The ring that counts, as far as this process knows.
    #[inline]
    pub fn ring(&self) -> &Ring {
        // SAFETY: points into `rings`, from which nothing is removed while `self` lives; set before any
        // other access (`with_header`). Acquire pairs with the Release in `install`: it is whole.
        unsafe { &*self.ring.load(Ordering::Acquire) }
    }

    /// Makes sure that we know the ring that counts: for whoever holds a lock, before it uses one.
    ///
    /// # Errors
    /// What the kernel says if it can't be mapped; `InvalidData` if a peer wrote nonsense.
    #[inline]
    pub fn current(&self) -> io::Result<&Ring> {
        let ring = self.ring();
        // Relaxed: who changed it held both locks.
        if ring.place.word() == self.header().ring.0.load(Ordering::Relaxed) {
            return Ok(ring);
        }
        self.follow()
    }

    #[cold]
    fn follow(&self) -> io::Result<&Ring> {
        let word = self.header().ring.0.load(Ordering::Relaxed);
        let corrupted = || io::Error::new(io::ErrorKind::InvalidData, BadRing(word));
        let place = Place::from_word(word).ok_or_else(corrupted)?;
        if let Some(known) = self.known(place) {
            // Its memory was given back when it ceased to count.
            known.forget_page_tables();
            self.install(known);
            return Ok(known);
        }
        let file_bytes = rustix::fs::fstat(&self.file)?.st_size.cast_unsigned();
        if place.end_bytes() > file_bytes {
            return Err(corrupted());
        }
        let ring = Ring::map(&self.file, place)?;
        let ring = self.add(ring).ok_or_else(corrupted)?;
        self.install(ring);
        Ok(ring)
    }

    fn known(&self, place: Place) -> Option<&Ring> {
        self.rings
            .iter()
            // SAFETY: null, or a box of `add`, which nobody takes away while `self` lives. Acquire pairs with
            // the Release there: it is whole.
            .map_while(|ring| unsafe { ring.load(Ordering::Acquire).as_ref() })
            .find(|ring| ring.place == place)
    }

    /// `None` if there are too many.
    fn add(&self, ring: Ring) -> Option<&Ring> {
        let place = ring.place;
        let new = Box::into_raw(Box::new(ring));
        let take = |slot: &AtomicPtr<Ring>| {
            // Release pairs with the Acquire in `known`.
            slot.compare_exchange(ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed)
        };
        if self.rings.iter().any(|slot| take(slot).is_ok()) {
            // The first of its place, should another thread have been faster.
            return self.known(place);
        }
        // SAFETY: made above, and nobody else has it.
        drop(unsafe { Box::from_raw(new) });
        None
    }

    fn note_place(&self, place: Place, order: Ordering) {
        let places = &self.header().places;
        places[usize::from(place.order)].store(place.word(), Ordering::Relaxed);
        self.header().ring.0.store(place.word(), order);
    }

    /// Where a ring of this order was before, if it was at all, or behind everything else.
    fn place_for(&self, order: u8) -> io::Result<Place> {
        let end = rustix::fs::fstat(&self.file)?.st_size.cast_unsigned();
        let noted = self.header().places[usize::from(order)].load(Ordering::Relaxed);
        match Place::from_word(noted) {
            Some(place) if place.order == order && place.end_bytes() <= end => Ok(place),
            _ => {
                let place = Place {
                    first_page: end.div_ceil(PAGE_BYTES as u64),
                    order,
                };
                rustix::fs::ftruncate(&self.file, place.end_bytes())?;
                Ok(place)
            }
        }
    }

    fn install(&self, ring: &Ring) {
        // Release pairs with the Acquire in `ring`.
        self.ring
            .store(ptr::from_ref(ring).cast_mut(), Ordering::Release);
    }

    /// Replaces the ring by one of `capacity_bytes`, which gets the bytes from stream position `from` up
    /// to `to`. Only for who holds both locks.
    ///
    /// # Errors
    /// What the kernel says if the memory can't be had. Nothing changed then.
    pub fn replace(&self, capacity_bytes: usize, from: u64, to: u64) -> io::Result<()> {
        let old = self.current()?;
        let place = self.place_for((capacity_bytes / PAGE_BYTES).trailing_zeros() as u8)?;
        let new = match self.known(place) {
            Some(known) => known,
            None => self
                .add(Ring::map(&self.file, place)?)
                .ok_or(io::ErrorKind::ResourceBusy)?,
        };
        new.forget_page_tables();
        new.populate(from, to)?;
        copy_queued(old, new, from, to)?;
        if old.ends.is_some() || new.ends.is_some() {
            self.write_ends(old).copy(self.write_ends(new), from, to);
        }
        self.install(new);
        // The commit point: killed before it, nothing happened. Release: what was copied is there for
        // whoever gets one of the locks.
        self.note_place(place, Ordering::Release);
        self.give_back(old.place);
        Ok(())
    }

    /// Where writes into a ring ended.
    #[inline]
    pub fn write_ends<'a>(&'a self, ring: &'a Ring) -> Ends<'a> {
        let Some(ends) = &ring.ends else {
            return self.header().write_ends.view();
        };
        let words = ring.place.ends_bytes() / size_of::<AtomicU32>();
        // SAFETY: so many words are mapped as long as the ring, populated, aligned as a page is; an atomic may
        // have any bits.
        Ends(unsafe { std::slice::from_raw_parts(ends.base().cast::<AtomicU32>().as_ptr(), words) })
    }

    /// Frees the memory of a ring that does not count any more.
    fn give_back(&self, place: Place) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let bytes = place.capacity_bytes() as u64;
        // What can't be freed now goes with the lane.
        let _ = rustix::fs::fallocate(&self.file, flags, place.offset_bytes(), bytes);
    }

    /// How many bytes the ring has that counts: a hint.
    #[inline]
    pub fn capacity_bytes(&self) -> usize {
        match Place::from_word(self.header().ring.0.load(Ordering::Relaxed)) {
            Some(place) => place.capacity_bytes(),
            None => self.ring().capacity_bytes(),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for ring in &self.rings {
            let ring = ring.load(Ordering::Acquire);
            if !ring.is_null() {
                // SAFETY: a box of `add`; nothing borrowed from it outlives `self`.
                drop(unsafe { Box::from_raw(ring) });
            }
        }
    }
}

/// The word in the header that names the ring is nonsense.
#[derive(Debug, thiserror::Error)]
#[error("lane corrupted: ring = {0:#x}, expected a place in the lane's file")]
pub struct BadRing(u64);

fn copy_queued(old: &Ring, new: &Ring, from: u64, to: u64) -> io::Result<()> {
    let mut piece = [0; 16 << 10];
    let mut at = from;
    while at != to {
        let limit = piece
            .len()
            .min(old.capacity_bytes())
            .min(new.capacity_bytes());
        let bytes = (to.wrapping_sub(at) as usize).min(limit);
        // SAFETY: the caller holds both locks, and these positions are queued.
        let read = unsafe { old.copy_out(at, &mut piece[..bytes]) };
        // SAFETY: as above; nobody else knows the new ring.
        let written = unsafe { new.copy_in(at, &piece[..bytes]) };
        read.and(written)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        at = at.wrapping_add(bytes as u64);
    }
    Ok(())
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Ring {
    fn map(file: &PrivateFd, place: Place) -> io::Result<Self> {
        let capacity = place.capacity_bytes();
        let mapping = Mapping::reserve(2 * capacity)?;
        for at in [0, capacity] {
            mapping.map(file, at, place.offset_bytes(), capacity)?;
        }
        Ok(Self {
            mapping,
            ends: map_ends(file, place)?,
            place,
            written: Frontier::default(),
            read: Frontier::default(),
        })
    }

    /// Its pages are not there, or not known to be. (A thread that looks at it meanwhile, without a lock, may
    /// have it populated once more, or leave it to page faults.)
    pub fn forget_page_tables(&self) {
        self.written.reset();
        self.read.reset();
    }

    /// How many bytes it has.
    #[inline]
    pub fn capacity_bytes(&self) -> usize {
        self.place.capacity_bytes()
    }

    /// Makes sure that the bytes from stream position `from` up to `to` (at most a capacity apart) are
    /// in memory, and in this process's page tables, in both mappings.
    ///
    /// # Errors
    /// `ENOMEM` if the memory cannot be had.
    pub fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        let capacity = self.capacity_bytes();
        let start = self.offset(from) & !(PAGE_BYTES - 1);
        let end = (self.offset(from) + to.wrapping_sub(from) as usize).next_multiple_of(PAGE_BYTES);
        let end = end.min(start + capacity);
        // Wherever the range lies in one mapping, the twin pages belong to it as well: the next
        // copy over them may start in either half.
        let split = end.min(capacity);
        for (a, b) in [(start, split), (0, end - split)] {
            if a < b {
                self.mapping.populate(a, b - a)?;
                self.mapping.populate(capacity + a, b - a)?;
            }
        }
        Ok(())
    }

    /// Copies `bytes` into the ring at stream position `at`.
    ///
    /// # Errors
    /// [`Corrupted`] if they are more than the ring has: then it is not the ring that they were
    /// counted for.
    ///
    /// # Safety
    /// No honest peer reads or writes those positions meanwhile: the caller holds the write lock and
    /// they lie in `tail .. head + capacity`.
    #[inline]
    pub unsafe fn copy_in(&self, at: u64, bytes: &[u8]) -> Result<(), Corrupted> {
        let to = self.place_of(at, bytes.len())?;
        // SAFETY: offset < capacity, len <= capacity (checked), and two capacities are mapped.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies ring bytes at stream position `at` into `bytes`.
    ///
    /// # Errors
    /// As [`Ring::copy_in`].
    ///
    /// # Safety
    /// No honest peer writes those positions meanwhile: the caller holds the read lock and they lie in
    /// `head .. tail`.
    #[inline]
    pub unsafe fn copy_out(&self, at: u64, bytes: &mut [u8]) -> Result<(), Corrupted> {
        let from = self.place_of(at, bytes.len())?;
        // SAFETY: offset < capacity, len <= capacity (checked), and two capacities are mapped.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    #[inline]
    fn place_of(&self, at: u64, len_bytes: usize) -> Result<*mut u8, Corrupted> {
        let capacity_bytes = self.capacity_bytes();
        if len_bytes > capacity_bytes {
            return Err(Corrupted {
                head: at,
                tail: at.wrapping_add(len_bytes as u64),
                capacity_bytes,
            });
        }
        // SAFETY: offset < capacity, and two capacities are mapped.
        Ok(unsafe { self.mapping.base().as_ptr().add(self.offset(at)) })
    }

    #[inline]
    fn offset(&self, at: u64) -> usize {
        at as usize & (self.capacity_bytes() - 1)
    }
}

fn map_ends(file: &PrivateFd, place: Place) -> io::Result<Option<Mapping>> {
    let len_bytes = place.ends_bytes();
    if len_bytes == 0 {
        return Ok(None);
    }
    let mapping = Mapping::reserve(len_bytes)?;
    mapping.map(file, 0, place.ends_offset_bytes(), len_bytes)?;
    mapping.populate(0, len_bytes)?;
    Ok(Some(mapping))
}

fn map_header(file: &PrivateFd) -> io::Result<Mapping> {
    let mapping = Mapping::reserve(PAGE_BYTES)?;
    mapping.map(file, 0, 0, PAGE_BYTES)?;
    mapping.populate(0, PAGE_BYTES)?;
    Ok(mapping)
}

#[inline]
fn header_of(mapping: &Mapping) -> &Header {
    // SAFETY: a page is mapped for as long as `mapping`, aligned, large enough (tested in `header`), and
    // any bit pattern is a valid Header: it holds nothing but atomics.
    unsafe { mapping.base().cast::<Header>().as_ref() }
}

fn sealed_file(len_bytes: usize) -> io::Result<PrivateFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("standpipe-lane", flags)?;
    rustix::fs::ftruncate(&file, len_bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_seen_twice_in_a_row() {
        let memory = Memory::new(8192).unwrap();
        memory.ring().populate(8000, 8400).unwrap();
        let bytes: Vec<u8> = (0..200).collect();
        let mut back = vec![0; 200];
        // SAFETY: one thread, positions within a capacity.
        unsafe { memory.ring().copy_in(8192 - 100, &bytes) }.unwrap();
        // SAFETY: as above; the second half wrapped to the beginning.
        unsafe { memory.ring().copy_out(8192 * 3 - 100, &mut back) }.unwrap();
        assert_eq!(bytes, back);
        // SAFETY: as above.
        unsafe { memory.ring().copy_out(8192, &mut back[..100]) }.unwrap();
        assert_eq!(bytes[100..], back[..100]);
    }

    #[test]
    fn populating_leaves_no_page_fault_to_the_copies() {
        let faults = || {
            // SAFETY: all bits zero are a valid rusage.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: getrusage(2) writes the struct that it is given.
            unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
            usage.ru_minflt
        };
        let memory = Memory::new(1 << 20).unwrap();
        let bytes = vec![7_u8; 1 << 20];
        memory
            .ring()
            .populate(4096 * 3, 4096 * 3 + (1 << 20))
            .unwrap();
        let before = faults();
        // SAFETY: one thread, positions within a capacity; this one crosses into the second half.
        unsafe { memory.ring().copy_in(4096 * 7, &bytes) }.unwrap();
        assert_eq!(faults() - before, 0);
    }

    /// A ring touches one block more than it has, where its bytes don't begin with one.
    #[test]
    fn the_end_of_every_write_in_a_full_ring_is_remembered() {
        let memory = Memory::new(PAGE_BYTES).unwrap();
        for order in [0, 4, 8, 9, 10, 13] {
            let capacity = PAGE_BYTES << order;
            memory.replace(capacity, 0, 0).unwrap();
            let ring = memory.current().unwrap();
            assert!(memory.write_ends(ring).0.len() > capacity / PIPE_BUF);
            let guest = Memory::over(memory.file.try_clone().unwrap()).unwrap();
            memory.write_ends(ring).note(5000);
            let seen = guest.write_ends(guest.current().unwrap());
            assert_eq!(seen.piece_bytes(4097, 1 << 20), 903, "{order}");
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_and_no_signal() {
        // A file that ends in the middle of the ring stands for a machine whose memory does.
        let file = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 3 * PAGE_BYTES as u64).unwrap();
        let memory = Memory::create_over(file.into(), 4 * PAGE_BYTES).unwrap();
        memory.ring().populate(0, 2 * PAGE_BYTES as u64).unwrap();
        let error = memory
            .ring()
            .populate(0, 3 * PAGE_BYTES as u64)
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
