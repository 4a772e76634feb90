//! Kinds of stores, and their queues.

use std::collections::VecDeque;

use standpipe_core::readahead::Speed;

use super::platter::{Geometry, Head};
use crate::book::IoId;

/// Reads that a drive orders by itself.
const DRIVE_DEPTH: usize = 31;
/// A read that waits longer goes before others that came later.
const DEADLINE_NS: u64 = 500_000_000;
/// But not before so many went since the last one that did: else all would go in the order of their
/// coming where all wait that long.
const BATCH: u32 = 16;
/// The largest read that neighbours are merged to.
const MERGED_BYTES: u64 = 512 << 10;
/// With more waiting, the store counts as congested: seven eighths of a queue of 1024, so that it is
/// the policies that differ.
const CONGESTED: usize = 896;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// `disk`: 7200 turns a minute, 60 MB/s, of 2007.
    Disk,
    /// `nvme`: 80 µs, 3 GB/s, many reads at a time.
    Nvme,
    /// `object`: 20 ms a request, 90 MB/s each, 64 at a time.
    Object,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Disk, Self::Nvme, Self::Object];

    /// The name, as it is written on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Nvme => "nvme",
            Self::Object => "object",
        }
    }

    /// What a cache would measure: the time to the first byte, and the rate from then on.
    #[must_use]
    pub const fn speed(self) -> Speed {
        let (latency_ns, bytes_per_s) = match self {
            Self::Disk => (8_000_000, 60_000_000),
            Self::Nvme => (80_000, 3_000_000_000),
            Self::Object => (20_000_000, 90_000_000),
        };
        Speed {
            latency_ns,
            bytes_per_s,
        }
    }
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Desktop disks of 2007: 160 GB, 8.5 ms for the average seek (a third of the way), 0.8 ms to the
/// next track, SATA at 300 MB/s, and segments of 512 KiB in the drive's buffer.
const DISK: Geometry = Geometry {
    turn_ns: 60_000_000_000 / 7200,
    bytes_per_s: 60_000_000,
    near_seek_ns: 800_000,
    far_seek_ns: 13_300_000,
    capacity_bytes: 160_000_000_000,
    overhead_ns: 200_000,
    buffer_bytes: 512 << 10,
    bus_bytes_per_s: 300_000_000,
};

/// How long so many bytes take.
pub(super) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s)) as u64
}

/// A read that waits, of one I/O or of several that lie side by side.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub start: u64,
    pub bytes: u64,
    pub ios: Vec<IoId>,
    since_ns: u64,
}

/// A store at work.
pub(super) struct Device {
    queue: VecDeque<Request>,
    /// Reads to be done before the next one goes because of its deadline.
    batch: u32,
    busy: usize,
    work: Work,
}

enum Work {
    Disk(Head),
    /// Reads that do not disturb each other, but for the rate of all together.
    Flat {
        latency_ns: u64,
        each_bytes_per_s: u64,
        all_bytes_per_s: u64,
        depth: usize,
        /// Until when the rate of all is taken.
        taken_ns: u64,
    },
}

impl Device {
    pub fn new(preset: Preset) -> Self {
        let speed = preset.speed();
        let flat = |all_bytes_per_s, depth| Work::Flat {
            latency_ns: speed.latency_ns,
            each_bytes_per_s: speed.bytes_per_s,
            all_bytes_per_s,
            depth,
            taken_ns: 0,
        };
        Self {
            queue: VecDeque::new(),
            batch: 0,
            busy: 0,
            work: match preset {
                Preset::Disk => Work::Disk(Head::new(DISK)),
                Preset::Nvme => flat(speed.bytes_per_s, 128),
                // what ten gigabits a second carry
                Preset::Object => flat(1_250_000_000, 64),
            },
        }
    }

    pub fn is_congested(&self) -> bool {
        self.queue.len() > CONGESTED
    }

    /// A read comes in.
    pub fn push(&mut self, io: IoId, start: u64, bytes: u64, now_ns: u64) {
        if matches!(self.work, Work::Disk(_)) && self.merge(io, start, bytes) {
            return;
        }
        self.queue.push_back(Request {
            start,
            bytes,
            ios: vec![io],
            since_ns: now_ns,
        });
    }

    fn merge(&mut self, io: IoId, start: u64, bytes: u64) -> bool {
        let neighbour = self.queue.iter_mut().find(|waiting| {
            let is_next = waiting.start + waiting.bytes == start || start + bytes == waiting.start;
            is_next && waiting.bytes + bytes <= MERGED_BYTES
        });
        let Some(neighbour) = neighbour else {
            return false;
        };
        neighbour.start = neighbour.start.min(start);
        neighbour.bytes += bytes;
        neighbour.ios.push(io);
        true
    }

    /// Starts a read, if there is one and the store can take it: the read, and when it is done.
    pub fn start(&mut self, now_ns: u64) -> Option<(Request, u64)> {
        let depth = match self.work {
            Work::Disk(_) => 1,
            Work::Flat { depth, .. } => depth,
        };
        if self.busy >= depth {
            return None;
        }
        let request = self.next(now_ns)?;
        self.busy += 1;
        let done_ns = match &mut self.work {
            Work::Disk(head) => head.read(request.start, request.bytes, now_ns),
            Work::Flat {
                latency_ns,
                each_bytes_per_s,
                all_bytes_per_s,
                taken_ns,
                ..
            } => {
                let first_ns = now_ns + *latency_ns;
                *taken_ns = first_ns.max(*taken_ns) + transfer_ns(request.bytes, *all_bytes_per_s);
                (first_ns + transfer_ns(request.bytes, *each_bytes_per_s)).max(*taken_ns)
            }
        };
        Some((request, done_ns))
    }

    /// The waiting read that goes first.
    fn next(&mut self, now_ns: u64) -> Option<Request> {
        let oldest_ns = self.queue.front()?.since_ns;
        let Work::Disk(head) = &self.work else {
            return self.queue.pop_front();
        };
        if self.batch == 0 && now_ns - oldest_ns > DEADLINE_NS {
            self.batch = BATCH;
            return self.queue.pop_front();
        }
        self.batch = self.batch.saturating_sub(1);
        let given = self.queue.iter().take(DRIVE_DEPTH).enumerate();
        // when the first byte is there: a long read must not lose against a short one behind it
        let first = given.min_by_key(|(_, read)| head.done_ns(read.start, 1, now_ns));
        self.queue.remove(first?.0)
    }

    /// A read is done.
    pub fn finish(&mut self) {
        self.busy -= 1;
    }
}
