//! An operation from its submission to its last completion.

use std::time::Instant;

use super::operation::Operation;
use super::others::Job;

slotmap::new_key_type! {
    pub struct FlightId;
}

/// The operation, and how far it is.
pub struct Flight {
    pub token: u64,
    pub operation: Operation,
    /// Of a write: these bytes are in the pipe.
    pub moved_bytes: usize,
    /// Of a time-out that has begun; of an opening that waits, when to look.
    pub due: Option<Instant>,
    /// Of one that is not of an end alone.
    pub job: Option<Job>,
    /// What begins when this one succeeds.
    pub next: Option<FlightId>,
}

impl Flight {
    #[inline]
    pub fn new(token: u64, operation: Operation) -> Self {
        Self {
            token,
            operation,
            moved_bytes: 0,
            due: None,
            job: None,
            next: None,
        }
    }

    /// Of a write: what is not in the pipe yet. Of a splice, of what was offered to it.
    pub fn rest_bytes(&self) -> usize {
        let total_bytes = match &self.operation {
            Operation::Write { buffer, .. } => buffer.len(),
            Operation::WriteVectored { buffers, .. } => {
                buffers.iter().map(|buffer| buffer.len()).sum()
            }
            _ => 0,
        };
        #[cfg(feature = "file")]
        if let Some(Job::File(job)) = &self.job {
            return job.rest_bytes;
        }
        // What is read has none.
        total_bytes.saturating_sub(self.moved_bytes)
    }
}
