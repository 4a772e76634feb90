//! Writers stream blocks to readers through one pipe, each in a process of its own.

use std::io::{Read, Write};

use anyhow::{Context, ensure};

use crate::clock::{Stop, now_ns};
use crate::engine::{Kind, Sink, Source};
use crate::family::{Family, Numbers};
use crate::verify::{Block, Checker};

/// Bytes between two looks at the clock of a writer whose writes are not timed one by one.
const CLOCK_BYTES: usize = 64 << 10;

/// What to stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Through which pipe.
    pub kind: Kind,
    /// How much the pipe holds.
    pub capacity_bytes: usize,
    /// Processes that write.
    pub writers: usize,
    /// Processes that read.
    pub readers: usize,
    /// Bytes of a write, and of a reader's buffer.
    pub block_bytes: usize,
    /// When the writers stop.
    pub stop: Stop,
    /// Whether the time of each write is taken.
    pub timed_writes: bool,
}

/// What was streamed.
#[derive(Debug)]
pub struct Flow {
    /// Bytes that arrived.
    pub bytes: u64,
    /// From the first write to the last reader's end of file.
    pub elapsed_ns: u64,
    /// Times of the single writes, if they were taken.
    pub write_ns: Vec<u64>,
}

impl Flow {
    /// Throughput in millions of bytes per second.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.elapsed_ns as f64
    }
}

impl Stream {
    /// Streams once.
    ///
    /// # Errors
    /// When a process fails, and when the bytes that arrived are not those that were sent.
    pub fn run(&self) -> anyhow::Result<Flow> {
        let mut ends = self.kind.pipe(self.capacity_bytes)?;
        let mut family = Family::new()?;
        for number in 0..self.writers {
            ends = family.spawn(format!("writer {number}"), ends, |(source, sink)| {
                drop(source);
                self.write(sink, u8::try_from(number)?)
            })?;
        }
        for number in 0..self.readers {
            ends = family.spawn(format!("reader {number}"), ends, |(source, sink)| {
                drop(sink);
                self.read(source)
            })?;
        }
        drop(ends);
        let reports = family.run()?;
        let (writers, readers) = reports.split_at(self.writers);
        Flow::of(writers, readers)
    }

    /// A writer's job; reports its begin, its bytes, then the time of each write.
    fn write(&self, mut sink: Sink, number: u8) -> anyhow::Result<Numbers> {
        let mut block = Block::new(number, self.block_bytes);
        let writes_per_look = if self.timed_writes {
            1
        } else {
            CLOCK_BYTES.div_ceil(self.block_bytes)
        };
        let mut times_ns = Vec::with_capacity(if self.timed_writes { 1 << 16 } else { 0 });
        let (mut blocks, mut bytes) = (0, 0);
        let start_ns = now_ns();
        let mut before_ns = start_ns;
        loop {
            for _ in 0..writes_per_look {
                sink.write_all(block.stamped(blocks))?;
                blocks += 1;
                bytes += self.block_bytes as u64;
            }
            let after_ns = now_ns();
            if self.timed_writes {
                times_ns.push(after_ns - before_ns);
            }
            before_ns = after_ns;
            if self.stop.reached(start_ns, after_ns, bytes, self.writers) {
                break;
            }
        }
        drop(sink);
        Ok([start_ns, bytes].into_iter().chain(times_ns).collect())
    }

    /// A reader's job; reports its end and its bytes.
    fn read(&self, mut source: Source) -> anyhow::Result<Numbers> {
        let mut checker = if self.writers == 1 && self.readers == 1 {
            Checker::exact(self.block_bytes)
        } else {
            Checker::mixed(self.block_bytes, self.writers)
        };
        let mut buf = vec![0xFF; self.block_bytes];
        let mut bytes = 0;
        loop {
            let count = source.read(&mut buf)?;
            if count == 0 {
                return Ok(vec![now_ns(), bytes]);
            }
            checker.check(&buf[..count])?;
            bytes += count as u64;
        }
    }
}

impl Flow {
    /// Puts the reports of both sides together.
    fn of(writers: &[Numbers], readers: &[Numbers]) -> anyhow::Result<Self> {
        let starts = writers.iter().map(|report| report[0]);
        let ends = readers.iter().map(|report| report[0]);
        let sent = writers.iter().map(|report| report[1]).sum::<u64>();
        let bytes = readers.iter().map(|report| report[1]).sum::<u64>();
        ensure!(bytes == sent, "{sent} bytes were sent, {bytes} arrived");
        let start_ns = starts.min().context("no writers")?;
        let end_ns = ends.max().context("no readers")?;
        let write_ns = writers
            .iter()
            .flat_map(|report| &report[2..])
            .copied()
            .collect();
        Ok(Self {
            bytes,
            elapsed_ns: end_ns - start_ns,
            write_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_runs_from_the_first_write_to_the_last_end_of_file() {
        let writers = [vec![100, 4000, 7, 9], vec![90, 6000, 8]];
        let readers = [vec![1000, 3000], vec![1090, 7000]];
        let flow = Flow::of(&writers, &readers).unwrap();
        assert_eq!((flow.bytes, flow.elapsed_ns), (10_000, 1000));
        assert_eq!(flow.write_ns, [7, 9, 8]);
        assert!((flow.mb_per_s() - 10_000.0).abs() < 1e-9);
    }

    #[test]
    fn bytes_that_did_not_arrive_are_an_error() {
        let error = Flow::of(&[vec![0, 4000]], &[vec![10, 3999]]).unwrap_err();
        assert_eq!(error.to_string(), "4000 bytes were sent, 3999 arrived");
    }

    /// The canary: a reader that gets something else than was sent fails.
    #[test]
    fn a_reader_of_damaged_bytes_fails() {
        let block_bytes = 4096;
        for (writers, readers) in [(1, 1), (2, 1)] {
            let stream = Stream {
                kind: Kind::Kernel,
                capacity_bytes: 1 << 16,
                writers,
                readers,
                block_bytes,
                stop: Stop::after(std::time::Duration::ZERO),
                timed_writes: false,
            };
            let receive = |bytes: &[u8]| {
                let (source, mut sink) = stream.kind.pipe(stream.capacity_bytes).unwrap();
                sink.write_all(bytes).unwrap();
                drop(sink);
                stream.read(source)
            };
            let mut bytes = Block::new(0, block_bytes).stamped(0).to_vec();
            assert_eq!(receive(&bytes).unwrap()[1], block_bytes as u64);
            bytes[3] ^= 4;
            assert!(receive(&bytes).is_err(), "{writers}x{readers}");
        }
    }
}
