//! The capacity of pipes: set, grown by itself, limited.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::once_asleep;
use standpipe::pipe::limits::{self, Limits};
use standpipe::pipe::{Builder, ReadEnd, WriteEnd, pipe};

/// Brings a pipe into its lane.
fn into_the_lane(reader: &ReadEnd, writer: &WriteEnd) {
    common::into_the_lane(reader.as_end(), writer.as_end());
}

fn fill(writer: &mut WriteEnd) -> usize {
    writer.set_nonblocking(true).unwrap();
    let mut total = 0;
    loop {
        match writer.write(&[7; 4096]) {
            Ok(bytes) => total += bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                writer.set_nonblocking(false).unwrap();
                return total;
            }
        }
    }
}

#[test]
fn setting_rounds_keeps_what_is_queued_and_refuses_to_lose_any() {
    for in_lane in [false, true] {
        let (mut reader, mut writer) = pipe().unwrap();
        if in_lane {
            into_the_lane(&reader, &writer);
        }
        let end = writer.as_end();
        assert_eq!(end.set_capacity_bytes(100_000).unwrap(), 131_072);
        assert_eq!(reader.capacity_bytes(), 131_072);
        assert_eq!(fill(&mut writer), 131_072);
        let error = reader.as_end().set_capacity_bytes(65_536).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
        assert_eq!(writer.capacity_bytes(), 131_072, "in the lane: {in_lane}");
        let mut half = vec![0; 65_536];
        reader.read_exact(&mut half).unwrap();
        assert_eq!(reader.as_end().set_capacity_bytes(65_536).unwrap(), 65_536);
        reader.read_exact(&mut half).unwrap();
        assert!(half.iter().all(|&byte| byte == 7));
        assert_eq!(fill(&mut writer), 65_536, "in the lane: {in_lane}");
        let error = reader
            .as_end()
            .set_capacity_bytes((2 << 30) + 1)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn growing_wakes_a_writer_that_waits() {
    let (reader, mut writer) = pipe().unwrap();
    into_the_lane(&reader, &writer);
    fill(&mut writer);
    // Nobody looks up by himself for a write of this size.
    let bytes = vec![8; 64 << 10];
    let (tell, told) = mpsc::channel();
    let grow = |_| {
        let set = reader.as_end().set_capacity_bytes(128 << 10);
        let written = told.recv_timeout(FORGOTTEN);
        // One that was forgotten ends now.
        drop(reader);
        assert_eq!(set.unwrap(), 128 << 10);
        assert_eq!(written.expect("it was woken"), bytes.len());
    };
    once_asleep(|| tell.send(writer.write(&bytes).unwrap_or(0)), grow).unwrap();
}

#[test]
fn a_pipe_of_the_default_size_grows_under_pressure_and_others_do_not() {
    for (builder, grows) in [
        (Builder::new(), true),
        (Builder::new().fixed(true), false),
        (Builder::new().capacity_bytes(64 << 10), false),
    ] {
        let (mut reader, mut writer) = builder.build().unwrap();
        into_the_lane(&reader, &writer);
        let before = reader.capacity_bytes();
        let seen = writer.try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let bytes = vec![1; 256 << 10];
                while writer.write_all(&bytes).is_ok() {}
            });
            let mut buffer = vec![0; 16 << 10];
            for _ in 0..200 {
                let sleeps = seen.stats().sleeps;
                reader.read_exact(&mut buffer).unwrap();
                // For a moment, until the pipe is full again, and its writer waits.
                (0..1000)
                    .take_while(|_| seen.stats().sleeps == sleeps)
                    .for_each(|_| thread::yield_now());
            }
            assert_eq!(reader.capacity_bytes() > before, grows);
            drop(reader);
        });
    }
}

