//! In which order readers read.

use std::sync::Arc;

use fastrand::Rng;

/// One read of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The first page.
    pub index: u64,
    /// How many.
    pub pages: u64,
    /// What the reader does with them before it reads on.
    pub think_ns: u64,
}

/// The reads of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From front to back.
    Sequential {
        /// Pages of a read.
        record_pages: u64,
        /// How often.
        passes: u64,
    },
    /// From back to front.
    Reverse {
        /// Pages of a read.
        record_pages: u64,
    },
    /// Every n-th record, then every n-th of the others, until all are read.
    Stride {
        /// Pages of a read.
        record_pages: u64,
        /// From one record to the next, in records.
        stride: u64,
    },
    /// Records anywhere, each as likely as any other.
    Random {
        /// Pages of a read.
        record_pages: u64,
        /// How many reads.
        reads: u64,
    },
    /// Rows anywhere, each found in an index, which is the first part of the file.
    Lookups {
        /// Pages of a row, and of a part of the index.
        record_pages: u64,
        /// How many rows.
        rows: u64,
        /// The index is one in so many records.
        index_part: u64,
        /// Parts of the index that are read to find a row.
        levels: usize,
        /// One in so many rows is the one behind the last, and needs no index.
        pairs: u64,
        /// So many rows are a transaction, at whose end the reader thinks.
        group: u64,
        /// How long it thinks.
        think_ns: u64,
    },
    /// A list, of a trace for example. What lies beyond the file's end is left out.
    Listed(Arc<[Read]>),
}

impl Pattern {
    /// The reads of a file of so many pages.
    pub(super) fn reads(&self, end: u64, mut rng: Rng) -> Box<dyn Iterator<Item = Read>> {
        let record = move |record_pages: u64| {
            move |number: u64| Read {
                index: number * record_pages,
                pages: record_pages.min(end - number * record_pages),
                think_ns: 0,
            }
        };
        match *self {
            Self::Sequential {
                record_pages,
                passes,
            } => {
                let records = end.div_ceil(record_pages);
                let numbers = (0..passes).flat_map(move |_| 0..records);
                Box::new(numbers.map(record(record_pages)))
            }
            Self::Reverse { record_pages } => {
                let numbers = (0..end.div_ceil(record_pages)).rev();
                Box::new(numbers.map(record(record_pages)))
            }
            Self::Stride {
                record_pages,
                stride,
            } => {
                let records = end.div_ceil(record_pages);
                let numbers = (0..stride.min(records))
                    .flat_map(move |first| (first..records).step_by(stride as usize));
                Box::new(numbers.map(record(record_pages)))
            }
            Self::Random {
                record_pages,
                reads,
            } => {
                let records = (end / record_pages).max(1);
                let numbers = (0..reads).map(move |_| rng.u64(..records));
                Box::new(numbers.map(record(record_pages)))
            }
            Self::Lookups {
                record_pages,
                rows,
                index_part,
                levels,
                pairs,
                group,
                think_ns,
            } => {
                let records = (end / record_pages).max(1);
                let mut last = records;
                let lookup = move |number: u64| {
                    let follows = last + 1 < records && rng.u64(..pairs) == 0;
                    let levels = if follows { 0 } else { levels };
                    let part = (records / index_part).max(1);
                    let index: Vec<u64> = (0..levels).map(|_| rng.u64(..part)).collect();
                    last = if follows {
                        last + 1
                    } else {
                        rng.u64(..records)
                    };
                    let is_last = (number + 1).is_multiple_of(group);
                    let row = Read {
                        think_ns: if is_last { think_ns } else { 0 },
                        ..record(record_pages)(last)
                    };
                    index.into_iter().map(record(record_pages)).chain([row])
                };
                Box::new((0..rows).flat_map(lookup))
            }
            Self::Listed(ref reads) => {
                let reads = Arc::clone(reads);
                let within = (0..reads.len()).map(move |number| reads[number]);
                Box::new(within.filter_map(move |read| {
                    let pages = read.pages.min(end.saturating_sub(read.index));
                    (pages > 0).then_some(Read { pages, ..read })
                }))
            }
        }
    }
}
