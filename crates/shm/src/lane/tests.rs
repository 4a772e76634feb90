use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use standpipe_core::size::PAGE_BYTES;

use super::*;

fn size(capacity_bytes: usize) -> PipeSize {
    PipeSize::from_bytes(capacity_bytes, None).unwrap()
}

fn lane(capacity_bytes: usize) -> Lane {
    Lane::new(size(capacity_bytes), Wake::PerSegment).unwrap()
}

fn write(lane: &Lane, bytes: &[u8]) -> Result<usize, LaneError> {
    let slices = [IoSlice::new(bytes)];
    let mut source = Gather::new(&slices);
    lane.try_write(&mut source, 0, || 0)
        .map(|_| source.done_bytes())
}

fn read(lane: &Lane, bytes: usize) -> Result<Vec<u8>, LaneError> {
    let mut buffer = vec![0; bytes];
    let taken = lane.try_read(&mut Scatter::new(&mut [IoSliceMut::new(&mut buffer)]))?;
    buffer.truncate(taken);
    Ok(buffer)
}

#[test]
fn the_ring_is_filled_to_the_last_byte_and_emptied_in_order() {
    let lane = lane(8192);
    for round in 0_u8..50 {
        let bytes: Vec<u8> = (0..=250)
            .cycle()
            .take(8192)
            .map(|n: u8| n ^ round)
            .collect();
        assert_eq!(write(&lane, &bytes[..5000]).unwrap(), 5000);
        assert_eq!(
            write(&lane, &bytes[5000..]).unwrap(),
            3192,
            "a small write is atomic, and fits"
        );
        assert_eq!(write(&lane, &[1]).unwrap(), 0);
        assert_eq!(read(&lane, 1).unwrap(), bytes[..1]);
        assert_eq!(
            write(&lane, &[1, 2]).unwrap(),
            0,
            "one byte of room, two at once"
        );
        assert_eq!(read(&lane, 9000).unwrap(), bytes[1..]);
    }
}

#[test]
fn memory_comes_in_bulk_before_the_lock_and_never_again() {
    let lane = lane(64 * PAGE_BYTES);
    write(&lane, &[1]).unwrap();
    assert_eq!(
        lane.stats(Side::Writer).pages_populated_outside,
        8,
        "a bulk, for one byte"
    );
    write(&lane, &vec![2; 7 * PAGE_BYTES]).unwrap();
    assert_eq!(
        lane.stats(Side::Writer).pages_populated_outside,
        8,
        "the reserve was enough"
    );
    for _ in 0..100 {
        write(&lane, &vec![3; 9 * PAGE_BYTES]).unwrap();
        read(&lane, 9 * PAGE_BYTES).unwrap();
    }
    for side in [Side::Writer, Side::Reader] {
        let stats = lane.stats(side);
        assert_eq!(
            stats.pages_populated_outside, 64,
            "{side:?}: each page once"
        );
        assert_eq!(stats.pages_populated_inside, 0, "{side:?}");
    }
}

#[test]
fn a_reserve_that_somebody_else_used_up_is_made_up_for_inside_the_lock() {
    let lane = lane(64 * PAGE_BYTES);
    let bytes = vec![1; 3 * PAGE_BYTES];
    let slices = [IoSlice::new(&bytes)];
    let guard = lane.lock(Side::Writer).unwrap();
    // As if the reserve of `try_write` had been for other positions.
    assert_eq!(
        lane.write_locked(
            By::Bell,
            lane.current_ring().unwrap(),
            &mut Gather::new(&slices),
            &mut 0,
            0,
            || 0
        )
        .unwrap(),
        Written::All
    );
    drop(guard);
    let stats = lane.stats(Side::Writer);
    assert_eq!(
        (stats.pages_populated_outside, stats.pages_populated_inside),
        (0, 3)
    );
}

