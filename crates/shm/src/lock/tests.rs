//! The lock between threads and processes, honest ones and others.

use super::*;

impl RobustLock {
    fn lock(&self) -> Result<Guard<'_>, LockError> {
        self.lock_for(Duration::MAX)
    }
}
use crate::memory::Memory;

#[test]
fn a_second_thread_waits_and_a_reentry_is_refused() {
    let lock = RobustLock::default();
    let guard = lock.lock().unwrap();
    assert_eq!(lock.lock().err(), Some(LockError::Reentered));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lock.lock().unwrap().owner_died());
        while lock.word.load(Ordering::Relaxed) & futex::WAITERS == 0 {
            std::thread::yield_now();
        }
        drop(guard);
        assert!(!other.join().unwrap());
    });
    assert_eq!(lock.word.load(Ordering::Relaxed) & OWNER, 0);
}

#[test]
fn many_threads_exclude_each_other() {
    let lock = RobustLock::default();
    let count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let _guard = lock.lock().unwrap();
                    // not atomic on purpose: lost updates show up in the sum
                    let n = count.load(Ordering::Relaxed);
                    count.store(n + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 80_000);
}

/// What `work` gives; fails if it takes for ever.
fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    hear.recv_timeout(Duration::from_secs(60)).expect("hangs")
}

/// A lock into which a peer wrote `word`, for good.
impl RobustLock {
    /// As a hostile peer would: held by a thread that can't be.
    pub(crate) fn scribble(&self) {
        self.word.store(OWNER, Ordering::Relaxed);
    }
}

fn scribbled(word: u32) -> &'static RobustLock {
    let lock = Box::leak(Box::<RobustLock>::default());
    lock.word.store(word, Ordering::Relaxed);
    lock
}

/// The id of a thread that is no more.
fn dead_thread() -> u32 {
    std::thread::spawn(|| me().tid).join().unwrap()
}

#[test]
fn a_word_that_names_nobody_is_corrupt() {
    // The last one is above the largest id that Linux gives.
    for dead in [dead_thread(), OWNER] {
        let lock = scribbled(dead);
        let found = dead | futex::WAITERS;
        let corrupted = LockError::Corrupted { found };
        assert_eq!(bounded(|| lock.lock().err()), Some(corrupted));
        let error = bounded(|| lock.lock_for(Duration::ZERO).err());
        assert_eq!(error, Some(corrupted));
        let error = bounded(|| lock.lock_patiently(true, || true).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(
            error.to_string().contains(&format!("{found:#010x}")),
            "{error}"
        );
    }
}

#[test]
fn a_word_that_says_held_and_died_is_corrupt() {
    let lock = scribbled(1 | futex::OWNER_DIED);
    let found = 1 | futex::OWNER_DIED | futex::WAITERS;
    let corrupted = LockError::Corrupted { found };
    assert_eq!(bounded(|| lock.lock().err()), Some(corrupted));
}

#[test]
fn a_word_that_names_a_thread_which_does_not_hold_it_is_corrupt_for_that_thread() {
    let lock = scribbled(0);
    let error = bounded(|| {
        lock.word.store(me().tid, Ordering::Relaxed);
        let other = RobustLock::default();
        let _guard = other.lock().unwrap();
        (
            me().tid,
            lock.lock().err(),
            lock.lock_patiently(true, || true).err(),
        )
    });
    let (found, error, patient) = error;
    assert_eq!(error, Some(LockError::Corrupted { found }));
    assert_eq!(patient.unwrap().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_word_that_names_a_stranger_is_waited_for_as_long_as_was_said() {
    let init = 1;
    let lock = scribbled(init);
    let error = bounded(|| lock.lock_for(Duration::from_millis(3)).err());
    assert_eq!(error, Some(LockError::Held { owner: init }));
    assert!(bounded(|| lock
        .lock_patiently(true, || true)
        .unwrap()
        .is_none()));
    // The stranger gives it back.
    lock.word.store(futex::WAITERS, Ordering::Relaxed);
    assert_eq!(
        bounded(|| lock.lock().map(|guard| guard.owner_died())),
        Ok(false)
    );
}

#[test]
fn a_word_that_changes_all_the_time_stops_nobody_for_ever() {
    let lock = scribbled(1);
    let stop: &AtomicU32 = Box::leak(Box::default());
    let scribbler = std::thread::spawn(move || {
        let mut word = 1;
        while stop.load(Ordering::Relaxed) == 0 {
            // Living threads, with and without somebody who waits: init, and the scribbler.
            word = if word == 1 { me().tid } else { 1 };
            lock.word.store(word, Ordering::Relaxed);
            lock.word.store(word | futex::WAITERS, Ordering::Relaxed);
        }
    });
    let error = bounded(|| lock.lock_for(Duration::from_millis(20)).err());
    assert!(matches!(error, Some(LockError::Held { .. })), "{error:?}");
    assert!(bounded(|| lock
        .lock_patiently(true, || true)
        .unwrap()
        .is_none()));
    stop.store(1, Ordering::Relaxed);
    scribbler.join().unwrap();
}

#[test]
fn a_signal_handler_within_a_nested_section_is_told_of_its_reentry() {
    let lock = RobustLock::default();
    let guard = lock.lock().unwrap();
    // as if interrupted between taking the lock and linking it, or while giving it back
    guard.list.swap_pending(lock.entry());
    guard.list.set_first(guard.next);
    assert_eq!(lock.lock().err(), Some(LockError::Reentered));
    guard.list.set_first(lock.entry());
    guard.list.swap_pending(0);
    assert_eq!(lock.lock().err(), Some(LockError::Reentered));
}

#[test]
fn the_death_of_the_owner_is_told_and_the_lock_taken_over() {
    let memory = Memory::new(4096).unwrap();
    let lock = &memory.header().writer.0.lock;
    // SAFETY: the child calls nothing but our lock and _exit; no other thread's state matters.
    let child = unsafe { libc::fork() };
    if child == 0 {
        std::mem::forget(lock.lock());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: waits for our own child; a null status pointer is allowed.
    assert_eq!(unsafe { libc::waitpid(child, ptr::null_mut(), 0) }, child);
    let guard = lock.lock().unwrap();
    assert!(guard.owner_died());
    drop(guard);
    assert!(!lock.lock().unwrap().owner_died());
}