/// Limits are of the process: one test for all.
#[test]
fn lanes_stay_within_the_limits_of_the_process() {
    // In a process of its own, so that lanes of other tests do not count.
    if std::env::var_os("STANDPIPE_TEST_LIMITS").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lanes_stay_within_the_limits_of_the_process"])
            .env("STANDPIPE_TEST_LIMITS", "1")
            .env(limits::SOFT_LIMIT_ENV, "192K")
            .env(limits::HARD_LIMIT_ENV, "256K")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let limits = limits::limits();
    assert_eq!(
        (limits.soft_bytes, limits.hard_bytes),
        (192 << 10, 256 << 10)
    );
    let (reader, writer) = pipe().unwrap();
    into_the_lane(&reader, &writer);
    assert_eq!(limits::used_lane_bytes(), 64 << 10);
    assert_eq!(
        writer.as_end().set_capacity_bytes(128 << 10).unwrap(),
        128 << 10
    );
    let error = writer.as_end().set_capacity_bytes(256 << 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(limits::used_lane_bytes(), 128 << 10);
    // Beyond the hard limit there is no lane, and the pipe works.
    let (mut r, mut w) = Builder::new().capacity_bytes(256 << 10).build().unwrap();
    w.write_all(b"by the kernel").unwrap();
    let mut text = [0; 13];
    r.read_exact(&mut text).unwrap();
    assert_eq!((&text, w.stats().bytes), (b"by the kernel", 0));
    drop((reader, writer));
    assert_eq!(limits::used_lane_bytes(), 0);
    limits::set_limits(Limits::NONE);
}

#[test]
fn large_capacities_hold_what_they_say() {
    let (mut reader, mut writer) = Builder::new().capacity_bytes(16 << 20).build().unwrap();
    assert_eq!(fill(&mut writer), 16 << 20);
    let mut all = vec![0; 16 << 20];
    reader.read_exact(&mut all).unwrap();
    assert!(all.iter().all(|&byte| byte == 7));
}

#[test]
fn it_can_be_changed_any_number_of_times_with_bytes_inside() {
    let (mut reader, mut writer) = pipe().unwrap();
    into_the_lane(&reader, &writer);
    for round in 0..200_u32 {
        let text = round.to_le_bytes();
        writer.write_all(&text).unwrap();
        let capacity_bytes = 4096 << (round % 7);
        let end = reader.as_end();
        assert_eq!(
            end.set_capacity_bytes(capacity_bytes).unwrap(),
            capacity_bytes
        );
        let mut back = [0; 4];
        reader.read_exact(&mut back).unwrap();
        assert_eq!(back, text);
    }
}

/// For how long to wait for what comes at once, or never.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// More waits of a writer than it takes to grow.
const WAITS: usize = 1000;
/// Longer than a reader has to sleep for an empty pipe to be idle.
const IDLE: Duration = Duration::from_millis(2500);

/// Has a pipe become larger by itself, and empties it.
fn grow(reader: &mut ReadEnd, writer: &mut WriteEnd) -> usize {
    let mut queued = fill(writer);
    writer.set_timeout(Some(Duration::from_nanos(1)));
    let written = (0..WAITS).find_map(|_| writer.write(&[7; 4096]).ok());
    queued += written.expect("it grew");
    writer.set_timeout(None);
    reader.read_exact(&mut vec![0; queued]).unwrap();
    reader.capacity_bytes()
}

/// A read that finds nothing for as long as that.
fn find_it_empty(reader: &mut ReadEnd, wait: Duration) {
    reader.set_timeout(Some(wait));
    let error = reader.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn a_pipe_that_grew_by_itself_shrinks_when_idle() {
    let (mut reader, mut writer) = pipe().unwrap();
    into_the_lane(&reader, &writer);
    let begun_bytes = reader.capacity_bytes();
    let grown_bytes = grow(&mut reader, &mut writer);
    assert!(grown_bytes > begun_bytes);
    // A short wait is no idleness, and bytes inside are none.
    find_it_empty(&mut reader, Duration::from_millis(1));
    assert_eq!(reader.capacity_bytes(), grown_bytes);
    find_it_empty(&mut reader, IDLE);
    assert_eq!(reader.capacity_bytes(), begun_bytes);
    assert_eq!(fill(&mut writer), begun_bytes);
    // And once more.
    reader.read_exact(&mut vec![0; begun_bytes]).unwrap();
    assert_eq!(grow(&mut reader, &mut writer), grown_bytes);
}

#[test]
fn a_capacity_that_was_set_stays_when_idle() {
    let (mut reader, mut writer) = pipe().unwrap();
    into_the_lane(&reader, &writer);
    let grown_bytes = grow(&mut reader, &mut writer);
    let end = writer.as_end();
    assert_eq!(end.set_capacity_bytes(grown_bytes).unwrap(), grown_bytes);
    find_it_empty(&mut reader, IDLE);
    assert_eq!(reader.capacity_bytes(), grown_bytes);
}

#[test]
fn a_capacity_that_somebody_without_the_lane_set_stays_when_idle() {
    let (mut reader, writer) = pipe().unwrap();
    into_the_lane(&reader, &writer);
    rustix::pipe::fcntl_setpipe_size(writer.as_fd(), 256 << 10).unwrap();
    assert_eq!(reader.capacity_bytes(), 256 << 10);
    find_it_empty(&mut reader, IDLE);
    assert_eq!(writer.size().capacity_bytes(), 256 << 10);
}
