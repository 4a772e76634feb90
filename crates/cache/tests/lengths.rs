//! Looks at the length of an object that cross each other.

mod common;

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use common::{OFF, PAGE, Script, cache, expected};
use standpipe_cache::cache::Wait;
use standpipe_cache::store::{Read, Store, StoreError, Version};

/// A store that tells the length that it saw only when it is let on.
struct Late {
    inner: Arc<Script>,
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Store for Late {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn access(&self) -> &'static str {
        self.inner.access()
    }

    fn version(&self) -> &Version {
        self.inner.version()
    }

    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        let length_bytes = self.inner.refresh();
        let gate = self.gate.lock().unwrap().take();
        if let Some((seen, on)) = gate {
            seen.send(()).unwrap();
            on.recv().unwrap();
        }
        length_bytes
    }

    fn start(&self, read: Read) {
        self.inner.start(read);
    }
}

#[test]
fn a_look_that_began_before_another_does_not_undo_it() {
    let script = Script::new("a", 2 * PAGE as u64);
    let ((seen, was_seen), (go, on)) = (mpsc::channel(), mpsc::channel());
    let store = Arc::new(Late {
        inner: Arc::clone(&script),
        gate: Mutex::new(Some((seen, on))),
    });
    let cache = cache(64);
    let slow = cache.open(Arc::clone(&store) as _, OFF);
    let reader = cache.open(store, OFF);
    let mut bytes = [0; PAGE];
    let offset = 2 * PAGE as u64;
    thread::scope(|scope| {
        let looking = scope.spawn(|| slow.length_bytes().unwrap());
        was_seen.recv().unwrap();
        script.set_length(4 * PAGE as u64);
        script.hold();
        let reading = scope.spawn(|| reader.read_at(&mut bytes, offset, Wait::UntilThere));
        script.wait_for(1);
        go.send(()).unwrap();
        looking.join().unwrap();
        script.release_all();
        assert_eq!(reading.join().unwrap().unwrap(), PAGE, "not the end");
    });
    assert_eq!(bytes[..], expected(offset, PAGE));
}
