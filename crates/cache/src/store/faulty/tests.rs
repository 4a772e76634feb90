use standpipe_shm::arena::Arena;
use tempfile::TempDir;

use super::*;
use crate::store::testing::{assert_reads, bytes, dirty, read, try_read};
use crate::store::{Options, open};

const PAGES: u64 = 200;
const PAGE: usize = standpipe_core::size::PAGE_BYTES;

/// A file behind faults.
fn faulty(dir: &TempDir, faults: Faults) -> (Faulty, Vec<u8>) {
    let content = bytes(PAGES as usize * PAGE);
    let path = dir.path().join("file");
    std::fs::write(&path, &content).unwrap();
    let inner = open(path.to_str().unwrap(), &Options::default()).unwrap();
    (Faulty::new(inner, faults), content)
}

/// What became of each page: its bytes are right, or the error.
fn fates(store: &Faulty, content: &[u8]) -> Vec<String> {
    let arena = Arena::new(4).unwrap();
    let fate = |page: usize| match try_read(store, &arena, (page * PAGE) as u64, PAGE) {
        Ok((got, bytes)) => {
            assert_eq!((got, &bytes[..]), (PAGE, &content[page * PAGE..][..PAGE]));
            String::new()
        }
        Err(error) => error.to_string(),
    };
    (0..PAGES as usize).map(fate).collect()
}

#[test]
fn nothing_goes_wrong_unasked() {
    let dir = TempDir::new().unwrap();
    let (store, content) = faulty(&dir, Faults::default());
    assert_reads(&store, &content);
}

#[test]
fn faults_are_as_often_as_asked_and_the_same_again() {
    let dir = TempDir::new().unwrap();
    let faults = |seed| Faults {
        seed,
        errors: 0.3,
        truncations: 0.2,
        ..Faults::default()
    };
    let (store, content) = faulty(&dir, faults(1));
    let once = fates(&store, &content);
    let tally = store.tally();
    assert_eq!(tally.reads, PAGES);
    assert_eq!(tally.passed + tally.errors + tally.truncations, PAGES);
    assert!((40..=80).contains(&tally.errors), "{tally:?}");
    assert!((20..=60).contains(&tally.truncations), "{tally:?}");
    assert_ne!(
        fates(&store, &content),
        once,
        "trying again is another chance"
    );

    let (again, _) = faulty(&dir, faults(1));
    assert_eq!(fates(&again, &content), once);
    let (other, _) = faulty(&dir, faults(2));
    assert_ne!(fates(&other, &content), once);
}

#[test]
fn stalled_reads_are_answered_when_they_are_released() {
    let dir = TempDir::new().unwrap();
    let stalls = Faults {
        stalls: 1.0,
        ..Faults::default()
    };
    let (store, content) = faulty(&dir, stalls);
    let arena = Arena::new(8).unwrap();
    let (tell, told) = mpsc::channel();
    for page in 0..8 {
        let tell = tell.clone();
        store.start(Read {
            offset_bytes: (page * PAGE) as u64,
            len_bytes: PAGE,
            lease: dirty(&arena, 1),
            done: Box::new(move |lease, result| tell.send((page, lease, result)).unwrap()),
        });
    }
    assert!(told.try_recv().is_err());
    store.release();
    for (page, lease, result) in told.iter().take(8) {
        assert_eq!(result.unwrap(), PAGE);
        assert!(lease.freeze()[0][..] == content[page * PAGE..][..PAGE]);
    }
    assert_eq!(store.tally().stalls, 8);
}

#[test]
fn a_change_is_found_by_reads_and_by_refreshing() {
    let dir = TempDir::new().unwrap();
    let changes = Faults {
        change_after: Some(2),
        ..Faults::default()
    };
    let (store, _) = faulty(&dir, changes);
    let arena = Arena::new(4).unwrap();
    assert_eq!(store.refresh().unwrap(), PAGES * PAGE as u64);
    for _ in 0..2 {
        assert_eq!(read(&store, &arena, 0, PAGE).0, PAGE);
    }
    let error = try_read(&store, &arena, 0, PAGE).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    assert!(matches!(store.refresh(), Err(StoreError::Changed { .. })));
}

#[test]
fn late_reads_arrive_late_and_each_once() {
    let dir = TempDir::new().unwrap();
    let least = Duration::from_millis(20);
    let late = Faults {
        latency: least..2 * least,
        ..Faults::default()
    };
    let (store, content) = faulty(&dir, late);
    let arena = Arena::new(PAGES as u32).unwrap();
    let (tell, told) = mpsc::channel();
    for page in 0..PAGES as usize {
        let tell = tell.clone();
        let start = Instant::now();
        store.start(Read {
            offset_bytes: (page * PAGE) as u64,
            len_bytes: PAGE,
            lease: dirty(&arena, 1),
            done: Box::new(move |lease, result| {
                let waited = start.elapsed();
                tell.send((page, lease, result, waited)).unwrap();
            }),
        });
    }
    drop(tell);
    let arrived = told.iter().map(|(page, lease, result, waited)| {
        assert_eq!(result.unwrap(), PAGE);
        assert!(lease.freeze()[0][..] == content[page * PAGE..][..PAGE]);
        assert!(waited >= least);
        page
    });
    let mut arrived = arrived.collect::<Vec<_>>();
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..PAGES as usize));
}

#[test]
fn what_waits_when_the_store_goes_is_answered() {
    let dir = TempDir::new().unwrap();
    let hour = Duration::from_hours(1);
    let late = Faults {
        latency: hour..2 * hour,
        ..Faults::default()
    };
    let (store, content) = faulty(&dir, late);
    let arena = Arena::new(1).unwrap();
    let (tell, told) = mpsc::channel();
    store.start(Read {
        offset_bytes: 0,
        len_bytes: PAGE,
        lease: dirty(&arena, 1),
        done: Box::new(move |lease, result| tell.send((lease, result)).unwrap()),
    });
    drop(store);
    let (lease, result) = told.recv().unwrap();
    assert_eq!(result.unwrap(), PAGE);
    assert!(lease.freeze()[0][..] == content[..PAGE]);
}
