//! One or several outputs, each of which gets everything.

use std::path::PathBuf;

use crate::stream::{Output, Trouble};

/// Outputs, of which some may have failed.
pub struct Outputs {
    live: Vec<Output>,
    failed: usize,
}

impl Outputs {
    /// Opens all.
    pub fn open(paths: &[PathBuf], append: bool) -> Result<Self, Trouble> {
        let live = paths
            .iter()
            .map(|path| Output::open(path, append))
            .collect::<Result<_, _>>()?;
        Ok(Self { live, failed: 0 })
    }

    /// The first one, when nothing has failed yet.
    pub fn first(&self) -> &Output {
        &self.live[0]
    }

    /// Writes to each. One that fails is left out from then on, with a complaint unless it is a
    /// pipe that nobody reads any more: its reader had what it wanted.
    pub fn write_all(&mut self, bytes: &[u8], complain: impl Fn(&Trouble)) {
        self.live.retain(|output| match output.write_all(bytes) {
            Ok(()) => true,
            Err(trouble) if trouble.is_closed_pipe() => false,
            Err(trouble) => {
                complain(&trouble);
                self.failed += 1;
                false
            }
        });
    }

    /// What left through lanes.
    pub fn lane_bytes(&self) -> u64 {
        self.live.iter().map(Output::lane_bytes).sum()
    }

    pub fn any_left(&self) -> bool {
        !self.live.is_empty()
    }

    /// Whether some output failed, other than by being closed.
    pub fn failed(&self) -> bool {
        self.failed > 0
    }

    /// Whether none is left, and nobody is to blame.
    pub fn unwanted(&self) -> bool {
        self.live.is_empty() && self.failed == 0
    }
}
