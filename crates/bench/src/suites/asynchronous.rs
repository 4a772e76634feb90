//! Tasks of one tokio runtime, in pairs: one writes messages, one reads them.
//!
//! Both are tried where they may run on two threads and where they share one (`-thread`). A message
//! begins and ends with its number, which the reader compares; the clock is read once in a while.
//! All rivals hold as much: 64 KiB, as a pipe that nobody configured.

use std::time::Duration;

use anyhow::{bail, ensure};
use standpipe::asynchronous::tokio as ours;
use standpipe::pipe;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use super::Pace;
use crate::clock::{Stop, now_ns};
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};

/// As of a pipe that nobody configured.
const CAPACITY_BYTES: usize = 64 << 10;
/// Bytes between two looks at the clock.
const BYTES_PER_LOOK: usize = 32 << 10;
const NUMBER_BYTES: usize = size_of::<u64>();
/// The two threads that a pair can use.
const WORKERS: usize = 2;

/// Who carries the bytes.
const RIVALS: [Engine; 3] = [Engine::TokioPipe, Engine::Simplex, Engine::Standpipe];

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of a message, at least 16.
    pub sizes_bytes: Vec<usize>,
    /// How many pairs at a time.
    pub pairs: Vec<usize>,
    /// When a run ends.
    pub stop: Stop,
}

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
struct Case {
    message_bytes: usize,
    pairs: usize,
    is_threaded: bool,
}

impl Case {
    fn name(self) -> String {
        let size = match self.message_bytes {
            bytes if bytes < 1024 => bytes.to_string(),
            bytes => format!("{}k", bytes >> 10),
        };
        let place = if self.is_threaded { "" } else { "-thread" };
        format!("{size}-{}{place}", self.pairs)
    }

    fn runtime(self) -> std::io::Result<Runtime> {
        if self.is_threaded {
            Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .enable_io()
                .build()
        } else {
            Builder::new_current_thread().enable_io().build()
        }
    }
}

impl Plan {
    /// All cases at the given pace.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        let time = Duration::from_millis(match pace {
            Pace::Quick => 150,
            Pace::Full => 1000,
        });
        Self {
            sizes_bytes: vec![64, 64 << 10],
            pairs: vec![1, 128],
            stop: Stop::after(time),
        }
    }

    /// One round a case.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let round = |case: Case| {
            let rival =
                |engine| Contender::new(engine, case.name(), move || self.run(engine, case));
            RIVALS.map(rival).into()
        };
        self.cases().map(round).collect()
    }

    fn cases(&self) -> impl Iterator<Item = Case> {
        [true, false].into_iter().flat_map(move |is_threaded| {
            self.sizes_bytes.iter().flat_map(move |&message_bytes| {
                self.pairs.iter().map(move |&pairs| Case {
                    message_bytes,
                    pairs,
                    is_threaded,
                })
            })
        })
    }

    fn run(&self, engine: Engine, case: Case) -> anyhow::Result<Sample> {
        let mut family = Family::new()?;
        let stop = self.stop;
        // A process of its own: this one may have no threads.
        family.spawn("tasks", (), |()| {
            case.runtime()?.block_on(converse(engine, case, stop))
        })?;
        let reports = family.run()?;
        let [ns, messages] = reports[0][..] else {
            bail!("a report of {} numbers", reports[0].len());
        };
        let avg_ns = ns as f64 / messages as f64;
        let mb_per_s = case.message_bytes as f64 * 1e3 / avg_ns;
        Ok(vec![(Metric::AvgNs, avg_ns), (Metric::MbPerS, mb_per_s)])
    }
}

/// All pairs at once; reports the time, and how many messages there were.
async fn converse(engine: Engine, case: Case, stop: Stop) -> anyhow::Result<Numbers> {
    let bytes = case.message_bytes;
    let mut tasks = Vec::with_capacity(case.pairs);
    let start_ns = now_ns();
    for _ in 0..case.pairs {
        tasks.push(match engine {
            Engine::Standpipe => {
                let (reader, writer) = pipe::pipe()?;
                pair(
                    ours::ReadEnd::new(reader)?,
                    ours::WriteEnd::new(writer)?,
                    bytes,
                    stop,
                )
            }
            Engine::TokioPipe => {
                let (writer, reader) = tokio::net::unix::pipe::pipe()?;
                let holds = rustix::pipe::fcntl_getpipe_size(&reader)?;
                ensure!(
                    holds == CAPACITY_BYTES,
                    "the kernel's pipe holds {holds} bytes, expected {CAPACITY_BYTES}"
                );
                pair(reader, writer, bytes, stop)
            }
            Engine::Simplex => {
                let (reader, writer) = tokio::io::simplex(CAPACITY_BYTES);
                pair(reader, writer, bytes, stop)
            }
            other => bail!("{other} has no tasks"),
        });
    }
    let mut messages = 0;
    for (reading, writing) in tasks {
        let (received, sent) = (reading.await??, writing.await??);
        ensure!(
            sent == received,
            "{sent} messages were sent, {received} arrived"
        );
        messages += received;
    }
    Ok(vec![now_ns() - start_ns, messages])
}

type Task = tokio::task::JoinHandle<anyhow::Result<u64>>;

fn pair(
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    message_bytes: usize,
    stop: Stop,
) -> (Task, Task) {
    (
        tokio::spawn(read(reader, message_bytes)),
        tokio::spawn(write(writer, message_bytes, stop)),
    )
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    message_bytes: usize,
    stop: Stop,
) -> anyhow::Result<u64> {
    let mut message = vec![0xA5; message_bytes];
    let last = message_bytes - NUMBER_BYTES;
    let mut number = 0_u64;
    let start_ns = now_ns();
    loop {
        for _ in 0..BYTES_PER_LOOK.div_ceil(message_bytes) {
            number += 1;
            message[..NUMBER_BYTES].copy_from_slice(&number.to_ne_bytes());
            message[last..].copy_from_slice(&number.to_ne_bytes());
            writer.write_all(&message).await?;
        }
        if stop.reached(start_ns, now_ns(), number * message_bytes as u64, 1) {
            writer.shutdown().await?;
            return Ok(number);
        }
    }
}

async fn read(mut reader: impl AsyncRead + Unpin, message_bytes: usize) -> anyhow::Result<u64> {
    let mut message = vec![0; message_bytes];
    let mut number = 0_u64;
    loop {
        let first = reader.read(&mut message).await?;
        if first == 0 {
            return Ok(number);
        }
        reader.read_exact(&mut message[first..]).await?;
        number += 1;
        let expected = number.to_ne_bytes();
        ensure!(
            message.starts_with(&expected) && message.ends_with(&expected),
            "message {number}: expected one that begins and ends with its number"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canary: messages damaged at either end or swapped are errors.
    #[test]
    fn a_damaged_message_is_an_error() {
        let numbered = |number: u64| {
            let mut message = vec![0; 64];
            message[..8].copy_from_slice(&number.to_ne_bytes());
            message[56..].copy_from_slice(&number.to_ne_bytes());
            message
        };
        let runtime = Builder::new_current_thread().build().unwrap();
        let intact = [numbered(1), numbered(2)].concat();
        assert_eq!(runtime.block_on(read(&intact[..], 64)).unwrap(), 2);
        for place in [64, 127] {
            let mut damaged = intact.clone();
            damaged[place] ^= 1;
            assert!(runtime.block_on(read(&damaged[..], 64)).is_err());
        }
        let swapped = [numbered(2), numbered(1)].concat();
        assert!(runtime.block_on(read(&swapped[..], 64)).is_err());
    }
}
