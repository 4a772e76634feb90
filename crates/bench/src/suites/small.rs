//! Small messages from one writer to one reader, a system call or a function call each.
//!
//! Ours takes some tens of nanoseconds a message, so nothing else may be done for each: a message
//! begins and ends with its number, which the reader compares; the clock is read once in a while.

use std::io::Write;
use std::time::Duration;

use anyhow::{bail, ensure};

use super::Pace;
use crate::clock::{Stop, now_ns};
use crate::engine::{Face, Kind, Sink, Source};
use crate::family::{Family, Numbers};
use crate::measure::{Contender, Round, Sample};
use crate::record::Metric;

/// As of a pipe that nobody configured.
const CAPACITY_BYTES: usize = 64 << 10;
/// Messages between two looks at the clock.
const MESSAGES_PER_LOOK: u64 = 512;
const NUMBER_BYTES: usize = size_of::<u64>();

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of a message, at least 16.
    pub sizes_bytes: Vec<usize>,
    /// From where ours is used.
    pub face: Face,
    /// When a run ends.
    pub stop: Stop,
}

impl Plan {
    /// All sizes at the given pace.
    #[must_use]
    pub fn new(pace: Pace, face: Face) -> Self {
        let time = Duration::from_millis(match pace {
            Pace::Quick => 300,
            Pace::Full => 1000,
        });
        Self {
            sizes_bytes: vec![16, 64, 512, 4096],
            face,
            stop: Stop::after(time),
        }
    }

    /// One round a size.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let size = |&bytes: &usize| {
            let rival = |kind: Kind| {
                Contender::new(kind.engine(), bytes.to_string(), move || {
                    self.run(kind, bytes)
                })
            };
            self.face.rivals().map(rival).into()
        };
        self.sizes_bytes.iter().map(size).collect()
    }

    fn run(&self, kind: Kind, message_bytes: usize) -> anyhow::Result<Sample> {
        let ends = kind.pipe(CAPACITY_BYTES)?;
        let mut family = Family::new()?;
        let ends = family.spawn("writer", ends, |(source, sink)| {
            drop(source);
            write(sink, message_bytes, self.stop)
        })?;
        let ends = family.spawn("reader", ends, |(source, sink)| {
            drop(sink);
            read(source, message_bytes)
        })?;
        drop(ends);
        let reports = family.run()?;
        let [(start_ns, sent), (end_ns, received)] =
            [&reports[0], &reports[1]].map(|report| (report[0], report[1]));
        ensure!(
            sent == received,
            "{sent} messages were sent, {received} arrived"
        );
        let avg_ns = (end_ns - start_ns) as f64 / received as f64;
        let mb_per_s = message_bytes as f64 * 1e3 / avg_ns;
        Ok(vec![(Metric::AvgNs, avg_ns), (Metric::MbPerS, mb_per_s)])
    }
}

fn write(mut sink: Sink, message_bytes: usize, stop: Stop) -> anyhow::Result<Numbers> {
    let mut message = vec![0xA5; message_bytes];
    let last = message_bytes - NUMBER_BYTES;
    let mut number = 0_u64;
    let start_ns = now_ns();
    loop {
        for _ in 0..MESSAGES_PER_LOOK {
            number += 1;
            message[..NUMBER_BYTES].copy_from_slice(&number.to_ne_bytes());
            message[last..].copy_from_slice(&number.to_ne_bytes());
            sink.write_all(&message)?;
        }
        if stop.reached(start_ns, now_ns(), number * message_bytes as u64, 1) {
            return Ok(vec![start_ns, number]);
        }
    }
}

fn read(mut source: Source, message_bytes: usize) -> anyhow::Result<Numbers> {
    let mut message = vec![0; message_bytes];
    let mut number = 0_u64;
    loop {
        let count = source.read_full(&mut message)?;
        if count == 0 {
            return Ok(vec![now_ns(), number]);
        }
        number += 1;
        let expected = number.to_ne_bytes();
        if count < message_bytes || !message.starts_with(&expected) || !message.ends_with(&expected)
        {
            bail!(
                "message {number}: got {count} bytes {:?} to {:?}, expected {message_bytes} that \
                 begin and end with its number",
                &message[..NUMBER_BYTES],
                &message[message_bytes - NUMBER_BYTES..]
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The canary: messages damaged at either end, cut short or swapped are errors.
    #[test]
    fn a_damaged_message_is_an_error() {
        let numbered = |number: u64| {
            let mut message = vec![0; 64];
            message[..8].copy_from_slice(&number.to_ne_bytes());
            message[56..].copy_from_slice(&number.to_ne_bytes());
            message
        };
        let intact = [numbered(1), numbered(2)].concat();
        let mut flipped = [intact.clone(), intact.clone()];
        flipped[0][64] ^= 1;
        flipped[1][127] ^= 1;
        let [first, second] = flipped;
        let swapped = [numbered(2), numbered(1)].concat();
        for damaged in [first, second, intact[..100].to_vec(), swapped] {
            let (source, mut sink) = Kind::Kernel.pipe(CAPACITY_BYTES).unwrap();
            sink.write_all(&damaged).unwrap();
            drop(sink);
            assert!(
                read(source, 64)
                    .unwrap_err()
                    .to_string()
                    .contains("message")
            );
        }
        let (source, mut sink) = Kind::Kernel.pipe(CAPACITY_BYTES).unwrap();
        sink.write_all(&intact).unwrap();
        drop(sink);
        assert_eq!(read(source, 64).unwrap()[1], 2);
    }
}
