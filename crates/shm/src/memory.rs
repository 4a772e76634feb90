//! The memory of a lane: one page of [`Header`], then the ring, mapped twice in a row so that a copy
//! never has to be split at its end.
//!
//! ```text
//! memfd:    | header |  ring  |
//! address:  | header |  ring  |  ring again |
//! ```
//!
//! The file is sealed against shrinking, so no page that was populated can vanish under us. It has no
//! name: it is gone with the processes that share it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use standpipe_core::size::PAGE_BYTES;

use crate::header::Header;

/// A mapped lane.
pub struct Memory {
    base: NonNull<u8>,
    capacity_bytes: usize,
    /// Kept for handing the lane over.
    file: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread; all shared access to it goes through
// atomics (the header) or is ordered by the lane's positions (the ring).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps a new lane of `capacity_bytes` (a power of two of pages). No ring memory is populated.
    pub fn new(capacity_bytes: usize) -> io::Result<Self> {
        Self::over(sealed_file(PAGE_BYTES + capacity_bytes)?, capacity_bytes)
    }

    /// Maps a lane that lies in `file`.
    pub(crate) fn over(file: OwnedFd, capacity_bytes: usize) -> io::Result<Self> {
        assert!(capacity_bytes.is_power_of_two() && capacity_bytes >= PAGE_BYTES);
        let span_bytes = PAGE_BYTES + 2 * capacity_bytes;
        // SAFETY: a new private mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                span_bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap gave the null page");
        // From here on, dropping it unmaps the whole span.
        let memory = Self {
            base,
            capacity_bytes,
            file,
        };
        memory.map(0, 0, PAGE_BYTES + capacity_bytes)?;
        memory.map(PAGE_BYTES + capacity_bytes, PAGE_BYTES, capacity_bytes)?;
        memory.populate_range(0, PAGE_BYTES)?;
        Ok(memory)
    }

    /// Puts `len_bytes` of the file at an offset of our span.
    fn map(&self, at: usize, file_offset: usize, len_bytes: usize) -> io::Result<()> {
        // SAFETY: `at + len_bytes` lies within the span (see `new`).
        let address = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: MAP_FIXED replaces only pages of our own span, which nobody uses yet.
        unsafe {
            rustix::mm::mmap(
                address.cast(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                &self.file,
                file_offset as u64,
            )
        }?;
        Ok(())
    }

    /// How many bytes the ring has.
    #[inline]
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// The shared page.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the first page is mapped for as long as `self`, aligned, large enough (tested in
        // `header`), and any bit pattern is a valid Header: it holds nothing but atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Makes sure that the ring bytes from stream position `from` up to `to` (at most a capacity
    /// apart) are in memory, and in this process's page tables, in both mappings.
    ///
    /// # Errors
    /// `ENOMEM` if the memory cannot be had.
    pub fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        let start = self.offset(from) & !(PAGE_BYTES - 1);
        let end = (self.offset(from) + to.wrapping_sub(from) as usize).next_multiple_of(PAGE_BYTES);
        let end = end.min(start + self.capacity_bytes);
        // Wherever the range lies in one mapping, the twin pages belong to it as well: the next
        // copy over them may start in either half.
        let split = end.min(self.capacity_bytes);
        for (a, b) in [(start, split), (0, end - split)] {
            if a < b {
                self.populate_range(PAGE_BYTES + a, b - a)?;
                self.populate_range(PAGE_BYTES + self.capacity_bytes + a, b - a)?;
            }
        }
        Ok(())
    }

    /// See `MADV_POPULATE_WRITE` in madvise(2): pages that cannot be had are an error now instead
    /// of a SIGBUS later.
    fn populate_range(&self, at: usize, len_bytes: usize) -> io::Result<()> {
        // SAFETY: `at + len_bytes` lies within the span: callers pass page ranges of one mapping.
        let address = unsafe { self.base.as_ptr().add(at) };
        loop {
            // SAFETY: populating changes no contents and the range is ours.
            let result = unsafe {
                rustix::mm::madvise(address.cast(), len_bytes, Advice::LinuxPopulateWrite)
            };
            match result {
                // Before Linux 5.14 (EINVAL) pages come by fault, as for any memory.
                Ok(()) | Err(Errno::INVAL) => return Ok(()),
                Err(Errno::INTR | Errno::AGAIN) => {}
                // EFAULT is what would have been a SIGBUS.
                Err(_) => return Err(Errno::NOMEM.into()),
            }
        }
    }

    /// Copies `bytes` into the ring at stream position `at`.
    ///
    /// # Safety
    /// `bytes.len() <= capacity`, and no honest peer reads or writes those positions meanwhile: the
    /// caller holds the write lock and they lie in `tail .. head + capacity`.
    #[inline]
    pub unsafe fn copy_in(&self, at: u64, bytes: &[u8]) {
        // SAFETY: offset < capacity, len <= capacity, and two capacities are mapped.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.ring(at), bytes.len()) };
    }

    /// Copies ring bytes at stream position `at` into `bytes`.
    ///
    /// # Safety
    /// `bytes.len() <= capacity`, and no honest peer writes those positions meanwhile: the caller
    /// holds the read lock and they lie in `head .. tail`.
    #[inline]
    pub unsafe fn copy_out(&self, at: u64, bytes: &mut [u8]) {
        // SAFETY: offset < capacity, len <= capacity, and two capacities are mapped.
        unsafe { ptr::copy_nonoverlapping(self.ring(at), bytes.as_mut_ptr(), bytes.len()) };
    }

    #[inline]
    fn ring(&self, at: u64) -> *mut u8 {
        // SAFETY: the ring begins one page into the span, and offset < capacity.
        unsafe { self.base.as_ptr().add(PAGE_BYTES + self.offset(at)) }
    }

    #[inline]
    fn offset(&self, at: u64) -> usize {
        at as usize & (self.capacity_bytes - 1)
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let span_bytes = PAGE_BYTES + 2 * self.capacity_bytes;
        // SAFETY: the span is ours alone, and nothing borrowed from it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), span_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

fn sealed_file(len_bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("standpipe-lane", flags)?;
    rustix::fs::ftruncate(&file, len_bytes as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_seen_twice_in_a_row() {
        let memory = Memory::new(8192).unwrap();
        memory.populate(8000, 8400).unwrap();
        let bytes: Vec<u8> = (0..200).collect();
        let mut back = vec![0; 200];
        // SAFETY: one thread, positions within a capacity.
        unsafe { memory.copy_in(8192 - 100, &bytes) };
        // SAFETY: as above; the second half wrapped to the beginning.
        unsafe { memory.copy_out(8192 * 3 - 100, &mut back) };
        assert_eq!(bytes, back);
        // SAFETY: as above.
        unsafe { memory.copy_out(8192, &mut back[..100]) };
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
        memory.populate(4096 * 3, 4096 * 3 + (1 << 20)).unwrap();
        let before = faults();
        // SAFETY: one thread, positions within a capacity; this one crosses into the second half.
        unsafe { memory.copy_in(4096 * 7, &bytes) };
        assert_eq!(faults() - before, 0);
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error_and_no_signal() {
        // A file that ends in the middle of the ring stands for a machine whose memory does.
        let file = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 3 * PAGE_BYTES as u64).unwrap();
        let memory = Memory::over(file, 4 * PAGE_BYTES).unwrap();
        memory.populate(0, 2 * PAGE_BYTES as u64).unwrap();
        let error = memory.populate(0, 3 * PAGE_BYTES as u64).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
