//! A child that was forked has the pages of its parent mapped, and not their books.

mod common;

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use common::{OFF, PAGE, Script, cache};
use standpipe_cache::cache::{ReadError, Wait};
use standpipe_cache::store::{Read, Store, StoreError, Version};

/// Whether this is true in a forked child.
fn holds_in_a_fork(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child looks at what this thread alone has, and exits.
    match unsafe { libc::fork() } {
        // SAFETY: ends the child.
        0 => unsafe { libc::_exit(i32::from(!check())) },
        child => {
            let mut status = 0;
            // SAFETY: waits for our child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status == 0
        }
    }
}

/// The parent may have put other bytes where a page is in the child's copy of the book.
#[test]
fn a_cache_that_was_made_before_a_fork_gives_the_child_nothing() {
    let store = Script::new("a", 8 * PAGE as u64);
    let cache = cache(64);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    reader.read_at(&mut [0; PAGE], 0, Wait::UntilThere).unwrap();
    let is_told = holds_in_a_fork(|| {
        let opened = cache.open(Arc::clone(&store) as _, OFF);
        let result = opened.read_at(&mut [0; PAGE], 0, Wait::UntilThere);
        matches!(result, Err(ReadError::Forked { .. })) && opened.pollable().is_err()
    });
    assert!(is_told);
}

/// A store that waits when it is asked for its version, as a cache does with its lock held.
struct Gate {
    inner: Arc<Script>,
    entered: Mutex<Option<Sender<()>>>,
    open: Mutex<Receiver<()>>,
}

impl Store for Gate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn access(&self) -> &'static str {
        self.inner.access()
    }

    fn version(&self) -> &Version {
        if let Some(entered) = self.entered.lock().unwrap().take() {
            entered.send(()).unwrap();
            self.open.lock().unwrap().recv().unwrap();
        }
        self.inner.version()
    }

    fn length_bytes(&self) -> u64 {
        self.inner.length_bytes()
    }

    fn refresh(&self) -> Result<u64, StoreError> {
        self.inner.refresh()
    }

    fn start(&self, read: Read) {
        self.inner.start(read);
    }
}

/// What another thread had locked when the process was forked stays locked in the child.
#[test]
fn what_is_dropped_in_a_child_waits_for_no_lock_of_the_parent() {
    let store = Script::new("a", 8 * PAGE as u64);
    let cache = cache(1);
    let reader = cache.open(Arc::clone(&store) as _, OFF);
    let borrowed = reader.borrow_at(0, PAGE, Wait::UntilThere).unwrap();
    // From now on somebody wants to know when the page is released.
    let result = reader.borrow_at(PAGE as u64, PAGE, Wait::Never);
    assert!(matches!(result, Err(ReadError::WouldBlock)));

    // Taken out in the child only.
    let (mut borrowed, mut reader) = (Some(borrowed), Some(reader));
    let ((entered, told), (let_in, open)) = (mpsc::channel(), mpsc::channel());
    let gate = Arc::new(Gate {
        inner: store,
        entered: Mutex::new(Some(entered)),
        open: Mutex::new(open),
    });
    thread::scope(|scope| {
        scope.spawn(|| drop(cache.open(gate, OFF)));
        told.recv().unwrap();
        let is_dropped = holds_in_a_fork(|| {
            // SAFETY: ends a child that waits.
            unsafe { libc::alarm(20) };
            drop(borrowed.take());
            let is_told = reader
                .as_ref()
                .is_some_and(|reader| reader.pollable().is_err());
            drop(reader.take());
            is_told && cache.stat().objects == 0
        });
        let_in.send(()).unwrap();
        assert!(is_dropped);
    });
}
