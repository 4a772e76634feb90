//! The end of the stream, broken pipes, and peers that are killed while somebody waits for them.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use standpipe::asynchronous::{Reactor, ReadEnd, WriteEnd, futures::AsyncIo, tokio::Tokio};
use standpipe::pipe::pipe;

use crate::runtimes;

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};

fn ends<R: Reactor>() -> (ReadEnd<R>, WriteEnd<R>) {
    let (reader, writer) = pipe().unwrap();
    (
        ReadEnd::new(reader).unwrap(),
        WriteEnd::new(writer).unwrap(),
    )
}

#[test]
fn who_waits_is_told_of_the_end() {
    for runtime in runtimes() {
        runtime.block_on(end::<Tokio>());
        runtime.block_on(end::<AsyncIo>());
        runtime.block_on(broken::<Tokio>());
        runtime.block_on(broken::<AsyncIo>());
    }
}

async fn end<R: Reactor>() {
    for carried in [0, 10] {
        let (mut reader, mut writer) = ends::<R>();
        let reading = tokio::spawn(async move {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).await.unwrap();
            bytes
        });
        tokio::task::yield_now().await;
        for _ in 0..carried {
            writer.write_all(b"x").await.unwrap();
            tokio::task::yield_now().await;
        }
        drop(writer);
        assert_eq!(reading.await.unwrap(), vec![b'x'; carried]);
    }
}

async fn broken<R: Reactor>() {
    let (reader, mut writer) = ends::<R>();
    let writing = tokio::spawn(async move {
        loop {
            if let Err(error) = writer.write_all(&[0; 4096]).await {
                return error.kind();
            }
        }
    });
    // It waits, or is about to.
    tokio::task::yield_now().await;
    drop(reader);
    assert_eq!(writing.await.unwrap(), ErrorKind::BrokenPipe);
}

/// A program at the other end, killed while we wait for it.
#[test]
fn a_peer_killed_while_we_wait_ends_the_wait() {
    for runtime in runtimes() {
        runtime.block_on(killed::<Tokio>());
        runtime.block_on(killed::<AsyncIo>());
    }
}

async fn killed<R: Reactor>() {
    let (reader, writer) = pipe().unwrap();
    let mut program = Command::new("sh")
        .args(["-c", "echo ready; exec sleep 1000"])
        .stdout(writer)
        .spawn()
        .unwrap();
    let mut reader = ReadEnd::<R>::new(reader).unwrap();
    let mut bytes = [0; 100];
    let count = reader.read(&mut bytes).await.unwrap();
    assert_eq!(&bytes[..count], b"ready\n");
    let reading = tokio::spawn(async move { reader.read(&mut [0; 100]).await });
    tokio::task::yield_now().await;
    program.kill().unwrap();
    assert_eq!(reading.await.unwrap().unwrap(), 0);
    assert_eq!(program.wait().unwrap().signal(), Some(9));

    let (reader, writer) = pipe().unwrap();
    let mut program = Command::new("sleep")
        .arg("1000")
        .stdin(reader)
        .spawn()
        .unwrap();
    let writer = WriteEnd::<R>::new(writer).unwrap();
    let writing = tokio::spawn(async move {
        let mut writer = writer;
        loop {
            if let Err(error) = writer.write_all(&[0; 4096]).await {
                return error.kind();
            }
        }
    });
    tokio::task::yield_now().await;
    program.kill().unwrap();
    assert_eq!(writing.await.unwrap(), ErrorKind::BrokenPipe);
    program.wait().unwrap();
}

const CHILD: &str = "STANDPIPE_TEST_ASYNC_CHILD";

/// A peer that shares the lane: this program, forked before it has threads.
#[test]
fn a_peer_of_the_lane_killed_while_we_wait_ends_the_wait() {
    let Some(role) = std::env::var_os(CHILD) else {
        for role in ["reads", "writes"] {
            let status = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "ended::a_peer_of_the_lane_killed_while_we_wait_ends_the_wait",
                ])
                .arg("--test-threads=1")
                .env(CHILD, role)
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "{role}: {status}");
        }
        return;
    };
    for flavour in 0..2 {
        if role == "reads" {
            wait_for_dying_writer(flavour);
        } else {
            wait_for_dying_reader(flavour);
        }
    }
}

fn fork(child: impl FnOnce()) -> Pid {
    // SAFETY: the child goes on with this thread only, and uses what it has itself.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        child();
        loop {
            // SAFETY: sleeps until a signal comes.
            unsafe { libc::pause() };
        }
    }
    Pid::from_raw(pid).unwrap()
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
}

fn wait_for_dying_writer(flavour: usize) {
    use std::io::Write;
    let (reader, mut writer) = pipe().unwrap();
    let pid = fork(|| {
        // What the parent has open of the other end is a copy of ours until it drops it.
        loop {
            writer.write_all(&[7; 10_000]).unwrap();
            std::thread::yield_now();
            if writer.stats().bytes > 1_000_000 {
                break;
            }
        }
    });
    drop(writer);
    let runtime = runtimes().into_iter().nth(flavour).unwrap();
    runtime.block_on(async {
        let mut reader = ReadEnd::<Tokio>::new(reader).unwrap();
        let mut taken = 0;
        let mut bytes = vec![0; 100_000];
        while reader.as_end().stats().bytes < 1_000_000 {
            taken += reader.read(&mut bytes).await.unwrap();
        }
        assert!(taken > 0);
        let reading = tokio::spawn(async move {
            loop {
                match reader.read(&mut bytes).await.unwrap() {
                    0 => return,
                    count => assert!(bytes[..count].iter().all(|byte| *byte == 7)),
                }
            }
        });
        tokio::task::yield_now().await;
        kill(pid);
        reading.await.unwrap();
    });
}

fn wait_for_dying_reader(flavour: usize) {
    use std::io::Read;
    let (mut reader, writer) = pipe().unwrap();
    let pid = fork(|| {
        let mut bytes = vec![0; 10_000];
        while reader.stats().bytes < 1_000_000 {
            reader.read_exact(&mut bytes).unwrap();
        }
    });
    drop(reader);
    let runtime = runtimes().into_iter().nth(flavour).unwrap();
    runtime.block_on(async {
        let mut writer = WriteEnd::<Tokio>::new(writer).unwrap();
        while writer.as_end().stats().bytes < 1_000_000 {
            writer.write_all(&[7; 10_000]).await.unwrap();
        }
        let writing = tokio::spawn(async move {
            loop {
                if let Err(error) = writer.write_all(&[7; 10_000]).await {
                    return error.kind();
                }
            }
        });
        tokio::task::yield_now().await;
        kill(pid);
        assert_eq!(writing.await.unwrap(), ErrorKind::BrokenPipe);
    });
}
