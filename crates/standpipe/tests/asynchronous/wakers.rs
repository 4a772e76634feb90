//! Tasks of one process wake each other; threads, other processes and tasks that wait together all wake.

use std::future::Future;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, waitpid};
use standpipe::asynchronous::{Reactor, ReadEnd, WriteEnd, futures::AsyncIo, tokio::Tokio};
use standpipe::end::End;
use standpipe::pipe::pipe;
use standpipe_shm::sync::{AtomicUsize, Ordering};

use crate::common::into_the_lane;
use crate::runtimes;

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends of a pipe that is in its lane.
fn in_lane<R: Reactor>() -> (ReadEnd<R>, WriteEnd<R>) {
    let (reader, writer) = pipe().unwrap();
    into_the_lane(reader.as_end(), writer.as_end());
    (
        ReadEnd::new(reader).unwrap(),
        WriteEnd::new(writer).unwrap(),
    )
}

/// No runtime takes part: whoever is polled has woken the other when it is done, and no bell rings.
#[test]
fn tasks_of_one_process_need_no_bell() {
    let [runtime, _] = runtimes();
    runtime.block_on(async {
        let (mut reader, mut writer) = in_lane::<Tokio>();
        // The bells may have rung before.
        let descriptors = [reader.as_end(), writer.as_end()].map(descriptor_of);
        let counts = [(); 2].map(|()| Arc::<Count>::default());
        let wakers = counts.clone().map(Waker::from);
        let [by_bytes, by_room] = counts;
        let [mut reading, mut writing] = wakers.each_ref().map(Context::from_waker);
        let mut buf = vec![0; 1 << 20];
        for _ in 0..3 {
            let mut read = pin!(reader.read(&mut buf));
            assert!(read.as_mut().poll(&mut reading).is_pending());
            let before = by_bytes.woken();
            assert!(pin!(writer.write(b"x")).poll(&mut writing).is_ready());
            assert_eq!(by_bytes.woken(), before + 1, "by the first byte");
            assert!(pin!(writer.write(b"y")).poll(&mut writing).is_ready());
            assert_eq!(by_bytes.woken(), before + 1, "by no other");
            assert!(read.as_mut().poll(&mut reading).is_ready());

            while pin!(writer.write(&[0; 4096])).poll(&mut writing).is_ready() {}
            let before = by_room.woken();
            while pin!(reader.read(&mut buf)).poll(&mut reading).is_ready() {}
            assert_eq!(by_room.woken(), before + 1, "by the room");
        }
        for fd in descriptors {
            assert!(!is_readable(fd));
        }
    });
}

/// Which tells of bells, after it was silenced once.
fn descriptor_of(end: &End) -> RawFd {
    end.pollable().unwrap().as_raw_fd()
}

fn is_readable(fd: RawFd) -> bool {
    // SAFETY: the end that has it is there until the test ends.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let at_once = Timespec::default();
    poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&at_once),
    )
    .unwrap()
        > 0
}

/// An executor that knows of no I/O at all: a thread that parks.
#[test]
fn any_executor_will_do() {
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        struct Thread(std::thread::Thread);
        impl Wake for Thread {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Thread(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut cx) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }
    let (reader, writer) = pipe().unwrap();
    let mut writer = WriteEnd::<AsyncIo>::new(writer).unwrap();
    let writing = std::thread::spawn(move || {
        block_on(async {
            for number in 0..50_000_u32 {
                writer.write_all(&number.to_ne_bytes()).await.unwrap();
            }
            writer.close().await.unwrap();
        });
    });
    block_on(async {
        let mut reader = ReadEnd::<AsyncIo>::new(reader).unwrap();
        for number in 0..50_000_u32 {
            let mut bytes = [0; 4];
            reader.read_exact(&mut bytes).await.unwrap();
            assert_eq!(u32::from_ne_bytes(bytes), number);
        }
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    });
    writing.join().unwrap();
}

const RECORD_BYTES: usize = 8;
const RECORDS: u32 = 20_000;

fn record(who: u32, number: u32) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..4].copy_from_slice(&who.to_ne_bytes());
    record[4..].copy_from_slice(&number.to_ne_bytes());
    record
}

/// Reads records until the end of the stream; each writer's come in their order. Says how many came.
async fn read_records<R: Reactor>(mut reader: ReadEnd<R>) -> usize {
    let mut next = [0; 2];
    let mut count = 0;
    let mut bytes = [0; RECORD_BYTES];
    loop {
        let first = reader.read(&mut bytes).await.unwrap();
        if first == 0 {
            return count;
        }
        reader.read_exact(&mut bytes[first..]).await.unwrap();
        let [who, number] = [0, 4].map(|at| {
            let word = bytes[at..at + 4].try_into().unwrap();
            u32::from_ne_bytes(word) as usize
        });
        assert_eq!(number, next[who]);
        next[who] += 1;
        count += 1;
    }
}

