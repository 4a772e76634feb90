//! What is remembered of files that nobody reads any more keeps none of them open.

mod common;

use std::sync::Arc;

use common::{OFF, PAGE, Script, cache};
use standpipe_cache::cache::Wait;
use standpipe_cache::store::{Options, open};

#[test]
fn files_that_were_read_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(1024);
    for number in 0..300 {
        let path = dir.path().join(number.to_string());
        std::fs::write(&path, "bytes").unwrap();
        let store = open(path.to_str().unwrap(), &Options::default()).unwrap();
        let reader = cache.open(store, OFF);
        let mut bytes = [0; PAGE];
        let count = reader.read_at(&mut bytes, 0, Wait::UntilThere).unwrap();
        assert_eq!(bytes[..count], *b"bytes");
    }
    assert_eq!(cache.stat().room.present_pages, 300, "their pages stay");
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    let open = targets
        .filter(|target| target.starts_with(dir.path()))
        .count();
    // The thread that read the last one may not have let go of it yet.
    assert!(open <= 1, "{open} files are open");
}

#[test]
fn a_file_that_is_opened_again_finds_its_pages_and_is_read_on() {
    let cache = cache(64);
    let mut bytes = [0; PAGE];
    for page in 0..4 {
        let store = Script::new("a", 8 * PAGE as u64);
        let reader = cache.open(Arc::clone(&store) as _, OFF);
        for offset in (0..=page).map(|page| page * PAGE as u64) {
            reader
                .read_at(&mut bytes, offset, Wait::UntilThere)
                .unwrap();
        }
        assert_eq!(store.started(), [(page, 1)], "the others were there");
    }
}
