//! Reading (items 23 to 34).

use std::io::IoSliceMut;
use std::os::fd::AsRawFd;

use rustix::process::Signal;

use super::{PAGE, pattern};
use crate::engine::Options;
use crate::fail::Fail;
use crate::peer::Peer;
use crate::setting::Setting;
use crate::suite::behaviours;
use crate::{raw, signals};

behaviours! {
    everywhere():
        item_23_empty_pipe_sleeps_or_eagain,
        item_24_no_writer_is_end_of_file_every_time,
        item_25_data_left_behind_comes_before_end_of_file,
        item_26_read_returns_what_is_there,
        item_27_successive_writes_are_one_stream,
        item_28_length_0_returns_0,
        item_30_readv_fills_in_order,
        item_31_one_write_wakes_as_many_readers_as_it_feeds,
        item_31_each_byte_goes_to_exactly_one_reader,
        item_32_last_writers_close_wakes_every_reader,
        item_34_signal_interrupts_a_sleeping_read,
        item_34_signal_interrupts_one_of_several_sleeping_reads,
        item_34_with_sa_restart_a_sleeping_read_goes_on;
    inherited("who opens a path has a description of its own"):
        item_33_o_nonblock_set_during_a_read_wakes_nobody;
    kernel("Rust does not close an end that is in use"), threads("one descriptor table"):
        item_33_a_close_during_a_read_is_none;
    processes("threads stop together"):
        item_34_stop_and_continue_interrupts_nothing;
    kernel("Rust has no bad addresses"):
        item_28_length_0_checks_no_address,
        item_29_a_bad_buffer_is_efault_and_bytes_stay,
        item_29_whole_slots_before_the_fault_are_returned;
    kernel("Rust has no bad counts"):
        item_30_readv_refuses_bad_counts;
}

fn item_23_empty_pipe_sleeps_or_eagain(s: Setting) {
    let (r, w) = s.pipe();
    r.set_nonblocking(true);
    assert_eq!(r.read(10), Err(Fail::AGAIN));
    r.set_nonblocking(false);
    let reader = s.spawn(r, |r| r.read(10));
    reader.until_asleep();
    assert_eq!(w.write(b"late"), Ok(4));
    assert_eq!(reader.join(), Ok(b"late".to_vec()));

    let (r, _w) = s.pipe_with(&Options {
        nonblocking: true,
        ..Options::default()
    });
    assert_eq!(s.spawn(r, |r| r.read(10)).join(), Err(Fail::AGAIN));
}

fn item_24_no_writer_is_end_of_file_every_time(s: Setting) {
    let (r, w) = s.pipe();
    s.spawn(w, drop).join();
    for nonblocking in [false, true] {
        r.set_nonblocking(nonblocking);
        for _ in 0..3 {
            assert_eq!(r.read(10), Ok(vec![]));
        }
    }
}

fn item_25_data_left_behind_comes_before_end_of_file(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(s.spawn(w, |w| w.write(b"left behind")).join(), Ok(11));
    assert_eq!(r.read(5), Ok(b"left ".to_vec()));
    assert_eq!(r.read(100), Ok(b"behind".to_vec()));
    assert_eq!(r.read(100), Ok(vec![]));
}

fn item_26_read_returns_what_is_there(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(b"five."), Ok(5));
    // The writer stays, so a read that waited for more would never return.
    assert_eq!(s.spawn(r, |r| r.read(100)).join(), Ok(b"five.".to_vec()));
}

fn item_27_successive_writes_are_one_stream(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(
        s.spawn(w, |w| (w.write(b"abc"), w.write(b"def"))).join(),
        (Ok(3), Ok(3))
    );
    assert_eq!(r.read(100), Ok(b"abcdef".to_vec()));
}

fn item_28_length_0_returns_0(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(r.read(0), Ok(vec![]), "no sleep");
    r.set_nonblocking(true);
    assert_eq!(r.read(0), Ok(vec![]), "no EAGAIN");
    r.set_nonblocking(false);
    assert_eq!(w.write(b"kept"), Ok(4));
    assert_eq!(r.read(0), Ok(vec![]));
    assert_eq!(r.read(9), Ok(b"kept".to_vec()), "nothing was consumed");
    drop(w);
    assert_eq!(r.read(0), Ok(vec![]));
}

