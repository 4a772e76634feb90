//! The disk keeps to its figures, scenarios to theirs, and both to what was published.

use std::sync::Arc;

use standpipe_core::readahead::PolicyKind;
use standpipe_core::size::PAGE_BYTES;

use super::device::Device;
use super::workload::{self, Iozone};
use super::*;
use crate::book::IoId;

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const SLOWEST_TURN_NS: u64 = 8_333_334;

/// A disk does these reads, all of which come at once: in which order, and when each is done.
fn order(preset: Preset, reads: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut device = Device::new(preset);
    for &(start, bytes) in reads {
        device.push(IoId::default(), start, bytes, 0);
    }
    let (mut now_ns, mut done) = (0, Vec::new());
    while let Some((request, done_ns)) = device.start(now_ns) {
        done.push((request.start, request.bytes, done_ns));
        now_ns = done_ns;
        device.finish();
    }
    done
}

#[test]
fn the_disk_streams_at_its_rate_and_turns_at_its_speed() {
    let mut device = Device::new(Preset::Disk);
    let mut now_ns = 0;
    let mut read = |start: u64, bytes: u64, late_ns: u64| {
        device.push(IoId::default(), start, bytes, now_ns);
        let (_, done_ns) = device.start(now_ns + late_ns).unwrap();
        device.finish();
        let took_ns = done_ns - now_ns;
        now_ns = done_ns;
        took_ns
    };
    read(0, MIB, 0);
    read(MIB, MIB, 0);
    // 60 MB/s, whether the next read comes at once or a little later
    let took: Vec<u64> = (2..8)
        .map(|n| read(n * MIB, MIB, n % 2 * 300_000))
        .collect();
    let sum: u64 = took.iter().sum();
    assert!(
        sum.abs_diff(6 * MIB * 1_000_000_000 / 60_000_000) < MS,
        "{took:?}"
    );
    // what lies just before has to come by again
    let before = read(7 * MIB, 4096, 0);
    assert!(
        (SLOWEST_TURN_NS / 2..SLOWEST_TURN_NS * 2).contains(&before),
        "{before}"
    );
    // across the disk: the seek, half a turn more or less, and 64 KiB
    let far = read(150_000_000_000, 65536, 0);
    assert!(
        (13 * MS..13 * MS + 2 * SLOWEST_TURN_NS).contains(&far),
        "{far}"
    );
}

#[test]
fn the_disk_reads_on_no_farther_than_its_buffer_holds() {
    let again = |pause_ns: u64| {
        let mut device = Device::new(Preset::Disk);
        device.push(IoId::default(), 0, MIB, 0);
        let done_ns = device.start(0).unwrap().1;
        device.finish();
        let now_ns = done_ns + pause_ns;
        device.push(IoId::default(), MIB, MIB, now_ns);
        device.start(now_ns).unwrap().1 - now_ns
    };
    let passing_ns = MIB * 1_000_000_000 / 60_000_000;
    assert_eq!(again(0).abs_diff(passing_ns) / 1000, 0);
    assert!(again(5 * MS) < passing_ns - 4 * MS);
    assert!(again(500 * MS) > passing_ns);
}

#[test]
fn neighbours_are_read_as_one() {
    let done = order(
        Preset::Disk,
        &[(4096, 4096), (0, 4096), (8192, 4096), (MIB, 4096)],
    );
    let reads: Vec<_> = done
        .iter()
        .map(|&(start, bytes, _)| (start, bytes))
        .collect();
    assert_eq!(reads, [(0, 12288), (MIB, 4096)]);
}

#[test]
fn what_can_be_reached_first_goes_first_but_not_for_ever() {
    let far = 100_000_000_000;
    let near: Vec<u64> = (0..400).map(|n| n * 3 * MIB).collect();
    let mut reads = vec![(far, 4096)];
    reads.extend(near.iter().map(|&start| (start, 4096)));
    let done = order(Preset::Disk, &reads);
    let place = done.iter().position(|&(start, ..)| start == far).unwrap();
    assert!(place > 10, "{place}");
    let before_ns = done[place - 1].2;
    assert!((400 * MS..600 * MS).contains(&before_ns), "{before_ns}");
}

#[test]
fn a_flat_store_does_many_at_a_time() {
    let mut device = Device::new(Preset::Object);
    for n in 0..65 {
        device.push(IoId::default(), n * 2 * MIB, 90_000, 0);
    }
    let done: Vec<u64> = std::iter::from_fn(|| device.start(0))
        .map(|(_, done)| done)
        .collect();
    assert_eq!(done.len(), 64);
    assert_eq!(done[0], 21 * MS);
    // all together no faster than ten gigabits a second
    assert!(done[63] >= 20 * MS + 64 * 90_000 * 1000 / 1250);
}