#[test]
fn running_out_of_memory_is_an_error_of_that_call_and_loses_nothing() {
    let file = memfd_create("short", MemfdFlags::CLOEXEC).unwrap();
    // The header and ten pages of a ring of sixteen.
    ftruncate(&file, 11 * PAGE_BYTES as u64).unwrap();
    let memory = Memory::create_over(file.into(), 16 * PAGE_BYTES).unwrap();
    let lane = Lane::over(memory, size(16 * PAGE_BYTES), Wake::PerSegment).unwrap();
    let first = vec![1; 8 * PAGE_BYTES];
    assert_eq!(write(&lane, &first).unwrap(), first.len());
    let error = io::Error::from(write(&lane, &[2]).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("ring"), "{error}");
    assert_eq!(read(&lane, 1 << 20).unwrap(), first);
    assert_eq!(lane.queued_bytes(), 0);
}

#[test]
fn nonsense_positions_are_reported_to_both_sides() {
    for (head, tail) in [
        (5, 0),
        (0, 8193),
        (u64::MAX, 0),
        (0, u64::MAX),
        (1 << 40, 3),
    ] {
        let lane = lane(8192);
        write(&lane, b"some").unwrap();
        lane.header().head.0.store(head, Ordering::Relaxed);
        lane.header().tail.0.store(tail, Ordering::Relaxed);
        for seen in [
            &lane.header().writer.0.seen_head,
            &lane.header().reader.0.seen_tail,
        ] {
            seen.store(0, Ordering::Relaxed);
        }
        if let Err(error) = write(&lane, &[0; 9000]) {
            assert!(error.to_string().contains("lane corrupted"), "{error}");
        }
        let _ = read(&lane, 9000);
        let all_well = write(&lane, &[0; 9000]).is_ok() && read(&lane, 9000).is_ok();
        let consistent = queued_bytes(head, tail, 8192).is_ok();
        assert!(
            consistent || !all_well,
            "head {head} tail {tail} went unnoticed"
        );
    }
}

#[test]
fn nobody_rings_for_a_peer_that_is_awake() {
    let lane = lane(8192);
    write(&lane, b"abc").unwrap();
    assert_eq!(
        (
            lane.stats(Side::Writer).wakeups_sent,
            lane.stats(Side::Writer).wakeups_saved
        ),
        (0, 1)
    );
    read(&lane, 3).unwrap();
    let seat = lane.take_seat(Side::Reader, 1, true).unwrap().unwrap();
    assert!(seat.arm(1), "empty: sleep");
    write(&lane, b"abc").unwrap();
    assert!(!seat.arm(1), "three bytes: do not sleep");
    assert_eq!(
        (
            lane.stats(Side::Writer).wakeups_sent,
            lane.stats(Side::Writer).wakeups_saved
        ),
        (1, 1)
    );
}

#[test]
fn a_sleeping_writer_is_woken_for_a_segment_or_for_all_it_wants() {
    let lane = lane(64 << 10); // segments of 16 KiB
    write(&lane, &vec![0; 64 << 10]).unwrap();
    let rings = || lane.stats(Side::Reader).wakeups_sent;
    let seat = lane
        .take_seat(Side::Writer, 1 << 20, true)
        .unwrap()
        .unwrap();
    assert!(seat.arm(1 << 20));
    read(&lane, 10_000).unwrap();
    assert_eq!(rings(), 0, "neither a segment nor all it wants");
    read(&lane, 6_384).unwrap();
    assert_eq!(rings(), 1, "a segment");
    write(&lane, &vec![0; 16 << 10]).unwrap();
    assert!(seat.arm(5000));
    read(&lane, 4999).unwrap();
    assert_eq!(rings(), 1);
    read(&lane, 1).unwrap();
    assert_eq!(rings(), 2, "all it wants");
    write(&lane, &vec![0; 5000]).unwrap();
    assert!(seat.arm(2000));
    read(&lane, 3999).unwrap();
    assert_eq!(rings(), 2);
    assert!(!seat.arm(2000), "nobody sleeps while what it wants fits");
    read(&lane, 1).unwrap();
    assert_eq!(rings(), 3, "two of what it wants");
}

