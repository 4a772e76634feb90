//! Waiting apart from moving, and threads that are never waited in.

use std::io::ErrorKind;
use std::time::Duration;

use standpipe::asynchronous::{Reactor, ReadEnd, WriteEnd, futures::AsyncIo, tokio::Tokio};
use standpipe::fifo;
use standpipe::pipe::{Builder, PIPE_BUF, pipe};
use tokio::runtime::Builder as Runtimes;

use crate::{bytes_at, check, runtimes};

const STREAM_BYTES: usize = 1 << 20;

#[test]
fn who_waits_until_it_is_ready_moves_all() {
    for runtime in runtimes() {
        runtime.block_on(stream::<Tokio>());
        runtime.block_on(stream::<AsyncIo>());
    }
}

async fn stream<R: Reactor>() {
    let (reader, writer) = Builder::new().capacity_bytes(3 * PIPE_BUF).build().unwrap();
    let mut reader = ReadEnd::<R>::new(reader).unwrap();
    let mut writer = WriteEnd::<R>::new(writer).unwrap();
    let writing = tokio::spawn(async move {
        let bytes = bytes_at(0, STREAM_BYTES);
        for piece in bytes.chunks(PIPE_BUF - 1) {
            loop {
                writer.writable().await.unwrap();
                match writer.try_write(piece) {
                    Ok(written) => break assert_eq!(written, piece.len()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
    });
    let mut taken = 0;
    let mut buf = [0; 5000];
    loop {
        reader.readable().await.unwrap();
        match reader.try_read(&mut buf) {
            Ok(0) => break,
            Ok(bytes) => {
                check(taken, &buf[..bytes]);
                taken += bytes as u64;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert_eq!(taken, STREAM_BYTES as u64);
    // The end of the stream is something to read, and stays so.
    reader.readable().await.unwrap();
    writing.await.unwrap();
}

#[test]
fn nobody_left_to_read_is_something_to_hear() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (reader, writer) = pipe().unwrap();
            let mut writer = WriteEnd::<Tokio>::new(writer).unwrap();
            crate::common::fill(&mut Tries(&writer));
            let waiting = tokio::spawn(async move {
                writer.writable().await.unwrap();
                writer.try_write(b"x").unwrap_err().kind()
            });
            tokio::task::yield_now().await;
            drop(reader);
            assert_eq!(waiting.await.unwrap(), ErrorKind::BrokenPipe);
        });
    }
}

struct Tries<'a>(&'a WriteEnd<Tokio>);

impl std::io::Write for Tries<'_> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.try_write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One thread for all: while everything waits that can wait, the clock goes on ticking.
#[test]
fn nothing_waits_in_the_thread_of_the_runtime() {
    let runtime = Runtimes::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    runtime.block_on(async {
        let (empty, feeds) = pipe().unwrap();
        let (drains, full) = pipe().unwrap();
        let mut empty = ReadEnd::<Tokio>::new(empty).unwrap();
        let mut full = WriteEnd::<Tokio>::new(full).unwrap();
        crate::common::fill(&mut Tries(&full));
        let reading = tokio::spawn(async move {
            let mut byte = [0];
            tokio::io::AsyncReadExt::read_exact(&mut empty, &mut byte)
                .await
                .unwrap();
            byte
        });
        let writing = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut full, &vec![7; 100_000])
                .await
                .unwrap();
        });
        let opening = tokio::spawn({
            let path = path.clone();
            async move { ReadEnd::<Tokio>::open_fifo(path).await.unwrap() }
        });
        let mut clock = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..20 {
            clock.tick().await;
        }
        assert!(!reading.is_finished() && !writing.is_finished() && !opening.is_finished());
        let mut feeds = WriteEnd::<Tokio>::new(feeds).unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut feeds, b"!")
            .await
            .unwrap();
        assert_eq!(reading.await.unwrap(), *b"!");
        let mut drains = ReadEnd::<Tokio>::new(drains).unwrap();
        let mut drained = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut drains, &mut drained)
            .await
            .unwrap();
        writing.await.unwrap();
        assert!(drained.ends_with(&vec![7; 100_000]));
        let _writer = WriteEnd::<Tokio>::open_fifo(&path).await.unwrap();
        opening.await.unwrap();
    });
}
