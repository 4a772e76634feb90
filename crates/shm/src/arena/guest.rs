//! An arena as a process sees it that is lent pages.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;

use rustix::fs::SealFlags;
use rustix::mm::ProtFlags;
use standpipe_core::size::PAGE_BYTES;

use super::OwnerId;
use super::ledger::Ledger;
use crate::mapping::Mapping;
use crate::private_fd::PrivateFd;
use crate::sync::AtomicU64;

/// Somebody else's arena.
pub struct Guest {
    memory: Mapping,
    pages: u32,
    ledger: Ledger,
    owner: OwnerId,
}

impl Guest {
    /// Attaches what another process gave: see [`Arena::for_owner`](super::Arena::for_owner).
    ///
    /// # Errors
    /// `InvalidInput` if the files are not sealed against becoming shorter, or don't belong together; as
    /// mmap(2).
    pub fn attach(pages: OwnedFd, ledger: OwnedFd, owner: OwnerId) -> io::Result<Self> {
        let len_bytes = fixed_len_bytes(&pages)?;
        let count = u32::try_from(len_bytes / PAGE_BYTES).map_err(|_| invalid("too long"))?;
        if count == 0 || fixed_len_bytes(&ledger)? != count as usize * size_of::<AtomicU64>() {
            return Err(invalid("a ledger of other pages"));
        }
        let file = PrivateFd::from(pages);
        let memory = Mapping::reserve(len_bytes)?;
        memory.map_as(&file, ProtFlags::READ, 0, 0, len_bytes)?;
        Ok(Self {
            memory,
            pages: count,
            ledger: Ledger::over(ledger.into(), count)?,
            owner,
        })
    }

    /// Copies a page that was lent to us. (A copy: its home could write it, if it were hostile.)
    ///
    /// # Errors
    /// `InvalidInput` if there is no such page.
    pub fn copy_out(&self, page: u32, to: &mut [u8; PAGE_BYTES]) -> io::Result<()> {
        if page >= self.pages {
            return Err(invalid("no such page"));
        }
        // SAFETY: lies within the mapping (checked).
        let from = unsafe { self.memory.base().as_ptr().add(page as usize * PAGE_BYTES) };
        // SAFETY: the file is sealed, so these bytes are there; `to` is ours.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), PAGE_BYTES) };
        Ok(())
    }

    /// Gives a page back. False if it was not lent to us.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such page.
    pub fn give_back(&self, page: u32) -> io::Result<bool> {
        if page >= self.pages {
            return Err(invalid("no such page"));
        }
        Ok(self.ledger.clear_one(page, self.owner))
    }
}

fn fixed_len_bytes(file: &impl AsFd) -> io::Result<usize> {
    let seals = rustix::fs::fcntl_get_seals(file)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(invalid("a file that could become shorter"));
    }
    let size = rustix::fs::fstat(file)?.st_size;
    usize::try_from(size).map_err(|_| invalid("a length below zero"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("an arena: {what}"))
}