/// Several tasks, and threads that block, at both ends of one pipe.
#[test]
fn tasks_and_threads_share_both_sides() {
    for runtime in runtimes() {
        runtime.block_on(share::<Tokio>());
        runtime.block_on(share::<AsyncIo>());
    }
}

async fn share<R: Reactor>() {
    let (reader, writer) = pipe().unwrap();
    let mut threads = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let (mut to_write, mut to_read) =
            (writer.try_clone().unwrap(), reader.try_clone().unwrap());
        threads.push(std::thread::spawn(move || {
            use std::io::Write;
            for number in 0..RECORDS {
                to_write.write_all(&record(0, number)).unwrap();
            }
            0
        }));
        threads.push(std::thread::spawn(move || {
            use std::io::Read;
            let (mut taken, mut buf) = (0, [0; 1000]);
            loop {
                match to_read.read(&mut buf).unwrap() {
                    0 => return taken,
                    bytes => taken += bytes,
                }
            }
        }));
        let mut to_write = WriteEnd::<R>::new(writer.try_clone().unwrap()).unwrap();
        let mut to_read = ReadEnd::<R>::new(reader.try_clone().unwrap()).unwrap();
        tasks.push(tokio::spawn(async move {
            for number in 0..RECORDS {
                to_write.write_all(&record(0, number)).await.unwrap();
            }
            0
        }));
        tasks.push(tokio::spawn(async move {
            let (mut taken, mut buf) = (0, [0; 1000]);
            loop {
                match to_read.read(&mut buf).await.unwrap() {
                    0 => return taken,
                    bytes => taken += bytes,
                }
            }
        }));
    }
    drop((reader, writer));
    let mut taken = 0;
    for task in tasks {
        taken += task.await.unwrap();
    }
    for thread in threads {
        taken += thread.join().unwrap();
    }
    assert_eq!(taken, 4 * RECORDS as usize * RECORD_BYTES);
}

const CHILD: &str = "STANDPIPE_TEST_ASYNC_MIXED";

/// A task, a thread and a forked process write; the child comes while the reader waits for the others.
#[test]
fn another_process_joins_while_tasks_converse() {
    if std::env::var_os(CHILD).is_none() {
        let status = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "wakers::another_process_joins_while_tasks_converse",
            ])
            .arg("--test-threads=1")
            .env(CHILD, "1")
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    for runtime in runtimes() {
        runtime.block_on(joined_by_process::<Tokio>());
        runtime.block_on(joined_by_process::<AsyncIo>());
    }
}

async fn joined_by_process<R: Reactor>() {
    let (reader, writer) = in_lane::<R>();
    let mut writer = writer;
    let reading = tokio::spawn(read_records(reader));
    for number in 0..RECORDS {
        writer.write_all(&record(0, number)).await.unwrap();
    }
    tokio::task::yield_now().await;
    let pid = fork_and_write(&writer, 1);
    for number in RECORDS..2 * RECORDS {
        writer.write_all(&record(0, number)).await.unwrap();
        if number % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop(writer);
    assert_eq!(reading.await.unwrap(), 3 * RECORDS as usize);
    waitpid(Some(pid), WaitOptions::empty()).unwrap();
}

/// A child that writes records, and is gone. What it knows of tasks are the parent's.
fn fork_and_write<R: Reactor>(writer: &WriteEnd<R>, who: u32) -> Pid {
    // SAFETY: the child goes on with this thread only, and uses what it has itself.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        for number in 0..RECORDS {
            loop {
                match writer.try_write(&record(who, number)) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::yield_now();
                    }
                    _ => break,
                }
            }
        }
        // SAFETY: ends the child; nothing of the parent's is run.
        unsafe { libc::_exit(0) };
    }
    Pid::from_raw(pid).unwrap()
}

/// An end that is given back, and goes on in another runtime, is woken there.
#[test]
fn an_end_that_moves_is_woken_where_it_is() {
    let [here, there] = runtimes();
    let (reader, writer) = pipe().unwrap();
    let (mut reader, mut writer) = here.block_on(async {
        let mut reader = ReadEnd::<Tokio>::new(reader).unwrap();
        let mut writer = WriteEnd::<Tokio>::new(writer).unwrap();
        writer.write_all(b"a").await.unwrap();
        assert_eq!(reader.read(&mut [0; 2]).await.unwrap(), 1);
        // It waits, and nobody comes back for it.
        assert!(crate::poll_and_drop(reader.read(&mut [0]), 2).is_none());
        (reader.into_inner().unwrap(), writer)
    });
    let reading = there.spawn(async move {
        let mut reader = ReadEnd::<Tokio>::new(reader).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        (text, reader.into_inner().unwrap())
    });
    here.block_on(async {
        // (In tasks of both runtimes, by now.)
        for _ in 0..1000 {
            writer.write_all(b"b").await.unwrap();
            tokio::task::yield_now().await;
        }
        writer.close().await.unwrap();
    });
    let (text, left) = there.block_on(reading).unwrap();
    assert_eq!(text, "b".repeat(1000));
    reader = left;
    assert_eq!(std::io::Read::read(&mut reader, &mut [0]).unwrap(), 0);
}
