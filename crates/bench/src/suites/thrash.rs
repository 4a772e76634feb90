//! 200 streams of 100 KB/s on a machine of 128 MB, one more each second, on a simulated disk: as was
//! published of on-demand readahead. Windows of kernels are 1 MiB, as published.
//!
//! Throughput is that of the best five seconds, the size of reads that of the worst; so it was told.

use anyhow::ensure;
use standpipe_cache::sim::workload;
use standpipe_core::size::PAGE_BYTES;

use super::readahead::rivals;
use crate::measure::{Contender, Round};
use crate::record::Metric;

/// The windows of the published kernels, at most.
const WINDOW_BYTES: u64 = 1 << 20;
/// The name of the case.
pub const CASE: &str = "200-streams";

/// One round.
#[must_use]
pub fn rounds() -> Vec<Round<'static>> {
    let contender = |(engine, setup)| {
        let scenario = workload::thrash(setup);
        Contender::new(engine, CASE, move || {
            let outcome = scenario.run();
            let most_bytes = outcome.most_pages * PAGE_BYTES as u64;
            ensure!(
                most_bytes <= scenario.memory_bytes,
                "{most_bytes} bytes were cached, expected at most {}",
                scenario.memory_bytes
            );
            Ok(vec![
                (Metric::MbPerS, outcome.max_mb_per_s()),
                (Metric::AvgIoKib, outcome.min_avg_io_kib()),
            ])
        })
    };
    vec![rivals(WINDOW_BYTES).map(contender).into()]
}
