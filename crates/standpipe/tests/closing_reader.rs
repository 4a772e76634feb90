//! A writer beside a reader that closes in another thread: a write that begins after the close has
//! returned finds the pipe broken, and so does one that waits, whatever was known of the reader before.

use std::io::{ErrorKind, Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use standpipe::pipe::{Builder, ReadEnd, WriteEnd};

const ROUNDS: usize = 300;

/// A pipe of which this process is present as a reader, and the writer inside.
fn inside() -> (ReadEnd, WriteEnd) {
    let (mut reader, mut writer) = Builder::new().nonblocking(true).build().unwrap();
    while writer.stats().bytes == 0 {
        let looked = reader.read(&mut [0; 8]);
        assert_eq!(looked.unwrap_err().kind(), ErrorKind::WouldBlock);
        writer.write_all(b"x").unwrap();
        reader.read_exact(&mut [0]).unwrap();
    }
    reader.set_nonblocking(false).unwrap();
    writer.set_nonblocking(false).unwrap();
    (reader, writer)
}

/// Writes until the pipe is broken; says when it has begun.
fn write_on(mut writer: WriteEnd, bytes: usize, begun: &Sender<()>, is_closed: &Mutex<bool>) {
    for round in 0.. {
        let was_closed = *is_closed.lock().unwrap();
        match writer.write(&vec![0; bytes]) {
            Ok(_) => assert!(!was_closed, "write {round} went where nobody reads"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
                return;
            }
        }
        if round == 3 {
            begun.send(()).unwrap();
        }
    }
}

/// `close` runs while writes go on.
fn breaks(bytes: usize, close: impl Fn(ReadEnd, &Receiver<()>)) {
    for _ in 0..ROUNDS {
        let (reader, writer) = inside();
        let (begun, has_begun) = channel();
        let is_closed = Mutex::new(false);
        thread::scope(|scope| {
            let is_closed = &is_closed;
            scope.spawn(move || write_on(writer, bytes, &begun, is_closed));
            close(reader, &has_begun);
            *is_closed.lock().unwrap() = true;
        });
    }
}

#[test]
fn a_reader_that_closes_breaks_the_pipe() {
    breaks(1, |reader, begun| {
        begun.recv().unwrap();
        drop(reader);
    });
}

#[test]
fn so_it_does_for_a_writer_that_has_to_wait() {
    breaks(40_000, |mut reader, _| {
        reader.read_exact(&mut vec![0; 50_000]).unwrap();
        drop(reader);
    });
}

#[test]
fn the_last_of_two_readers_breaks_it() {
    breaks(1, |reader, begun| {
        let other = reader.try_clone().unwrap();
        begun.recv().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| drop(reader));
            drop(other);
        });
    });
}

#[test]
fn an_end_that_is_handed_on_still_reads() {
    breaks(1000, |reader, begun| {
        begun.recv().unwrap();
        let mut bare = std::fs::File::from(reader.try_into_fd().unwrap());
        // What is written from now on comes out of the kernel pipe.
        bare.read_exact(&mut vec![0; 70_000]).unwrap();
        drop(bare);
    });
}
