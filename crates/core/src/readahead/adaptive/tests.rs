//! Traces of windows.

use crate::readahead::harness::{Cache, marked, missing, scattered, sequential, window};
use crate::readahead::{Adaptive, Event, OnDemand, Policy, Speed};

/// The longest window on [`DISK`](crate::readahead::harness::DISK): four times 12 ms at 60 MB/s.
const FULL: u64 = 703;

fn adaptive() -> Adaptive {
    Adaptive::new(2048)
}

#[test]
fn sequential_reads_ramp_up_and_then_are_two_windows_ahead() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    let transfers = sequential(&mut cache, &mut policy, 0, 981);
    let ramp = [(0, 4), (4, 16), (20, 64), (84, 128), (212, 256), (468, 512)];
    let full = [(980, FULL), (980 + FULL, FULL), (980 + 2 * FULL, FULL)];
    assert_eq!(transfers, [&ramp[..], &full[..]].concat());
    // From here on, a window for each that is entered.
    assert_eq!(sequential(&mut cache, &mut policy, 981, FULL - 1), []);
    assert_eq!(
        sequential(&mut cache, &mut policy, 980 + FULL, 1),
        [(980 + 3 * FULL, FULL)]
    );
}

#[test]
fn reverse_reads_are_read_ahead_in_windows_that_end_where_the_last_began() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for record in (100..300).rev() {
        cache.read(&mut policy, 0, record * 16, 16);
    }
    // A chance neighbour would not be at the marks, too.
    let small = [(4784, 16), (4752, 32), (4720, 32), (4688, 32)];
    let ramp = [(4560, 128), (4304, 256), (3792, 512), (3088, FULL + 1)];
    assert_eq!(cache.transfers[..8], [small, ramp].concat());
}

#[test]
fn strides_are_read_ahead_several_at_a_time() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for record in 1..=4 {
        cache.read(&mut policy, 0, record * 272, 16);
    }
    let ahead: Vec<_> = (1..=8).map(|record| (record * 272, 16)).collect();
    assert_eq!(cache.transfers[..8], ahead);
}

#[test]
fn a_random_read_gets_what_it_asked_for() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for index in [500, 90_000, 7000, 40_000, 20, 60_000] {
        cache.read(&mut policy, 0, index, 4);
    }
    assert!(cache.transfers.iter().all(|transfer| transfer.1 == 4));
}

#[test]
fn a_mark_of_an_unknown_stream_adopts_it() {
    let mut cache = Cache::of(100_000);
    cache.pages.extend(600..616);
    let plan = adaptive().access(&marked(608, 1), &cache);
    assert_eq!(plan.windows, [window(616, 8, 8)]);
}

#[test]
fn after_a_failure_only_what_is_asked_for_is_read() {
    let cache = Cache::of(100_000);
    let mut policy = adaptive();
    policy.note(&Event::Failed);
    assert_eq!(
        policy.access(&missing(0, 1), &cache).windows,
        [window(0, 1, 0)]
    );
    assert_eq!(
        policy.access(&missing(0, 1), &cache).windows,
        [window(0, 4, 3)]
    );
}

#[test]
fn retried_and_unaligned_reads_do_no_harm() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for index in 0..900 {
        for _ in 0..3 {
            cache.read(&mut policy, 0, index, 2);
        }
    }
    let ramp = [(0, 4), (4, 16), (20, 64), (84, 128), (212, 256), (468, 512)];
    // Windows are whole numbers of reads.
    let full = [(980, FULL + 1), (981 + FULL, FULL + 1)];
    assert_eq!(cache.transfers, [&ramp[..], &full[..]].concat());
}

#[test]
fn unaligned_reads_from_the_middle_become_a_stream() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for index in 500..600 {
        cache.read(&mut policy, 0, index, 2);
    }
    assert!(cache.transfers.len() < 8, "{:?}", cache.transfers);
}

#[test]
fn a_cached_file_is_never_asked_about() {
    let mut cache = Cache::of(1000);
    cache.pages.extend(0..1000);
    sequential(&mut cache, &mut adaptive(), 0, 1000);
    assert_eq!(cache.plans, []);
}

