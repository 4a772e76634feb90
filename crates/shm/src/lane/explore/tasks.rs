//! Tasks that wait, for tasks that wake them by their wakers, and beside others that wait for the bell.

use super::*;

/// A task whose runtime waits for its bell, which its waker rings as well.
struct Runtime {
    lane: Arc<Lane>,
    side: Side,
}

impl std::task::Wake for Runtime {
    fn wake(self: std::sync::Arc<Self>) {
        self.lane.bell(self.side).ring();
    }
}

/// Tries until something comes of it, and waits as a task between two tries.
fn in_task<T>(
    lane: &Arc<Lane>,
    side: Side,
    has_company: bool,
    mut attempt: impl FnMut() -> Option<T>,
) -> T {
    let lane = lane.clone();
    let runtime = std::sync::Arc::new(Runtime {
        lane: lane.clone(),
        side,
    });
    let waker = runtime.into();
    let key = 0;
    let done = loop {
        if let Some(done) = attempt() {
            break done;
        }
        if !lane.quieten_in_task(side, 1, || has_company)
            && lane.await_in_task(side, 1, key, &waker)
        {
            lane.bell(side).wait();
        }
    };
    // With the list goes the waker's lane.
    lane.forget_task(side, key);
    done
}

fn read_in_task(lane: &Arc<Lane>, by: By, has_company: bool) -> u8 {
    in_task(lane, Side::Reader, has_company, || {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        let taken = lane.try_read_by(by, &mut Scatter::new(&mut slices));
        (taken.unwrap() == 1).then_some(byte[0])
    })
}

fn write_in_task(lane: &Arc<Lane>, by: By, byte: u8) {
    in_task(lane, Side::Writer, false, || {
        let bytes = [byte];
        let slices = [IoSlice::new(&bytes)];
        let written = lane.try_write_by(by, &mut Gather::new(&slices), 0, || 0);
        (written.unwrap() == Written::All).then_some(())
    });
}

/// Both are tasks of this process, or either tells the other as if it was not.
#[test]
fn tasks_ahead_of_each_other_both_wake() {
    for (reads_by, writes_by) in [
        (By::Waker, By::Waker),
        (By::Waker, By::Bell),
        (By::Bell, By::Waker),
    ] {
        loom::model(move || {
            let lane = lane();
            let writer = thread::spawn({
                let lane = lane.clone();
                move || [1, 2, 3].map(|byte| write_in_task(&lane, writes_by, byte))
            });
            let read = [(), (), ()].map(|()| read_in_task(&lane, reads_by, false));
            assert_eq!(read, [1, 2, 3]);
            writer.join().unwrap();
        });
    }
}

/// As the ends do where a bell is polled as well.
fn read_asleep_in_company(lane: &Lane) -> u8 {
    loop {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        if lane.try_read(&mut Scatter::new(&mut slices)).unwrap() > 0 {
            return byte[0];
        }
        if let Some(seat) = lane.take_seat(Side::Reader, 1, true).unwrap() {
            if seat.arm(1) {
                seat.bell().wait();
                seat.bell().silence();
                let _ = lane.quieten(Side::Reader, 1);
            }
        }
    }
}

/// Two bytes at a time, told of once.
fn write_both(lane: &Lane) {
    let slices = [IoSlice::new(&[1, 2])];
    let written = lane.try_write_by(By::Waker, &mut Gather::new(&slices), 0, || 0);
    assert_eq!(written.unwrap(), Written::All);
}

/// The announcements of the two are one word, and they have one bell: neither is taken for the other's.
#[test]
fn a_task_and_a_sleeping_thread_that_wait_together_both_wake() {
    loom::model(|| {
        let lane = lane();
        let task = thread::spawn({
            let lane = lane.clone();
            move || read_in_task(&lane, By::Waker, true)
        });
        let writer = thread::spawn({
            let lane = lane.clone();
            move || write_both(&lane)
        });
        let mut read = [read_asleep_in_company(&lane), task.join().unwrap()];
        writer.join().unwrap();
        read.sort_unstable();
        assert_eq!(read, [1, 2]);
    });
}

/// Somebody polls the bell on its own, while a task takes one of two bytes.
fn task_beside_poller(knows_of_it: bool) {
    loom::model(move || {
        let lane = lane();
        let task = thread::spawn({
            let lane = lane.clone();
            move || read_in_task(&lane, By::Waker, knows_of_it)
        });
        let writer = thread::spawn({
            let lane = lane.clone();
            move || write_both(&lane)
        });
        let _ = lane.quieten(Side::Reader, 1);
        assert_eq!(task.join().unwrap(), 1);
        writer.join().unwrap();
        assert!(lane.bell(Side::Reader).silence(), "the poller is not told");
    });
}

#[test]
fn a_poller_beside_a_task_is_told_of_what_it_leaves() {
    task_beside_poller(true);
}

/// The canary: a task that silences the bell as if it had rung for itself alone must be caught.
#[test]
#[should_panic(expected = "the poller is not told")]
fn a_task_that_forgets_its_company_is_caught() {
    task_beside_poller(false);
}

/// The canary: a task that does not look before it waits must be caught.
#[test]
#[should_panic(expected = "deadlock")]
fn a_task_without_a_last_look_is_caught() {
    loom::model(|| {
        let lane = lane();
        let writer = thread::spawn({
            let lane = lane.clone();
            move || write_in_task(&lane, By::Waker, 1)
        });
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        let taken = lane.try_read_by(By::Waker, &mut Scatter::new(&mut slices));
        if taken.unwrap() == 0 {
            lane.sleepers(Side::Reader).arm(1);
            lane.bell(Side::Reader).wait();
        }
        writer.join().unwrap();
    });
}
