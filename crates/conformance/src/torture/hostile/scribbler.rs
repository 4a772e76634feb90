//! The hostile peer.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

/// More than the shared header has.
const HEADER_BYTES: u64 = 1024;

/// Somebody who writes into lanes, not through a mapping and so without any rules.
pub(super) struct Scribbler {
    lanes: Vec<OwnedFd>,
    rng: Rng,
    /// Ids of living threads: the most convincing owners of a lock.
    living: Vec<Pid>,
}

impl Scribbler {
    /// With every lane that this process has.
    pub(super) fn new(rng: Rng, living: Vec<Pid>) -> io::Result<Self> {
        let mut lanes = Vec::new();
        for entry in fs::read_dir("/proc/self/fd")? {
            let path = entry?.path();
            if fs::read_link(&path).is_ok_and(|target| is_lane(&target)) {
                lanes.push(rustix::fs::open(&path, OFlags::RDWR, Mode::empty())?);
            }
        }
        Ok(Self { lanes, rng, living })
    }

    pub(super) fn has_lane(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Writes until killed; tells how many words so far.
    pub(super) fn work(mut self, tell: impl Fn(u64)) -> io::Result<()> {
        let burst = 1 << self.rng.u32(..12);
        let rest = Duration::from_nanos(self.rng.u64(..300_000));
        for count in 1.. {
            let lane = self.rng.usize(..self.lanes.len());
            self.scribble(lane)?;
            tell(count);
            if count % burst == 0 {
                std::thread::sleep(rest);
            }
        }
        Ok(())
    }

    fn scribble(&mut self, lane: usize) -> io::Result<()> {
        let at = self.rng.u64(..HEADER_BYTES / 8) * 8;
        let lane = &self.lanes[lane];
        let there = word_at(lane, at)?;
        let word = match self.rng.u32(..8) {
            0 => self.rng.u64(..),
            1 => self.rng.u64(..4),
            // Where positions wrap around.
            2 => self.rng.u64(..1 << 20).wrapping_neg(),
            // Held by somebody who lives, who waits, or who died.
            3 => {
                let tid = self.living[self.rng.usize(..self.living.len())];
                let flags = self.rng.u64(..4) << 30;
                tid.as_raw_nonzero().get() as u64 | flags
            }
            // As somewhere else.
            4 => word_at(lane, self.rng.u64(..HEADER_BYTES / 8) * 8)?,
            // Close to what is there: the most convincing.
            5 => there ^ (1 << self.rng.u32(..64)),
            _ => there
                .wrapping_add(self.rng.u64(..1 << 17))
                .wrapping_sub(1 << 16),
        };
        rustix::io::pwrite(lane, &word.to_le_bytes(), at)?;
        Ok(())
    }
}

fn is_lane(target: &Path) -> bool {
    target
        .to_string_lossy()
        .starts_with("/memfd:standpipe-lane")
}

fn word_at(lane: &OwnedFd, at: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    rustix::io::pread(lane, &mut word, at)?;
    Ok(u64::from_le_bytes(word))
}
