//! Writing (items 35 to 41, 46, 49 to 51).

use std::io::IoSlice;

use rustix::process::Signal;

use super::{CAPACITY, PAGE, PIPE_BUF, fill, pattern};
use crate::ends::Writer;
use crate::engine::Options;
use crate::fail::{Fail, Outcome};
use crate::peer::Peer;
use crate::setting::Setting;
use crate::suite::behaviours;
use crate::{raw, signals};

behaviours! {
    everywhere():
        item_35_writes_up_to_pipe_buf_are_atomic,
        item_35_writev_up_to_pipe_buf_in_total_is_atomic,
        item_36_larger_writes_arrive_whole_and_in_order,
        item_37_small_blocking_write_queues_nothing_until_all_fits,
        item_37_small_blocking_write_sleeps_until_all_fits,
        item_38_small_nonblocking_write_is_all_or_eagain,
        item_39_large_nonblocking_write_writes_what_fits,
        item_40_large_blocking_write_returns_after_everything_is_queued,
        item_41_default_capacity_is_65536_bytewise_and_pagewise,
        item_46_length_0_returns_0,
        item_49_with_sa_restart_a_write_without_progress_goes_on;
    by_calls("a ring looks for room now and then: the signal may come while it is awake"):
        item_49_signal_before_any_byte_is_eintr,
        item_49_signal_interrupts_one_of_several_sleeping_writes;
    by_calls("a wait for completions goes on where handlers ask for that, whatever was moved"):
        item_49_signal_after_some_bytes_gives_the_partial_count;
    kernel("Rust has no bad addresses"):
        item_46_length_0_checks_no_address,
        item_50_a_bad_buffer_is_efault_and_nothing_is_queued,
        item_50_whole_pages_before_the_fault_are_counted,
        item_51_the_largest_count_of_all_is_efault;
    threads("it takes a second"), by_calls("a write of a ring is complete when all is in the pipe"):
        item_51_a_write_is_cut_to_less_than_2_gib;
}

const WRITERS: u8 = 3;
const RECORDS: u16 = 300;

/// A record of `bytes` bytes that shows it if it is mixed with another.
fn record(tag: u8, number: u16, bytes: usize) -> Vec<u8> {
    let [low, high] = number.to_le_bytes();
    let mut record = vec![tag ^ low; bytes];
    record[..3].copy_from_slice(&[tag, low, high]);
    record
}