fn item_28_length_0_checks_no_address(s: Setting) {
    let (r, _w) = s.pipe();
    assert_eq!(raw::read_nowhere(r.fd(), 0), Ok(0));
}

fn item_29_a_bad_buffer_is_efault_and_bytes_stay(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(&pattern(PAGE)), Ok(PAGE));
    assert_eq!(raw::read_nowhere(r.fd(), PAGE), Err(Fail::FAULT));
    let buffer = raw::PageBeforeNothing::new();
    for good in [0, 1, 100, PAGE - 1] {
        let outcome = buffer.read_into_last(r.fd(), good, PAGE);
        assert_eq!(outcome, Err(Fail::FAULT), "{good} good bytes");
    }
    assert_eq!(s.spawn(r, |r| r.read(2 * PAGE)).join(), Ok(pattern(PAGE)));
}

fn item_29_whole_slots_before_the_fault_are_returned(s: Setting) {
    let (r, w) = s.pipe();
    let bytes = pattern(2 * PAGE);
    assert_eq!(s.spawn(w, move |w| w.write(&bytes)).join(), Ok(2 * PAGE));
    let buffer = raw::PageBeforeNothing::new();
    assert_eq!(buffer.read_into_last(r.fd(), PAGE, 2 * PAGE), Ok(PAGE));
    assert_eq!(r.read(2 * PAGE), Ok(pattern(2 * PAGE)[PAGE..].to_vec()));
}

fn item_30_readv_fills_in_order(s: Setting) {
    let (r, w) = s.pipe();
    let mut first = [0; 2];
    let mut empty = [0; 0];
    let mut last = [0; 4];
    let mut bufs = [&mut first[..], &mut empty[..], &mut last[..]].map(IoSliceMut::new);
    assert_eq!(s.spawn(w.try_clone(), |w| w.write(b"abcde")).join(), Ok(5));
    assert_eq!(r.read_vectored(&mut bufs), Ok(5));
    assert_eq!((&first, &last), (b"ab", b"cde\0"));

    // On an empty pipe, which a read would sleep on.
    assert_eq!(r.read_vectored(&mut []), Ok(0));
    let mut also_empty = [0; 0];
    let mut bufs = [&mut empty[..], &mut also_empty[..]].map(IoSliceMut::new);
    assert_eq!(r.read_vectored(&mut bufs), Ok(0));
}

fn item_30_readv_refuses_bad_counts(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(b"x"), Ok(1));
    assert_eq!(raw::readv_nowhere(r.fd(), -1, 0), Err(Fail::INVAL));
    assert_eq!(raw::readv_nowhere(r.fd(), 1024, 0), Ok(0));
    assert_eq!(raw::readv_nowhere(r.fd(), 1025, 0), Err(Fail::INVAL));
    assert_eq!(raw::readv_nowhere(r.fd(), 1, usize::MAX), Err(Fail::INVAL));
}

fn item_31_one_write_wakes_as_many_readers_as_it_feeds(s: Setting) {
    let (r, w) = s.pipe();
    let (told, tell) = s.pipe();
    let readers: Vec<Peer<Vec<u8>>> = (0..3)
        .map(|_| {
            s.spawn((r.try_clone(), tell.try_clone()), |(r, tell)| {
                let got = r.read(4).unwrap();
                assert_eq!(tell.write(b"."), Ok(1));
                got
            })
        })
        .collect();
    readers.iter().for_each(Peer::until_asleep);
    assert_eq!(w.write(b"1st"), Ok(3));
    assert_eq!(told.read(9), Ok(b".".to_vec()), "one reader takes it");
    assert_eq!(w.write(b"2nd 3rd"), Ok(7));
    assert_eq!(
        told.read_exactly(2),
        b"..",
        "what it leaves goes to another"
    );
    let mut got: Vec<_> = readers.into_iter().map(Peer::join).collect();
    got.sort();
    assert_eq!(got, [&b"1st"[..], b"2nd ", b"3rd"]);
}

fn item_31_each_byte_goes_to_exactly_one_reader(s: Setting) {
    const PIECES: u16 = 20_000;
    let (r, w) = s.pipe();
    let reader = |r| s.spawn(r, |r: crate::ends::Reader| r.read_to_end());
    let readers = [reader(r.try_clone()), reader(r.try_clone()), reader(r)];
    for piece in 0..PIECES {
        assert_eq!(w.write(&piece.to_le_bytes()), Ok(2));
    }
    drop(w);
    let mut seen = [0u32; 256];
    for byte in readers.into_iter().flat_map(Peer::join) {
        seen[usize::from(byte)] += 1;
    }
    let mut sent = [0u32; 256];
    for byte in (0..PIECES).flat_map(u16::to_le_bytes) {
        sent[usize::from(byte)] += 1;
    }
    assert_eq!(seen, sent);
}

