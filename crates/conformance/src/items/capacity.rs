//! Capacity (items 100 to 104).

use std::os::fd::AsRawFd;

use rustix::fs::{Mode, OFlags};

use super::{CAPACITY, PAGE, fill, pattern};
use crate::ends::Both;
use crate::fail::Fail;
use crate::peer::Peer;
use crate::raw;
use crate::remote::Warmth;
use crate::setting::Setting;
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends have the capacity that they were made with"):
        item_100_either_end_tells_and_sets_the_one_capacity,
        item_100_a_fifo_has_one_too,
        item_101_sizes_are_rounded_up_to_a_power_of_two_of_pages,
        item_101_a_pipe_takes_what_its_size_says,
        item_102_more_than_2_gib_is_einval,
        item_103_shrinking_below_what_is_queued_is_ebusy,
        item_103_shrinking_keeps_what_is_queued,
        item_104_growing_keeps_what_is_queued,
        item_104_growing_wakes_sleeping_writers;
    kernel("Rust's sizes are unsigned and have 64 bits"):
        item_101_the_size_has_32_bits,
        item_102_a_negative_size_is_einval;
    kernel("nothing else is an end"):
        item_100_anything_else_is_ebadf;
    kernel("room is counted in bytes"):
        item_103_what_is_queued_is_counted_in_slots;
}

fn item_100_either_end_tells_and_sets_the_one_capacity(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        assert_eq!(
            (r.capacity_bytes(), w.capacity_bytes()),
            (Ok(CAPACITY), Ok(CAPACITY))
        );
        assert_eq!(w.set_capacity_bytes(1 << 20), Ok(1 << 20));
        assert_eq!(
            (r.capacity_bytes(), w.capacity_bytes()),
            (Ok(1 << 20), Ok(1 << 20))
        );
        assert_eq!(r.set_capacity_bytes(PAGE), Ok(PAGE));
        assert_eq!(
            (r.capacity_bytes(), w.capacity_bytes()),
            (Ok(PAGE), Ok(PAGE))
        );
        assert_eq!(w.write(b"works"), Ok(5));
        assert_eq!(r.read(9), Ok(b"works".to_vec()));
    }
}

fn item_100_a_fifo_has_one_too(s: Setting) {
    let path = s.fifo();
    let both: Both = s.open(&path, OFlags::RDWR).unwrap();
    let set = {
        let path = path.clone();
        s.spawn((), move |()| {
            let other: Both = s.open(&path, OFlags::RDWR).unwrap();
            (other.capacity_bytes(), other.set_capacity_bytes(2 * PAGE))
        })
    };
    assert_eq!(set.join(), (Ok(CAPACITY), Ok(2 * PAGE)));
    assert_eq!(both.capacity_bytes(), Ok(2 * PAGE));
}

fn item_100_anything_else_is_ebadf(s: Setting) {
    let null = std::fs::File::open("/dev/null").unwrap();
    let path = rustix::fs::open(&*s.fifo(), OFlags::PATH, Mode::empty()).unwrap();
    let closed = raw::dup(null.as_raw_fd()).unwrap();
    raw::close(closed).unwrap();
    for fd in [null.as_raw_fd(), path.as_raw_fd(), closed] {
        assert_eq!(raw::fcntl(fd, libc::F_GETPIPE_SZ, 0), Err(Fail::BADF));
        assert_eq!(raw::set_pipe_size(fd, 4096), Err(Fail::BADF));
    }
}

fn item_101_sizes_are_rounded_up_to_a_power_of_two_of_pages(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        for (asked, given) in [
            (0, 4096),
            (1, 4096),
            (4095, 4096),
            (4096, 4096),
            (4097, 8192),
            (12_288, 16_384),
            (65_536, 65_536),
            (65_537, 131_072),
            (1_000_000, 1_048_576),
        ] {
            assert_eq!(w.set_capacity_bytes(asked), Ok(given), "{asked}");
            assert_eq!(
                (w.capacity_bytes(), r.capacity_bytes()),
                (Ok(given), Ok(given))
            );
        }
    }
}

fn item_101_a_pipe_takes_what_its_size_says(s: Setting) {
    for warmth in Warmth::BOTH {
        for capacity in [PAGE, 2 * PAGE, 16 * CAPACITY] {
            let (r, w) = s.writer_here(warmth);
            assert_eq!(w.set_capacity_bytes(capacity), Ok(capacity));
            w.set_nonblocking(true);
            let bytes = pattern(capacity + PAGE);
            assert_eq!(w.write(&bytes), Ok(capacity));
            assert_eq!(w.write(b"x"), Err(Fail::AGAIN));
            assert!(r.read_exactly(capacity) == bytes[..capacity]);
        }
    }
}

