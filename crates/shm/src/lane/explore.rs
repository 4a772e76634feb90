//! The lane under loom: a ring of two bytes, chunks and atomic writes of one byte, and every order
//! in which threads and memory may behave (up to the bound of preemptions, see the Makefile).
//!
//! What loom would report: two threads at one slot (torn publish), a deadlock (lost wake-up), a
//! failed assertion (bytes lost, doubled, out of order).

use std::io::{IoSlice, IoSliceMut};

use loom::sync::Arc;
use loom::thread;

use super::*;

mod polled;
mod tasks;

fn lane() -> Arc<Lane> {
    Arc::new(Lane::new(PipeSize::DEFAULT, Wake::PerSegment).unwrap())
}

/// Sleeps as the ends do, on the bell alone: the kernel pipe has nothing to say here.
fn sleep(lane: &Lane, side: Side, wanted_bytes: usize) {
    if let Some(seat) = lane.take_seat(side, wanted_bytes, true).unwrap() {
        if seat.arm(wanted_bytes) {
            seat.bell().wait();
            seat.bell().silence();
        }
    }
}

fn write_all(lane: &Lane, bytes: &[u8]) {
    let slices = [IoSlice::new(bytes)];
    let mut source = Gather::new(&slices);
    while let Written::Full(wanted_bytes) = lane.try_write(&mut source, 0, || 0).unwrap() {
        sleep(lane, Side::Writer, wanted_bytes);
    }
}

fn read_some(lane: &Lane, room_bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; room_bytes];
    loop {
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let bytes = lane.try_read(&mut Scatter::new(&mut slices)).unwrap();
        if bytes > 0 {
            buffer.truncate(bytes);
            return buffer;
        }
        sleep(lane, Side::Reader, 1);
    }
}

fn read_exactly(lane: &Lane, bytes: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < bytes {
        all.extend(read_some(lane, bytes - all.len()));
    }
    all
}

#[test]
fn one_writer_ahead_of_one_reader_loses_nothing_and_both_wake() {
    loom::model(|| {
        let lane = lane();
        let writer = thread::spawn({
            let lane = lane.clone();
            move || write_all(&lane, &[1, 2, 3])
        });
        assert_eq!(read_exactly(&lane, 3), [1, 2, 3]);
        writer.join().unwrap();
        assert_eq!(lane.queued_bytes(), 0);
    });
}

#[test]
fn two_writers_and_a_reader_that_all_have_to_sleep() {
    loom::model(|| {
        let lane = lane();
        let writers = [[1, 2], [11, 12]].map(|bytes| {
            let lane = lane.clone();
            thread::spawn(move || write_all(&lane, &bytes))
        });
        let all = read_exactly(&lane, 4);
        for writer in writers {
            writer.join().unwrap();
        }
        for base in [0, 10] {
            let of_one: Vec<_> = all.iter().filter(|&&b| b / 10 == base / 10).collect();
            assert_eq!(
                of_one,
                [&(base + 1), &(base + 2)],
                "order of one writer in {all:?}"
            );
        }
    });
}

