//! Calls that wait no longer than they were told to: in the lane, and on a kernel pipe without one.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{fds, into_the_lane, once_asleep};
use standpipe::end::End;
use standpipe::pipe::{Builder, PIPE_BUF};

/// Long enough to be asleep by then, in whatever a call sleeps.
const SHORT: Duration = Duration::from_millis(50);
/// Who did not end by then never does.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// No test takes so long.
const LONG: Duration = Duration::from_secs(3600);
const CAPACITY_BYTES: usize = 64 << 10;

/// Calls that wait for ever fail their test, too.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        test();
        tell.send(()).unwrap();
    });
    told.recv_timeout(FORGOTTEN).expect("fails or hangs");
}

/// A pipe whose lane is in use, and which does not grow by itself.
fn in_lane() -> (End, End) {
    let builder = Builder::new().capacity_bytes(CAPACITY_BYTES);
    let (reader, writer) = builder.build().unwrap();
    let (reader, writer) = (End::from(reader), End::from(writer));
    into_the_lane(&reader, &writer);
    (reader, writer)
}

/// The blocking ends of a kernel pipe, of which nobody but the test's standpipe end knows standpipe.
fn kernel_fds() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = fds();
    rustix::io::ioctl_fionbio(&reader, false).unwrap();
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

fn reader_without_lane() -> (End, OwnedFd) {
    let (reader, writer) = kernel_fds();
    (End::from_fd(reader).unwrap(), writer)
}

fn writer_without_lane() -> (OwnedFd, End) {
    let (reader, writer) = kernel_fds();
    (reader, End::from_fd(writer).unwrap())
}

/// The call fails with `TimedOut`, and not before its time.
fn times_out<T: std::fmt::Debug>(timeout: Duration, call: impl FnOnce() -> std::io::Result<T>) {
    let begun = Instant::now();
    assert_eq!(call().unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(begun.elapsed() >= timeout);
}

fn a_read_times_out(reader: &End, mut write: impl FnMut(&[u8])) {
    reader.set_timeout(Some(SHORT));
    times_out(SHORT, || (&*reader).read(&mut [0; 8]));
    // It took nothing, and what is there is read at once, whatever the time-out.
    write(b"later");
    reader.set_timeout(Some(Duration::ZERO));
    let mut text = [0; 8];
    assert_eq!((&*reader).read(&mut text).unwrap(), 5);
    assert_eq!(&text[..5], b"later");
    times_out(Duration::ZERO, || (&*reader).read(&mut text));
    // Longer than any clock goes.
    for timeout in [Some(LONG), Some(Duration::MAX), None] {
        reader.set_timeout(timeout);
        let read = || (&*reader).read(&mut text).unwrap();
        assert_eq!(once_asleep(read, |_| write(b"!")), 1);
    }
}

#[test]
fn reading_from_the_lane() {
    ends(|| {
        let (reader, writer) = in_lane();
        let before = writer.stats().kernel_bytes;
        a_read_times_out(&reader, |bytes| (&writer).write_all(bytes).unwrap());
        assert_eq!(writer.stats().kernel_bytes, before, "it was the lane's");
    });
}

#[test]
fn reading_from_the_kernel_pipe() {
    ends(|| {
        let (reader, writer) = reader_without_lane();
        a_read_times_out(&reader, |bytes| {
            assert_eq!(rustix::io::write(&writer, bytes).unwrap(), bytes.len());
        });
    });
}

fn a_write_times_out(writer: &End, mut read: impl FnMut(&mut [u8])) {
    writer.set_timeout(Some(SHORT));
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(CAPACITY_BYTES + 1000).collect();
    // It fits in part: it says what it wrote, and nothing is lost or doubled.
    let begun = Instant::now();
    assert_eq!((&*writer).write(&bytes).unwrap(), CAPACITY_BYTES);
    assert!(begun.elapsed() >= SHORT);
    times_out(SHORT, || (&*writer).write(&bytes));
    // A page of room, less than it takes.
    let mut page = [0; 4096];
    read(&mut page);
    assert!(page == bytes[..page.len()]);
    assert_eq!((&*writer).write(&[7; 5000]).unwrap(), page.len());
    times_out(SHORT, || (&*writer).write(&[7; PIPE_BUF]));
    let mut all = vec![0; CAPACITY_BYTES];
    read(&mut all);
    assert!(all[..CAPACITY_BYTES - 4096] == bytes[4096..CAPACITY_BYTES]);
    assert!(all[CAPACITY_BYTES - 4096..] == [7; 4096]);
    // With room it writes, whatever the time-out.
    writer.set_timeout(Some(Duration::ZERO));
    assert_eq!((&*writer).write(&all).unwrap(), CAPACITY_BYTES);
    times_out(Duration::ZERO, || (&*writer).write(b"!"));
    for timeout in [Some(LONG), Some(Duration::MAX), None] {
        writer.set_timeout(timeout);
        let write = || (&*writer).write(&[8; PIPE_BUF]).unwrap();
        assert_eq!(once_asleep(write, |_| read(&mut page)), PIPE_BUF);
    }
}

#[test]
fn writing_into_the_lane() {
    ends(|| {
        let (reader, writer) = in_lane();
        let before = writer.stats().kernel_bytes;
        a_write_times_out(&writer, |bytes| (&reader).read_exact(bytes).unwrap());
        assert_eq!(writer.stats().kernel_bytes, before, "it was the lane's");
    });
}

#[test]
fn writing_into_the_kernel_pipe() {
    ends(|| {
        let (reader, writer) = writer_without_lane();
        let mut reader = std::fs::File::from(reader);
        a_write_times_out(&writer, |bytes| reader.read_exact(bytes).unwrap());
        assert_eq!(writer.stats().bytes, 0);
    });
}

/// A small write that does not fit whole is not begun, so there is nothing to say of it.
#[test]
fn a_small_write_that_times_out_wrote_nothing() {
    ends(|| {
        let (reader, writer) = in_lane();
        writer.set_timeout(Some(SHORT));
        (&writer).write_all(&vec![1; CAPACITY_BYTES]).unwrap();
        (&reader).read_exact(&mut [0; 100]).unwrap();
        times_out(SHORT, || (&writer).write(&[2; 101]));
        assert_eq!(writer.unread_bytes().unwrap(), CAPACITY_BYTES - 100);
    });
}

#[test]
fn the_timeout_of_one_end_does_not_bind_another() {
    ends(|| {
        for (reader, writer) in [in_lane(), common::ends()] {
            reader.set_nonblocking(false).unwrap();
            let clone = reader.try_clone().unwrap();
            reader.set_timeout(Some(SHORT));
            writer.set_timeout(Some(SHORT));
            assert_eq!((reader.timeout(), clone.timeout()), (Some(SHORT), None));
            let read = || (&clone).read(&mut [0; 8]).unwrap();
            // Until the others' time is over.
            let others = |_| {
                times_out(SHORT, || (&reader).read(&mut [0; 8]));
                (&writer).write_all(b"!").unwrap();
            };
            assert_eq!(once_asleep(read, others), 1);
            // A copy begins with what the end had.
            assert_eq!(reader.try_clone().unwrap().timeout(), Some(SHORT));
        }
    });
}

#[test]
fn who_does_not_wait_at_all_does_not_time_out() {
    ends(|| {
        for (reader, writer) in [in_lane(), common::ends()] {
            for end in [&reader, &writer] {
                end.set_nonblocking(true).unwrap();
                end.set_timeout(Some(LONG));
            }
            let error = (&reader).read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            common::fill(&writer);
        }
    });
}
