//! Reads that don't wait, many at a time: those alone whose pages came are told, by one descriptor.

mod common;

use std::sync::Arc;
use std::thread;

use common::{ADAPTIVE, OFF, PAGE, Script, cache, expected};
use rustix::event::{PollFd, PollFlags, Timespec};
use standpipe_cache::cache::{Arrivals, Pending, ReadError, Reader, Wait};

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

fn is_ready(arrivals: &Arrivals, timeout: Option<&Timespec>) -> bool {
    let mut fds = [PollFd::new(arrivals, PollFlags::IN)];
    rustix::event::poll(&mut fds, timeout).unwrap() == 1
}

fn try_page(reader: &Reader, page: u64, pending: &mut Pending) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0xEE; PAGE];
    let count = reader.try_read_at(&mut bytes, page * PAGE as u64, pending)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn page(page: u64) -> Vec<u8> {
    expected(page * PAGE as u64, PAGE)
}

#[test]
fn only_the_reads_whose_pages_came_are_told() {
    let store = Script::new("a", 64 * PAGE as u64);
    store.hold();
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let arrivals = Arrivals::new().unwrap();
    let mut reads: Vec<_> = (0..4).map(|n| Pending::new(&arrivals, n)).collect();
    for (number, pending) in reads.iter_mut().enumerate() {
        for _ in 0..2 {
            let result = try_page(&reader, number as u64 * 10, pending);
            assert!(matches!(result, Err(ReadError::WouldBlock)));
        }
    }
    assert!(!is_ready(&arrivals, Some(&NOW)));
    // One by one: each of them, though the reader was last told of another.
    for number in 0..4 {
        thread::scope(|scope| {
            let poll = scope.spawn(|| is_ready(&arrivals, None));
            store.release();
            assert!(poll.join().unwrap());
        });
        assert_eq!(arrivals.take(), [number]);
        assert!(!is_ready(&arrivals, Some(&NOW)));
        let bytes = try_page(&reader, number * 10, &mut reads[number as usize]);
        assert_eq!(bytes.unwrap(), page(number * 10));
    }
    assert!(!is_ready(&arrivals, Some(&NOW)));
    assert!(arrivals.take().is_empty());
}

#[test]
fn each_is_told_its_own_failure() {
    let store = Script::new("a", 64 * PAGE as u64);
    store.hold();
    store.fail(2);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let arrivals = Arrivals::new().unwrap();
    let [mut first, mut other, mut third] = [1, 5, 9].map(|n| Pending::new(&arrivals, n));
    assert!(try_page(&reader, 1, &mut first).is_err());
    assert!(try_page(&reader, 5, &mut other).is_err());
    assert!(try_page(&reader, 9, &mut third).is_err());
    for _ in 0..3 {
        store.release();
    }
    assert_eq!(arrivals.take(), [1, 5, 9]);
    let error = try_page(&reader, 1, &mut first).unwrap_err().to_string();
    assert_eq!(error, "a, at offset 4096: as told");
    let error = try_page(&reader, 5, &mut other).unwrap_err().to_string();
    assert_eq!(error, "a, at offset 20480: as told");
    assert_eq!(try_page(&reader, 9, &mut third).unwrap(), page(9));
    // Told once: the next read asks again.
    store.release_all();
    let mut again = Pending::new(&arrivals, 10);
    assert_eq!(try_page(&reader, 1, &mut again).unwrap(), page(1));
}

#[test]
fn borrowed_pages_are_waited_for_as_well_and_so_is_room() {
    let store = Script::new("a", 64 * PAGE as u64);
    let cache = cache(2);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let arrivals = Arrivals::new().unwrap();
    let held = reader.borrow_at(0, PAGE, Wait::UntilThere).unwrap();
    let held_too = reader
        .borrow_at(PAGE as u64, PAGE, Wait::UntilThere)
        .unwrap();
    let mut pending = Pending::new(&arrivals, 7);
    let at = 8 * PAGE as u64;
    let result = reader.try_borrow_at(at, PAGE, &mut pending);
    assert!(matches!(result.map(drop), Err(ReadError::WouldBlock)));
    assert!(!is_ready(&arrivals, Some(&NOW)));
    drop((held, held_too));
    let bytes = loop {
        assert!(is_ready(&arrivals, None));
        assert_eq!(arrivals.take(), [7]);
        match reader.try_borrow_at(at, PAGE, &mut pending) {
            Err(ReadError::WouldBlock) => {}
            borrowed => break borrowed.unwrap(),
        }
    };
    let bytes: Vec<u8> = bytes.slices().flatten().copied().collect();
    assert_eq!(bytes, page(8));
}

/// Others who wait for the reader's own descriptor, or sleep, are not disturbed, nor do they disturb.
#[test]
fn the_reader_s_own_bell_is_another() {
    let store = Script::new("a", 64 * PAGE as u64);
    store.hold();
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, ADAPTIVE);
    let arrivals = Arrivals::new().unwrap();
    let mut pending = Pending::new(&arrivals, 3);
    assert!(try_page(&reader, 3, &mut pending).is_err());
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut bytes = vec![0; PAGE];
            reader.read_at(&mut bytes, 40 * PAGE as u64, Wait::UntilThere)
        });
        store.wait_for(2);
        let mut bytes = vec![0; PAGE];
        let result = reader.read_at(&mut bytes, 20 * PAGE as u64, Wait::Never);
        assert!(matches!(result, Err(ReadError::WouldBlock)));
        assert!(!is_ready(&arrivals, Some(&NOW)));
        store.release_all();
        assert_eq!(sleeper.join().unwrap().unwrap(), PAGE);
    });
    assert_eq!(arrivals.take(), [3]);
    assert_eq!(try_page(&reader, 3, &mut pending).unwrap(), page(3));
}

/// The store may outlive whoever waited.
#[test]
fn what_is_dropped_is_told_to_nobody() {
    let store = Script::new("a", 64 * PAGE as u64);
    store.hold();
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let arrivals = Arrivals::new().unwrap();
    for number in 0..4 {
        let mut pending = Pending::new(&arrivals, number);
        assert!(try_page(&reader, number, &mut pending).is_err());
    }
    drop((arrivals, reader));
    store.release_all();
}