#[test]
fn small_writes_are_not_mixed_into() {
    loom::model(|| {
        let lane = lane();
        let writers = [1, 2].map(|byte| {
            let lane = lane.clone();
            thread::spawn(move || write_all(&lane, &[byte]))
        });
        let mut all = read_exactly(&lane, 2);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

#[test]
fn a_writer_killed_before_it_publishes_never_wrote() {
    loom::model(|| {
        let lane = lane();
        let killed = thread::spawn({
            let lane = lane.clone();
            move || {
                let guard = lane.lock(Side::Writer).unwrap();
                let tail = lane.header().tail.0.load(Ordering::Relaxed);
                // SAFETY: under the write lock, and nothing is queued so far or one byte is.
                unsafe { lane.memory.copy_in(tail, &[99]) }.unwrap();
                guard.die();
            }
        });
        let writer = thread::spawn({
            let lane = lane.clone();
            move || write_all(&lane, &[1])
        });
        assert_eq!(read_exactly(&lane, 1), [1]);
        killed.join().unwrap();
        writer.join().unwrap();
        assert_eq!(lane.queued_bytes(), 0);
    });
}

#[test]
fn a_writer_killed_after_it_published_is_made_up_for_by_the_next() {
    loom::model(|| {
        let lane = lane();
        let writers = thread::spawn({
            let lane = lane.clone();
            move || {
                let guard = lane.lock(Side::Writer).unwrap();
                // SAFETY: under the write lock, and nothing is queued.
                unsafe { lane.memory.copy_in(0, &[1]) }.unwrap();
                // Published, and killed before it could ring.
                lane.header().tail.0.store(1, Ordering::Release);
                guard.die();
                write_all(&lane, &[2]);
                lane.stats(Side::Writer).owner_deaths
            }
        });
        assert_eq!(read_exactly(&lane, 2), [1, 2]);
        assert_eq!(writers.join().unwrap(), 1);
    });
}

#[test]
fn a_reader_killed_asleep_passes_its_seat_on() {
    loom::model(|| {
        let lane = lane();
        let killed = thread::spawn({
            let lane = lane.clone();
            move || {
                let seat = lane.header().for_readers.0.seat.lock().unwrap();
                lane.arm(Side::Reader, 1);
                seat.die();
            }
        });
        let reader = thread::spawn({
            let lane = lane.clone();
            move || read_exactly(&lane, 1)
        });
        write_all(&lane, &[7]);
        assert_eq!(reader.join().unwrap(), [7]);
        killed.join().unwrap();
    });
}

#[test]
fn two_readers_share_what_one_writes() {
    loom::model(|| {
        let lane = lane();
        let readers = [(), ()].map(|()| {
            let lane = lane.clone();
            thread::spawn(move || read_exactly(&lane, 1)[0])
        });
        write_all(&lane, &[1]);
        write_all(&lane, &[2]);
        let mut got = readers.map(|reader| reader.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn a_reader_killed_after_it_took_is_made_up_for_by_one_that_finds_nothing() {
    loom::model(|| {
        let lane = lane();
        write_all(&lane, &[1, 2]);
        let readers = thread::spawn({
            let lane = lane.clone();
            move || {
                let guard = lane.lock(Side::Reader).unwrap();
                // Took both, and killed before it could ring for the writer.
                lane.header().head.0.store(2, Ordering::Release);
                guard.die();
                let mut byte = [0];
                let mut slices = [IoSliceMut::new(&mut byte)];
                lane.try_read(&mut Scatter::new(&mut slices)).unwrap()
            }
        });
        write_all(&lane, &[3, 4]);
        assert!(readers.join().unwrap() <= 1);
    });
}

/// The kernel pipe beside the lane, as far as the order of bytes goes.
#[derive(Clone)]
struct Kernel(Arc<loom::sync::Mutex<Vec<u8>>>);

impl Kernel {
    fn new() -> Self {
        Self(Arc::new(loom::sync::Mutex::new(Vec::new())))
    }

    fn unread(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn write(&self, byte: u8) {
        self.0.lock().unwrap().push(byte);
    }

    fn take(&self) -> Option<u8> {
        let mut bytes = self.0.lock().unwrap();
        (!bytes.is_empty()).then(|| bytes.remove(0))
    }
}

/// A write into the lane by somebody who was told that a reader is present.
fn write_inside(lane: &Lane, kernel: &Kernel, byte: u8) {
    let bytes = [byte];
    let slices = [IoSlice::new(&bytes)];
    let mut source = Gather::new(&slices);
    while let Written::Full(wanted_bytes) =
        lane.try_write(&mut source, 0, || kernel.unread()).unwrap()
    {
        sleep(lane, Side::Writer, wanted_bytes);
    }
}

/// A byte from wherever it is its turn, as the ends read.
fn read_either(lane: &Lane, kernel: &Kernel) -> u8 {
    loop {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        if lane.try_read(&mut Scatter::new(&mut slices)).unwrap() > 0 {
            return byte[0];
        }
        let beside = lane.as_only_reader(|only| {
            let turn = only.turn(|| Ok::<_, ()>(kernel.unread())).unwrap();
            let due = match turn {
                Turn::Kernel(due) => due,
                _ => kernel.unread(),
            };
            // After the look at the kernel pipe.
            if turn == Turn::Lane && only.has_bytes() {
                return None;
            }
            let byte = (due > 0).then(|| kernel.take()).flatten();
            only.note_taken(1);
            only.set_kernel_due(if byte.is_some() { due - 1 } else { 0 });
            byte
        });
        match beside.unwrap() {
            Some(byte) => return byte,
            None => thread::yield_now(),
        }
    }
}

/// One writer goes from the kernel pipe into the lane while another is inside, or goes in as well.
fn goes_inside(notes: bool) {
    loom::model(move || {
        let lane = lane();
        let kernel = Kernel::new();
        let first = thread::spawn({
            let (lane, kernel) = (lane.clone(), kernel.clone());
            move || {
                kernel.write(1);
                if notes {
                    lane.note_kernel_bytes();
                }
                write_inside(&lane, &kernel, 2);
            }
        });
        let second = thread::spawn({
            let (lane, kernel) = (lane.clone(), kernel.clone());
            move || write_inside(&lane, &kernel, 11)
        });
        let all = [(), (), ()].map(|()| read_either(&lane, &kernel));
        let of_first: Vec<_> = all.iter().filter(|&&byte| byte < 10).collect();
        assert_eq!(of_first, [&1, &2], "order of one writer in {all:?}");
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn who_goes_inside_is_not_overtaken_by_its_own_bytes() {
    goes_inside(true);
}

/// The canary: bytes in the kernel pipe that nobody noted must be caught.
#[test]
#[should_panic(expected = "order of one writer")]
fn bytes_beside_the_lane_without_a_note_are_caught() {
    goes_inside(false);
}

/// The canary: the protocol without the last look before sleeping must be caught.
#[test]
#[should_panic(expected = "deadlock")]
fn sleeping_without_a_last_look_is_caught() {
    loom::model(|| {
        let lane = lane();
        let writer = thread::spawn({
            let lane = lane.clone();
            move || write_all(&lane, &[1])
        });
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        if lane.try_read(&mut Scatter::new(&mut slices)).unwrap() == 0 {
            lane.sleepers(Side::Reader).arm(1);
            lane.bell(Side::Reader).wait();
        }
        writer.join().unwrap();
    });
}
