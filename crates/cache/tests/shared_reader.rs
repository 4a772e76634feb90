//! Threads that share a reader: each is told of its own failure, as if it had a reader of its own.

mod common;

use std::sync::Arc;
use std::thread;

use common::{OFF, PAGE, Script, cache, expected};
use standpipe_cache::cache::{ReadError, Reader, Wait};

fn read(reader: &Reader, page: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; PAGE];
    let count = reader.read_at(&mut bytes, page * PAGE as u64, Wait::UntilThere)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Who waits longer must not lose its failure to who comes later, and ask again for ever.
#[test]
fn each_thread_is_told_that_its_read_failed() {
    let store = Script::new("a", 8 * PAGE as u64);
    store.hold();
    store.fail(2);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    thread::scope(|scope| {
        let first = scope.spawn(|| read(&reader, 1).map(drop));
        store.wait_for(1);
        let second = scope.spawn(|| read(&reader, 5).map(drop));
        store.wait_for(2);
        store.release();
        store.release();
        store.release_all();
        let first = first.join().unwrap().unwrap_err().to_string();
        let second = second.join().unwrap().unwrap_err().to_string();
        assert_eq!(first, "a, at offset 4096: as told");
        assert_eq!(second, "a, at offset 20480: as told");
    });
    assert_eq!(read(&reader, 1).unwrap(), expected(PAGE as u64, PAGE));
}

/// Two readers, two failures: the later one is not told to both.
#[test]
fn each_reader_is_told_its_own_failure() {
    let store = Script::new("a", 8 * PAGE as u64);
    store.hold();
    store.fail(2);
    let cache = cache(64);
    let (one, other) = (
        cache.open(Arc::clone(&store) as _, OFF),
        cache.open(Arc::clone(&store) as _, OFF),
    );
    let mut bytes = [0; PAGE];
    let mut try_read = |reader: &Reader, offset| reader.read_at(&mut bytes, offset, Wait::Never);
    assert!(try_read(&one, 4096).is_err());
    assert!(try_read(&other, 20480).is_err());
    store.release();
    store.release();
    let error = try_read(&one, 4096).unwrap_err().to_string();
    assert_eq!(error, "a, at offset 4096: as told");
    let error = try_read(&other, 20480).unwrap_err().to_string();
    assert_eq!(error, "a, at offset 20480: as told");
    store.release_all();
}
