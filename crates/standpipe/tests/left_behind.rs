//! What a reader leaves in the lane while a program reads on.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use common::{fill, into_the_lane};
use rustix::thread::CapabilitySet;
use standpipe::end::End;
use standpipe::fifo;
use standpipe::poll::{Entry, PollFlags, poll};

/// This thread is nobody special: kernel pipes of up to 1 MiB.
fn be_limited() {
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective
        .remove(CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN);
    rustix::thread::set_capabilities(None, sets).unwrap();
}

/// A FIFO with a writer and a reader at the lane, which is full, and somebody who does not know it.
fn full_lane() -> (End, End, File) {
    be_limited();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let unaware = rustix::fs::open(
        &path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    );
    let writer = fifo::open_write(&path).unwrap();
    let reader = fifo::open_read(&path).unwrap();
    into_the_lane(&reader, &writer);
    writer.set_nonblocking(true).unwrap();
    writer.set_capacity_bytes(4 << 20).unwrap();
    fill(&writer);
    (writer, reader, File::from(unaware.unwrap()))
}

#[test]
fn a_writer_that_polls_moves_it_on() {
    let (writer, reader, mut unaware) = full_lane();
    let total = writer.unread_bytes().unwrap();
    drop(reader);
    let mut read = 0;
    let mut buffer = vec![0; 4 << 20];
    while read < total {
        // Nothing else moves what did not fit the kernel pipe.
        let mut entries = [Entry::new(&writer, PollFlags::OUT)];
        poll(&mut entries, Some(Duration::ZERO), None).unwrap();
        match unaware.read(&mut buffer) {
            Ok(bytes) => read += bytes,
            Err(error) => panic!("{read} of {total} bytes, then {error}"),
        }
    }
    assert_eq!(read, total);
    let mut entries = [Entry::new(&writer, PollFlags::OUT)];
    assert_eq!(poll(&mut entries, None, None).unwrap(), 1);
}

/// A piece of the lane ends where a write did, so writes of somewhat more than half a page take a page
/// each in the kernel pipe.
#[test]
fn writes_of_half_a_page_fit_the_kernel_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let unaware = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
    let writer = fifo::open_write(&path).unwrap();
    let reader = fifo::open_read(&path).unwrap();
    into_the_lane(&reader, &writer);
    let mut bytes = 0;
    while bytes + 2100 <= writer.capacity_bytes().unwrap() {
        bytes += (&writer).write(&[7; 2100]).unwrap();
    }
    assert_eq!(
        rustix::io::ioctl_fionread(&unaware).unwrap(),
        0,
        "it is in the lane"
    );
    standpipe::end::prepare_for_exec().unwrap();
    assert_eq!(rustix::io::ioctl_fionread(&unaware).unwrap(), bytes as u64);
}

#[test]
fn without_a_thread_to_move_it_on_a_hand_over_says_so() {
    let (_writer, reader, _unaware) = full_lane();
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective.insert(CapabilitySet::SYS_ADMIN);
    rustix::thread::set_capabilities(None, sets).unwrap();
    // SAFETY: this thread's children would be born elsewhere, so it can have no more threads.
    let status = unsafe { libc::unshare(libc::CLONE_NEWPID) };
    be_limited();
    if status != 0 {
        return eprintln!("not run: no permission to make a pid namespace");
    }
    assert_eq!(
        reader.try_into_fd().unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}
