//! No readahead: a read gets what it asked for.

use super::{Access, Event, Plan, Policy, View, Window};

/// Reads what is asked for, in transfers of a limited length.
#[derive(Clone, Debug)]
pub struct Off {
    max: u64,
}

impl Off {
    /// Transfers of `max_pages` at most.
    #[must_use]
    pub const fn new(max_pages: u64) -> Self {
        Self { max: max_pages }
    }
}

impl Policy for Off {
    fn access(&mut self, access: &Access, view: &dyn View) -> Plan {
        if access.is_cached {
            return Plan::none();
        }
        Plan::one(Window::as_asked(access, self.max), view.end())
    }

    fn note(&mut self, _event: &Event) {}
}

#[cfg(test)]
mod tests {
    use super::super::harness::Cache;
    use super::*;

    #[test]
    fn nothing_is_read_that_was_not_asked_for() {
        let mut cache = Cache::of(100);
        let mut policy = Off::new(32);
        for (index, count) in [(0, 1), (1, 1), (2, 8), (4, 8), (90, 20), (10, 40)] {
            cache.read(&mut policy, 0, index, count);
        }
        let wanted = [(0, 1), (1, 1), (2, 8), (10, 2), (90, 10), (12, 32), (44, 6)];
        assert_eq!(cache.transfers, wanted);
    }
}