#[test]
fn a_reader_that_comes_out_of_the_cache_is_a_stream_at_once() {
    let mut cache = Cache::of(100_000);
    cache.pages.extend(500..600);
    let transfers = sequential(&mut cache, &mut adaptive(), 550, 51);
    assert_eq!(transfers, [(600, 4)]);
    // By another reader it would be a random read.
    let mut policy = adaptive();
    let mut cache = Cache::of(100_000);
    cache.pages.extend(500..600);
    sequential(&mut cache, &mut policy, 550, 50);
    cache.read(&mut policy, 1, 600, 1);
    assert_eq!(cache.transfers, [(600, 1)]);
}

#[test]
fn a_long_random_read_that_memory_cuts_up_is_no_stream() {
    let mut cache = Cache::of(100_000);
    cache.share_pages = 20;
    cache.read(&mut adaptive(), 0, 5000, 50);
    assert_eq!(cache.transfers, [(5000, 20), (5020, 20), (5040, 10)]);
}

#[test]
fn two_random_reads_in_a_row_cost_no_more_than_on_demand() {
    let read = |policy: &mut dyn Policy| {
        let mut cache = Cache::of(1 << 24);
        for place in 0..200_u64 {
            let index = 7 + scattered(place, 1 << 23);
            cache.read(policy, 0, index, 4);
            if place % 3 == 0 {
                cache.read(policy, 0, index + 4, 4);
            }
        }
        cache
            .transfers
            .iter()
            .map(|transfer| transfer.1)
            .sum::<u64>()
    };
    let (ours, theirs) = (read(&mut adaptive()), read(&mut OnDemand::new(32)));
    assert_eq!(ours, theirs);
    // Of two reads in a row, the second gets twice what it asks for.
    assert!(ours <= 200 * 4 + 67 * 8, "{ours}");
}

#[test]
fn old_neighbours_make_a_stream_only_with_a_third() {
    let mut cache = Cache::of(1 << 24);
    let mut policy = adaptive();
    let elsewhere = |cache: &mut Cache, policy: &mut Adaptive, from: u64| {
        for place in from..from + 16 {
            cache.read(policy, 0, scattered(place, 1 << 23), 4);
        }
        cache.take_transfers();
    };
    cache.read(&mut policy, 0, 9_000_000, 4);
    elsewhere(&mut cache, &mut policy, 1);
    cache.read(&mut policy, 0, 9_000_004, 4);
    assert_eq!(cache.transfers, [(9_000_004, 4)]);
    elsewhere(&mut cache, &mut policy, 101);
    cache.read(&mut policy, 0, 9_000_008, 4);
    assert_eq!(cache.transfers, [(9_000_008, 8)]);
}

/// Streams that take turns, by one page each; what each transfer is on average.
fn average_of_streams(streams: u64, readers: u64, gap: u64, way: impl Fn(u64) -> u64) -> u64 {
    let mut cache = Cache::of(1 << 32);
    cache.share_pages = (1 << 17) / readers;
    let mut policy = adaptive();
    for step in 0..2000 {
        for stream in 0..streams {
            let index = 77 + (stream << 16) + gap * stream * stream + way(step);
            cache.read(&mut policy, (stream % readers) as u32, index, 1);
        }
    }
    cache
        .transfers
        .iter()
        .map(|transfer| transfer.1)
        .sum::<u64>()
        / cache.transfers.len() as u64
}

#[test]
fn many_streams_on_one_handle_or_many_are_told_apart() {
    for (streams, readers) in [(4, 1), (4, 4), (200, 1), (200, 200)] {
        // With equal gaps between them, they are strides as well.
        for gap in [0, 1] {
            let forward = average_of_streams(streams, readers, gap, |step| step);
            let backward = average_of_streams(streams, readers, gap, |step| 3000 - step);
            let case = format!("{streams} streams, {readers} readers, gap {gap}");
            assert!(
                forward >= 150 && backward >= 150,
                "{case}: {forward}, {backward}"
            );
        }
    }
}