#[test]
fn variant_a_wakes_at_the_end_of_a_transfer_only() {
    for (wake, rings_midway) in [(Wake::PerSegment, true), (Wake::PerTransfer, false)] {
        let lane = Lane::new(size(64 << 10), wake).unwrap();
        let seat = lane.take_seat(Side::Reader, 1, true).unwrap().unwrap();
        assert!(seat.arm(1));
        let bytes = vec![0; 40 << 10];
        let slices = [IoSlice::new(&bytes)];
        let guard = lane.lock(Side::Writer).unwrap();
        assert_eq!(
            lane.write_locked(
                By::Bell,
                lane.current_ring().unwrap(),
                &mut Gather::new(&slices),
                &mut 0,
                0,
                || 0
            )
            .unwrap(),
            Written::All
        );
        drop(guard);
        assert_eq!(
            lane.stats(Side::Writer).wakeups_sent == 1,
            rings_midway,
            "{wake:?}"
        );
    }
}

#[test]
fn a_used_lane_is_as_new_after_a_reset() {
    let mut lane = lane(8192);
    for _ in 0..5 {
        write(&lane, &[1; 3000]).unwrap();
        lane.add_mode(Mode::RETIRED);
        lane.note_departure(Side::Reader);
        lane.reset();
        assert_eq!(lane.queued_bytes(), 0);
        assert_eq!(lane.stats(Side::Writer), Stats::default());
        assert_eq!(lane.mode(Side::Writer), Mode::OPEN);
        assert_eq!(lane.departures_seen_by(Side::Writer), 0);
        assert!(read(&lane, 10).unwrap().is_empty());
        assert_eq!(write(&lane, &[2; 8192]).unwrap(), 8192);
        assert_eq!(read(&lane, 9000).unwrap(), [2; 8192]);
    }
}

#[test]
fn a_resized_lane_keeps_what_is_queued_in_order_for_everybody() {
    let lane = lane(8192);
    let elsewhere = Lane::from_parts(owned(lane.parts())).unwrap();
    let bytes: Vec<u8> = (0..60_000_u32).map(|n| (n % 251) as u8).collect();
    write(&lane, &bytes[..5000]).unwrap();
    assert_eq!(read(&elsewhere, 4000).unwrap(), bytes[..4000]);
    write(&lane, &bytes[5000..10_000]).unwrap();
    lane.resize(size(64 << 10)).unwrap();
    assert_eq!(elsewhere.size().capacity_bytes(), 64 << 10);
    assert_eq!(write(&elsewhere, &bytes[10_000..]).unwrap(), 50_000);
    assert!(matches!(
        lane.resize(size(32 << 10)),
        Err(LaneError::Busy {
            queued_bytes: 56_000,
            ..
        })
    ));
    assert_eq!(read(&lane, 50_000).unwrap(), bytes[4000..54_000]);
    elsewhere.resize(size(8192)).unwrap();
    assert_eq!(
        write(&lane, &[7; 4096]).unwrap(),
        0,
        "one byte of 4096 would not fit"
    );
    assert_eq!(write(&lane, &[7; 2192]).unwrap(), 2192);
    assert_eq!(
        read(&lane, 9000).unwrap(),
        [&bytes[54_000..], &[7; 2192]].concat()
    );
}

fn owned(parts: BorrowedParts<'_>) -> Parts {
    let [memory, reader_bell, writer_bell, presence, read, write] =
        parts.fds.map(|fd| fd.try_clone_to_owned().unwrap());
    Parts {
        size: parts.size,
        wake: parts.wake,
        memory,
        reader_bell,
        writer_bell,
        presence,
        stage: [read, write],
    }
}