/// Three writers of records; the reader finds each whole, and each writer's in order.
fn check_atomic(s: Setting, bytes: usize, write: fn(&Writer, &[u8]) -> Outcome) {
    let (r, w) = s.pipe();
    let spawn = |tag| {
        s.spawn(w.try_clone(), move |w| {
            for number in 0..RECORDS {
                assert_eq!(write(&w, &record(tag, number, bytes)), Ok(bytes));
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(spawn).collect();
    drop(w);
    let mut next = [0; WRITERS as usize];
    for _ in 0..u32::from(RECORDS) * u32::from(WRITERS) {
        let got = r.read_exactly(bytes);
        let expected = next
            .get_mut(usize::from(got[0]))
            .expect("a torn record: no such writer");
        assert!(
            got == record(got[0], *expected, bytes),
            "torn: {:?}...",
            &got[..8]
        );
        *expected += 1;
    }
    assert_eq!(r.read(1), Ok(vec![]));
    writers.into_iter().for_each(Peer::join);
}

fn item_35_writes_up_to_pipe_buf_are_atomic(s: Setting) {
    for bytes in [512, 1000, PIPE_BUF] {
        check_atomic(s, bytes, Writer::write);
    }
}

fn item_35_writev_up_to_pipe_buf_in_total_is_atomic(s: Setting) {
    for bytes in [512, PIPE_BUF] {
        check_atomic(s, bytes, |w, bytes| {
            let (a, rest) = bytes.split_at(7);
            let (b, c) = rest.split_at(rest.len() / 2);
            w.write_vectored(&[a, b, &[], c].map(IoSlice::new))
        });
    }
}

fn item_36_larger_writes_arrive_whole_and_in_order(s: Setting) {
    const BYTES: usize = PIPE_BUF + 1;
    const WRITES: usize = 100;
    // A byte says whose it is and, up to a multiple of 61, which.
    let byte = |tag: u8, position: usize| tag << 6 | (position % 61) as u8;
    let (r, w) = s.pipe();
    let spawn = |tag| {
        s.spawn(w.try_clone(), move |w| {
            let all: Vec<_> = (0..WRITES * BYTES)
                .map(|position| byte(tag, position))
                .collect();
            for piece in all.chunks(BYTES) {
                assert_eq!(w.write(piece), Ok(BYTES));
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(spawn).collect();
    drop(w);
    let mut positions = [0; WRITERS as usize];
    for got in r.read_to_end() {
        let tag = got >> 6;
        let position = &mut positions[usize::from(tag)];
        assert_eq!(got, byte(tag, *position), "writer {tag}, byte {position}");
        *position += 1;
    }
    assert_eq!(positions, [WRITES * BYTES; WRITERS as usize]);
    writers.into_iter().for_each(Peer::join);
}

fn item_37_small_blocking_write_queues_nothing_until_all_fits(s: Setting) {
    signals::handle(Signal::USR1, false);
    let (r, w) = s.pipe();
    // 2096 bytes of room, and on the kernel's pipe no free slot.
    let queued = pattern(15 * PAGE + 2000);
    assert_eq!(w.write(&queued), Ok(queued.len()));
    let writer = s.spawn(w, |w| w.write(&[b'x'; PIPE_BUF]));
    writer.until_asleep();
    // Interrupted, the write says whether it had queued something.
    writer.signal(Signal::USR1);
    assert_eq!(writer.join(), Err(Fail::INTR));
    assert!(r.drain() == queued, "something was queued");
}

fn item_37_small_blocking_write_sleeps_until_all_fits(s: Setting) {
    let (r, w) = s.pipe();
    let queued = fill(&w);
    let writer = s.spawn(w, |w| w.write(&[b'x'; PIPE_BUF]));
    writer.until_asleep();
    let mut got = r.read_exactly(PIPE_BUF - 1);
    writer.until_asleep();
    got.extend(r.read_exactly(1));
    assert_eq!(writer.join(), Ok(PIPE_BUF));
    got.extend(r.read_to_end());
    assert!(
        got == [&queued[..], &[b'x'; PIPE_BUF]].concat(),
        "{} bytes came",
        got.len()
    );
}

fn item_38_small_nonblocking_write_is_all_or_eagain(s: Setting) {
    let (r, w) = s.pipe();
    // 1096 bytes of room, and on the kernel's pipe no free slot.
    let queued = pattern(15 * PAGE + 3000);
    assert_eq!(w.write(&queued), Ok(queued.len()));
    w.set_nonblocking(true);
    for bytes in [1097, 2000, PIPE_BUF] {
        let outcome = s
            .spawn(w.try_clone(), move |w| w.write(&vec![b'x'; bytes]))
            .join();
        assert_eq!(outcome, Err(Fail::AGAIN), "{bytes} bytes");
    }
    assert_eq!(w.write(&[b'y'; 1096]), Ok(1096), "what fits goes in");
    assert!(
        r.drain() == [&queued[..], &[b'y'; 1096]].concat(),
        "part of a refused write came"
    );
}

fn item_39_large_nonblocking_write_writes_what_fits(s: Setting) {
    let (r, w) = s.pipe();
    w.set_nonblocking(true);
    let write = |bytes: usize| {
        s.spawn(w.try_clone(), move |w| w.write(&pattern(bytes)))
            .join()
    };
    let written = write(CAPACITY + 10_000).unwrap();
    assert_eq!(written, CAPACITY, "an empty pipe takes its capacity");
    assert_eq!(write(PIPE_BUF + 1), Err(Fail::AGAIN), "nothing fits");
    let mut got = r.read_exactly(PAGE);
    let more = write(10_000).unwrap();
    assert_eq!(more, PAGE);
    got.extend(r.drain());
    assert!(
        got == [pattern(written), pattern(more)].concat(),
        "{} bytes came",
        got.len()
    );
}

fn item_40_large_blocking_write_returns_after_everything_is_queued(s: Setting) {
    const BYTES: usize = 1 << 20;
    let (r, w) = s.pipe();
    let writer = s.spawn(w, |w| w.write(&pattern(BYTES)));
    writer.until_asleep();
    let mut got = r.read_exactly(CAPACITY / 2);
    writer.until_asleep();
    got.extend(r.read_exactly(BYTES - CAPACITY / 2));
    assert_eq!(writer.join(), Ok(BYTES));
    assert!(got == pattern(BYTES), "not the bytes that were written");
    assert_eq!(r.read(1), Ok(vec![]));
}

fn item_41_default_capacity_is_65536_bytewise_and_pagewise(s: Setting) {
    for bytes in [1, PAGE] {
        let (r, w) = s.pipe();
        w.set_nonblocking(true);
        let all = pattern(CAPACITY);
        for piece in all.chunks(bytes) {
            assert_eq!(w.write(piece), Ok(bytes));
        }
        assert_eq!(w.write(b"x"), Err(Fail::AGAIN));
        assert!(r.drain() == all, "filled by {bytes}");
    }
}

fn item_46_length_0_returns_0(s: Setting) {
    signals::handle(Signal::PIPE, false);
    let (r, w) = s.pipe();
    let both = |w: &Writer| {
        (
            w.write(b""),
            w.write_vectored(&[b"", b""].map(|b| IoSlice::new(b))),
        )
    };
    assert_eq!(both(&w), (Ok(0), Ok(0)));
    fill(&w);
    assert_eq!(both(&w), (Ok(0), Ok(0)), "full: no sleep");
    w.set_nonblocking(true);
    assert_eq!(both(&w), (Ok(0), Ok(0)), "full: no EAGAIN");
    drop(r);
    assert_eq!(both(&w), (Ok(0), Ok(0)), "no readers");
    assert!(signals::is_silent());
}

fn item_46_length_0_checks_no_address(s: Setting) {
    let (_r, w) = s.pipe();
    assert_eq!(raw::write_nowhere(w.fd(), 0), Ok(0));
}

fn item_49_signal_before_any_byte_is_eintr(s: Setting) {
    signals::handle(Signal::USR1, false);
    for bytes in [1, 100_000] {
        let (r, w) = s.pipe();
        let queued = fill(&w);
        let writer = s.spawn(w, move |w| w.write(&vec![b'x'; bytes]));
        writer.until_asleep();
        writer.signal(Signal::USR1);
        assert_eq!(writer.join(), Err(Fail::INTR));
        assert!(r.drain() == queued, "something was queued");
    }
}

fn item_49_signal_interrupts_one_of_several_sleeping_writes(s: Setting) {
    signals::handle(Signal::USR1, false);
    let (r, w) = s.pipe();
    fill(&w);
    let spawn = |tag: u8| s.spawn(w.try_clone(), move |w| w.write(&[tag; 10]));
    let mut writers = vec![spawn(b'a'), spawn(b'b'), spawn(b'c')];
    drop(w);
    writers.iter().for_each(Peer::until_asleep);
    let writer = writers.remove(1);
    writer.signal(Signal::USR1);
    assert_eq!(writer.join(), Err(Fail::INTR));
    writers.iter().for_each(Peer::until_asleep);
    let mut got = r.read_to_end().split_off(CAPACITY);
    got.sort_unstable();
    assert_eq!(got, b"aaaaaaaaaacccccccccc", "the others slept on");
    for writer in writers {
        assert_eq!(writer.join(), Ok(10));
    }
}

fn item_49_with_sa_restart_a_write_without_progress_goes_on(s: Setting) {
    signals::handle(Signal::USR1, true);
    for bytes in [1, 100_000] {
        let (r, w) = s.pipe();
        fill(&w);
        let writer = s.spawn(w, move |w| w.write(&vec![b'x'; bytes]));
        writer.until_asleep();
        writer.signal(Signal::USR1);
        assert_eq!(signals::next_ring().tid, writer.tid());
        writer.until_asleep();
        assert_eq!(
            r.read_exactly(CAPACITY + bytes)[CAPACITY..],
            vec![b'x'; bytes]
        );
        assert_eq!(writer.join(), Ok(bytes));
    }
}

fn item_49_signal_after_some_bytes_gives_the_partial_count(s: Setting) {
    for restart in [false, true] {
        signals::handle(Signal::USR1, restart);
        let (r, w) = s.pipe();
        let writer = s.spawn(w, |w| w.write(&pattern(100_000)));
        writer.until_asleep();
        writer.signal(Signal::USR1);
        assert_eq!(writer.join(), Ok(CAPACITY), "SA_RESTART: {restart}");
        assert!(
            r.drain() == pattern(CAPACITY),
            "what was counted is what was queued"
        );
    }
}

fn item_50_a_bad_buffer_is_efault_and_nothing_is_queued(s: Setting) {
    let (r, w) = s.pipe();
    let check = |fd: i32| {
        assert_eq!(raw::write_nowhere(fd, 1), Err(Fail::FAULT));
        let buffer = raw::PageBeforeNothing::new();
        for good in [0, 1, 100, PAGE - 1] {
            let outcome = buffer.write_from_last(fd, good, PAGE);
            assert_eq!(outcome, Err(Fail::FAULT), "{good} good bytes");
        }
    };
    check(w.fd());
    s.spawn(w.try_clone(), move |w| check(w.fd())).join();
    assert_eq!(r.drain(), b"");
}

fn item_50_whole_pages_before_the_fault_are_counted(s: Setting) {
    let (r, w) = s.pipe();
    let writer = s.spawn(w, |w| {
        raw::PageBeforeNothing::new().write_from_last(w.fd(), PAGE, 2 * PAGE)
    });
    assert_eq!(writer.join(), Ok(PAGE));
    assert_eq!(r.read_to_end().len(), PAGE);
}

fn item_51_the_largest_count_of_all_is_efault(s: Setting) {
    let (_r, w) = s.pipe();
    assert_eq!(raw::write_nowhere(w.fd(), usize::MAX), Err(Fail::FAULT));
}

/// What one call moves at most.
const MOST: usize = 0x7fff_f000;

fn item_51_a_write_is_cut_to_less_than_2_gib(s: Setting) {
    let (r, w) = s.pipe_with(&Options {
        capacity_bytes: Some(1 << 20),
        ..Options::default()
    });
    let writer = s.spawn(w, |w| w.write(&raw::zeros(MOST + 2 * PAGE)));
    let mut buf = vec![0; 1 << 20];
    let mut got = 0;
    loop {
        match r.read_into(&mut buf).unwrap() {
            0 => break,
            some => got += some,
        }
    }
    assert_eq!((writer.join(), got), (Ok(MOST), MOST));
}