#[test]
fn old_streams_are_forgotten_and_begin_again() {
    let mut cache = Cache::of(1 << 40);
    let mut policy = adaptive();
    for stream in 0..3000_u64 {
        for page in 0..2 {
            cache.read(&mut policy, 0, 77 + (stream << 16) + page, 1);
        }
    }
    assert_eq!(policy.forward.len(), 1024);
    // The first is forgotten, the last is not.
    cache.take_transfers();
    cache.read(&mut policy, 0, 77 + (2999 << 16) + 2, 1);
    assert_eq!(cache.take_transfers(), [(82 + (2999 << 16), 16)]);
}

#[test]
fn readers_that_meet_share_a_stream() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for step in 0..3000 {
        cache.read(&mut policy, 0, step, 1);
        cache.read(&mut policy, 1, step, 1);
        cache.read(&mut policy, 2, step + 10, 1);
    }
    let pages: u64 = cache.transfers.iter().map(|transfer| transfer.1).sum();
    assert_eq!(pages, cache.pages.len() as u64);
    assert!(cache.transfers.len() < 20, "{:?}", cache.transfers);
}

#[test]
fn windows_are_half_of_the_share() {
    let mut cache = Cache::of(100_000);
    cache.share_pages = 163;
    let mut policy = adaptive();
    let transfers = sequential(&mut cache, &mut policy, 0, 2000);
    assert!(
        transfers[6..].iter().all(|transfer| transfer.1 == 81),
        "{transfers:?}"
    );
    assert!(cache.pages.len() <= 2000 + 163);
}

#[test]
fn the_store_says_how_long_a_window_is() {
    let stores = [
        // (latency in ns, bytes per second, pages)
        (80_000, 3_000_000_000, 234),
        (12_000_000, 60_000_000, 703),
        (20_000_000, 90_000_000, 1757),
        (20_000_000, 900_000_000, 2048),
        (1, 1, 64),
    ];
    for (latency_ns, bytes_per_s, pages) in stores {
        let mut cache = Cache::of(100_000);
        cache.speed = Speed {
            latency_ns,
            bytes_per_s,
        };
        let transfers = sequential(&mut cache, &mut adaptive(), 0, 10_000);
        let longest = transfers.iter().map(|transfer| transfer.1).max();
        assert_eq!(
            longest,
            Some(pages),
            "{latency_ns} ns, {bytes_per_s} bytes/s"
        );
    }
}

#[test]
fn a_read_longer_than_that_is_ahead_by_reads() {
    let mut cache = Cache::of(100_000);
    cache.speed = Speed {
        latency_ns: 1,
        bytes_per_s: 1,
    };
    let mut policy = adaptive();
    for read in 0..8 {
        cache.read(&mut policy, 0, read * 256, 256);
    }
    assert_eq!(cache.transfers.last().map(|last| last.1), Some(256));
}

#[test]
fn a_busy_store_is_asked_for_one_window_ahead_only() {
    let mut cache = Cache::of(100_000);
    cache.is_congested = true;
    let transfers = sequential(&mut cache, &mut adaptive(), 0, 981);
    assert_eq!(transfers.last(), Some(&(980 + FULL, FULL)));
}

#[test]
fn who_waits_ramps_up_faster() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    sequential(&mut cache, &mut policy, 0, 20);
    policy.note(&Event::Late {
        index: 20,
        waited_ns: 1,
    });
    assert_eq!(sequential(&mut cache, &mut policy, 20, 1), [(84, 256)]);
    // Once.
    assert_eq!(sequential(&mut cache, &mut policy, 21, 64), [(340, 512)]);
}

/// A reader in full swing with a share of 400 pages, at the start of a window of 200.
fn in_full_swing() -> (Cache, Adaptive, u64) {
    let mut cache = Cache::of(1 << 30);
    cache.share_pages = 400;
    let mut policy = adaptive();
    let transfers = sequential(&mut cache, &mut policy, 0, 5000);
    let &(start, size) = transfers.last().unwrap();
    assert_eq!(size, 200);
    sequential(&mut cache, &mut policy, 5000, start - 5000);
    (cache, policy, start)
}

