//! Meeting strangers: processes that hold the same pipe and know the lane.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::Role;
use super::shared::Shared;

/// The meetings of one pipe.
#[derive(Default)]
pub struct Meetings {}

impl Meetings {
    /// What to wait for.
    pub fn fd(&self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// Serves whoever wants to join, or looks for an answer.
    pub fn look(&self, _shared: &Shared, _pipe: BorrowedFd<'_>, _role: Role) {}

    /// The same, when there is something to see.
    pub fn look_now(&self, _shared: &Shared, _pipe: BorrowedFd<'_>, _role: Role) {}

    /// In a forked child: meetings are the parent's.
    pub fn begin_anew(&self) {}
}
