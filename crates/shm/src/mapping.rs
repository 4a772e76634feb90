//! Address space with a file behind it.

use std::io;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::private_fd::PrivateFd;

/// A stretch of address space of ours.
pub struct Mapping {
    base: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; all shared access to it goes through
// atomics (headers), or is ordered by a lane's positions (rings) or by who holds a page (arenas).
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Where it begins.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Keeps addresses free, with nothing there.
    pub fn reserve(len_bytes: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len_bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap gave the null page");
        Ok(Self { base, len_bytes })
    }

    /// Puts `len_bytes` of the file at an offset.
    pub fn map(
        &self,
        file: &PrivateFd,
        at: usize,
        file_offset: u64,
        len_bytes: usize,
    ) -> io::Result<()> {
        let may = ProtFlags::READ | ProtFlags::WRITE;
        self.map_as(file, may, at, file_offset, len_bytes)
    }

    /// Puts `len_bytes` of the file at an offset, to be used in some way only.
    pub fn map_as(
        &self,
        file: &PrivateFd,
        may: ProtFlags,
        at: usize,
        file_offset: u64,
        len_bytes: usize,
    ) -> io::Result<()> {
        assert!(at + len_bytes <= self.len_bytes);
        // SAFETY: lies within the mapping (checked).
        let address = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: MAP_FIXED replaces only pages of our own mapping, which nobody uses yet.
        unsafe {
            rustix::mm::mmap(
                address.cast(),
                len_bytes,
                may,
                MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                file,
                file_offset,
            )
        }?;
        Ok(())
    }

    /// See `MADV_POPULATE_WRITE` in madvise(2): pages that cannot be had are an error now instead
    /// of a SIGBUS later.
    pub fn populate(&self, at: usize, len_bytes: usize) -> io::Result<()> {
        assert!(at + len_bytes <= self.len_bytes);
        // SAFETY: lies within the mapping (checked).
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
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is ours alone, and nothing borrowed from it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len_bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
