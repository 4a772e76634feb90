//! Two-way pipes, and ends that read and write.

use std::io::ErrorKind;

use futures_util::AsyncWriteExt as _;
use standpipe::asynchronous::{DuplexEnd, Reactor, ReadEnd, WriteEnd};
use standpipe::asynchronous::{futures::AsyncIo, tokio as on_tokio, tokio::Tokio};
use standpipe::duplex::duplex;
use standpipe::end::End;
use standpipe::fifo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{bytes_at, check, runtimes};

fn both<R: Reactor>() -> (DuplexEnd<R>, DuplexEnd<R>) {
    let (here, there) = duplex().unwrap();
    (
        DuplexEnd::new(here).unwrap(),
        DuplexEnd::new(there).unwrap(),
    )
}

#[test]
fn each_direction_goes_its_way_and_ends_on_its_own() {
    for runtime in runtimes() {
        runtime.block_on(question_and_answer::<Tokio>());
        runtime.block_on(question_and_answer::<AsyncIo>());
    }
}

async fn question_and_answer<R: Reactor>() {
    let (mut here, mut there) = both::<R>();
    let answering = tokio::spawn(async move {
        let mut question = Vec::new();
        // Ends though the other direction goes on.
        futures_util::AsyncReadExt::read_to_end(&mut there, &mut question)
            .await
            .unwrap();
        question.reverse();
        futures_util::AsyncWriteExt::write_all(&mut there, &question)
            .await
            .unwrap();
    });
    let question = bytes_at(0, 300_000);
    futures_util::AsyncWriteExt::write_all(&mut here, &question)
        .await
        .unwrap();
    here.close().await.unwrap();
    let error = futures_util::AsyncWriteExt::write(&mut here, b"more")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert!(error.to_string().contains("shut down"), "{error}");
    let mut answer = Vec::new();
    futures_util::AsyncReadExt::read_to_end(&mut here, &mut answer)
        .await
        .unwrap();
    answer.reverse();
    assert_eq!(answer, question);
    answering.await.unwrap();
}

/// A proxy between two of them, as people write it.
#[test]
fn tokio_copies_both_ways() {
    const BYTES: usize = 1 << 20;
    for runtime in runtimes() {
        runtime.block_on(async {
            let (client, mut front) = both::<Tokio>();
            let (mut back, server) = both::<Tokio>();
            let proxy = tokio::spawn(async move {
                tokio::io::copy_bidirectional(&mut front, &mut back)
                    .await
                    .unwrap()
            });
            let echo = tokio::spawn(async move {
                let (mut from, mut to) = tokio::io::split(server);
                let echoed = tokio::io::copy(&mut from, &mut to).await.unwrap();
                to.shutdown().await.unwrap();
                echoed
            });
            let (mut answers, mut questions) = tokio::io::split(client);
            let asking = tokio::spawn(async move {
                AsyncWriteExt::write_all(&mut questions, &bytes_at(0, BYTES))
                    .await
                    .unwrap();
                questions.shutdown().await.unwrap();
            });
            let mut back = Vec::new();
            AsyncReadExt::read_to_end(&mut answers, &mut back)
                .await
                .unwrap();
            assert_eq!(back.len(), BYTES);
            check(0, &back);
            asking.await.unwrap();
            assert_eq!(echo.await.unwrap(), BYTES as u64);
            assert_eq!(proxy.await.unwrap(), (BYTES as u64, BYTES as u64));
        });
    }
}

#[test]
fn an_end_given_back_waits_again() {
    let [runtime, _] = runtimes();
    let (here, mut there) = duplex().unwrap();
    let here = runtime.block_on(async {
        let end = on_tokio::DuplexEnd::new(here).unwrap();
        end.into_inner().unwrap()
    });
    let mut byte = [0];
    let read = crate::common::once_asleep(
        || std::io::Read::read(&mut &here, &mut byte).unwrap(),
        |_| std::io::Write::write_all(&mut there, b"q").unwrap(),
    );
    assert_eq!((read, byte), (1, *b"q"));
}

/// The reader comes to the end while the end that was shut down is still there; a copy of it goes on.
#[test]
fn to_shut_down_is_to_close_this_end_and_no_other() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (reader, writer) = standpipe::pipe::pipe().unwrap();
            let copy = writer.try_clone().unwrap();
            let mut reader = on_tokio::ReadEnd::new(reader).unwrap();
            let [mut writer, mut copy] =
                [writer, copy].map(|end| on_tokio::WriteEnd::new(end).unwrap());
            let reading = tokio::spawn(async move {
                let mut text = String::new();
                AsyncReadExt::read_to_string(&mut reader, &mut text)
                    .await
                    .unwrap();
                text
            });
            AsyncWriteExt::write_all(&mut writer, b"from one, ")
                .await
                .unwrap();
            writer.shutdown().await.unwrap();
            AsyncWriteExt::write_all(&mut copy, b"from the other")
                .await
                .unwrap();
            copy.shutdown().await.unwrap();
            assert_eq!(reading.await.unwrap(), "from one, from the other");
            let error = writer.try_write(b"x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            assert_eq!(
                writer.writable().await.unwrap_err().kind(),
                ErrorKind::BrokenPipe
            );
            assert_eq!(copy.into_inner().unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    }
}

/// A FIFO that is open both ways, as daemons have it: it never ends.
#[test]
fn an_end_that_reads_and_writes_is_either() {
    for runtime in runtimes() {
        runtime.block_on(either::<Tokio>());
        runtime.block_on(either::<AsyncIo>());
    }
}

async fn either<R: Reactor>() {
    const BYTES: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let end: End = fifo::open_both(&path).unwrap();
    let mut reader = ReadEnd::<R>::try_from(end.try_clone().unwrap()).unwrap();
    let mut writer = WriteEnd::<R>::try_from(end).unwrap();
    let writing = tokio::spawn(async move {
        futures_util::AsyncWriteExt::write_all(&mut writer, &bytes_at(0, BYTES))
            .await
            .unwrap();
        writer
    });
    let mut bytes = vec![0; BYTES];
    futures_util::AsyncReadExt::read_exact(&mut reader, &mut bytes)
        .await
        .unwrap();
    check(0, &bytes);
    let writer = writing.await.unwrap();
    // Nobody is left but itself: that is not the end.
    assert!(
        crate::poll_and_drop(futures_util::AsyncReadExt::read(&mut reader, &mut [0]), 2).is_none()
    );
    assert_eq!(writer.try_write(b"z").unwrap(), 1);
    let mut byte = [0];
    futures_util::AsyncReadExt::read_exact(&mut reader, &mut byte)
        .await
        .unwrap();
    assert_eq!(byte, *b"z");
}
