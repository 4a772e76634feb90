//! The policies by name.

use std::fmt;
use std::str::FromStr;

use super::{Adaptive, Context, Legacy, Off, OnDemand, Policy};

/// Which policy; made into one by [`PolicyKind::policy`].
///
/// # Examples
/// ```
/// use standpipe_core::readahead::PolicyKind;
/// let kind: PolicyKind = "on-demand".parse()?;
/// assert_eq!(kind, PolicyKind::OnDemand);
/// assert_eq!(kind.to_string(), "on-demand");
/// # Ok::<(), standpipe_core::readahead::UnknownPolicy>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// `off`: only what is asked for.
    Off,
    /// `legacy`: Linux 2.6.20.
    Legacy,
    /// `on-demand`: Linux 2.6.23.
    OnDemand,
    /// `on-demand-hole`: the same with the hole search of 2.6.24.
    OnDemandHoles,
    /// `context`: today's Linux.
    Context,
    /// `adaptive`: ours.
    #[default]
    Adaptive,
}

impl PolicyKind {
    /// All of them, oldest first.
    pub const ALL: [Self; 6] = [
        Self::Off,
        Self::Legacy,
        Self::OnDemand,
        Self::OnDemandHoles,
        Self::Context,
        Self::Adaptive,
    ];

    /// The name, as it is written on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Legacy => "legacy",
            Self::OnDemand => "on-demand",
            Self::OnDemandHoles => "on-demand-hole",
            Self::Context => "context",
            Self::Adaptive => "adaptive",
        }
    }

    /// Whether one policy serves all readers of an object, or each reader has its own.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        matches!(self, Self::Adaptive)
    }

    /// The policy, with windows of `max_pages` at most.
    #[must_use]
    pub fn policy(self, max_pages: u64) -> Box<dyn Policy> {
        match self {
            Self::Off => Box::new(Off::new(max_pages)),
            Self::Legacy => Box::new(Legacy::new(max_pages)),
            Self::OnDemand => Box::new(OnDemand::new(max_pages)),
            Self::OnDemandHoles => Box::new(OnDemand::with_hole_search(max_pages)),
            Self::Context => Box::new(Context::new(max_pages)),
            Self::Adaptive => Box::new(Adaptive::new(max_pages)),
        }
    }
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no readahead policy is called {name:?}; there are {}", names())]
pub struct UnknownPolicy {
    /// The name that was given.
    pub name: String,
}

/// The names, for people.
fn names() -> String {
    PolicyKind::ALL.map(PolicyKind::name).join(", ")
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownPolicy { name: name.into() })
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
    }

    #[test]
    fn an_unknown_name_is_told_which_there_are() {
        let error = "fast".parse::<PolicyKind>().unwrap_err().to_string();
        assert!(error.contains("\"fast\""), "{error}");
        for kind in PolicyKind::ALL {
            assert!(error.contains(kind.name()), "{error}");
        }
    }
}
