//! Packet mode (items 108 to 113). Packets go through the kernel's pipe.

use std::io::{IoSlice, IoSliceMut};

use rustix::event::PollFlags;
use rustix::pipe::{SpliceFlags, splice, tee};

use super::{PAGE, PIPE_BUF, pattern};
use crate::ends::{Reader, Writer, kind};
use crate::fail::Fail;
use crate::raw::{self, borrow};
use crate::remote::{Remote, Warmth};
use crate::setting::Setting;
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends carry streams"):
        item_108_a_write_is_a_packet,
        item_108_a_large_write_is_several,
        item_109_a_read_takes_one_packet,
        item_109_nothing_is_no_packet,
        item_109_readv_scatters_one_packet,
        item_110_a_packet_takes_a_slot,
        item_111_the_mode_can_be_switched,
        item_111_the_mode_is_that_of_the_writers_description,
        item_112_a_read_stops_behind_a_packet,
        item_112_a_packet_behind_stream_bytes_may_lose_its_boundary,
        item_113_splice_and_tee_look_at_bytes;
}

/// Switches packet mode of a description on or off, for whoever uses the descriptor.
fn set_packets(w: &Writer, yes: bool) {
    let others = raw::fcntl(w.fd(), libc::F_GETFL, 0).unwrap() & !libc::O_DIRECT;
    let flag = if yes { libc::O_DIRECT } else { 0 };
    raw::fcntl(w.fd(), libc::F_SETFL, others | flag).unwrap();
    w.use_kernel();
}

/// A pipe in packet mode with the read end here, new or used before.
fn packets_to_here(s: Setting, warmth: Warmth) -> (Reader, Remote<kind::Write>) {
    let (r, w) = s.pipe();
    for _ in 0..warmth.pieces() {
        assert_eq!((w.write(b"warm"), r.read(9)), (Ok(4), Ok(b"warm".to_vec())));
    }
    set_packets(&w, true);
    (r, s.remote(w))
}

fn item_108_a_write_is_a_packet(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = packets_to_here(s, warmth);
        for packet in [1, 5, 100, PIPE_BUF] {
            assert_eq!(w.write(&pattern(packet)), Ok(packet));
        }
        for packet in [1, 5, 100, PIPE_BUF] {
            assert_eq!(r.read(10_000), Ok(pattern(packet)));
        }
    }
    let (r, w) = s.pipe();
    set_packets(&w, true);
    let writer = s.spawn(w, |w| {
        let parts = [&b"ab"[..], b"", b"cde"].map(IoSlice::new);
        (w.write_vectored(&parts), w.write(b"next"))
    });
    assert_eq!(writer.join(), (Ok(5), Ok(4)));
    assert_eq!(r.read(99), Ok(b"abcde".to_vec()), "one writev, one packet");
}

fn item_108_a_large_write_is_several(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = packets_to_here(s, warmth);
        let bytes = pattern(10_000);
        assert_eq!(w.write(&bytes), Ok(10_000));
        for packet in [0..4096, 4096..8192, 8192..10_000] {
            assert_eq!(r.read(10_000), Ok(bytes[packet].to_vec()));
        }
    }
}

fn item_109_a_read_takes_one_packet(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = packets_to_here(s, warmth);
        assert_eq!((w.write(b"shortened"), w.write(b"whole")), (Ok(9), Ok(5)));
        assert_eq!(r.read(5), Ok(b"short".to_vec()));
        assert_eq!(r.read(99), Ok(b"whole".to_vec()), "the rest is gone");
    }
}

fn item_109_nothing_is_no_packet(s: Setting) {
    let (r, w) = packets_to_here(s, Warmth::Cold);
    assert_eq!(
        (w.write(b""), w.write(b"some"), w.write(b"")),
        (Ok(0), Ok(4), Ok(0))
    );
    assert_eq!(r.read(0), Ok(vec![]));
    assert_eq!(r.read(99), Ok(b"some".to_vec()));
    r.set_nonblocking(true);
    assert_eq!(r.read(99), Err(Fail::AGAIN));
}

fn item_109_readv_scatters_one_packet(s: Setting) {
    let (r, w) = packets_to_here(s, Warmth::Cold);
    assert_eq!((w.write(b"scattered"), w.write(b"next")), (Ok(9), Ok(4)));
    let (mut first, mut second) = ([0; 4], [0; 50]);
    let mut bufs = [&mut first[..], &mut second[..]].map(IoSliceMut::new);
    assert_eq!(r.read_vectored(&mut bufs), Ok(9));
    assert_eq!((&first, &second[..5]), (b"scat", &b"tered"[..]));
    assert_eq!(r.read(99), Ok(b"next".to_vec()));
}