#[test]
fn a_mark_that_was_passed_is_served() {
    let lane = lane(8192);
    write(&lane, b"0123456789").unwrap();
    lane.mark_here(2);
    lane.header().head.0.store(3, Ordering::Relaxed);
    assert_eq!(
        read(&lane, 10).unwrap(),
        b"",
        "the kernel pipe's bytes come first"
    );
    let turn = || lane.as_only_reader(|only| only.turn(|| Ok::<_, ()>(7)).unwrap());
    assert_eq!(turn().unwrap(), Turn::Kernel(7));
    lane.as_only_reader(|only| only.set_kernel_due(0)).unwrap();
    assert_eq!(turn().unwrap(), Turn::Lane);
    assert_eq!(read(&lane, 10).unwrap(), b"3456789");
}

#[test]
fn whoever_follows_a_dead_writer_asks_for_bytes_in_the_kernel_pipe() {
    let lane = Arc::new(lane(8192));
    let asks = || {
        let asked = std::cell::Cell::new(false);
        let slices = [IoSlice::new(b"x")];
        let ask = || {
            asked.set(true);
            0
        };
        let _ = lane.try_write(&mut Gather::new(&slices), 0, ask).unwrap();
        asked.get()
    };
    assert_eq!([asks(), asks()], [true, false]);
    let (inside, is_inside) = std::sync::mpsc::channel();
    let dying = lane.clone();
    std::thread::spawn(move || {
        dying.as_only_writer(|| {
            inside.send(()).unwrap();
            // SAFETY: ends this thread as a kill would: nothing of it is cleaned up.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        })
    });
    is_inside.recv().unwrap();
    assert_eq!([asks(), asks()], [true, false]);
    assert_eq!(lane.stats(Side::Writer).owner_deaths, 1);
}

/// Which lock a call says is corrupted, with so many bytes in the lane.
fn told_of(
    scribble: impl Fn(&Header),
    call: impl Fn(&Lane) -> io::Result<()>,
    queued: usize,
) -> String {
    let lane = lane(8192);
    assert_eq!(write(&lane, &vec![0; queued]).unwrap(), queued);
    scribble(lane.header());
    let error = call(&lane).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let text = error.to_string();
    text.split_once(": word corrupted")
        .expect(&text)
        .0
        .to_owned()
}

#[test]
fn a_corrupted_lock_is_named() {
    let sleep = |lane: &Lane, side| lane.take_seat(side, 1, true).map(drop);
    let write = |lane: &Lane| Ok(write(lane, b"some").map(drop)?);
    let read = |lane: &Lane| Ok(read(lane, 9).map(drop)?);
    let (reads, writes) = (Side::Reader, Side::Writer);
    assert_eq!(
        told_of(|at| at.writer.0.lock.scribble(), write, 0),
        "writers' lock"
    );
    assert_eq!(
        told_of(|at| at.reader.0.lock.scribble(), read, 9),
        "readers' lock"
    );
    let told = told_of(
        |at| at.for_writers.0.seat.scribble(),
        |lane| sleep(lane, writes),
        8192,
    );
    assert_eq!(told, "sleeping writers' lock");
    let told = told_of(
        |at| at.for_readers.0.seat.scribble(),
        |lane| sleep(lane, reads),
        0,
    );
    assert_eq!(told, "sleeping readers' lock");
}

/// The last waker of a task is all that keeps it: with it goes what the task has, such as an end.
#[test]
fn a_waker_that_is_replaced_may_take_an_end_of_the_same_lane_with_it() {
    struct Task(Arc<Lane>);
    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Task {
        fn drop(&mut self) {
            self.0.forget_task(Side::Reader, 2);
        }
    }
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lane = Arc::new(lane(8192));
        let task = Arc::new(Task(lane.clone())).into();
        assert!(lane.await_in_task(Side::Reader, 1, 1, &task));
        drop(task);
        assert!(lane.await_in_task(Side::Reader, 1, 1, std::task::Waker::noop()));
        assert_eq!(Arc::strong_count(&lane), 1, "the task is gone");
        tell.send(()).unwrap();
    });
    hear.recv_timeout(Duration::from_secs(60)).expect("hangs");
}
