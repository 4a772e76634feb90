//! The hostile peer.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, ReadWriteFlags};
use rustix::process::Pid;

/// More than the shared header has.
const HEADER_BYTES: u64 = 4096;

/// Somebody who does to lanes whatever the descriptors allow. Writes into the memory not through a
/// mapping, and so without any rules.
pub(super) struct Scribbler {
    memories: Vec<OwnedFd>,
    /// Bells, and the pipes of lanes.
    others: Vec<OwnedFd>,
    rng: Rng,
    /// Ids of living threads: the most convincing owners of a lock.
    living: Vec<Pid>,
}

impl Scribbler {
    /// With every lane that this process has; `spared` are descriptors that belong to none.
    pub(super) fn new(rng: Rng, living: Vec<Pid>, spared: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let spared = spared.iter().map(|fd| Ok(rustix::fs::fstat(fd)?.st_ino));
        let spared: Vec<_> = spared.collect::<io::Result<_>>()?;
        let (mut memories, mut others) = (Vec::new(), Vec::new());
        for path in own_descriptors()? {
            let target = fs::read_link(&path)?;
            // SAFETY: nobody closes it as long as this lasts: a forked child has one thread.
            let fd = unsafe { BorrowedFd::borrow_raw(number(&path)) };
            // What outlives an exec is of whoever started us.
            if !rustix::io::fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC) {
                continue;
            }
            if is(&target, "/memfd:standpipe-lane") {
                memories.push(rustix::fs::open(&path, OFlags::RDWR, Mode::empty())?);
            } else if (is(&target, "anon_inode:[eventfd]") || is(&target, "pipe:"))
                && !spared.contains(&rustix::fs::fstat(fd)?.st_ino)
            {
                others.push(fd.try_clone_to_owned()?);
            }
        }
        Ok(Self {
            memories,
            others,
            rng,
            living,
        })
    }

    pub(super) fn has_lane(&self) -> bool {
        !self.memories.is_empty()
    }

    /// Goes on until killed; tells how much it has done so far.
    pub(super) fn work(mut self, tell: impl Fn(u64)) -> io::Result<()> {
        let burst = 1 << self.rng.u32(..12);
        let rest = Duration::from_nanos(self.rng.u64(..300_000));
        // Some only write into the memory.
        let mischief = self.rng.bool();
        for count in 1.. {
            if mischief && self.rng.u32(..64) == 0 {
                self.meddle();
            } else {
                self.scribble()?;
            }
            tell(count);
            if count % burst == 0 {
                std::thread::sleep(rest);
            }
        }
        Ok(())
    }

    fn scribble(&mut self) -> io::Result<()> {
        let at = self.rng.u64(..HEADER_BYTES / 8) * 8;
        // Most of what matters is at the beginning.
        let at = if self.rng.bool() { at % 1280 } else { at };
        let memory = &self.memories[self.rng.usize(..self.memories.len())];
        let there = word_at(memory, at)?;
        let word = match self.rng.u32(..8) {
            0 => self.rng.u64(..),
            1 => self.rng.u64(..4),
            // Where positions wrap around.
            2 => self.rng.u64(..1 << 20).wrapping_neg(),
            // Held by somebody who lives, who waits, or who died.
            3 => {
                let tid = self.living[self.rng.usize(..self.living.len())];
                let flags = self.rng.u64(..4) << 30;
                u64::from(tid.as_raw_nonzero().get().cast_unsigned()) | flags
            }
            // As somewhere else.
            4 => word_at(memory, self.rng.u64(..HEADER_BYTES / 8) * 8)?,
            // Close to what is there: the most convincing.
            5 => there ^ (1 << self.rng.u32(..64)),
            _ => there
                .wrapping_add(self.rng.u64(..1 << 17))
                .wrapping_sub(1 << 16),
        };
        rustix::io::pwrite(memory, &word.to_le_bytes(), at)?;
        Ok(())
    }

    /// Rings, fills, silences, makes calls block that should not. What does not work does not matter.
    fn meddle(&mut self) {
        let fd = self.others[self.rng.usize(..self.others.len())].as_fd();
        let result = match self.rng.u32(..6) {
            0 | 1 => set_blocking(fd, true),
            2 => set_blocking(fd, false),
            // A bell that is as full as can be; or some bytes too many.
            3 => set_blocking(fd, false)
                .and_then(|()| rustix::io::write(fd, &(u64::MAX - 1).to_ne_bytes()))
                .and_then(|_| set_blocking(fd, true)),
            4 => {
                let bytes = [IoSlice::new(b"never written")];
                rustix::io::pwritev2(fd, &bytes, u64::MAX, ReadWriteFlags::NOWAIT).map(|_| ())
            }
            _ => set_blocking(fd, false)
                .and_then(|()| rustix::io::read(fd, &mut [0_u8; 8]))
                .map(|_| ()),
        };
        let _ = result;
    }
}

/// The paths of all descriptors, but for that of the directory itself, which is closed by then.
fn own_descriptors() -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.path()));
    let all: Vec<_> = entries.collect::<io::Result<_>>()?;
    let is_open = |path: &PathBuf| fs::read_link(path).is_ok();
    Ok(all.into_iter().filter(is_open).collect())
}

fn number(path: &Path) -> i32 {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).expect("a number")
}

fn is(target: &Path, kind: &str) -> bool {
    target.to_string_lossy().starts_with(kind)
}

fn set_blocking(fd: BorrowedFd<'_>, yes: bool) -> rustix::io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(fd)?;
    flags.set(OFlags::NONBLOCK, !yes);
    rustix::fs::fcntl_setfl(fd, flags)
}

fn word_at(memory: &OwnedFd, at: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    rustix::io::pread(memory, &mut word, at)?;
    Ok(u64::from_le_bytes(word))
}
