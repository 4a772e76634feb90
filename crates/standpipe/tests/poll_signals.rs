//! poll and select under signals.

mod common;

use std::io::{ErrorKind, Write};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::time::Duration;

use common::{ends, handle, once_asleep, send};
use standpipe::end::End;
use standpipe::poll::{Entry, Interest, PollFlags, SelectEntry, poll, select, sigset_t};

fn set_of(signal: i32) -> sigset_t {
    // SAFETY: all bits zero are the empty set.
    let mut set: sigset_t = unsafe { zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    set
}

fn blocked_here() -> sigset_t {
    // SAFETY: all bits zero are the empty set.
    let mut set: sigset_t = unsafe { zeroed() };
    // SAFETY: the set is ours; null changes nothing.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set) };
    set
}

fn is_member(set: &sigset_t, signal: i32) -> bool {
    // SAFETY: the set is valid.
    unsafe { libc::sigismember(set, signal) == 1 }
}

fn wait_to_read(end: &End, timeout: Option<Duration>, mask: Option<&sigset_t>) -> Option<usize> {
    match poll(&mut [Entry::new(end, PollFlags::IN)], timeout, mask) {
        Ok(ready) => Some(ready),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Interrupted);
            assert_eq!(error.raw_os_error(), Some(libc::EINTR));
            None
        }
    }
}

#[test]
fn a_handler_ends_the_sleep_restarting_or_not() {
    let (reader, _writer) = ends();
    for flags in [0, libc::SA_RESTART] {
        handle(libc::SIGUSR1, flags);
        for timeout in [None, Some(Duration::from_secs(3600))] {
            let interrupted = once_asleep(
                || wait_to_read(&reader, timeout, None),
                |id| send(id, libc::SIGUSR1),
            );
            assert_eq!(interrupted, None);
        }
        let read = Interest {
            read: true,
            ..Interest::default()
        };
        let interrupted = once_asleep(
            || select(&mut [SelectEntry::new(&reader, read)], None, None),
            |id| send(id, libc::SIGUSR1),
        );
        assert_eq!(interrupted.unwrap_err().kind(), ErrorKind::Interrupted);
    }
}

#[test]
fn a_call_with_a_mask_lets_a_pending_signal_in_unless_something_is_ready() {
    handle(libc::SIGUSR2, libc::SA_RESTART);
    let (reader, writer) = ends();
    let usr2 = set_of(libc::SIGUSR2);
    let before = blocked_here();
    // SAFETY: the sets are ours.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const usr2, null_mut()) };
    let me = rustix::thread::gettid().as_raw_nonzero().get();
    for timeout in [None, Some(Duration::ZERO), Some(Duration::from_secs(3600))] {
        send(me, libc::SIGUSR2);
        assert_eq!(wait_to_read(&reader, timeout, Some(&before)), None);
        assert!(
            is_member(&blocked_here(), libc::SIGUSR2),
            "the mask is back"
        );
    }
    // Without the mask it stays away, and so it does when there is something to report.
    send(me, libc::SIGUSR2);
    assert_eq!(
        wait_to_read(&reader, Some(Duration::from_millis(5)), None),
        Some(0)
    );
    (&writer).write_all(b"x").unwrap();
    assert_eq!(wait_to_read(&reader, None, Some(&before)), Some(1));
    // SAFETY: all bits zero are the empty set.
    let mut pending: sigset_t = unsafe { zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigpending(&raw mut pending) };
    assert!(is_member(&pending, libc::SIGUSR2));
    // SAFETY: the sets are ours.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
}

#[test]
fn signals_held_during_a_call_are_let_go() {
    let (reader, _writer) = ends();
    assert_eq!(
        wait_to_read(&reader, Some(Duration::from_millis(1)), None),
        Some(0)
    );
    let set = blocked_here();
    assert!((1..32).all(|signal| !is_member(&set, signal)));
}
