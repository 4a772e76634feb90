//! Where standpipe differs on purpose; the kernel's result stands beside standpipe's.
//!
//! - It counts room in bytes, the kernel in slots of a page (items 42 to 44). Before a reader has
//!   come to the lane the pipe is the kernel's, and so is its room.
//! - It cannot tell which handler interrupted it (item 34).

use rustix::event::PollFlags;
use rustix::process::Signal;

use super::{CAPACITY, PAGE, fill, pattern, used_pipe, warm_up};
use crate::ends::{Reader, Writer};
use crate::engine::Engine;
use crate::fail::{Fail, Outcome};
use crate::raw;
use crate::remote::Warmth;
use crate::setting::{PeerKind, Setting};
use crate::signals;
use crate::suite::behaviours;

behaviours! {
    everywhere():
        item_42_a_new_pipe_counts_room_in_slots,
        difference_34_with_handlers_of_both_kinds_any_of_them_interrupts,
        difference_42_reading_a_byte_makes_a_byte_of_room,
        difference_42_sixteen_writes_of_4095_leave_sixteen_bytes_of_room,
        difference_42_sixteen_writes_of_2049_leave_the_rest,
        difference_43_what_fits_is_counted_in_bytes,
        difference_44_the_last_bytes_take_part_of_any_large_write;
    by_descriptor("typed ends do not poll"):
        difference_56_there_is_room_where_slots_would_be_wasted;
    by_descriptor("typed ends have the capacity that they were made with"):
        difference_102_capacity_above_pipe_max_size_needs_no_privilege,
        difference_103_what_is_queued_is_counted_in_bytes;
    by_descriptor("typed ends have no name"):
        difference_93_bytes_in_the_lane_leave_no_trace_in_the_file;
}

fn by_engine<T>(s: Setting, standpipe: T, kernel: T) -> T {
    if s.engine.is_standpipe() {
        standpipe
    } else {
        kernel
    }
}

/// How many bytes a non-blocking writer gets in, one by one.
fn room(w: &crate::ends::Writer) -> usize {
    w.set_nonblocking(true);
    let mut room = 0;
    loop {
        match w.write(b"x") {
            Ok(1) => room += 1,
            outcome => {
                assert_eq!(outcome, Err(Fail::AGAIN));
                return room;
            }
        }
    }
}

/// A handler with `SA_RESTART` runs, while the process has another one without. (Who has met nobody yet
/// sleeps in the kernel's own read.)
fn difference_34_with_handlers_of_both_kinds_any_of_them_interrupts(s: Setting) {
    signals::handle(Signal::USR1, true);
    signals::handle(Signal::USR2, false);
    let (r, w) = s.pipe();
    let reader = s.spawn(r.try_clone(), |r| r.read(10));
    reader.until_asleep();
    reader.signal(Signal::USR1);
    assert_eq!(signals::next_ring().signal, Signal::USR1.as_raw());
    let knows_the_lane = matches!(s.peers, PeerKind::Thread | PeerKind::Fork);
    // A ring sleeps in epoll, whatever the end is.
    let differs = s.engine.is_standpipe() && (knows_the_lane || s.engine == Engine::Ring);
    if !differs {
        reader.until_asleep();
    }
    assert_eq!(w.write(b"late"), Ok(4));
    let late = Ok(b"late".to_vec());
    assert_eq!(reader.join(), if differs { Err(Fail::INTR) } else { late });
}

fn item_42_a_new_pipe_counts_room_in_slots(s: Setting) {
    for (bytes, writes, more) in [(4095, 16, 1), (2049, 16, 2047)] {
        let (r, w) = s.pipe();
        w.set_nonblocking(true);
        for _ in 0..writes {
            assert_eq!(w.write(&vec![b'x'; bytes]), Ok(bytes));
        }
        assert_eq!(w.write(&[b'x'; 2049]), Err(Fail::AGAIN));
        // The tail of the last slot is filled, however large the others' are.
        assert_eq!(room(&w), more);
        drop(r);
    }
}

fn difference_42_reading_a_byte_makes_a_byte_of_room(s: Setting) {
    let (r, w) = used_pipe(s);
    fill(&w);
    drop(r.read_exactly(1));
    assert_eq!(room(&w), by_engine(s, 1, 0));
    // Item 42: the kernel's room appears when the whole slot is drained.
    drop(r.read_exactly(PAGE - 1));
    assert_eq!(room(&w), by_engine(s, PAGE - 1, PAGE));
}

