//! An end that a ring or a runtime has: no call of it waits, and who has many of them watches the kernel pipe
//! alone where that tells everything.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use standpipe_shm::lane::Side;
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::sync::Ordering;

use super::{End, pollable, registry};

impl End {
    /// From now on no call waits, whatever the mode, which belongs to others as well; or calls wait as the
    /// mode says.
    pub(crate) fn set_never_waits(&self, yes: bool) {
        self.never_waits.store(yes, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn never_waits(&self) -> bool {
        self.never_waits.load(Ordering::Relaxed)
    }

    /// Who waits for many ends has lanes made for those only that are used: an idle one costs its kernel pipe.
    pub(crate) fn set_makes_lane_late(&self, yes: bool) {
        self.makes_lane_late.store(yes, Ordering::Relaxed);
    }

    pub(super) fn makes_lane_late(&self) -> bool {
        self.makes_lane_late.load(Ordering::Relaxed)
    }

    pub(crate) fn has_lane(&self) -> bool {
        self.shared.lane().is_some()
    }

    /// The kernel pipe, and what to wait for there, if that is all there is to wait for until `news` rings: as
    /// long as there is no lane, or nobody to use it but so many ends of one who knows what each does.
    pub(crate) fn await_bare(
        &self,
        news: &Arc<PrivateFd>,
        readers: usize,
        writers: usize,
    ) -> Option<(BorrowedFd<'_>, EventFlags)> {
        self.shared.await_news(self.borrow().as_raw_fd(), news);
        if self.is_bare(readers, writers) {
            return Some((
                self.borrow(),
                pollable::kernel_events(self.poll_side(), true),
            ));
        }
        self.forget_news();
        None
    }

    /// Whether that is so still.
    pub(crate) fn is_bare(&self, readers: usize, writers: usize) -> bool {
        self.shared.lane().is_none() || self.shared.is_private_to(readers, writers)
    }

    /// Waits for the news no more.
    pub(crate) fn forget_news(&self) {
        let no_fork = registry::hold_forks();
        self.shared.forget_news(self.borrow().as_raw_fd(), &no_fork);
    }

    /// Whether the lane has `wanted_bytes` for `side`, bytes or room; nothing but memory is looked at.
    pub(crate) fn is_lane_ready(&self, side: Side, wanted_bytes: usize) -> bool {
        let lane = self.shared.lane();
        lane.is_some_and(|lane| lane.is_ready(side, wanted_bytes))
    }
}
