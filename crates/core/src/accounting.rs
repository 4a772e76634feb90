//! The rules of a pipe's room: how much of a write may go in now, when a call has to wait, and
//! when a sleeping peer is worth waking.
//!
//! A pipe is a window on a stream: `head` bytes have been read so far, `tail` bytes written, and
//! what lies between is queued. Both only grow. Room is counted in bytes, which is where standpipe
//! differs from Linux (slots of a page).
//!
//! Invariants, cited by number elsewhere:
//! 1. `head <= tail <= head + capacity`.
//! 2. A write of at most [`PIPE_BUF`] bytes is queued whole or not at all.
//! 3. A transfer that can go on does not wait: a writer is woken as soon as what it is worth waking
//!    for fits, or a segment fits, or the pipe is empty. Never going to sleep while what it wants
//!    fits, and looking up now and then if that is less than what it is woken for, are up to it.

use crate::size::{PAGE_BYTES, PIPE_BUF};

/// The positions broke invariant 1: somebody wrote nonsense into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "lane corrupted: head = {head}, tail = {tail}, expected head <= tail <= head + {capacity_bytes}"
)]
pub struct Corrupted {
    /// Bytes read so far, as found.
    pub head: u64,
    /// Bytes written so far, as found.
    pub tail: u64,
    /// The capacity that they must respect.
    pub capacity_bytes: usize,
}

/// How many bytes are queued between `head` and `tail`.
///
/// # Errors
/// [`Corrupted`] if invariant 1 does not hold.
pub const fn queued_bytes(head: u64, tail: u64, capacity_bytes: usize) -> Result<usize, Corrupted> {
    let queued = tail.wrapping_sub(head) as usize;
    if queued > capacity_bytes {
        return Err(Corrupted {
            head,
            tail,
            capacity_bytes,
        });
    }
    Ok(queued)
}

/// What a write may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum WriteStep {
    /// Queue this many bytes, at least one.
    Copy(usize),
    /// There is too little room. Going on is worthwhile once this many bytes fit.
    Full(usize),
}

/// One step of a write of `total_bytes`, of which `done_bytes` are queued already, into a pipe with
/// `room_bytes` of room.
pub fn write_step(total_bytes: usize, done_bytes: usize, room_bytes: usize) -> WriteStep {
    let remaining = total_bytes - done_bytes;
    let least = if total_bytes <= PIPE_BUF {
        total_bytes
    } else {
        1
    };
    if room_bytes >= least {
        WriteStep::Copy(remaining.min(room_bytes))
    } else {
        WriteStep::Full(remaining)
    }
}

/// Whether a writer that sleeps until `wanted_bytes` fit is worth waking (invariant 3).
///
/// Waking it for less than a segment would only make it copy a little and sleep again.
#[must_use]
pub const fn wakes_writer(
    wanted_bytes: usize,
    queued_bytes: usize,
    capacity_bytes: usize,
    segment_bytes: usize,
) -> bool {
    // More may be queued than fits: the two are hints, and the capacity may have been changed between.
    let room = capacity_bytes.saturating_sub(queued_bytes);
    queued_bytes == 0 || room >= wanted_bytes || room >= segment_bytes
}

/// How much room is worth waking a writer for that wants `wanted_bytes`: as many writes of that size
/// as fit a page. A kernel pipe, too, wakes a writer of small pieces when a page is read.
#[must_use]
pub const fn worth_waking_for_bytes(wanted_bytes: usize) -> usize {
    if wanted_bytes == 0 || wanted_bytes > PAGE_BYTES {
        return wanted_bytes;
    }
    PAGE_BYTES / wanted_bytes * wanted_bytes
}