fn item_110_a_packet_takes_a_slot(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = packets_to_here(s, warmth);
        w.set_nonblocking(true);
        for _ in 0..16 {
            assert_eq!(w.write(b"x"), Ok(1));
        }
        assert_eq!(w.write(b"x"), Err(Fail::AGAIN));
        assert_eq!(w.events(), PollFlags::empty());
        assert_eq!(r.unread_bytes(), Ok(16), "the sum");
        assert_eq!(w.set_capacity_bytes(8 * PAGE), Err(Fail::BUSY));
        assert_eq!(r.read(99), Ok(b"x".to_vec()));
        assert_eq!(w.events(), PollFlags::OUT | PollFlags::WRNORM);
        assert_eq!(w.write(b"x"), Ok(1));
    }
}

fn item_111_the_mode_can_be_switched(s: Setting) {
    let (r, w) = s.pipe();
    let check = move |w: &Writer| {
        set_packets(w, true);
        assert_eq!((w.write(b"packet"), w.write(b"another")), (Ok(6), Ok(7)));
        set_packets(w, false);
        assert_eq!((w.write(b"str"), w.write(b"eam")), (Ok(3), Ok(3)));
    };
    check(&w);
    for packet in [&b"packet"[..], b"another", b"stream"] {
        assert_eq!(
            r.read(99),
            Ok(packet.to_vec()),
            "queued packets stay packets"
        );
    }
    s.spawn(w, move |w| check(&w)).join();
    for packet in [&b"packet"[..], b"another", b"stream"] {
        assert_eq!(r.read(99), Ok(packet.to_vec()));
    }
}

fn item_111_the_mode_is_that_of_the_writers_description(s: Setting) {
    use rustix::fs::OFlags;
    let path = s.fifo();
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let packets: Writer = s.open(&path, OFlags::WRONLY).unwrap();
    set_packets(&packets, true);
    let stream: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    assert_eq!(
        (packets.write(b"one"), packets.write(b"two")),
        (Ok(3), Ok(3))
    );
    assert_eq!((stream.write(b"thr"), stream.write(b"ee")), (Ok(3), Ok(2)));
    let copy = packets.try_clone();
    assert_eq!(copy.write(b""), Ok(0));
    for packet in [&b"one"[..], b"two", b"three"] {
        assert_eq!(r.read(99), Ok(packet.to_vec()));
    }
    assert_eq!((copy.write(b"four"), copy.write(b"five")), (Ok(4), Ok(4)));
    assert_eq!(r.read(99), Ok(b"four".to_vec()), "a copy shares it");
}

fn item_112_a_read_stops_behind_a_packet(s: Setting) {
    let (r, w) = s.pipe();
    set_packets(&w, false);
    // A whole slot, so that the packet has one of its own.
    assert_eq!(w.write(&pattern(PAGE)), Ok(PAGE));
    set_packets(&w, true);
    assert_eq!((w.write(b"packet"), w.write(b"next")), (Ok(6), Ok(4)));
    let expected = [&pattern(PAGE), &b"packet"[..]].concat();
    let reader = s.spawn(r, |r| (r.read(10_000), r.read(10_000)));
    assert_eq!(reader.join(), (Ok(expected), Ok(b"next".to_vec())));
}

fn item_112_a_packet_behind_stream_bytes_may_lose_its_boundary(s: Setting) {
    let (r, w) = s.pipe();
    set_packets(&w, false);
    assert_eq!(w.write(b"stream,"), Ok(7));
    set_packets(&w, true);
    assert_eq!((w.write(b"merged,"), w.write(b"packet")), (Ok(7), Ok(6)));
    let reader = s.spawn(r, |r| (r.read(7), r.read(99)));
    let came = reader.join();
    assert_eq!(
        came,
        (Ok(b"stream,".to_vec()), Ok(b"merged,packet".to_vec()))
    );
}

fn item_113_splice_and_tee_look_at_bytes(s: Setting) {
    let (r, w) = packets_to_here(s, Warmth::Cold);
    let (to_r, to_w) = s.pipe();
    to_w.use_kernel();
    to_r.use_kernel();
    r.use_kernel();
    let flags = SpliceFlags::empty();
    let (from, to) = (borrow(r.fd()), borrow(to_w.fd()));
    assert_eq!((w.write(b"first"), w.write(b"second")), (Ok(5), Ok(6)));
    assert_eq!(tee(from, to, 8, flags), Ok(8));
    for part in [&b"first"[..], b"sec"] {
        assert_eq!(
            to_r.read(99),
            Ok(part.to_vec()),
            "slots keep their boundary"
        );
    }
    assert_eq!(splice(from, None, to, None, 3, flags), Ok(3));
    assert_eq!(
        r.read(99),
        Ok(b"st".to_vec()),
        "the rest of the packet is left"
    );
    assert_eq!(splice(from, None, to, None, 99, flags), Ok(6));
    for part in [&b"fir"[..], b"second"] {
        assert_eq!(to_r.read(99), Ok(part.to_vec()));
    }
}
