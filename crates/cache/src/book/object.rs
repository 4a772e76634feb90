//! An object: its pages, its length, its store's speed.

use standpipe_core::readahead::{Policy, Speed};

use super::table::Table;

pub(super) struct Object {
    pub table: Table,
    /// In pages; 0 once it is forgotten.
    pub end: u64,
    pub speed: Speed,
    pub is_congested: bool,
    /// The most pages of one read.
    pub most_of_a_read: usize,
    pub is_forgotten: bool,
    /// Open readers.
    pub readers: u64,
    /// The policy that its readers have in common, once one of them wants it.
    pub shared: Option<Box<dyn Policy>>,
}

impl Object {
    pub fn new(end: u64, speed: Speed) -> Self {
        Self {
            table: Table::default(),
            end,
            speed,
            is_congested: false,
            most_of_a_read: usize::MAX,
            is_forgotten: false,
            readers: 0,
            shared: None,
        }
    }
}
