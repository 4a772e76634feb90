//! The cache on a store whose reads are done when a test says so.

mod common;

use std::sync::Arc;
use std::thread;

use common::{ADAPTIVE, OFF, PAGE, Script, cache, expected};
use rustix::event::{PollFd, PollFlags, Timespec};
use standpipe_cache::book::Advice;
use standpipe_cache::cache::{ReadError, Reader, Wait};

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

fn read(reader: &Reader, offset: u64, len_bytes: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0xEE; len_bytes];
    let count = reader.read_at(&mut bytes, offset, Wait::UntilThere)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn is_ready(reader: &Reader, timeout: Option<&Timespec>) -> bool {
    let fd = reader.pollable().unwrap();
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, timeout).unwrap() == 1
}

#[test]
fn reads_give_the_bytes_of_the_store_up_to_its_end() {
    let length = 10 * PAGE as u64 + 100;
    let cache = cache(64);
    let reader = cache.open(Script::new("a", length), ADAPTIVE);
    for (offset, len_bytes) in [(0, 1), (1, PAGE), (4095, 2), (5000, 20_000), (0, 1 << 20)] {
        let there = len_bytes.min((length - offset) as usize);
        assert_eq!(
            read(&reader, offset, len_bytes).unwrap(),
            expected(offset, there)
        );
    }
    assert!(read(&reader, length, 10).unwrap().is_empty());
    assert!(read(&reader, u64::MAX - 5, 10).unwrap().is_empty());
}

#[test]
fn what_is_cached_is_not_read_again_nor_by_others() {
    let store = Script::new("a", 8 * PAGE as u64);
    let cache = cache(64);
    let one = cache.open(Arc::clone(&store) as _, ADAPTIVE);
    read(&one, 0, 8 * PAGE).unwrap();
    let before = store.started().len();
    let other = cache.open(Arc::clone(&store) as _, ADAPTIVE);
    let calls = cache.stat().accounts.readahead_calls;
    drop(one);
    assert_eq!(read(&other, 0, 8 * PAGE).unwrap(), expected(0, 8 * PAGE));
    assert_eq!(store.started().len(), before);
    assert_eq!(
        cache.stat().accounts.readahead_calls,
        calls,
        "no readahead for what is cached"
    );
}

#[test]
fn readers_of_one_page_cause_one_read() {
    let store = Script::new("a", 4 * PAGE as u64);
    store.hold();
    let cache = cache(64);
    let readers: Vec<_> = (0..4)
        .map(|_| cache.open(Arc::clone(&store) as _, OFF))
        .collect();
    thread::scope(|scope| {
        let reads: Vec<_> = readers
            .iter()
            .map(|reader| scope.spawn(|| read(reader, 0, PAGE).unwrap()))
            .collect();
        store.wait_for(1);
        store.release_all();
        for read in reads {
            assert_eq!(read.join().unwrap(), expected(0, PAGE));
        }
    });
    assert_eq!(store.started(), [(0, 1)]);
}

#[test]
fn a_failure_is_told_and_never_cached() {
    let store = Script::new("a", 4 * PAGE as u64);
    store.fail(1);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let error = read(&reader, 0, PAGE).unwrap_err();
    assert_eq!(error.to_string(), "a, at offset 0: as told");
    assert_eq!(read(&reader, 0, PAGE).unwrap(), expected(0, PAGE));
}

#[test]
fn what_came_before_a_failure_is_given_first() {
    let store = Script::new("a", 4 * PAGE as u64);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    read(&reader, 0, PAGE).unwrap();
    store.fail(1);
    assert_eq!(read(&reader, 0, 2 * PAGE).unwrap(), expected(0, PAGE));
    assert_eq!(
        read(&reader, PAGE as u64, PAGE).unwrap(),
        expected(PAGE as u64, PAGE)
    );
}

