//! A process that keeps half of the memory busy.

use std::fs::File;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::family::Family;

const PAGE_BYTES: usize = 4096;
/// Touched in one go, then a pause: memory is to be short, not the processors. On a machine that
/// touches a page in 50 ns this takes a tenth of one processor.
const GO_BYTES: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(10);
/// What is left to everybody else whatever happens.
const SPARE_BYTES: usize = 1 << 30;

/// Memory kept busy until this is dropped.
#[derive(Debug)]
pub struct Pressure {
    _family: Family,
    /// How much of it.
    pub bytes: usize,
}

impl Pressure {
    /// Occupies half of the machine's memory, or less where less is free, or where a virtual
    /// machine gets its memory from its host so slowly that `patience` ends before.
    ///
    /// # Errors
    /// When memory is too short already, or there can be no further process.
    pub fn half_of_memory(patience: Option<Duration>) -> anyhow::Result<Self> {
        let [total, available] = meminfo()?;
        let free = available.saturating_sub(SPARE_BYTES);
        ensure!(
            free >= GO_BYTES,
            "memory pressure: only {available} bytes of memory are free"
        );
        let half = total / 2;
        let pressure = Self::of(half.min(free), patience)?;
        if pressure.bytes < half {
            let [has, wanted] = [pressure.bytes, half].map(|bytes| bytes >> 20);
            eprintln!("note: {has} MiB of memory are kept busy, half of it would be {wanted} MiB");
        }
        Ok(pressure)
    }

    /// Occupies `bytes`, or as many as it can before `patience` ends; returns when they are.
    ///
    /// # Errors
    /// When there can be no further process.
    pub fn of(bytes: usize, patience: Option<Duration>) -> anyhow::Result<Self> {
        let mut family = Family::new()?;
        let (full, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let report = family.spawn("memory pressure", report, |report| {
            volunteer_for_the_oom_killer();
            let mut memory = vec![0_u8; bytes];
            let deadline = patience.map(|patience| Instant::now() + patience);
            let filled = fill(&mut memory, deadline);
            File::from(report).write_all(&filled.to_ne_bytes())?;
            for turn in (0..=u8::MAX).cycle() {
                for go in memory[..filled].chunks_mut(GO_BYTES) {
                    touch(go, turn);
                    std::thread::sleep(PAUSE);
                }
            }
            Ok(Vec::new())
        })?;
        drop(report);
        family.open_gate()?;
        let mut filled = [0; size_of::<usize>()];
        File::from(full).read_exact(&mut filled).with_context(|| {
            format!("memory pressure: the process that takes {bytes} bytes died")
        })?;
        Ok(Self {
            _family: family,
            bytes: usize::from_ne_bytes(filled),
        })
    }
}

/// Touches all of `memory` for the first time, or as much as it can; says how much.
fn fill(memory: &mut [u8], deadline: Option<Instant>) -> usize {
    let mut filled = 0;
    for go in memory.chunks_mut(GO_BYTES) {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        touch(go, 1);
        filled += go.len();
    }
    filled
}

fn touch(memory: &mut [u8], value: u8) {
    for page in memory.chunks_mut(PAGE_BYTES) {
        page[0] = value;
    }
    std::hint::black_box(&memory);
}

/// Where memory runs out after all, this process is to go first. Not being allowed to say so is no
/// reason to stop.
fn volunteer_for_the_oom_killer() {
    let _unheard = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// The machine's memory and what of it is available, in bytes (`proc_meminfo(5)`).
fn meminfo() -> anyhow::Result<[usize; 2]> {
    let text = std::fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        kib.map(|kib| kib << 10)
            .with_context(|| format!("no {name} in /proc/meminfo"))
    };
    Ok([bytes("MemTotal:")?, bytes("MemAvailable:")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_stops_in_time_and_says_how_far_it_came() {
        let mut memory = vec![0; 100_000];
        assert_eq!(fill(&mut memory, None), 100_000);
        assert!(memory.iter().step_by(PAGE_BYTES).all(|&byte| byte == 1));
        let passed = Instant::now().checked_sub(Duration::from_secs(1));
        assert_eq!(fill(&mut memory, passed), 0);
    }

    #[test]
    fn the_machine_has_memory_and_some_of_it_is_available() {
        let [total, available] = meminfo().unwrap();
        assert!(total > available && available > 0);
    }
}
