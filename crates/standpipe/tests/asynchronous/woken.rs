//! Who waits is woken, whatever comes and goes behind its descriptor.

use std::io::{Read, Write};
use std::process::Command;

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use standpipe::asynchronous::{Reactor, ReadEnd, WriteEnd, futures::AsyncIo, tokio::Tokio};
use standpipe::end::End;
use standpipe::pipe::{self, pipe};

use crate::common::{ends, into_the_lane};
use crate::runtimes;

#[test]
fn each_byte_of_a_conversation_arrives() {
    for runtime in runtimes() {
        runtime.block_on(converse::<Tokio>());
        runtime.block_on(converse::<AsyncIo>());
    }
}

/// One byte there, one back: every one is waited for.
async fn converse<R: Reactor>() {
    let (there, mut out) = pipe().map(both::<R>).unwrap();
    let (mut back, answer) = pipe().map(both::<R>).unwrap();
    let echo = tokio::spawn(async move {
        let (mut there, mut answer) = (there, answer);
        let mut byte = [0];
        while there.read(&mut byte).await.unwrap() == 1 {
            answer.write_all(&[!byte[0]]).await.unwrap();
        }
    });
    for byte in (0..=255).cycle().take(5000) {
        out.write_all(&[byte]).await.unwrap();
        let mut answer = [0];
        back.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, [!byte]);
    }
    drop(out);
    echo.await.unwrap();
}

fn both<R: Reactor>(
    (reader, writer): (pipe::ReadEnd, pipe::WriteEnd),
) -> (ReadEnd<R>, WriteEnd<R>) {
    (
        ReadEnd::new(reader).unwrap(),
        WriteEnd::new(writer).unwrap(),
    )
}

/// The other side is a thread that knows nothing of runtimes.
#[test]
fn a_blocking_peer_wakes_and_is_woken() {
    for runtime in runtimes() {
        let (reader, mut writer) = pipe().unwrap();
        let thread = std::thread::spawn(move || {
            for number in 0..20_000_u32 {
                writer.write_all(&number.to_ne_bytes()).unwrap();
            }
        });
        runtime.block_on(async {
            let mut reader = ReadEnd::<Tokio>::new(reader).unwrap();
            for number in 0..20_000_u32 {
                let mut bytes = [0; 4];
                reader.read_exact(&mut bytes).await.unwrap();
                assert_eq!(u32::from_ne_bytes(bytes), number);
            }
            assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
        });
        thread.join().unwrap();
    }
}

/// Adopted ends, of which one is a copy: it waits on its own.
#[test]
fn a_copy_of_an_adopted_end_is_woken() {
    for runtime in runtimes() {
        let (reader, writer) = ends();
        let copy = reader.try_clone().unwrap();
        runtime.block_on(async {
            let mut copy = ReadEnd::<Tokio>::try_from(copy).unwrap();
            let reading = tokio::spawn(async move {
                let mut byte = [0];
                copy.read_exact(&mut byte).await.unwrap();
                byte
            });
            tokio::task::yield_now().await;
            (&writer).write_all(b"y").unwrap();
            assert_eq!(reading.await.unwrap(), *b"y");
        });
        drop(reader);
    }
}

/// The lane goes while somebody waits for it.
#[test]
fn a_reader_that_waits_in_the_lane_hears_of_bytes_beside_it() {
    for runtime in runtimes() {
        let (reader, writer) = pipe().unwrap();
        into_the_lane(reader.as_end(), writer.as_end());
        runtime.block_on(async {
            let mut reader = ReadEnd::<Tokio>::new(reader).unwrap();
            let reading = tokio::spawn(async move {
                let mut text = String::new();
                reader.read_to_string(&mut text).await.unwrap();
                text
            });
            tokio::task::yield_now().await;
            // A program takes the write end.
            let mut program = Command::new("echo")
                .arg("hello")
                .stdout(writer)
                .spawn()
                .unwrap();
            assert_eq!(reading.await.unwrap(), "hello\n");
            program.wait().unwrap();
        });
    }
}

#[test]
fn the_kernel_only_carries_all_the_same() {
    for runtime in runtimes() {
        let (reader, writer) = pipe().unwrap();
        reader.as_end().use_kernel().unwrap();
        runtime.block_on(async {
            let (mut reader, mut writer) = both::<Tokio>((reader, writer));
            let writing = tokio::spawn(async move {
                writer.write_all(&vec![3; 1 << 20]).await.unwrap();
            });
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).await.unwrap();
            assert_eq!(bytes.len(), 1 << 20);
            writing.await.unwrap();
        });
    }
}

/// Others may share the open file description, and rely on its mode.
#[test]
fn the_mode_stays_as_it_was_and_an_end_given_back_waits_again() {
    let [runtime, _] = runtimes();
    let (reader, writer) = pipe().unwrap();
    let is_nonblocking = |end: &End| {
        let flags = rustix::fs::fcntl_getfl(end).unwrap();
        flags.contains(rustix::fs::OFlags::NONBLOCK)
    };
    runtime.block_on(async {
        let asynchronous = ReadEnd::<Tokio>::new(reader).unwrap();
        assert!(!is_nonblocking(asynchronous.as_end()));
        let error = asynchronous.try_read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        let mut reader = asynchronous.into_inner().unwrap();
        let mut writer = writer;
        let mut byte = [0];
        let read = crate::common::once_asleep(
            || reader.read(&mut byte).unwrap(),
            |_| assert_eq!(writer.write(b"z").unwrap(), 1),
        );
        assert_eq!((read, byte), (1, *b"z"));
    });
}

#[test]
fn no_runtime_is_an_error_and_so_is_the_wrong_end() {
    let (reader, writer) = pipe().unwrap();
    let error = ReadEnd::<Tokio>::new(reader).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
    let error = ReadEnd::<Tokio>::try_from(End::from(writer)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "an end to write to, expected one to read from"
    );
}

#[test]
#[should_panic(expected = "IO is disabled")]
fn a_runtime_without_io_drives_nothing() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.build().unwrap();
    let (reader, _writer) = pipe().unwrap();
    let _ = runtime.block_on(async { ReadEnd::<Tokio>::new(reader) });
}

/// The current-thread runtime has one, and it stays alone.
#[test]
fn no_thread_is_started() {
    const CHILD: &str = "STANDPIPE_TEST_ASYNC_THREADS";
    if std::env::var_os(CHILD).is_none() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "woken::no_thread_is_started", "--test-threads=1"])
            .env(CHILD, "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let count = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = count();
    let [runtime, _] = [0, 1].map(|_| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    standpipe::fifo::create(&path, 0o600).unwrap();
    runtime.block_on(async {
        converse::<Tokio>().await;
        let (reader, writer) = tokio::join!(
            ReadEnd::<Tokio>::open_fifo(&path),
            WriteEnd::<Tokio>::open_fifo(&path)
        );
        let (mut reader, mut writer) = (reader.unwrap(), writer.unwrap());
        writer.write_all(b"q").await.unwrap();
        assert_eq!(reader.read(&mut [0; 2]).await.unwrap(), 1);
    });
    assert_eq!(count(), before);
}