#[test]
fn without_waiting_a_missing_page_is_asked_for_and_then_there() {
    let store = Script::new("a", 4 * PAGE as u64);
    store.hold();
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    assert!(is_ready(&reader, Some(&NOW)), "nothing was tried yet");
    let mut bytes = vec![0; 2 * PAGE];
    for _ in 0..3 {
        let result = reader.read_at(&mut bytes, 0, Wait::Never);
        assert!(matches!(result, Err(ReadError::WouldBlock)));
        assert!(!is_ready(&reader, Some(&NOW)));
    }
    thread::scope(|scope| {
        let poll = scope.spawn(|| is_ready(&reader, None));
        store.release_all();
        assert!(poll.join().unwrap());
    });
    let count = reader.read_at(&mut bytes, 0, Wait::Never).unwrap();
    assert_eq!(bytes[..count], expected(0, count));
    assert!(count >= PAGE);
}

#[test]
fn a_read_elsewhere_that_got_something_is_followed_by_another_without_waiting() {
    let store = Script::new("a", 4 * PAGE as u64);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    read(&reader, 0, PAGE).unwrap();
    store.hold();
    let mut bytes = [0; PAGE];
    let result = reader.read_at(&mut bytes, 2 * PAGE as u64, Wait::Never);
    assert!(matches!(result, Err(ReadError::WouldBlock)));
    assert!(!is_ready(&reader, Some(&NOW)));
    assert_eq!(reader.read_at(&mut bytes, 0, Wait::Never).unwrap(), PAGE);
    assert!(
        is_ready(&reader, Some(&NOW)),
        "what it reads now is not missing"
    );
    store.release_all();
}

