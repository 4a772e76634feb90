//! Copies, whole and in parts.

use fastrand::Rng;
use standpipe::asynchronous::tokio::{ReadEnd, WriteEnd, copy, copy_with};
use standpipe::asynchronous::{CopyBuffer, futures};
use standpipe::pipe::{Builder, pipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{bytes_at, check, poll_and_drop, runtimes};

const STREAM_BYTES: usize = 3 << 20;

fn ends() -> (ReadEnd, WriteEnd) {
    let (reader, writer) = pipe().unwrap();
    (
        ReadEnd::new(reader).unwrap(),
        WriteEnd::new(writer).unwrap(),
    )
}

#[test]
fn a_copy_is_whole() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut reader, mut there) = ends();
            let (mut back, mut writer) = ends();
            tokio::spawn(async move {
                there.write_all(&bytes_at(0, STREAM_BYTES)).await.unwrap();
            });
            let copying = tokio::spawn(async move { copy(&mut reader, &mut writer).await });
            let mut copied = Vec::new();
            back.read_to_end(&mut copied).await.unwrap();
            assert_eq!(copied.len(), STREAM_BYTES);
            check(0, &copied);
            assert_eq!(copying.await.unwrap().unwrap(), STREAM_BYTES as u64);
        });
    }
}

#[test]
fn a_copy_between_the_ends_of_another_runtime_is_whole() {
    let (reader, there) = pipe().unwrap();
    let (back, writer) = pipe().unwrap();
    let [mut reader, mut back] = [reader, back].map(|end| futures::ReadEnd::new(end).unwrap());
    let [mut there, mut writer] = [there, writer].map(|end| futures::WriteEnd::new(end).unwrap());
    async_io::block_on(futures_util::future::join3(
        async move {
            let bytes = bytes_at(0, STREAM_BYTES);
            there.write_all_from(&mut &bytes[..]).await.unwrap();
        },
        async move {
            let copied = futures::copy(&mut reader, &mut writer).await.unwrap();
            assert_eq!(copied, STREAM_BYTES as u64);
        },
        async move {
            let mut copied = Vec::new();
            futures_util::AsyncReadExt::read_to_end(&mut back, &mut copied)
                .await
                .unwrap();
            assert_eq!(copied.len(), STREAM_BYTES);
            check(0, &copied);
        },
    ));
}

#[test]
fn a_copy_dropped_anywhere_goes_on_where_it_was() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut reader, mut there) = ends();
            // Holds less than is read at a time.
            let (back, writer) = Builder::new().capacity_bytes(8192).build().unwrap();
            let mut back = ReadEnd::new(back).unwrap();
            let mut writer = WriteEnd::new(writer).unwrap();
            tokio::spawn(async move {
                there.write_all(&bytes_at(0, STREAM_BYTES)).await.unwrap();
            });
            let reading = tokio::spawn(async move {
                let mut copied = Vec::new();
                back.read_to_end(&mut copied).await.unwrap();
                copied
            });
            let mut buffer = CopyBuffer::new();
            let mut rng = Rng::with_seed(1);
            let (mut drops, mut full_drops) = (0, 0);
            loop {
                let copying = copy_with(&mut buffer, &mut reader, &mut writer);
                if let Some(copied) = poll_and_drop(copying, rng.usize(1..3)) {
                    assert_eq!(copied.unwrap(), STREAM_BYTES as u64);
                    break;
                }
                drops += 1;
                full_drops += usize::from(!buffer.unwritten().is_empty());
                tokio::task::yield_now().await;
            }
            assert!(
                full_drops > 0,
                "none of {drops} futures was dropped with bytes in hand"
            );
            drop(writer);
            let copied = reading.await.unwrap();
            assert_eq!(copied.len(), STREAM_BYTES);
            check(0, &copied);
        });
    }
}

/// What the writer keeps to itself does not stay there while nothing comes.
#[test]
fn a_copy_that_waits_has_flushed() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (mut reader, mut there) = ends();
            let (mut back, writer) = ends();
            let mut writer = tokio::io::BufWriter::new(writer);
            let mut buffer = CopyBuffer::new();
            let mut copying = std::pin::pin!(copy_with(&mut buffer, &mut reader, &mut writer));
            for byte in 0..3 {
                there.write_u8(byte).await.unwrap();
                let copied = tokio::select! {
                    ended = &mut copying => panic!("{ended:?}"),
                    copied = back.read_u8() => copied,
                };
                assert_eq!(copied.unwrap(), byte);
            }
            drop(there);
            assert_eq!(copying.await.unwrap(), 3);
        });
    }
}
