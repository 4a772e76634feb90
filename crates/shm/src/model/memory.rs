//! A ring of two slots, whose every access loom checks: two at the same time, one of them a write,
//! is a failure of the model.

use std::io;

use loom::cell::UnsafeCell;

use standpipe_core::accounting::Corrupted;

use crate::frontier::Frontier;
use crate::header::Header;

/// Slots of a byte: the smallest ring in which a writer can be ahead.
const SLOTS: usize = 2;

/// The model's memory is its ring.
pub type Ring = Memory;

/// A lane's memory.
pub struct Memory {
    header: Header,
    slots: [UnsafeCell<u8>; SLOTS],
    pub written: Frontier,
    pub read: Frontier,
}

// SAFETY: loom's cells check what the real memory only hopes for.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(_capacity_bytes: usize) -> io::Result<Self> {
        Ok(Self {
            header: Header::default(),
            slots: std::array::from_fn(|_| UnsafeCell::new(0)),
            written: Frontier::default(),
            read: Frontier::default(),
        })
    }

    pub fn capacity_bytes(&self) -> usize {
        SLOTS
    }

    pub fn current(&self) -> io::Result<&Self> {
        Ok(self)
    }

    pub fn ring(&self) -> &Self {
        self
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn populate(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    /// # Safety
    /// As of the real one; loom checks it.
    pub unsafe fn copy_in(&self, at: u64, bytes: &[u8]) -> Result<(), Corrupted> {
        for (index, byte) in bytes.iter().enumerate() {
            let slot = &self.slots[(at as usize + index) % SLOTS];
            // SAFETY: loom fails the model if anybody else is here.
            slot.with_mut(|place| unsafe { *place = *byte });
        }
        Ok(())
    }

    /// # Safety
    /// As of the real one; loom checks it.
    pub unsafe fn copy_out(&self, at: u64, bytes: &mut [u8]) -> Result<(), Corrupted> {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let slot = &self.slots[(at as usize + index) % SLOTS];
            // SAFETY: loom fails the model if anybody writes here.
            slot.with(|place| unsafe { *byte = *place });
        }
        Ok(())
    }
}