#[test]
fn a_window_lost_halves_the_next_and_is_recovered_slowly() {
    let (mut cache, mut policy, start) = in_full_swing();
    cache.evict_unread(&mut policy, start, start + 200);
    let transfers = sequential(&mut cache, &mut policy, start, 2500);
    let sizes: Vec<_> = transfers.iter().map(|transfer| transfer.1).collect();
    let recovery = [100, 112, 126, 141, 158, 177, 199, 200, 200];
    assert_eq!(sizes[..9], recovery, "{sizes:?}");
}

#[test]
fn however_often_windows_are_lost_a_quarter_of_the_share_is_left() {
    let (mut cache, mut policy, mut at) = in_full_swing();
    let mut sizes = Vec::new();
    for _ in 0..10 {
        cache.evict_unread(&mut policy, at, at + 1000);
        let transfers = sequential(&mut cache, &mut policy, at, 1);
        sizes.push(transfers[0].1);
        at += 1;
    }
    assert_eq!(sizes[..3], [100, 100, 100], "{sizes:?}");
    // A share of next to nothing leaves what fits into it.
    cache.share_pages = 6;
    cache.evict_unread(&mut policy, at, at + 1000);
    assert_eq!(sequential(&mut cache, &mut policy, at, 1)[0].1, 3);
}

#[test]
fn an_evicted_window_is_read_as_one_again() {
    let (mut cache, mut policy, start) = in_full_swing();
    for index in start..start + 500 {
        cache.evict(index);
    }
    assert_eq!(
        sequential(&mut cache, &mut policy, start, 1),
        [(start, 200)]
    );
}

#[test]
fn strides_go_backward_too_and_take_turns() {
    let mut cache = Cache::of(1 << 30);
    let mut policy = adaptive();
    for step in 0..200 {
        cache.read(&mut policy, 0, 100_000 + 272 * step, 16);
        cache.read(&mut policy, 0, 900_000 - 100 * step, 8);
        cache.read(&mut policy, 0, 2_000_000 + 3 * step, 1);
    }
    let missed = cache.plans.iter().filter(|plan| plan.windows.len() == 1);
    assert!(missed.count() <= 12, "{:?}", cache.plans);
    let pages: u64 = cache.transfers.iter().map(|transfer| transfer.1).sum();
    assert!(pages < 200 * 25 + 65 * 25, "{pages}");
}

#[test]
fn three_reads_at_a_distance_are_no_stride() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    for index in [1000, 2000, 3000, 4001, 5005, 6100, 7007] {
        cache.read(&mut policy, 0, index, 4);
    }
    // Nor are four of different lengths.
    for (read, count) in [(1, 4), (2, 4), (3, 5), (4, 4)] {
        cache.read(&mut policy, 0, 20_000 + 900 * read, count);
    }
    assert_eq!(cache.transfers.len(), 11, "{:?}", cache.transfers);
}

#[test]
fn a_stride_ends_with_the_object() {
    let mut cache = Cache::of(10_000);
    let mut policy = adaptive();
    for step in 0..10 {
        cache.read(&mut policy, 0, 1 + 1000 * step, 16);
    }
    for step in 0..10 {
        cache.read(&mut policy, 0, 9500 - 1000 * step, 16);
    }
    assert_eq!(cache.pages.last(), Some(&9515));
    assert_eq!(cache.pages.first(), Some(&1));
    assert_eq!(cache.pages.len(), 20 * 16);
}

#[test]
fn the_streams_of_a_reader_divide_its_share() {
    for (readers, longest) in [(1, 100), (10, 703)] {
        let mut cache = Cache::of(1 << 40);
        cache.share_pages = 2000;
        let mut policy = adaptive();
        for step in 0..2000 {
            for stream in 0..10 {
                let index = (stream << 20) + 77 * stream * stream + step;
                cache.read(&mut policy, (stream % readers) as u32, index, 1);
            }
        }
        let sizes = cache.transfers.iter().map(|transfer| transfer.1);
        assert_eq!(sizes.max(), Some(longest), "{readers} readers");
    }
}

