//! Bells that are polled: arming against waking, for who waits for several at once, by edges, as a ring of
//! completions does.

// Not loom's, which are not for unwinding: the canaries end in the thread that holds everything.
use std::sync::Arc;

use super::{Gather, IoSlice, IoSliceMut, Lane, Mode, PipeSize, Scatter, Side, Wake, Written};
use super::{read_exactly, thread, write_all};
use crate::doorbell::Set;

fn lane() -> Arc<Lane> {
    Arc::new(Lane::new(PipeSize::DEFAULT, Wake::PerSegment).unwrap())
}

/// As in the real thing, from before anything is read.
fn polled(lanes: &[Arc<Lane>], side: Side) -> Arc<Set> {
    lanes
        .iter()
        .for_each(|lane| lane.add_mode_of(side, Mode::POLLED));
    Set::of(lanes.iter().map(|lane| lane.bell(side)))
}

fn try_read(lane: &Lane) -> Option<u8> {
    let mut byte = [0];
    let mut slices = [IoSliceMut::new(&mut byte)];
    let bytes = lane.try_read(&mut Scatter::new(&mut slices)).unwrap();
    (bytes > 0).then_some(byte[0])
}

/// A byte of the lane; or it is armed, by `quieten`, which says to look again.
fn read_or_arm(lane: &Lane, quieten: impl Fn(&Lane) -> bool) -> Option<u8> {
    loop {
        let byte = try_read(lane);
        if byte.is_some() || !quieten(lane) {
            return byte;
        }
    }
}

/// So many bytes of any of the lanes, in the order of their lanes.
fn poll_and_read(
    lanes: &[Arc<Lane>],
    set: &Set,
    bytes: usize,
    quieten: impl Fn(&Lane) -> bool + Copy,
) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new(); lanes.len()];
    loop {
        for (lane, all) in lanes.iter().zip(&mut all) {
            all.extend(std::iter::from_fn(|| read_or_arm(lane, quieten)));
        }
        if all.iter().map(Vec::len).sum::<usize>() == bytes {
            return all;
        }
        set.wait(lanes.iter().map(|lane| lane.bell(Side::Reader)));
    }
}

fn quieten(lane: &Lane) -> bool {
    lane.quieten(Side::Reader, 1)
}

/// One lane of which somebody polls while another writes.
fn one_is_polled(quieten: impl Fn(&Lane) -> bool + Copy + Send + Sync + 'static) {
    loom::model(move || {
        let lanes = [lane()];
        let set = polled(&lanes, Side::Reader);
        let writer = thread::spawn({
            let lane = lanes[0].clone();
            move || write_all(&lane, &[1, 2])
        });
        assert_eq!(poll_and_read(&lanes, &set, 2, quieten), [[1, 2]]);
        writer.join().unwrap();
    });
}

#[test]
fn who_polls_hears_of_every_byte() {
    one_is_polled(quieten);
}

#[test]
fn who_polls_two_hears_of_both() {
    loom::model(|| {
        let lanes = [lane(), lane()];
        let set = polled(&lanes, Side::Reader);
        let writers = [0, 1].map(|index| {
            let lane = lanes[usize::from(index)].clone();
            thread::spawn(move || write_all(&lane, &[index]))
        });
        assert_eq!(poll_and_read(&lanes, &set, 2, quieten), [[0], [1]]);
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

#[test]
fn a_writer_that_polls_hears_of_room() {
    loom::model(|| {
        let lane = lane();
        let set = polled(std::slice::from_ref(&lane), Side::Writer);
        write_all(&lane, &[1, 2]);
        let reader = thread::spawn({
            let lane = lane.clone();
            move || read_exactly(&lane, 3)
        });
        let slices = [IoSlice::new(&[3])];
        let mut source = Gather::new(&slices);
        while let Written::Full(wanted) = lane.try_write(&mut source, 0, || 0).unwrap() {
            if !lane.quieten(Side::Writer, wanted) {
                set.wait(std::iter::once(lane.bell(Side::Writer)));
            }
        }
        assert_eq!(reader.join().unwrap(), [1, 2, 3]);
    });
}

/// Reads a byte as a blocking read does, beside others that poll the same bell.
fn read_asleep(lane: &Lane, restores: bool) -> u8 {
    loop {
        if let Some(byte) = try_read(lane) {
            return byte;
        }
        let Some(seat) = lane.take_seat(Side::Reader, 1, true).unwrap() else {
            continue;
        };
        if seat.arm(1) {
            seat.bell().wait();
            seat.bell().silence();
            if restores {
                let _ = lane.quieten(Side::Reader, 1);
            }
        }
    }
}

/// One sleeps and one polls, and there is a byte for each.
fn one_sleeps_one_polls(restores: bool) {
    loom::model(move || {
        let lane = lane();
        let set = polled(std::slice::from_ref(&lane), Side::Reader);
        let sleeper = thread::spawn({
            let lane = lane.clone();
            move || read_asleep(&lane, restores)
        });
        let poller = thread::spawn({
            let lane = lane.clone();
            move || {
                loop {
                    if let Some(byte) = read_or_arm(&lane, quieten) {
                        return byte;
                    }
                    set.wait(std::iter::once(lane.bell(Side::Reader)));
                }
            }
        });
        write_all(&lane, &[1]);
        write_all(&lane, &[2]);
        let mut got = [sleeper.join().unwrap(), poller.join().unwrap()];
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn who_sleeps_beside_a_poller_leaves_it_the_bell() {
    one_sleeps_one_polls(true);
}

/// The canary: a sleeper that only silences the bell must be caught.
#[test]
#[should_panic(expected = "deadlock")]
fn a_bell_silenced_for_others_is_caught() {
    one_sleeps_one_polls(false);
}

/// The canary: looking before arming must be caught.
#[test]
#[should_panic(expected = "deadlock")]
fn a_look_before_the_arm_is_caught() {
    one_is_polled(|lane| {
        lane.bell(Side::Reader).silence();
        let is_ready = lane.is_ready(Side::Reader, 1);
        lane.arm(Side::Reader, 1);
        is_ready
    });
}

/// The canary: without the fence the look may come before the arm.
#[test]
#[should_panic(expected = "deadlock")]
fn an_arm_without_its_fence_is_caught() {
    one_is_polled(|lane| {
        lane.bell(Side::Reader).silence();
        lane.sleepers(Side::Reader).arm(1);
        lane.is_ready(Side::Reader, 1)
    });
}

/// The canary: a bell silenced after the arm may have rung for it.
#[test]
#[should_panic(expected = "deadlock")]
fn silence_after_the_arm_is_caught() {
    one_is_polled(|lane| {
        lane.arm(Side::Reader, 1);
        let is_ready = lane.is_ready(Side::Reader, 1);
        lane.bell(Side::Reader).silence();
        is_ready
    });
}