fn difference_42_sixteen_writes_of_4095_leave_sixteen_bytes_of_room(s: Setting) {
    let (_r, w) = used_pipe(s);
    for _ in 0..16 {
        assert_eq!(w.write(&[b'x'; 4095]), Ok(4095));
    }
    assert_eq!(room(&w), by_engine(s, 16, 1));
}

fn difference_42_sixteen_writes_of_2049_leave_the_rest(s: Setting) {
    let (_r, w) = used_pipe(s);
    for _ in 0..16 {
        assert_eq!(w.write(&[b'x'; 2049]), Ok(2049));
    }
    w.set_nonblocking(true);
    assert_eq!(
        w.write(&[b'x'; 2049]),
        by_engine(s, Ok(2049), Err(Fail::AGAIN))
    );
}

fn difference_43_what_fits_is_counted_in_bytes(s: Setting) {
    let write_after_1 = |bytes| {
        let (_r, w) = used_pipe(s);
        w.set_nonblocking(true);
        assert_eq!(w.write(b"x"), Ok(1));
        w.write(&pattern(bytes))
    };
    assert_eq!(
        write_after_1(69_632),
        by_engine(s, Ok(CAPACITY - 1), Ok(61_440))
    );
    assert_eq!(
        write_after_1(70_000),
        by_engine(s, Ok(CAPACITY - 1), Ok(61_808))
    );
}

fn difference_44_the_last_bytes_take_part_of_any_large_write(s: Setting) {
    let write_into_100 = |bytes| -> Outcome {
        let (_r, w) = used_pipe(s);
        assert_eq!(w.write(&pattern(CAPACITY - 100)), Ok(CAPACITY - 100));
        w.set_nonblocking(true);
        w.write(&pattern(bytes))
    };
    assert_eq!(write_into_100(100), Ok(100));
    assert_eq!(write_into_100(200), Err(Fail::AGAIN));
    assert_eq!(write_into_100(4196), Ok(100));
    assert_eq!(
        write_into_100(5000),
        by_engine(s, Ok(100), Err(Fail::AGAIN))
    );
}

fn difference_56_there_is_room_where_slots_would_be_wasted(s: Setting) {
    let (_r, w) = used_pipe(s);
    for _ in 0..16 {
        assert_eq!(w.write(&[b'x'; 2049]), Ok(2049));
    }
    let out = PollFlags::OUT | PollFlags::WRNORM;
    assert_eq!(w.events(), by_engine(s, out, PollFlags::empty()));
}

fn difference_93_bytes_in_the_lane_leave_no_trace_in_the_file(s: Setting) {
    use rustix::fs::{OFlags, Timestamps, fstat, futimens};
    let path = s.fifo();
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let w: Writer = s.open(&path, OFlags::WRONLY).unwrap();
    r.set_nonblocking(false);
    warm_up(s, &r, &w, Warmth::Warm);
    let file = raw::borrow(w.fd());
    let epoch = rustix::time::Timespec::default();
    let times = Timestamps {
        last_access: epoch,
        last_modification: epoch,
    };
    futimens(file, &times).unwrap();
    assert_eq!(
        (w.write(b"trace"), r.read(9)),
        (Ok(5), Ok(b"trace".to_vec()))
    );
    let was_written = fstat(file).unwrap().st_mtime > 0;
    assert_eq!(was_written, by_engine(s, false, true));
}

fn difference_102_capacity_above_pipe_max_size_needs_no_privilege(s: Setting) {
    const LARGE: usize = 4 << 20;
    let most = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
    if most.trim().parse::<usize>().unwrap() >= LARGE {
        return;
    }
    let peers = PeerKind::Fork;
    let child = Setting { peers, ..s }.spawn((), move |()| {
        raw::become_nobody();
        let (r, w) = used_pipe(Setting { peers, ..s });
        let set = w.set_capacity_bytes(LARGE);
        (set, r.capacity_bytes())
    });
    let kernel = (Err(Fail::PERM), Ok(CAPACITY));
    assert_eq!(child.join(), by_engine(s, (Ok(LARGE), Ok(LARGE)), kernel));
}

fn difference_103_what_is_queued_is_counted_in_bytes(s: Setting) {
    let (r, w) = used_pipe(s);
    assert_eq!(w.write(&[b'x'; PAGE]), Ok(PAGE));
    assert_eq!(w.write(&[b'x'; 100]), Ok(100));
    drop(r.read_exactly(PAGE - 5));
    let set = w.set_capacity_bytes(PAGE);
    assert_eq!(
        set,
        by_engine(s, Ok(PAGE), Err(Fail::BUSY)),
        "105 bytes in 2 slots"
    );
    assert_eq!(r.read_exactly(105), [b'x'; 105]);
}