/// The bug of 2007: EAGAIN on every retry after the first page that was not there.
#[test]
fn a_nonblocking_reader_always_gets_to_the_end() {
    let length = 300 * PAGE as u64 + 17;
    let store = Script::new("a", length);
    let cache = cache(16);
    let reader = cache.open(Arc::clone(&store) as _, ADAPTIVE);
    store.hold();
    let mut bytes = vec![0; 3 * PAGE];
    let mut offset = 0;
    while offset < length {
        match reader.read_at(&mut bytes, offset, Wait::Never) {
            Ok(count) => {
                assert_eq!(bytes[..count], expected(offset, count));
                offset += count as u64;
            }
            Err(ReadError::WouldBlock) => {
                // What it waits for is among those that are under way.
                while !is_ready(&reader, Some(&NOW)) {
                    store.release();
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    store.release_all();
    assert_eq!(reader.read_at(&mut bytes, offset, Wait::Never).unwrap(), 0);
}

#[test]
fn the_budget_is_never_exceeded_and_borrowers_are_waited_for() {
    let store = Script::new("a", 1000 * PAGE as u64);
    let cache = cache(4);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let borrowed: Vec<_> = (0..4)
        .map(|page| {
            reader
                .borrow_at(page * PAGE as u64, PAGE, Wait::UntilThere)
                .unwrap()
        })
        .collect();
    let result = reader.borrow_at(4 * PAGE as u64, PAGE, Wait::Never);
    assert!(matches!(result, Err(ReadError::WouldBlock)));
    assert!(!is_ready(&reader, Some(&NOW)));
    assert_eq!(cache.arena().audit().unwrap().home, 4);
    drop(borrowed);
    assert!(is_ready(&reader, Some(&NOW)), "there is room again");
    for page in 4..1000 {
        let bytes = read(&reader, page * PAGE as u64, PAGE).unwrap();
        assert_eq!(bytes, expected(page * PAGE as u64, PAGE));
    }
    let room = cache.stat().room;
    assert!(room.present_pages <= 4, "{room:?}");
}

#[test]
fn a_file_that_grows_or_is_truncated_is_read_as_it_is() {
    let store = Script::new("a", 2 * PAGE as u64 + 10);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    assert_eq!(read(&reader, 0, 1 << 20).unwrap().len(), 2 * PAGE + 10);
    store.set_length(3 * PAGE as u64);
    assert_eq!(read(&reader, 0, 1 << 20).unwrap(), expected(0, 3 * PAGE));
    store.set_length(PAGE as u64 + 1);
    // What is cached of it may still be seen until its end is looked for.
    assert_eq!(reader.length_bytes().unwrap(), PAGE as u64 + 1);
    assert_eq!(read(&reader, 0, 1 << 20).unwrap(), expected(0, PAGE + 1));
}

#[test]
fn a_read_that_comes_short_finds_the_new_end() {
    let store = Script::new("a", 10 * PAGE as u64);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    store.set_length(3 * PAGE as u64 + 5);
    let bytes = read(&reader, 0, 10 * PAGE).unwrap();
    assert_eq!(bytes, expected(0, 3 * PAGE + 5));
    assert!(read(&reader, 5 * PAGE as u64, 10).unwrap().is_empty());
}

#[test]
fn another_version_is_another_object() {
    let cache = cache(64);
    let old = Script::of_version("a", PAGE as u64, "1");
    let reader = cache.open(Arc::clone(&old) as _, OFF);
    read(&reader, 0, PAGE).unwrap();
    drop(reader);
    let new = Script::of_version("a", PAGE as u64, "2");
    let reader = cache.open(Arc::clone(&new) as _, OFF);
    read(&reader, 0, PAGE).unwrap();
    assert_eq!(new.started(), [(0, 1)]);
    let stat = cache.stat();
    assert_eq!(
        (stat.objects, stat.room.present_pages),
        (1, 1),
        "the old one is forgotten"
    );
}

#[test]
fn advice_reads_and_drops() {
    let store = Script::new("a", 32 * PAGE as u64);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    reader.advise(Advice::WillNeed, 0..8 * PAGE as u64).unwrap();
    assert_eq!(cache.stat().room.present_pages, 8);
    let before = store.started().len();
    read(&reader, 0, 8 * PAGE).unwrap();
    assert_eq!(store.started().len(), before);
    reader.advise(Advice::DontNeed, 1..4 * PAGE as u64).unwrap();
    assert_eq!(
        cache.stat().room.present_pages,
        5,
        "the first is only partly meant"
    );
}

#[test]
fn threads_that_read_everything_everywhere_get_the_right_bytes() {
    let cache = cache(40);
    let stores: Vec<_> = (0..3)
        .map(|number| Script::new(&number.to_string(), 200 * PAGE as u64))
        .collect();
    thread::scope(|scope| {
        for seed in 0..4 {
            let (cache, stores) = (&cache, &stores);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..40 {
                    let store = Arc::clone(&stores[random.usize(..3)]);
                    let reader = cache.open(store as _, ADAPTIVE);
                    let mut offset = random.u64(..150 * PAGE as u64);
                    for _ in 0..10 {
                        let len_bytes = random.usize(1..3 * PAGE);
                        let bytes = read(&reader, offset, len_bytes).unwrap();
                        assert_eq!(bytes, expected(offset, bytes.len()));
                        offset += bytes.len() as u64;
                    }
                }
            });
        }
    });
    // The arena has no more than the budget: what could go wrong is that pages are lost to it.
    let (census, room) = (cache.arena().audit().unwrap(), cache.stat().room);
    assert_eq!(census.home as u64, room.present_pages, "{room:?}");
    assert_eq!((room.in_flight_pages, room.held_pages), (0, 0), "{room:?}");
}

/// As many reads as a store is given at once have begun and end by themselves; the others never begin.
#[test]
fn what_was_to_be_read_for_a_reader_is_cancelled_when_it_is_closed() {
    let store = Script::new("a", 100 * PAGE as u64);
    store.set_transfer(PAGE);
    store.hold();
    let cache = cache(256);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    reader
        .advise(Advice::WillNeed, 0..100 * PAGE as u64)
        .unwrap();
    let begun = store.started().len();
    assert!((1..100).contains(&begun), "{begun}");
    let other = cache.open(Arc::clone(&store) as _, OFF);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| read(&other, 99 * PAGE as u64, PAGE).unwrap());
        store.wait_for(begun + 1);
        drop(reader);
        store.release_all();
        assert_eq!(waiting.join().unwrap(), expected(99 * PAGE as u64, PAGE));
    });
    assert_eq!(store.started().len(), begun + 1);
    assert_eq!(cache.stat().room.in_flight_pages, 0);
}
