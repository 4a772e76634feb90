//! Pages that are counted, and only read.

use std::fmt;
use std::ops::Deref;
use std::slice;
use std::sync::Arc;

use standpipe_core::size::PAGE_BYTES;

use super::{Arena, OwnerId};
use crate::sync::Ordering;

/// A reference to a page of an arena, 4096 bytes that nobody writes any more. The page is given back when
/// the last reference goes.
pub struct Page {
    arena: Arc<Arena>,
    number: u32,
}

impl Page {
    pub(super) fn new(arena: Arc<Arena>, number: u32) -> Self {
        Self { arena, number }
    }

    /// Which page of its arena it is.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether there are other references in this process.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.arena.counts[self.number as usize].load(Ordering::Relaxed) > 1
    }

    /// Lends it to an owner, who is told its [number](Page::number) and gives it back. False if that owner
    /// has it already.
    #[must_use]
    pub fn lend(&self, owner: OwnerId) -> bool {
        let lent_to = &self.arena.lent_to[self.number as usize];
        let was_lent = lent_to.fetch_or(owner.bit(), Ordering::Relaxed) & owner.bit() != 0;
        let is_new = self.arena.ledger.set(self.number, owner);
        is_new || !was_lent
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        self.arena.counts[self.number as usize].fetch_add(1, Ordering::Relaxed);
        Self::new(Arc::clone(&self.arena), self.number)
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped as long as the arena; it was written while it was in a lease only, and goes into
        // none while there is a reference; other processes can't map it for writing (sealed).
        unsafe { slice::from_raw_parts(self.arena.address(self.number), PAGE_BYTES) }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Page").field(&self.number).finish()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.arena.release_page(self.number);
    }
}