#[test]
fn every_pattern_reads_what_it_says() {
    let reads = |pattern: Pattern, end| -> Vec<(u64, u64)> {
        let reads = pattern.reads(end, fastrand::Rng::with_seed(1));
        reads.map(|read| (read.index, read.pages)).collect()
    };
    let sequential = Pattern::Sequential {
        record_pages: 4,
        passes: 2,
    };
    assert_eq!(reads(sequential, 6), [(0, 4), (4, 2), (0, 4), (4, 2)]);
    let reverse = Pattern::Reverse { record_pages: 4 };
    assert_eq!(reads(reverse, 10), [(8, 2), (4, 4), (0, 4)]);
    let stride = Pattern::Stride {
        record_pages: 1,
        stride: 3,
    };
    let expected = [0, 3, 6, 1, 4, 7, 2, 5];
    assert_eq!(reads(stride, 8), expected.map(|index| (index, 1)));
    let random = Pattern::Random {
        record_pages: 4,
        reads: 1000,
    };
    let random = reads(random, 4000);
    assert_eq!(random.len(), 1000);
    assert!(
        random
            .iter()
            .all(|&(index, pages)| pages == 4 && index % 4 == 0 && index < 4000)
    );
    let lookups = Pattern::Lookups {
        record_pages: 4,
        rows: 1000,
        index_part: 10,
        levels: 2,
        pairs: 4,
        group: 2,
        think_ns: 5,
    };
    let looked: Vec<Read> = lookups.reads(4000, fastrand::Rng::with_seed(1)).collect();
    let thinks = looked.iter().filter(|read| read.think_ns == 5).count();
    assert_eq!(thinks, 500);
    let pairs = looked
        .windows(2)
        .filter(|pair| pair[1].index == pair[0].index + 4)
        .count();
    assert!((200..320).contains(&pairs), "{pairs}");
    let list: Arc<[Read]> = [(0, 4), (8, 4), (10, 1)]
        .map(|(index, pages)| Read {
            index,
            pages,
            think_ns: 0,
        })
        .into();
    assert_eq!(reads(Pattern::Listed(list), 10), [(0, 4), (8, 2)]);
}

#[test]
fn a_scenario_has_one_outcome() {
    let scenario = workload::oltp(Setup::standpipe(), 8, 500);
    assert_eq!(scenario.run(), scenario.run());
    let other = Scenario {
        seed: 1,
        ..scenario.clone()
    };
    assert_ne!(scenario.run(), other.run());
}

#[test]
fn readers_get_every_byte_once_and_the_sums_add_up() {
    for policy in PolicyKind::ALL {
        let outcome = Iozone::Read
            .scenario(Setup::kernel(policy, 128 << 10), 64 * MIB)
            .run();
        let accounts = &outcome.accounts;
        assert_eq!(outcome.total.read_bytes, 64 * MIB, "{policy}");
        assert_eq!(outcome.total.io_bytes, 64 * MIB, "{policy}");
        assert_eq!(outcome.reads, 1024, "{policy}");
        let touches = accounts.hits + accounts.misses + accounts.waits;
        assert_eq!(touches * PAGE_BYTES as u64, 64 * MIB, "{policy}");
        let whole_seconds = outcome.total.elapsed_ns / 1_000_000_000;
        assert_eq!(outcome.samples.len() as u64, whole_seconds, "{policy}");
        let sampled: u64 = outcome.samples.iter().map(|sample| sample.read_bytes).sum();
        assert!(sampled <= 64 * MIB, "{policy}");
    }
}

#[test]
fn a_warm_up_is_not_measured() {
    let file_bytes = 64 * MIB;
    let once = Iozone::Read.scenario(Setup::standpipe(), file_bytes).run();
    let again = Scenario {
        memory_bytes: 2 * file_bytes,
        ..Iozone::Reread.scenario(Setup::standpipe(), file_bytes)
    };
    let again = again.run();
    assert_eq!(again.total.read_bytes, once.total.read_bytes);
    assert_eq!((again.total.ios, again.waits), (0, 0));
    assert_eq!((again.accounts.read_pages, again.accounts.misses), (0, 0));
    assert!(again.total.elapsed_ns < once.total.elapsed_ns / 10);
}