fn item_101_the_size_has_32_bits(s: Setting) {
    let (_r, w) = s.pipe();
    assert_eq!(raw::set_pipe_size(w.fd(), 1 << 32), Ok(PAGE));
    assert_eq!(raw::set_pipe_size(w.fd(), (1 << 32) | 0x1f40), Ok(2 * PAGE));
}

fn item_102_more_than_2_gib_is_einval(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        for bytes in [(1 << 31) + 1, 3 << 30, u32::MAX as usize] {
            assert_eq!(r.set_capacity_bytes(bytes), Err(Fail::INVAL));
            assert_eq!(w.set_capacity_bytes(bytes), Err(Fail::INVAL));
        }
        assert_eq!(r.capacity_bytes(), Ok(CAPACITY));
    }
}

fn item_102_a_negative_size_is_einval(s: Setting) {
    let (_r, w) = s.pipe();
    for bytes in [-1, -4096, i32::MIN + 1] {
        assert_eq!(
            raw::fcntl(w.fd(), libc::F_SETPIPE_SZ, bytes),
            Err(Fail::INVAL)
        );
    }
}

fn item_103_shrinking_below_what_is_queued_is_ebusy(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        let bytes = fill(&w);
        for smaller in [PAGE, CAPACITY / 2] {
            assert_eq!(w.set_capacity_bytes(smaller), Err(Fail::BUSY));
            assert_eq!(r.set_capacity_bytes(smaller), Err(Fail::BUSY));
        }
        assert_eq!(w.capacity_bytes(), Ok(CAPACITY));
        assert!(r.read_exactly(CAPACITY) == bytes);
    }
}

fn item_103_what_is_queued_is_counted_in_slots(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(&[b'x'; PAGE]), Ok(PAGE));
    assert_eq!(w.write(&[b'x'; 100]), Ok(100));
    drop(r.read_exactly(PAGE - 5));
    assert_eq!(
        w.set_capacity_bytes(PAGE),
        Err(Fail::BUSY),
        "105 bytes in 2 slots"
    );
    drop(r.read_exactly(5));
    assert_eq!(w.set_capacity_bytes(PAGE), Ok(PAGE));
}

fn item_103_shrinking_keeps_what_is_queued(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        let bytes = pattern(6 * PAGE);
        assert_eq!(w.write(&bytes[..4 * PAGE]), Ok(4 * PAGE));
        assert!(r.read_exactly(PAGE) == bytes[..PAGE]);
        assert_eq!(w.set_capacity_bytes(4 * PAGE), Ok(4 * PAGE));
        w.set_nonblocking(true);
        assert_eq!(w.write(&bytes[4 * PAGE..5 * PAGE]), Ok(PAGE));
        assert_eq!(w.write(b"x"), Err(Fail::AGAIN), "full");
        assert!(r.read_exactly(4 * PAGE) == bytes[PAGE..5 * PAGE]);
    }
}

fn item_104_growing_keeps_what_is_queued(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        let bytes = pattern(3 * CAPACITY);
        assert_eq!(w.write(&bytes[..CAPACITY]), Ok(CAPACITY));
        assert!(r.read_exactly(PAGE) == bytes[..PAGE]);
        assert_eq!(r.set_capacity_bytes(2 * CAPACITY), Ok(2 * CAPACITY));
        w.set_nonblocking(true);
        assert_eq!(w.write(&bytes[CAPACITY..]), Ok(CAPACITY + PAGE));
        assert_eq!(w.write(b"x"), Err(Fail::AGAIN), "full");
        assert!(r.read_exactly(2 * CAPACITY) == bytes[PAGE..2 * CAPACITY + PAGE]);
    }
}

fn item_104_growing_wakes_sleeping_writers(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        let queued = fill(&w);
        let spawn = |bytes| s.spawn(w.try_clone(), move |w| w.write(&vec![b'x'; bytes]));
        let writers = [1, PAGE, 20_000].map(spawn);
        writers.iter().for_each(Peer::until_asleep);
        assert_eq!(r.set_capacity_bytes(2 * CAPACITY), Ok(2 * CAPACITY));
        for (writer, bytes) in writers.into_iter().zip([1, PAGE, 20_000]) {
            assert_eq!(writer.join(), Ok(bytes));
        }
        assert!(r.read_exactly(CAPACITY) == queued);
        let all = 1 + PAGE + 20_000;
        assert_eq!(r.read_exactly(all), vec![b'x'; all]);
    }
}