/// Whether moving a position from `from` to `to` completes a segment.
#[must_use]
pub const fn completes_segment(from: u64, to: u64, segment_bytes: usize) -> bool {
    from / segment_bytes as u64 != to / segment_bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Write(usize),
        Read(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            (1usize..20_000).prop_map(Op::Write),
            (1usize..20_000).prop_map(Op::Read)
        ];
        proptest::collection::vec(op, 1..200)
    }

    /// What POSIX and pipe(7) say of a non-blocking write, said without positions.
    fn model_write(queued: usize, capacity: usize, n: usize) -> Option<usize> {
        let room = capacity - queued;
        if n <= PIPE_BUF {
            (room >= n).then_some(n)
        } else {
            (room > 0).then(|| n.min(room))
        }
    }

    proptest! {
        #[test]
        fn non_blocking_transfers_follow_the_reference_model(
            order in 0u32..6, start in 0u64..u64::MAX, ops in ops()
        ) {
            let capacity = PAGE_BYTES << order;
            let (mut head, mut tail) = (start, start);
            let mut model_queued = 0;
            for op in ops {
                let queued = queued_bytes(head, tail, capacity).unwrap();
                prop_assert_eq!(queued, model_queued);
                match op {
                    Op::Write(n) => {
                        let wrote = match write_step(n, 0, capacity - queued) {
                            WriteStep::Copy(bytes) => Some(bytes),
                            WriteStep::Full(wanted) => { prop_assert_eq!(wanted, n); None }
                        };
                        prop_assert_eq!(wrote, model_write(model_queued, capacity, n));
                        tail = tail.wrapping_add(wrote.unwrap_or(0) as u64);
                        model_queued += wrote.unwrap_or(0);
                    }
                    Op::Read(n) => {
                        let bytes = n.min(queued);
                        model_queued -= n.min(model_queued);
                        head = head.wrapping_add(bytes as u64);
                    }
                }
            }
        }

        #[test]
        fn a_write_that_could_finish_is_never_left_asleep(
            order in 0u32..8, shift in 0u32..8, queued in 0usize..1 << 20, wanted in 1usize..1 << 20
        ) {
            let capacity = PAGE_BYTES << order;
            let segment = (capacity >> shift.min(order)).max(PAGE_BYTES);
            let queued = queued % (capacity + 1);
            let room = capacity - queued;
            let wakes = wakes_writer(wanted, queued, capacity, segment);
            if room >= wanted || queued == 0 { prop_assert!(wakes); }
            if wakes {
                // and what it is woken for is worth a wake-up
                prop_assert!(matches!(write_step(wanted, 0, room), WriteStep::Copy(_)));
            }
        }

        #[test]
        fn nonsense_positions_are_reported(head: u64, tail: u64, order in 0u32..20) {
            let capacity_bytes = PAGE_BYTES << order;
            match queued_bytes(head, tail, capacity_bytes) {
                Ok(queued) => prop_assert_eq!(head.wrapping_add(queued as u64), tail),
                Err(error) => {
                    prop_assert!(tail.wrapping_sub(head) > capacity_bytes as u64);
                    prop_assert!(error.to_string().contains(&head.to_string()));
                }
            }
        }
    }

    #[test]
    fn more_than_fits_leaves_no_room() {
        assert!(!wakes_writer(1, 8192, 4096, 4096));
    }

    #[test]
    fn the_middle_of_a_large_write_needs_one_byte_only() {
        assert_eq!(write_step(10_000, 0, 1), WriteStep::Copy(1));
        assert_eq!(write_step(10_000, 9_999, 1), WriteStep::Copy(1));
        assert_eq!(write_step(10_000, 9_000, 0), WriteStep::Full(1_000));
        assert_eq!(
            write_step(PIPE_BUF, 0, PIPE_BUF - 1),
            WriteStep::Full(PIPE_BUF)
        );
        assert_eq!(
            write_step(PIPE_BUF + 1, 0, PIPE_BUF - 1),
            WriteStep::Copy(PIPE_BUF - 1)
        );
    }

    #[test]
    fn small_writes_are_worth_waking_for_by_the_page() {
        for (wanted, worth) in [
            (1, 4096),
            (64, 4096),
            (1500, 3000),
            (2048, 4096),
            (2049, 2049),
        ] {
            assert_eq!(worth_waking_for_bytes(wanted), worth);
        }
        for wanted in [4096, 4097, 1 << 20] {
            assert_eq!(worth_waking_for_bytes(wanted), wanted);
        }
    }

    #[test]
    fn segments_complete_at_their_borders() {
        assert!(!completes_segment(0, 4095, 4096));
        assert!(completes_segment(0, 4096, 4096));
        assert!(completes_segment(4095, 4096, 4096));
        assert!(!completes_segment(4096, 8191, 4096));
        assert!(completes_segment(1, 100_000, 65536));
    }
}
