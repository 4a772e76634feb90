//! Workloads with published figures: those of "On-demand readahead", Linux, 2007.
//!
//! They were measured on a disk of about 60 MB/s, with windows of 128 KiB, and 1 MiB for thrashing.
//! What was written is left out: it is not read ahead. So is what was measured of the processor, on
//! files that were cached: there is no processor in virtual time.

use std::sync::Arc;

use standpipe_core::size::PAGE_BYTES;

use super::{File, Pattern, Preset, Reader, Scenario, Setup};

const PAGE: u64 = PAGE_BYTES as u64;
const MIB: u64 = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;
/// Pages of a record of 64 KiB.
const RECORD_PAGES: u64 = 16;
/// The processor, for a page that is cached: about 4 GB/s, as memory was then.
const PAGE_NS: u64 = 1000;

/// The reading cases of `iozone -c -t1 -s 4096m -r 64k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Iozone {
    /// The file from front to back, with nothing in memory.
    Read,
    /// Once more.
    Reread,
    /// From back to front.
    Reverse,
    /// Every 17th record, then every 17th of the others, and so on.
    Stride,
    /// Anywhere, as many records as there are.
    Random,
    /// With one thread: at random, with memory full of what was read before.
    Mixed,
    /// From front to back, with `pread`.
    Pread,
}

impl Iozone {
    /// All of them, in the order of the program.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Reread,
        Self::Reverse,
        Self::Stride,
        Self::Random,
        Self::Mixed,
        Self::Pread,
    ];

    fn pattern(self, records: u64) -> Pattern {
        let record_pages = RECORD_PAGES;
        match self {
            Self::Read | Self::Pread => Pattern::Sequential {
                record_pages,
                passes: 1,
            },
            Self::Reread => Pattern::Sequential {
                record_pages,
                passes: 2,
            },
            Self::Reverse => Pattern::Reverse { record_pages },
            Self::Stride => Pattern::Stride {
                record_pages,
                stride: 17,
            },
            Self::Random => random(records),
            Self::Mixed => random(records * 2),
        }
    }

    /// The case on a file of so many bytes; 4096 MiB were published. Memory is a third of the file:
    /// with that, reading at random takes about as long as was published.
    #[must_use]
    pub fn scenario(self, setup: Setup, file_bytes: u64) -> Scenario {
        let records = file_bytes / (RECORD_PAGES * PAGE);
        let warm_up_reads = match self {
            Self::Reread | Self::Mixed => records,
            _ => 0,
        };
        Scenario {
            memory_bytes: file_bytes / 3,
            files: vec![File {
                start_bytes: 0,
                bytes: file_bytes,
            }],
            readers: vec![Reader {
                warm_up_reads,
                ..reader(0, self.pattern(records))
            }],
            ..scenario(setup)
        }
    }
}

/// `aio-stress` on a file of so many bytes, one record of 64 KiB after the other, or at random.
#[must_use]
pub fn aio_stress(setup: Setup, is_random: bool, file_bytes: u64) -> Scenario {
    let case = if is_random {
        Iozone::Random
    } else {
        Iozone::Read
    };
    case.scenario(setup, file_bytes)
}

/// `sysbench fileio rndrw`, its reads: 6000 of 10,000 requests (it writes two for three reads), of
/// 64 KiB anywhere in 2 GiB, by so many threads.
#[must_use]
pub fn fileio(setup: Setup, threads: u64) -> Scenario {
    let of_thread = |thread: u64| random(6000 / threads + u64::from(thread < 6000 % threads));
    Scenario {
        memory_bytes: 512 * MIB,
        files: vec![File {
            start_bytes: 0,
            bytes: 2048 * MIB,
        }],
        readers: (0..threads)
            .map(|thread| reader(0, of_thread(thread)))
            .collect(),
        ..scenario(setup)
    }
}

/// `sysbench oltp`, read only, by so many threads: each transaction reads four rows of 16 KiB from a
/// table of 384 MiB that fits memory and is not there at the beginning. A row is found by six
/// looks into an index of a 64th of the table; one in eight is the one behind the last. After each
/// transaction, two milliseconds of work.
#[must_use]
pub fn oltp(setup: Setup, threads: u64, transactions: u64) -> Scenario {
    let of_thread = |thread: u64| Pattern::Lookups {
        record_pages: 4,
        rows: 4 * (transactions / threads + u64::from(thread < transactions % threads)),
        index_part: 64,
        levels: 6,
        pairs: 8,
        group: 4,
        think_ns: 2_000_000,
    };
    Scenario {
        memory_bytes: 1024 * MIB,
        files: vec![File {
            start_bytes: 0,
            bytes: 384 * MIB,
        }],
        readers: (0..threads)
            .map(|thread| reader(0, of_thread(thread)))
            .collect(),
        ..scenario(setup)
    }
}

/// What a machine of 128 MB has for its page cache when its kernel and 200 processes have theirs.
/// With more, the published kernels would thrash later than they did.
const THRASHING_BYTES: u64 = 90_000_000;

/// Thrashing: 200 streams of 100 KB/s on a machine of 128 MB, of which 90 MB are cache; one more each
/// second, and another minute with all of them. Each reads a file of its own, page by page; the files
/// lie side by side.
#[must_use]
pub fn thrash(setup: Setup) -> Scenario {
    const STREAMS: u64 = 200;
    const FILE_BYTES: u64 = 64 * MIB;
    let stop_ns = (STREAMS + 60) * SECOND_NS;
    let stream = |number: u64| Reader {
        start_ns: number * SECOND_NS,
        stop_ns: Some(stop_ns),
        bytes_per_s: Some(100_000),
        ..reader(
            number as usize,
            Pattern::Sequential {
                record_pages: 1,
                passes: 1,
            },
        )
    };
    Scenario {
        memory_bytes: THRASHING_BYTES,
        files: (0..STREAMS)
            .map(|number| File {
                start_bytes: number * FILE_BYTES,
                bytes: FILE_BYTES,
            })
            .collect(),
        readers: (0..STREAMS).map(stream).collect(),
        sample_ns: 5 * SECOND_NS,
        ..scenario(setup)
    }
}

/// A trace: these reads of a file, on any store.
#[must_use]
pub fn listed(
    setup: Setup,
    store: Preset,
    memory_bytes: u64,
    file_bytes: u64,
    reads: Arc<[super::Read]>,
) -> Scenario {
    Scenario {
        store,
        memory_bytes,
        files: vec![File {
            start_bytes: 0,
            bytes: file_bytes,
        }],
        readers: vec![reader(0, Pattern::Listed(reads))],
        ..scenario(setup)
    }
}

fn random(reads: u64) -> Pattern {
    Pattern::Random {
        record_pages: RECORD_PAGES,
        reads,
    }
}

fn reader(file: usize, pattern: Pattern) -> Reader {
    Reader {
        file,
        pattern,
        start_ns: 0,
        stop_ns: None,
        bytes_per_s: None,
        after: None,
        warm_up_reads: 0,
    }
}

/// What all have in common.
fn scenario(setup: Setup) -> Scenario {
    Scenario {
        store: Preset::Disk,
        memory_bytes: 0,
        setup,
        page_ns: PAGE_NS,
        files: Vec::new(),
        readers: Vec::new(),
        seed: 2007,
        sample_ns: SECOND_NS,
    }
}
