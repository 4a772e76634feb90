//! Opening FIFOs.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use standpipe::asynchronous::{Reactor, ReadEnd, WriteEnd, futures::AsyncIo, tokio::Tokio};
use standpipe::fifo;
use tempfile::TempDir;

use crate::common::wait_asleep;
use crate::{poll_and_drop, runtimes};

fn named() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    (dir, path)
}

#[test]
fn readers_and_writers_meet_whoever_comes_first() {
    for runtime in runtimes() {
        runtime.block_on(each_other::<Tokio>());
        runtime.block_on(each_other::<AsyncIo>());
    }
}

async fn each_other<R: Reactor>() {
    for reader_first in [true, false] {
        let (_dir, path) = named();
        let reading = || {
            let path = path.clone();
            async move {
                let mut reader = ReadEnd::<R>::open_fifo(path).await.unwrap();
                let mut text = String::new();
                reader.read_to_string(&mut text).await.unwrap();
                text
            }
        };
        let writing = || {
            let path = path.clone();
            async move {
                let mut writer = WriteEnd::<R>::open_fifo(path).await.unwrap();
                writer.write_all(b"hello").await.unwrap();
            }
        };
        let (text, ()) = if reader_first {
            tokio::join!(reading(), writing())
        } else {
            let ((), text) = tokio::join!(writing(), reading());
            (text, ())
        };
        assert_eq!(text, "hello");
    }
}

/// Threads that are in open(2), before or after we begin to wait.
#[test]
fn programs_that_wait_in_open_are_met() {
    for runtime in runtimes() {
        for they_first in [true, false] {
            runtime.block_on(programs::<Tokio>(they_first));
            runtime.block_on(programs::<AsyncIo>(they_first));
        }
    }
}

async fn programs<R: Reactor>(they_first: bool) {
    let (_dir, path) = named();
    let thread = beside(they_first, &path, |path| {
        let mut file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all(b"from them").unwrap();
    });
    let mut reader = ReadEnd::<R>::open_fifo(&path).await.unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "from them");
    thread.join().unwrap();
    drop(reader);

    let thread = beside(they_first, &path, |path| {
        let mut text = String::new();
        let mut file = OpenOptions::new().read(true).open(path).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    });
    let mut writer = WriteEnd::<R>::open_fifo(&path).await.unwrap();
    writer.write_all(b"to them").await.unwrap();
    drop(writer);
    assert_eq!(thread.join().unwrap(), "to them");
}

/// A thread that opens the FIFO; perhaps one that waits there by now.
fn beside<T: Send + 'static>(
    is_first: bool,
    path: &Path,
    body: impl FnOnce(&Path) -> T + Send + 'static,
) -> JoinHandle<T> {
    let (ids, id) = std::sync::mpsc::channel();
    let path = path.to_path_buf();
    let thread = std::thread::spawn(move || {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        ids.send(id).unwrap();
        body(&path)
    });
    let id = id.recv().unwrap();
    if is_first {
        wait_asleep(id);
    }
    thread
}

#[test]
fn nobody_there_means_waiting_and_a_dropped_opening_was_none() {
    let [runtime, _] = runtimes();
    let (_dir, path) = named();
    runtime.block_on(async {
        assert!(poll_and_drop(ReadEnd::<Tokio>::open_fifo(&path), 5).is_none());
        assert!(poll_and_drop(WriteEnd::<Tokio>::open_fifo(&path), 5).is_none());
    });
    // No reader stayed behind.
    let error = fifo::Options::new().nonblocking(true).open_write(&path);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("nobody has it open to read")
    );
}

/// A writer that came and went wrote nothing, but it was there: open(2) returns, too.
#[test]
fn a_writer_that_came_and_went_was_there() {
    let [runtime, _] = runtimes();
    let (_dir, path) = named();
    runtime.block_on(async {
        let mut opening = std::pin::pin!(ReadEnd::<Tokio>::open_fifo(&path));
        assert!(futures_util::poll!(opening.as_mut()).is_pending());
        drop(
            OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)
                .unwrap(),
        );
        let mut reader = opening.await.unwrap();
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    });
}

#[test]
fn what_is_no_fifo_is_named() {
    let [runtime, _] = runtimes();
    let dir = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let missing = dir.path().join("missing");
        let error = ReadEnd::<Tokio>::open_fifo(&missing).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("missing"), "{error}");
        let error = WriteEnd::<Tokio>::open_fifo(dir.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error
                .to_string()
                .contains("it is a directory, expected a FIFO"),
            "{error}"
        );
    });
}
