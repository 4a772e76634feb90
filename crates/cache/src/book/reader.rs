//! A reader: a stream, or a handle.

use standpipe_core::readahead::Policy;

use super::slots::List;
use super::{Accounts, ObjectId, PolicyKind};

pub(super) struct Reader {
    pub object: ObjectId,
    pub kind: PolicyKind,
    pub max_pages: u64,
    /// None: that of the object.
    pub policy: Option<Box<dyn Policy>>,
    /// How many pages it has touched, each touch of the same page in a row but the first left out.
    pub touched: u64,
    /// The last page that it used.
    pub last: Option<u64>,
    pub waiting: Option<Waiting>,
    /// What was read for it, is present and not yet touched; oldest first.
    pub unread: List,
    /// Slots of pages for it that are unread or on their way.
    pub claimed: u64,
    /// Whether it counts for the shares: something was read ahead for it not long ago.
    pub is_stream: bool,
    /// When it touched a page last.
    pub active_ns: u64,
    pub accounts: Accounts,
}

/// The page that a reader could not have at once.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub index: u64,
    /// The slot in which it is to arrive, and its birth; none if there was no room.
    pub slot: Option<(u32, u64)>,
    /// There was no room, and nothing is read ahead for others before there is.
    pub is_starved: bool,
    pub since_ns: u64,
    /// It was being read ahead already.
    pub is_late: bool,
    pub has_failed: bool,
}

impl Reader {
    pub fn new(object: ObjectId, kind: PolicyKind, max_pages: u64) -> Self {
        let policy = (!kind.is_shared()).then(|| kind.policy(max_pages));
        Self {
            object,
            kind,
            max_pages,
            policy,
            touched: 0,
            last: None,
            waiting: None,
            unread: List::default(),
            claimed: 0,
            is_stream: false,
            active_ns: 0,
            accounts: Accounts::default(),
        }
    }
}