#[test]
fn a_stream_that_ended_takes_no_part_for_long() {
    let mut cache = Cache::of(1 << 40);
    cache.share_pages = 2000;
    let mut policy = adaptive();
    sequential(&mut cache, &mut policy, 0, 100);
    let longest = |transfers: Vec<(u64, u64)>| transfers.iter().map(|transfer| transfer.1).max();
    let two = longest(sequential(&mut cache, &mut policy, 1 << 20, 1000));
    let one = longest(sequential(&mut cache, &mut policy, (1 << 20) + 1000, 5000));
    assert_eq!((two, one), (Some(500), Some(FULL)));
}

#[test]
fn chance_does_not_push_a_stream_on() {
    let mut cache = Cache::of(1 << 40);
    let mut policy = adaptive();
    // Two reads in a row, of which the second gets [1004, 1012): the mark is on 1008.
    cache.read(&mut policy, 0, 1000, 4);
    cache.read(&mut policy, 0, 1004, 4);
    cache.read(&mut policy, 0, 9_000, 4);
    cache.read(&mut policy, 0, 1012, 4);
    assert_eq!(
        cache.transfers,
        [(1000, 4), (1004, 8), (9_000, 4), (1012, 4)]
    );
}

#[test]
fn what_was_evicted_of_a_stream_that_ended_is_random() {
    let mut cache = Cache::of(1 << 40);
    cache.share_pages = 2000;
    let mut policy = adaptive();
    sequential(&mut cache, &mut policy, 0, 100);
    for read in 0..501 {
        cache.read(&mut policy, 0, scattered(read, 1 << 38), 4);
    }
    (0..300).for_each(|page| assert!(cache.evict(page) || page >= 212));
    cache.take_transfers();
    cache.read(&mut policy, 0, 150, 4);
    assert_eq!(cache.transfers, [(150, 4)]);
}

#[test]
fn a_share_that_shrank_is_kept_to() {
    let mut cache = Cache::of(1 << 30);
    let mut policy = adaptive();
    // At 980 a window of full length begins, and two more are on their way.
    sequential(&mut cache, &mut policy, 0, 981);
    cache.share_pages = 400;
    assert_eq!(sequential(&mut cache, &mut policy, 981, 2 * FULL - 2), []);
    let last = 980 + 3 * FULL;
    assert_eq!(
        sequential(&mut cache, &mut policy, 979 + 2 * FULL, 2),
        [(last, 200)]
    );
}

#[test]
fn a_read_finds_all_of_itself_in_one_window() {
    let mut cache = Cache::of(100_000);
    let mut policy = adaptive();
    sequential(&mut cache, &mut policy, 0, 20);
    (20..84).for_each(|page| assert!(cache.evict(page)));
    cache.read(&mut policy, 0, 20, 300);
    assert_eq!(cache.transfers[0], (20, 300));
}

#[test]
fn neighbours_of_different_readers_are_chance_unless_soon() {
    let mut cache = Cache::of(1 << 24);
    let mut policy = adaptive();
    for reader in 0..4_u32 {
        let from = 100 * u64::from(reader);
        (from..from + 16).for_each(|nth| {
            cache.read(&mut policy, 9, scattered(nth, 1 << 23), 4);
        });
        cache.take_transfers();
        let index = 9_000_000 + 4 * u64::from(reader);
        cache.read(&mut policy, reader, index, 4);
        assert_eq!(cache.transfers, [(index, 4)]);
    }
    cache.read(&mut policy, 4, 9_000_016, 4);
    assert_eq!(cache.transfers[1..], [(9_000_016, 8)]);
}

#[test]
fn a_stride_is_missed_no_more_and_what_is_between_is_none_of_it() {
    let mut cache = Cache::of(1 << 24);
    let mut policy = adaptive();
    for step in 0..100 {
        cache.read(&mut policy, 0, 1000 + 100 * step, 8);
    }
    assert_eq!(cache.misses, 4);
    cache.take_transfers();
    cache.read(&mut policy, 0, 1000 + 100 * 99 + 50, 4);
    assert_eq!(cache.transfers, [(10_950, 4)]);
}
