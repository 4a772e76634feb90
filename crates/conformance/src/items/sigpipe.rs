//! Writing without readers (items 45, 47, 48).

use std::io;

use rustix::process::Signal;

use super::{CAPACITY, PIPE_BUF, fill, pattern};
use crate::fail::Fail;
use crate::peer::Peer;
use crate::setting::Setting;
use crate::suite::behaviours;
use crate::{raw, signals};

behaviours! {
    everywhere():
        item_45_no_readers_is_epipe_and_sigpipe_for_the_caller,
        item_45_sigpipe_ignored_is_epipe,
        item_45_sigpipe_blocked_is_epipe_and_stays_pending,
        item_47_readers_vanish_after_some_bytes_gives_the_count_and_sigpipe,
        item_47_readers_vanish_before_any_byte_is_epipe_and_sigpipe,
        item_48_last_readers_close_wakes_every_writer;
    processes("ends all threads"):
        item_45_sigpipe_by_default_kills;
    kernel("Rust has no bad addresses"):
        item_45_no_readers_comes_before_a_bad_address;
}

/// `SI_USER`: Rust's `libc` has no name for it on Linux.
const SI_USER: i32 = 0;

/// A handler ran for a broken pipe, in the thread that wrote.
fn assert_sigpipe_rang(tid: i32) {
    let expected = signals::Ring {
        signal: libc::SIGPIPE,
        code: SI_USER,
        tid,
    };
    assert_eq!(signals::next_ring(), expected);
    assert!(signals::is_silent(), "one signal per call");
}

fn item_45_no_readers_is_epipe_and_sigpipe_for_the_caller(s: Setting) {
    signals::handle(Signal::PIPE, false);
    for bytes in [1, PIPE_BUF, 100_000] {
        let (r, w) = s.pipe();
        drop(r);
        let writer = s.spawn(w, move |w| w.write(&vec![0; bytes]));
        let tid = writer.tid();
        assert_eq!(writer.join(), Err(Fail::PIPE), "{bytes} bytes");
        assert_sigpipe_rang(tid);
    }
}

fn item_45_sigpipe_ignored_is_epipe(s: Setting) {
    signals::ignore(Signal::PIPE);
    let (r, w) = s.pipe();
    assert_eq!(w.write(b"never read"), Ok(10));
    drop(r);
    for nonblocking in [false, true] {
        w.set_nonblocking(nonblocking);
        assert_eq!(
            s.spawn(w.try_clone(), |w| w.write(b"x")).join(),
            Err(Fail::PIPE)
        );
    }
}

fn item_45_sigpipe_blocked_is_epipe_and_stays_pending(s: Setting) {
    signals::handle(Signal::PIPE, false);
    let (r, w) = s.pipe();
    drop(r);
    let write_blocked = |w: crate::ends::Writer| {
        signals::block(Signal::PIPE);
        let before = signals::is_pending(Signal::PIPE);
        (before, w.write(b"x"), signals::is_pending(Signal::PIPE))
    };
    assert_eq!(
        s.spawn(w, write_blocked).join(),
        (false, Err(Fail::PIPE), true)
    );
    assert!(signals::is_silent());
}

fn item_45_sigpipe_by_default_kills(s: Setting) {
    signals::by_default(Signal::PIPE);
    let (r, w) = s.pipe();
    drop(r);
    let status = s.spawn(w, |w| w.write(b"x")).wait();
    assert_eq!(
        status.terminating_signal(),
        Some(libc::SIGPIPE),
        "{status:?}"
    );
}

fn item_45_no_readers_comes_before_a_bad_address(s: Setting) {
    signals::ignore(Signal::PIPE);
    let (r, w) = s.pipe();
    let fault = io::Error::from_raw_os_error(libc::EFAULT).into();
    assert_eq!(raw::write_nowhere(w.fd(), 1), Err(fault));
    drop(r);
    assert_eq!(raw::write_nowhere(w.fd(), 1), Err(Fail::PIPE));
}

fn item_47_readers_vanish_after_some_bytes_gives_the_count_and_sigpipe(s: Setting) {
    signals::handle(Signal::PIPE, false);
    let (r, w) = s.pipe();
    let writer = s.spawn(w, |w| w.write(&pattern(200_000)));
    let tid = writer.tid();
    writer.until_asleep();
    drop(r.read_exactly(2 * PIPE_BUF));
    writer.until_asleep();
    drop(r);
    assert_eq!(writer.join(), Ok(CAPACITY + 2 * PIPE_BUF));
    assert_sigpipe_rang(tid);
}

fn item_47_readers_vanish_before_any_byte_is_epipe_and_sigpipe(s: Setting) {
    signals::handle(Signal::PIPE, false);
    for bytes in [1, 100_000] {
        let (r, w) = s.pipe();
        fill(&w);
        let writer = s.spawn(w, move |w| w.write(&vec![0; bytes]));
        let tid = writer.tid();
        writer.until_asleep();
        drop(r);
        assert_eq!(writer.join(), Err(Fail::PIPE), "{bytes} bytes");
        assert_sigpipe_rang(tid);
    }
}

fn item_48_last_readers_close_wakes_every_writer(s: Setting) {
    signals::ignore(Signal::PIPE);
    let (r, w) = s.pipe();
    let other = r.try_clone();
    fill(&w);
    let spawn = |bytes| s.spawn(w.try_clone(), move |w| w.write(&vec![0; bytes]));
    let writers = [1, PIPE_BUF, 100_000].map(spawn);
    writers.iter().for_each(Peer::until_asleep);
    drop(r);
    writers.iter().for_each(Peer::until_asleep);
    drop(other);
    for writer in writers {
        assert_eq!(writer.join(), Err(Fail::PIPE));
    }
}