fn item_32_last_writers_close_wakes_every_reader(s: Setting) {
    let (r, w) = s.pipe();
    let spawn = |_| s.spawn(r.try_clone(), |r| r.read(1));
    let readers: Vec<_> = (0..20).map(spawn).collect();
    readers.iter().for_each(Peer::until_asleep);
    drop(w);
    for reader in readers {
        assert_eq!(reader.join(), Ok(vec![]));
    }
}

fn item_33_o_nonblock_set_during_a_read_wakes_nobody(s: Setting) {
    let (r, w) = s.pipe();
    let reader = s.spawn(r.try_clone(), |r| (r.read(10), r.read(10)));
    reader.until_asleep();
    r.set_nonblocking(true);
    reader.until_asleep();
    assert_eq!(w.write(b"late"), Ok(4));
    assert_eq!(reader.join(), (Ok(b"late".to_vec()), Err(Fail::AGAIN)));
}

fn item_33_a_close_during_a_read_is_none(s: Setting) {
    let (r, w) = s.pipe();
    let fd = r.fd();
    let reader = s.spawn(r, |r| r.read(10));
    reader.until_asleep();
    // Closes the number, and leaves it in somebody's hands.
    let null = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(raw::dup2(null.as_raw_fd(), fd), Ok(fd));
    reader.until_asleep();
    assert_eq!(w.write(b"late"), Ok(4), "the read keeps the end");
    assert_eq!(reader.join(), Ok(b"late".to_vec()));
    signals::ignore(Signal::PIPE);
    assert_eq!(w.write(b"x"), Err(Fail::PIPE), "until it returns");
}

fn item_34_signal_interrupts_a_sleeping_read(s: Setting) {
    signals::handle(Signal::USR1, false);
    let (r, w) = s.pipe();
    let reader = s.spawn(r.try_clone(), |r| r.read(10));
    reader.until_asleep();
    reader.signal(Signal::USR1);
    assert_eq!(reader.join(), Err(Fail::INTR));
    assert_eq!(signals::next_ring().signal, Signal::USR1.as_raw());
    assert_eq!(w.write(&pattern(5)), Ok(5));
    assert_eq!(r.read(10), Ok(pattern(5)), "the pipe is as good as before");
}

fn item_34_signal_interrupts_one_of_several_sleeping_reads(s: Setting) {
    signals::handle(Signal::USR1, false);
    let (r, w) = s.pipe();
    let mut readers: Vec<_> = (0..3)
        .map(|_| s.spawn(r.try_clone(), |r| r.read(10)))
        .collect();
    readers.iter().for_each(Peer::until_asleep);
    // Neither the first nor the last that went to sleep.
    let reader = readers.remove(1);
    reader.signal(Signal::USR1);
    assert_eq!(reader.join(), Err(Fail::INTR));
    readers.iter().for_each(Peer::until_asleep);
    drop(w);
    for reader in readers {
        assert_eq!(reader.join(), Ok(vec![]), "the others slept on");
    }
}

fn item_34_with_sa_restart_a_sleeping_read_goes_on(s: Setting) {
    signals::handle(Signal::USR1, true);
    let (r, w) = s.pipe();
    let reader = s.spawn(r, |r| r.read(10));
    for _ in 0..3 {
        reader.until_asleep();
        reader.signal(Signal::USR1);
        assert_eq!(signals::next_ring().tid, reader.tid());
    }
    reader.until_asleep();
    assert_eq!(w.write(b"late"), Ok(4));
    assert_eq!(reader.join(), Ok(b"late".to_vec()));
}

fn item_34_stop_and_continue_interrupts_nothing(s: Setting) {
    let (r, w) = s.pipe();
    let reader = s.spawn(r, |r| r.read(10));
    reader.until_asleep();
    reader.stop();
    reader.signal(Signal::CONT);
    reader.until_asleep();
    assert_eq!(w.write(b"late"), Ok(4));
    assert_eq!(reader.join(), Ok(b"late".to_vec()));
}
