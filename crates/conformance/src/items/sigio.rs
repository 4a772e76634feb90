//! Signal-driven input and output (items 132, 133). It goes through the kernel's pipe.

use rustix::process::Signal;

use super::{CAPACITY, PAGE, fill};
use crate::ends::EndOf;
use crate::raw;
use crate::remote::Warmth;
use crate::setting::Setting;
use crate::signals::{self, Notice};
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends send no signals"):
        item_132_a_reader_hears_of_writes_and_of_the_last_close,
        item_132_a_writer_hears_of_reads_and_of_the_last_close,
        item_132_without_an_owner_nothing_is_sent,
        item_133_f_setsig_chooses_the_signal_and_says_more;
}

/// Has this thread signalled about the end.
fn ask_for_signals<K>(end: &EndOf<K>, owner: bool) {
    signals::block(Signal::IO);
    let flags = raw::fcntl(end.fd(), libc::F_GETFL, 0).unwrap() | libc::O_ASYNC;
    raw::fcntl(end.fd(), libc::F_SETFL, flags).unwrap();
    if owner {
        raw::set_owner_to_this_thread(end.fd()).unwrap();
    }
    end.use_kernel();
}

/// Whether a signal was sent since this was asked. It is sent before the peer's call returns.
fn was_signalled() -> bool {
    signals::take(Signal::IO).is_some()
}

fn item_132_a_reader_hears_of_writes_and_of_the_last_close(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        ask_for_signals(&r, true);
        for _ in 0..3 {
            assert_eq!(w.write(b"news"), Ok(4));
            assert!(was_signalled(), "a write");
        }
        drop(r.read_exactly(12));
        assert!(!was_signalled(), "its own read");
        w.close();
        assert!(was_signalled(), "the last close");
    }
}

fn item_132_a_writer_hears_of_reads_and_of_the_last_close(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        ask_for_signals(&w, true);
        fill(&w);
        assert!(!was_signalled(), "its own write");
        drop(r.read_exactly(PAGE));
        assert!(was_signalled(), "room");
        drop(r.read_exactly(CAPACITY - PAGE));
        r.close();
        assert!(was_signalled(), "the last close");
    }
}

fn item_132_without_an_owner_nothing_is_sent(s: Setting) {
    let (r, w) = s.reader_here(Warmth::Cold);
    ask_for_signals(&r, false);
    assert_eq!(w.write(b"news"), Ok(4));
    w.close();
    assert!(!was_signalled());
}

fn item_133_f_setsig_chooses_the_signal_and_says_more(s: Setting) {
    /// `POLL_IN` of `si_code`, and `POLLIN | POLLRDNORM`.
    const POLL_IN: i32 = 1;
    /// Which Rust's `libc` does not have.
    const F_SETSIG: i32 = 10;
    const BAND: i64 = 0x41;
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        signals::block(Signal::USR2);
        ask_for_signals(&r, true);
        raw::fcntl(r.fd(), F_SETSIG, Signal::USR2.as_raw()).unwrap();
        assert_eq!(w.write(b"news"), Ok(4));
        let notice = Notice {
            code: POLL_IN,
            band: BAND,
            fd: r.fd(),
        };
        assert_eq!(signals::take(Signal::USR2), Some(notice));
        assert!(!was_signalled(), "one signal, not two");
    }
}
