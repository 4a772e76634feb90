//! Futures dropped at random points, against bytes that know their place.

use fastrand::Rng;
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use standpipe::asynchronous::{Reactor, ReadEnd, WriteEnd, futures::AsyncIo, tokio::Tokio};
use standpipe::pipe::{PIPE_BUF, pipe};

use crate::{bytes_at, check, poll_and_drop, runtimes};

const STREAM_BYTES: u64 = 8 << 20;

#[test]
fn dropped_reads_lose_nothing_and_dropped_writes_wrote_nothing() {
    for (seed, runtime) in (0..).zip(runtimes()) {
        runtime.block_on(stream::<Tokio>(seed));
        runtime.block_on(stream::<AsyncIo>(seed));
    }
}

async fn stream<R: Reactor>(seed: u64) {
    let (reader, writer) = pipe().unwrap();
    let reader = ReadEnd::<R>::new(reader).unwrap();
    let writer = WriteEnd::<R>::new(writer).unwrap();
    let writing = tokio::spawn(write(writer, Rng::with_seed(seed)));
    read(reader, Rng::with_seed(!seed)).await;
    writing.await.unwrap();
}

async fn write<R: Reactor>(mut writer: WriteEnd<R>, mut rng: Rng) {
    let mut position = 0;
    while position < STREAM_BYTES {
        let most = if rng.bool() { PIPE_BUF } else { 100_000 };
        let bytes = bytes_at(position, rng.usize(1..=most));
        let written = if rng.u8(..) < 100 {
            poll_and_drop(writer.write(&bytes), rng.usize(..3)).map_or(0, Result::unwrap)
        } else if rng.bool() {
            writer.write(&bytes).await.unwrap()
        } else {
            let mut left = &bytes[..];
            let outcome = poll_and_drop(writer.write_all_from(&mut left), rng.usize(1..4));
            assert_eq!(outcome.is_some(), left.is_empty());
            bytes.len() - left.len()
        };
        if bytes.len() <= PIPE_BUF {
            assert!(
                [0, bytes.len()].contains(&written),
                "{written} of {}",
                bytes.len()
            );
        }
        position += written as u64;
        if rng.u8(..) < 20 {
            tokio::task::yield_now().await;
        }
    }
}

async fn read<R: Reactor>(mut reader: ReadEnd<R>, mut rng: Rng) {
    let mut position = 0;
    let mut buf = vec![0; 100_000];
    loop {
        let room = &mut buf[..rng.usize(1..=100_000)];
        let taken = if rng.u8(..) < 100 {
            poll_and_drop(reader.read(room), rng.usize(..3))
        } else {
            Some(reader.read(room).await)
        };
        match taken {
            None => tokio::task::yield_now().await,
            Some(taken) => {
                let taken = taken.unwrap();
                if taken == 0 {
                    break;
                }
                check(position, &buf[..taken]);
                position += taken as u64;
            }
        }
    }
    assert!(position >= STREAM_BYTES, "the end after {position} bytes");
}
