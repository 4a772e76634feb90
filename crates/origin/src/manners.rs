use std::time::Duration;

/// How a server behaves. The default is well.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each fault can be had with each other
pub struct Manners {
    /// How long each request waits for its answer.
    pub latency: Duration,
    /// How fast each connection is, at most.
    pub bytes_per_s: Option<u64>,
    /// Answers this many `GET`s with 503.
    pub busy_for: u32,
    /// Ends bodies early.
    pub truncate: Option<Cut>,
    /// Stops sending in the middle of bodies, and keeps the connection.
    pub stall: Option<Cut>,
    /// Changes the object after this many `GET`s.
    pub change_after: Option<u32>,
    /// Sends the whole object whatever part was asked for.
    pub ignores_ranges: bool,
    /// Sends the bytes after the ones that were asked for, and says so.
    pub shifts_ranges: bool,
    /// Answers conditional requests as if they were not.
    pub ignores_conditions: bool,
    /// Answers 404.
    pub has_nothing: bool,
    /// Answers `HEAD` with 403, as where a signature is good for `GET` only.
    pub refuses_head: bool,
    /// What it gives to tell one state of the object from another.
    pub tag: Tag,
    /// Whether it says nothing of when the object was modified.
    pub has_no_time: bool,
}

/// How bodies are cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// After so many bytes.
    pub after_bytes: usize,
    /// So many bodies.
    pub times: u32,
}

/// What kind of entity tag a server gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tag {
    /// One that stands for the very bytes.
    #[default]
    Strong,
    /// One that stands for what they mean.
    Weak,
    /// None.
    Absent,
}

impl Manners {
    /// An object store far away: 20 ms to the first byte, 90 MB/s for each connection.
    #[must_use]
    pub fn far_away() -> Self {
        Self {
            latency: Duration::from_millis(20),
            bytes_per_s: Some(90_000_000),
            ..Self::default()
        }
    }
}

impl Cut {
    /// Whether the next body is cut, and after how much.
    pub(crate) fn next(cut: &mut Option<Self>) -> Option<usize> {
        let cut = cut.as_mut().filter(|cut| cut.times > 0)?;
        cut.times -= 1;
        Some(cut.after_bytes)
    }
}
