//! A process that keeps half of the memory busy.

use std::time::Duration;

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
    /// Occupies half of the machine's memory, or less where less is free.
    ///
    /// # Errors
    /// When memory is too short already, or there can be no further process.
    pub fn half_of_memory() -> anyhow::Result<Self> {
        let [total, available] = meminfo()?;
        let free = available.saturating_sub(SPARE_BYTES);
        ensure!(
            free >= GO_BYTES,
            "memory pressure: only {available} bytes of memory are free"
        );
        Self::of((total / 2).min(free))
    }

    /// Occupies `bytes`; returns when all of them are.
    ///
    /// # Errors
    /// When there can be no further process.
    pub fn of(bytes: usize) -> anyhow::Result<Self> {
        let mut family = Family::new()?;
        let (full, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let report = family.spawn("memory pressure", report, |report| {
            volunteer_for_the_oom_killer();
            let mut memory = vec![0_u8; bytes];
            touch(&mut memory, 1, Duration::ZERO);
            rustix::io::write(&report, b"f")?;
            for turn in (0..=u8::MAX).cycle() {
                touch(&mut memory, turn, PAUSE);
            }
            Ok(Vec::new())
        })?;
        drop(report);
        family.open_gate()?;
        let filled = rustix::io::retry_on_intr(|| rustix::io::read(&full, &mut [0; 1]))?;
        ensure!(
            filled == 1,
            "memory pressure: the process that takes {bytes} bytes died"
        );
        Ok(Self {
            _family: family,
            bytes,
        })
    }
}

fn touch(memory: &mut [u8], value: u8, pause: Duration) {
    for go in memory.chunks_mut(GO_BYTES) {
        for page in go.chunks_mut(PAGE_BYTES) {
            page[0] = value;
        }
        std::hint::black_box(&go);
        std::thread::sleep(pause);
    }
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
    fn the_machine_has_memory_and_some_of_it_is_available() {
        let [total, available] = meminfo().unwrap();
        assert!(total > available && available > 0);
    }
}
