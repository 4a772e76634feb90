//! Which bytes come first: those of the lane or those of the kernel pipe.
//!
//! Members write into the lane while a reader of it is present (*inside*), and into the kernel pipe
//! otherwise. Bytes of members in the kernel pipe are older than any in the lane: who goes out
//! empties the lane first. Who goes in again puts a *mark* where the older bytes of the kernel pipe
//! have to be read. The protocol, with unaware participants, is in `docs/LANE_PROTOCOL.md` (P1 to P5).

use super::{Lane, OnlyReader};
use crate::sync::Ordering;

/// Whose turn it is, for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The lane's bytes, then the kernel pipe's.
    Lane,
    /// The stage: bytes that are on their way from the lane to the kernel pipe.
    Stage,
    /// This many bytes of the kernel pipe.
    Kernel(usize),
}

impl Lane {
    /// A writer, holding the lock, is about to put bytes at `tail`. If there are bytes in the kernel
    /// pipe, which were written before, they come first.
    #[inline]
    pub(super) fn go_inside(&self, tail: u64, kernel_bytes: impl Fn() -> usize) {
        if self.header().writer.0.inside.load(Ordering::Relaxed) == 0 {
            self.go_inside_now(tail, kernel_bytes);
        }
    }

    #[cold]
    fn go_inside_now(&self, tail: u64, kernel_bytes: impl Fn() -> usize) {
        // Acquire pairs with the Release in `note_kernel_bytes`: bytes noted there are in the kernel
        // pipe before it is asked. A note that comes later stays, for the next writer.
        self.header().writer.0.inside.swap(1, Ordering::AcqRel);
        let notices = &self.header().for_readers.0;
        notices.writers_inside.store(1, Ordering::Relaxed);
        let share = kernel_bytes();
        self.set_kernel_share(share);
        if share == 0 {
            return;
        }
        // Fails if a mark stands, at or before `tail`. Release pairs with the Acquire in `take_mark`:
        // who takes it off, or finds this attempt's trace, asks the kernel pipe after our bytes went in.
        let _ = self.header().reader.0.mark.compare_exchange(
            0,
            tail.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }

    /// A writer died inside: between going inside and putting the mark, perhaps. So the next one goes
    /// inside anew.
    pub(super) fn repair_way(&self) {
        self.note_kernel_bytes();
    }

    /// Bytes were written into the kernel pipe, or seen there: the next that go into the lane come
    /// after them.
    #[inline]
    pub fn note_kernel_bytes(&self) {
        let inside = &self.header().writer.0.inside;
        // Release pairs with the Acquire in `go_inside_now`.
        if inside.swap(0, Ordering::Release) != 0 {
            let notices = &self.header().for_readers.0;
            notices.writers_inside.store(0, Ordering::Relaxed);
        }
    }

    /// How many bytes in the kernel pipe take room, as if they were queued here.
    #[inline]
    pub(super) fn kernel_share(&self) -> usize {
        let notices = &self.header().for_writers.0;
        notices.kernel_share.load(Ordering::Relaxed) as usize
    }

    /// Whether bytes in the kernel pipe take room.
    #[must_use]
    pub fn waits_for_kernel_bytes(&self) -> bool {
        self.kernel_share() > 0
    }

    /// That many bytes are unread in the kernel pipe: no more than those take room.
    pub fn limit_kernel_share(&self, unread_bytes: usize) {
        if self.kernel_share() > unread_bytes {
            self.set_kernel_share(unread_bytes);
        }
    }

    fn set_kernel_share(&self, bytes: usize) {
        let notices = &self.header().for_writers.0;
        notices.kernel_share.store(bytes as u64, Ordering::Relaxed);
    }

    /// Whether writers are inside: a hint for readers, who then wait for the lane.
    #[inline]
    #[must_use]
    pub fn has_writers_inside(&self) -> bool {
        let notices = &self.header().for_readers.0;
        notices.writers_inside.load(Ordering::Relaxed) != 0
    }

    /// Whether bytes are on their way from the lane to the kernel pipe: a hint without the lock.
    #[inline]
    #[must_use]
    pub fn is_staged(&self) -> bool {
        let staged_from = &self.header().reader.0.staged_from;
        staged_from.load(Ordering::Relaxed) != 0
    }

    /// How far a reader that holds the lock may read before others have their turn.
    #[inline]
    pub(super) fn up_to_mark_bytes(&self, head: u64) -> usize {
        let reader = &self.header().reader.0;
        let kernel_first = reader.kernel_due.load(Ordering::Relaxed) != 0
            || reader.serving.load(Ordering::Relaxed) != 0
            || reader.staged_from.load(Ordering::Relaxed) != 0;
        if kernel_first {
            return 0;
        }
        match reader.mark.load(Ordering::Relaxed) {
            0 => usize::MAX,
            mark => bytes_to_mark(mark, head),
        }
    }

    /// Puts the mark at `head`: for who holds the read lock and moves bytes into the kernel pipe.
    #[cfg(not(loom))]
    pub(super) fn mark_here(&self, head: u64) {
        let mark = &self.header().reader.0.mark;
        mark.store(head.wrapping_add(1), Ordering::Release);
    }

    /// As in a new lane.
    pub(super) fn reset_way(&self) {
        let reader = &self.header().reader.0;
        reader.kernel_due.store(0, Ordering::Relaxed);
        reader.mark.store(0, Ordering::Relaxed);
        reader.serving.store(0, Ordering::Relaxed);
        reader.staged_from.store(0, Ordering::Relaxed);
        self.header().writer.0.inside.store(0, Ordering::Relaxed);
    }

    /// Bytes were seen in the kernel pipe while the lane flows: they come after what is in the lane
    /// by now, and before what comes later.
    pub fn note_unaware_bytes(&self) {
        // Acquire pairs with the Release in `publish_tail`: at least what was published before those
        // bytes is counted.
        let tail = self.header().tail.0.load(Ordering::Acquire);
        let _ = self.header().reader.0.mark.compare_exchange(
            0,
            tail.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
    }
}

/// How far it is from `head` to the mark. One that was passed is due as well: `head` moves past it when
/// who empties the lane is killed, and when a reader notes unaware bytes while another takes the lane's.
fn bytes_to_mark(mark: u64, head: u64) -> usize {
    let distance = mark.wrapping_sub(1).wrapping_sub(head).cast_signed();
    usize::try_from(distance).unwrap_or(0)
}

impl OnlyReader<'_> {
    /// Whose turn it is. At a mark, `unread_bytes` tells how many bytes the kernel pipe has.
    ///
    /// # Errors
    /// Those of `unread_bytes`.
    pub fn turn<E>(&self, unread_bytes: impl FnOnce() -> Result<usize, E>) -> Result<Turn, E> {
        let reader = &self.lane.header().reader.0;
        if self.is_at_mark() {
            // Noted first: killed in between, the next reader asks again.
            reader.serving.store(1, Ordering::Relaxed);
            // Acquire pairs with the Release in `go_inside_now`.
            reader.mark.swap(0, Ordering::AcqRel);
        }
        if reader.serving.load(Ordering::Relaxed) != 0 {
            self.set_kernel_due(unread_bytes()?);
            reader.serving.store(0, Ordering::Relaxed);
        }
        Ok(match reader.kernel_due.load(Ordering::Relaxed) {
            0 if self.lane.is_staged() => Turn::Stage,
            0 => Turn::Lane,
            due => Turn::Kernel(due as usize),
        })
    }

    fn is_at_mark(&self) -> bool {
        let head = self.lane.header().head.0.load(Ordering::Relaxed);
        let mark = self.lane.header().reader.0.mark.load(Ordering::Relaxed);
        mark != 0 && bytes_to_mark(mark, head) == 0
    }

    /// Notes how many bytes of the kernel pipe come before those of the lane from now on.
    pub fn set_kernel_due(&self, bytes: usize) {
        let due = &self.lane.header().reader.0.kernel_due;
        due.store(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of the kernel pipe were taken: they take no room any more.
    pub fn note_taken(&self, bytes: usize) {
        let share = self.lane.kernel_share();
        if share > 0 {
            self.lane.set_kernel_share(share.saturating_sub(bytes));
        }
    }

    /// Whether the lane has bytes: what was published before the caller looked elsewhere is seen.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.lane.queued_bytes() > 0
    }
}
