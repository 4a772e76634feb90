//! FIFOs: what stays between openings (items 89 to 92).

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::process::Signal;

use super::{CAPACITY, PAGE, pattern};
use crate::ends::{Both, Reader, Writer, kind};
use crate::fail::Fail;
use crate::remote::{Remote, Remotely};
use crate::setting::Setting;
use crate::signals;
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends have no name"):
        item_89_bytes_wait_for_the_next_reader,
        item_89_bytes_and_size_stay_while_anybody_is_there,
        item_90_bytes_and_size_go_with_the_last_one,
        item_91_end_of_file_is_not_the_end,
        item_91_readers_and_writers_come_and_go,
        item_92_who_also_writes_sees_no_end_of_file;
}

const READ_NOW: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

fn item_89_bytes_wait_for_the_next_reader(s: Setting) {
    signals::ignore(Signal::PIPE);
    for queued in [10, PAGE, CAPACITY] {
        let path = s.fifo();
        let r: Remote<kind::Read> = s.remote_open(&path, READ_NOW);
        let w: Writer = s.open(&path, OFlags::WRONLY).unwrap();
        // The reader has taken part before it goes.
        assert_eq!(
            (w.write(b"first"), r.read(9)),
            (Ok(5), Ok(b"first".to_vec()))
        );
        assert_eq!(w.write(&pattern(queued)), Ok(queued));
        assert_eq!(r.read(1), Ok(pattern(1)));
        r.close();
        assert_eq!(w.write(b"x"), Err(Fail::PIPE));
        let r: Remote<kind::Read> = s.remote_open(&path, READ_NOW);
        assert_eq!(r.read_exactly(queued - 1), pattern(queued)[1..]);
        assert_eq!(w.write(b"again"), Ok(5));
        assert_eq!(r.read(9), Ok(b"again".to_vec()));
    }
}

fn item_89_bytes_and_size_stay_while_anybody_is_there(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, READ_NOW).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    assert_eq!(w.set_capacity_bytes(4 * PAGE), Ok(4 * PAGE));
    assert_eq!(w.write(b"stays"), Ok(5));
    w.close();
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    assert_eq!(w.capacity_bytes(), Ok(4 * PAGE));
    assert_eq!(w.write(b",too"), Ok(4));
    assert_eq!(r.read(99), Ok(b"stays,too".to_vec()));
}

fn item_90_bytes_and_size_go_with_the_last_one(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, READ_NOW).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    assert_eq!(w.set_capacity_bytes(4 * PAGE), Ok(4 * PAGE));
    assert_eq!((w.write(b"used"), r.read(9)), (Ok(4), Ok(b"used".to_vec())));
    assert_eq!(w.write(b"lost"), Ok(4));
    w.close();
    drop(r);
    let both: Both = s.open(&path, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
    assert_eq!(both.read(9), Err(Fail::AGAIN));
    assert_eq!(both.unread_bytes(), Ok(0));
    assert_eq!(both.capacity_bytes(), Ok(CAPACITY));
}

fn item_91_end_of_file_is_not_the_end(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, READ_NOW).unwrap();
    r.set_nonblocking(false);
    for round in 0..3 {
        let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
        assert_eq!(w.write(b"from a writer"), Ok(13));
        assert_eq!(r.read(99), Ok(b"from a writer".to_vec()), "round {round}");
        w.close();
        assert_eq!((r.read(9), r.read(9)), (Ok(vec![]), Ok(vec![])));
    }
}

/// Sides change one by one, so that the pipe goes on; every byte comes, in order.
fn item_91_readers_and_writers_come_and_go(s: Setting) {
    const ROUNDS: usize = 12;
    const BYTES: usize = 30_000;
    let path = s.fifo();
    let all = pattern(ROUNDS * BYTES);
    let mut got = Vec::new();
    let mut r: Remote<kind::Read> = s.remote_open(&path, READ_NOW);
    let mut w: Writer = s.open(&path, OFlags::WRONLY).unwrap();
    for (round, piece) in all.chunks(BYTES).enumerate() {
        assert_eq!(w.write(piece), Ok(BYTES));
        got.extend(r.read_exactly(BYTES / 2));
        match round % 3 {
            0 => w = s.open(&path, OFlags::WRONLY).unwrap(),
            1 => r = replaced(r, || s.remote_open(&path, READ_NOW)),
            _ => r = replaced(r, || s.remote(s.open(&path, READ_NOW).unwrap())),
        }
        got.extend(r.read_exactly(BYTES - BYTES / 2));
    }
    drop(w);
    assert!(got == all, "not the bytes that were written");
    assert_eq!(r.read(9), Ok(vec![]));
}

/// The next one comes before the old one goes.
fn replaced<K: Remotely>(old: Remote<K>, next: impl FnOnce() -> Remote<K>) -> Remote<K> {
    let next = next();
    old.close();
    next
}

fn item_92_who_also_writes_sees_no_end_of_file(s: Setting) {
    signals::handle(Signal::USR1, false);
    let path = s.fifo();
    let both: Both = s.open(&path, OFlags::RDWR).unwrap();
    let w: Writer = s.open(&path, OFlags::WRONLY).unwrap();
    let reader = s.spawn(both, |both| {
        let first = both.read(9);
        (first, both.events().bits(), both.read(9))
    });
    assert_eq!(w.write(b"last"), Ok(4));
    drop(w);
    reader.until_asleep();
    reader.signal(Signal::USR1);
    let out = (PollFlags::OUT | PollFlags::WRNORM).bits();
    let (first, events, second) = reader.join();
    assert_eq!((first, second), (Ok(b"last".to_vec()), Err(Fail::INTR)));
    assert_eq!(events, out);
}
