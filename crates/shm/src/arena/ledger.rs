//! Who else holds a page: a word for each, a bit in it for each owner. Each owner can write all of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::SealFlags;

use super::OwnerId;
use crate::mapping::Mapping;
use crate::private_fd::PrivateFd;
use crate::sync::{AtomicU64, Ordering};

pub struct Ledger {
    words: Mapping,
    pages: u32,
    file: PrivateFd,
}

impl Ledger {
    pub fn new(pages: u32) -> io::Result<Self> {
        let file = super::memfd("standpipe-ledger", pages as usize * size_of::<AtomicU64>())?;
        super::seal(&file, SealFlags::SEAL)?;
        let ledger = Self::over(file, pages)?;
        ledger
            .words
            .populate(0, pages as usize * size_of::<AtomicU64>())?;
        Ok(ledger)
    }

    /// Of a file that is known to be long enough, and to stay so.
    pub fn over(file: PrivateFd, pages: u32) -> io::Result<Self> {
        let len_bytes = pages as usize * size_of::<AtomicU64>();
        let words = Mapping::reserve(len_bytes)?;
        words.map(&file, 0, 0, len_bytes)?;
        Ok(Self { words, pages, file })
    }

    fn word(&self, page: u32) -> &AtomicU64 {
        assert!(page < self.pages);
        // SAFETY: `pages` words are mapped for as long as `self`, and this is one of them (checked).
        let word = unsafe { self.words.base().cast::<AtomicU64>().add(page as usize) };
        // SAFETY: as above; aligned as the mapping is; an atomic may have any bits.
        unsafe { word.as_ref() }
    }

    /// Who holds it, as bits. Acquire pairs with the Release in `clear_one`: the owner's last look at the
    /// page was before.
    pub fn holders(&self, page: u32) -> u64 {
        self.word(page).load(Ordering::Acquire)
    }

    /// False if the owner has it already.
    pub fn set(&self, page: u32, owner: OwnerId) -> bool {
        self.word(page).fetch_or(owner.bit(), Ordering::Relaxed) & owner.bit() == 0
    }

    /// False if the owner doesn't have it.
    pub fn clear_one(&self, page: u32, owner: OwnerId) -> bool {
        // Release pairs with the Acquire in `is_lent`.
        self.word(page).fetch_and(!owner.bit(), Ordering::Release) & owner.bit() != 0
    }

    /// Clears these bits; what they were.
    pub fn clear(&self, page: u32, bits: u64) -> u64 {
        self.word(page).fetch_and(!bits, Ordering::Relaxed) & bits
    }
}

impl AsFd for Ledger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