#[test]
fn readers_that_find_no_room_go_on_when_there_is() {
    for policy in PolicyKind::ALL {
        let scenario = Iozone::Read.scenario(Setup::kernel(policy, 128 << 10), 4 * MIB);
        let readers: Vec<Reader> = (0..8)
            .map(|number| Reader {
                start_ns: number,
                ..scenario.readers[0].clone()
            })
            .collect();
        let scenario = Scenario {
            memory_bytes: 6 * PAGE_BYTES as u64,
            readers,
            ..scenario
        };
        let outcome = scenario.run();
        assert_eq!(outcome.total.read_bytes, 8 * 4 * MIB, "{policy}");
        assert_eq!(outcome.most_pages, 6, "{policy}");
    }
}

#[test]
fn a_paced_reader_is_no_faster() {
    let scenario = Iozone::Read.scenario(Setup::standpipe(), 4 * MIB);
    let readers = vec![Reader {
        bytes_per_s: Some(MIB),
        ..scenario.readers[0].clone()
    }];
    let outcome = Scenario {
        readers,
        ..scenario
    }
    .run();
    assert!(
        outcome.total.elapsed_ns.abs_diff(4_000_000_000) < 50 * MS,
        "{outcome:?}"
    );
}

/// What was published of thrashing: 5 MB/s and 16 KB with legacy, 15 MB/s and 140 KB on demand.
#[test]
fn thrashing_is_as_published() {
    let run = |policy| workload::thrash(Setup::kernel(policy, MIB)).run();
    let (legacy, on_demand) = (run(PolicyKind::Legacy), run(PolicyKind::OnDemand));
    assert!(
        (3.5..6.0).contains(&legacy.max_mb_per_s()),
        "{}",
        legacy.max_mb_per_s()
    );
    assert!(
        (12.0..17.0).contains(&on_demand.max_mb_per_s()),
        "{}",
        on_demand.max_mb_per_s()
    );
    assert!(on_demand.max_mb_per_s() >= 3.0 * legacy.max_mb_per_s());
    assert!(on_demand.min_avg_io_kib() >= 8.0 * legacy.min_avg_io_kib());
}

/// Of 200 streams, each gets what it wants, in memory that is too small for kernels.
#[test]
fn what_was_learned_from_thrashing_prevents_it() {
    let scenario = workload::thrash(Setup::standpipe());
    let outcome = scenario.run();
    assert!(outcome.max_mb_per_s() >= 18.0, "{}", outcome.max_mb_per_s());
    assert!(
        outcome.min_avg_io_kib() >= 200.0,
        "{}",
        outcome.min_avg_io_kib()
    );
    assert!(outcome.most_pages <= scenario.memory_bytes / PAGE_BYTES as u64);
    assert_eq!(outcome.accounts.evicted_unread, 0);
    let last = outcome.samples.last().unwrap();
    assert!(last.mb_per_s() >= 19.5, "{last:?}");
}

#[test]
fn no_iozone_pattern_is_slower_than_on_demand_and_two_are_far_faster() {
    for case in Iozone::ALL {
        let file_bytes = 1024 * MIB;
        let on_demand = case
            .scenario(Setup::kernel(PolicyKind::OnDemand, 128 << 10), file_bytes)
            .run();
        let adaptive = case.scenario(Setup::standpipe(), file_bytes).run();
        let gain = adaptive.total.mb_per_s() / on_demand.total.mb_per_s();
        let least = match case {
            Iozone::Reverse | Iozone::Stride => 2.0,
            _ => 0.98,
        };
        assert!(gain >= least, "{case:?}: {gain:.3} times");
    }
}

#[test]
fn a_reader_begins_when_the_one_before_it_is_done() {
    let setup = Setup {
        policy: PolicyKind::OnDemand,
        max_ahead_bytes: 128 << 10,
        eviction: crate::book::Eviction::Streaming,
    };
    let alone = Iozone::Read.scenario(setup, 8 * MIB);
    let mut two = alone.clone();
    two.files.push(File {
        start_bytes: 8 * MIB,
        ..two.files[0]
    });
    two.readers.push(Reader {
        file: 1,
        after: Some(0),
        ..two.readers[0].clone()
    });
    let (alone_ns, two_ns) = (alone.run().total.elapsed_ns, two.run().total.elapsed_ns);
    // what lies side by side is read on without a turn of the platters
    assert!(
        two_ns.abs_diff(2 * alone_ns) < 20 * MS,
        "{alone_ns} {two_ns}"
    );
    two.readers[1].start_ns = 10_000 * MS;
    assert!(two.run().total.elapsed_ns > 10_000 * MS);
}
