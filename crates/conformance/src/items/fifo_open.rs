//! FIFOs: who waits for whom in open (items 77 to 83).

use std::ffi::CStr;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::process::Signal;

use crate::ends::{Both, Reader, Writer, kind};
use crate::fail::Fail;
use crate::peer::Peer;
use crate::remote::Remote;
use crate::setting::Setting;
use crate::signals;
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends have no name"):
        item_77_open_waits_for_the_other_side,
        item_77_open_does_not_wait_for_who_is_there,
        item_78_nonblocking_open_does_not_wait,
        item_79_open_for_both_never_waits_and_is_a_partner,
        item_80_a_reader_asleep_in_open_counts,
        item_81_another_reader_is_no_partner,
        item_82_a_writer_that_came_and_went_is_enough,
        item_83_a_signal_interrupts_open,
        item_83_with_sa_restart_open_goes_on,
        item_83_enxio_leaves_no_writer_behind;
    by_descriptor("typed ends have no name"), processes("threads die together"):
        item_83_a_killed_opener_leaves_no_reader_behind;
}

const READ: OFlags = OFlags::RDONLY;
const WRITE: OFlags = OFlags::WRONLY;
const NOW: OFlags = OFlags::NONBLOCK;

/// A peer that is asleep in open.
fn opener(s: Setting, path: &Arc<CStr>, access: OFlags) -> Peer<Result<(), Fail>> {
    let path = path.clone();
    let opener = s.spawn((), move |()| s.open::<kind::Both>(&path, access).map(drop));
    opener.until_asleep();
    opener
}

/// A non-blocking writer is refused: nobody reads.
fn assert_nobody_reads(s: Setting, path: &CStr) {
    let opened = s.open::<kind::Write>(path, WRITE | NOW).map(drop);
    assert_eq!(opened, Err(Fail::NXIO));
}

fn item_77_open_waits_for_the_other_side(s: Setting) {
    for (first, second) in [(READ, WRITE), (WRITE, READ)] {
        let path = s.fifo();
        let waiting = opener(s, &path, first);
        let end = s.open::<kind::Both>(&path, second);
        assert_eq!((end.map(drop), waiting.join()), (Ok(()), Ok(())));
    }
}

fn item_77_open_does_not_wait_for_who_is_there(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, READ | NOW).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&path, WRITE);
    let r_too: Remote<kind::Read> = s.remote_open(&path, READ);
    assert_eq!(w.write(b"ab"), Ok(2));
    assert_eq!(
        (r.read(1), r_too.read(1)),
        (Ok(b"a".to_vec()), Ok(b"b".to_vec()))
    );
}

fn item_78_nonblocking_open_does_not_wait(s: Setting) {
    let path = s.fifo();
    assert_nobody_reads(s, &path);
    let r: Remote<kind::Read> = s.remote_open(&path, READ | NOW);
    assert_eq!(r.read(1), Ok(vec![]), "no writer, no waiting");
    let w: Writer = s.open(&path, WRITE | NOW).unwrap();
    assert_eq!(r.read(1), Err(Fail::AGAIN));
    assert_eq!(w.write(b"x"), Ok(1));
    assert_eq!(r.read(1), Ok(b"x".to_vec()));
}

fn item_79_open_for_both_never_waits_and_is_a_partner(s: Setting) {
    for flags in [OFlags::RDWR, OFlags::RDWR | NOW] {
        for access in [READ, WRITE] {
            let path = s.fifo();
            let waiting = opener(s, &path, access);
            let both: Both = s.open(&path, flags).unwrap();
            assert_eq!(waiting.join(), Ok(()));
            assert_eq!(
                (both.write(b"self"), both.read(9)),
                (Ok(4), Ok(b"self".to_vec()))
            );
        }
    }
}

fn item_80_a_reader_asleep_in_open_counts(s: Setting) {
    let path = s.fifo();
    let reader = {
        let path = path.clone();
        s.spawn((), move |()| {
            let r: Reader = s.open(&path, READ).unwrap();
            r.read_to_end()
        })
    };
    reader.until_asleep();
    let w: Writer = s.open(&path, WRITE | NOW).unwrap();
    assert_eq!(w.write(b"awake"), Ok(5));
    drop(w);
    assert_eq!(reader.join(), b"awake");
}

fn item_81_another_reader_is_no_partner(s: Setting) {
    let path = s.fifo();
    let _r: Reader = s.open(&path, READ | NOW).unwrap();
    let waiting = opener(s, &path, READ);
    let also_waiting = opener(s, &path, READ);
    waiting.until_asleep();
    let _w: Writer = s.open(&path, WRITE).unwrap();
    assert_eq!((waiting.join(), also_waiting.join()), (Ok(()), Ok(())));
}

fn item_82_a_writer_that_came_and_went_is_enough(s: Setting) {
    for _ in 0..10 {
        let path = s.fifo();
        let reader = {
            let path = path.clone();
            s.spawn((), move |()| {
                let r: Reader = s.open(&path, READ).unwrap();
                [r.read(3), r.read(9), r.read(9)]
            })
        };
        reader.until_asleep();
        let w: Writer = s.open(&path, WRITE).unwrap();
        assert_eq!(w.write(b"and gone"), Ok(8));
        drop(w);
        let expected = [&b"and"[..], b" gone", b""].map(|some| Ok(some.to_vec()));
        assert_eq!(reader.join(), expected);
    }
}

fn item_83_a_signal_interrupts_open(s: Setting) {
    signals::handle(Signal::USR1, false);
    let path = s.fifo();
    for access in [READ, WRITE] {
        let waiting = opener(s, &path, access);
        waiting.signal(Signal::USR1);
        assert_eq!(waiting.join(), Err(Fail::INTR));
        assert_nobody_reads(s, &path);
        let r: Reader = s.open(&path, READ | NOW).unwrap();
        assert_eq!(r.read(1), Ok(vec![]), "nobody writes");
    }
}

fn item_83_with_sa_restart_open_goes_on(s: Setting) {
    signals::handle(Signal::USR1, true);
    for (first, second) in [(READ, WRITE), (WRITE, READ)] {
        let path = s.fifo();
        let waiting = opener(s, &path, first);
        waiting.signal(Signal::USR1);
        assert_eq!(signals::next_ring().tid, waiting.tid());
        waiting.until_asleep();
        let end = s.open::<kind::Both>(&path, second);
        assert_eq!((end.map(drop), waiting.join()), (Ok(()), Ok(())));
    }
}

fn item_83_enxio_leaves_no_writer_behind(s: Setting) {
    let path = s.fifo();
    assert_nobody_reads(s, &path);
    let r: Remote<kind::Read> = s.remote_open(&path, READ | NOW);
    assert_eq!(r.read(1), Ok(vec![]), "nobody writes");
}

fn item_83_a_killed_opener_leaves_no_reader_behind(s: Setting) {
    let path = s.fifo();
    let waiting = opener(s, &path, READ);
    waiting.kill();
    assert_nobody_reads(s, &path);
}
