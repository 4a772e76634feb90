//! Page caches of processes, found in `/proc` without touching them.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::time::Instant;

use procfs::process::{FDTarget, Process};
use serde::Serialize;
use standpipe::file::notice::{BOARD, Notice};
use standpipe::file::{PAGE_BYTES, Stat};

use crate::accounts::CacheReport;
use crate::units;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Caches {
    #[serde(rename = "caches")]
    pub all: Vec<Seen>,
    /// How many processes could not be looked at.
    pub hidden_processes: usize,
    /// Which of those were asked for, and processes that are not there, and why.
    #[serde(skip)]
    refused: Vec<(i32, &'static str)>,
}

/// A cache of a process.
#[derive(Debug, Serialize)]
pub struct Seen {
    pub pid: i32,
    pub command: String,
    pub budget_bytes: u64,
    pub present_bytes: u64,
    /// Of those, what was read ahead and not yet used.
    pub unread_bytes: u64,
    pub in_flight_bytes: u64,
    /// Dropped, but still in use by somebody.
    pub held_bytes: u64,
    pub objects: usize,
    pub streams: u64,
    pub pages: CacheReport,
    #[serde(skip)]
    stat: Stat,
    /// What tells the caches of a process apart.
    #[serde(skip)]
    file: FileId,
    #[serde(skip)]
    at: Instant,
}

impl Caches {
    /// Looks at these processes; at all if there are none.
    pub fn look(pids: &[i32]) -> anyhow::Result<Self> {
        let mut found = Self {
            all: Vec::new(),
            hidden_processes: 0,
            refused: Vec::new(),
        };
        if pids.is_empty() {
            for process in procfs::process::all_processes()?.flatten() {
                found.look_at(&process, false);
            }
        }
        for &pid in pids {
            match Process::new(pid) {
                Ok(process) => found.look_at(&process, true),
                Err(_) => found.refused.push((pid, "no such process")),
            }
        }
        found.drop_doubles();
        found.all.sort_by_key(|seen| (seen.pid, seen.file));
        Ok(found)
    }

    fn look_at(&mut self, process: &Process, is_wanted: bool) {
        let Ok(fds) = process.fd() else {
            // gone meanwhile, or not for us to look at
            if process.is_alive() {
                self.hidden_processes += 1;
                if is_wanted {
                    self.refused.push((process.pid, "may not be looked at"));
                }
            }
            return;
        };
        let is_board = |target: &FDTarget| matches!(target, FDTarget::MemFD(name) if is_name(name));
        let boards = fds.flatten().filter(|fd| is_board(&fd.target));
        self.all
            .extend(boards.filter_map(|fd| Seen::of(process, fd.fd)));
    }

    /// What is wrong with the processes that were asked for.
    pub fn missing(&self, pids: &[i32]) -> Vec<String> {
        let what = |pid: &i32| {
            let refused = self.refused.iter().find(|(other, _)| other == pid);
            if let Some((pid, why)) = refused {
                return Some(format!("process {pid}: {why}"));
            }
            let is_seen = self.all.iter().any(|seen| seen.pid == *pid);
            (!is_seen).then(|| format!("process {pid} has no page cache of standpipe"))
        };
        pids.iter().filter_map(what).collect()
    }

    /// What a cache was before.
    pub fn same(&self, now: &Seen) -> Option<&Seen> {
        self.all.iter().find(|then| then.file == now.file)
    }

    /// Several processes may have a board whose own one is gone, or has another number in its namespace.
    fn drop_doubles(&mut self) {
        self.all.sort_by_key(|seen| (seen.file, seen.pid));
        self.all.dedup_by_key(|seen| seen.file);
    }
}

/// The name of a board, as `/proc` has it.
fn is_name(name: &str) -> bool {
    name.strip_suffix(" (deleted)").unwrap_or(name) == BOARD
}

/// Device and inode.
type FileId = (u64, u64);

fn id_of(metadata: &fs::Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Whether a process has a file open.
fn has(pid: u32, file: FileId) -> bool {
    let folder = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut fds = folder.into_iter().flatten().flatten();
    fds.any(|fd| fs::metadata(fd.path()).is_ok_and(|metadata| id_of(&metadata) == file))
}

/// No more than there should be, and without waiting: it may be anything, made by anybody.
fn read_board(path: &str) -> io::Result<Vec<u8>> {
    let mut options = fs::OpenOptions::new();
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = options.read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(PAGE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Seen {
    fn of(process: &Process, fd: i32) -> Option<Self> {
        let path = format!("/proc/{}/fd/{fd}", process.pid);
        let metadata = fs::metadata(&path).ok()?;
        // another version's, or of somebody who took the name: not ours to explain
        let notice = Notice::read(&read_board(&path).ok()?).ok()?;
        let file = id_of(&metadata);
        if notice.pid != process.pid.cast_unsigned() && has(notice.pid, file) {
            // inherited by a child: the cache is its parent's
            return None;
        }
        let room = notice.stat.room;
        let bytes = |pages: u64| pages.saturating_mul(PAGE_BYTES as u64);
        Some(Self {
            pid: process.pid,
            command: process.stat().ok()?.comm,
            budget_bytes: bytes(room.budget_pages),
            present_bytes: bytes(room.present_pages),
            unread_bytes: bytes(room.unread_pages),
            in_flight_bytes: bytes(room.in_flight_pages),
            held_bytes: bytes(room.held_pages),
            objects: notice.stat.objects,
            streams: room.streams,
            pages: (&notice.stat.accounts).into(),
            stat: notice.stat,
            file,
            at: Instant::now(),
        })
    }

    /// For people, with what happened since `earlier`.
    pub fn words(&self, earlier: Option<&Self>) -> String {
        let size = |bytes: u64| units::binary(bytes as usize);
        let mut text = format!(
            "{} {}\n  holds     {} of {}, {} of it not yet used; {} on its way; {}, {}\n{}",
            self.pid,
            self.command,
            size(self.present_bytes),
            size(self.budget_bytes),
            size(self.unread_bytes),
            size(self.in_flight_bytes),
            units::count(self.objects as u64, "object"),
            units::count(self.streams, "stream"),
            self.pages,
        );
        if let Some(earlier) = earlier {
            text.push_str(&self.since(earlier));
        }
        text
    }

    fn since(&self, earlier: &Self) -> String {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64().max(1e-3);
        let (now, then) = (&self.stat.accounts, &earlier.stat.accounts);
        let reads = now.reads.saturating_sub(then.reads);
        let pages = now.read_pages.saturating_sub(then.read_pages);
        let looks = |a: &standpipe::file::Accounts| a.hits + a.misses + a.waits;
        let looked = looks(now).saturating_sub(looks(then));
        let hits = now.hits.saturating_sub(then.hits);
        let rate = |pages: u64| units::amount(pages as f64 * PAGE_BYTES as f64 / seconds);
        format!(
            "  now       {}/s read by {:.0} reads a second; {}/s used, {:.1} % hits\n",
            rate(pages),
            reads as f64 / seconds,
            rate(looked),
            hits as f64 * 100.0 / looked.max(1) as f64,
        )
    }
}
