//! A file on the real disk: read once from front to back with a cold cache, and again and again with a hot
//! one.
//!
//! The file is as large as the published one would not be today: 2 GB (a quarter with `--quick`). `kernel`
//! reads it buffered, its pages dropped before each run; `fio` reads it with `O_DIRECT`, 1 MiB at a time,
//! eight at a time, without a cache. Each page begins with its number, which those who read it here check.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use rustix::fs::Advice;
use serde_json::Value;
use standpipe::file::{self, Cache, Policy};

use super::Pace;
use crate::measure::{Contender, Round, Sample};
use crate::record::{Engine, Metric};

const PAGE_BYTES: usize = 4096;
const READ_BYTES: usize = 1 << 20;
/// What is read again and again fits in the last cache of a processor, as it does for the kernel.
const HOT_PAGES: u64 = 1024;

/// What to run.
#[derive(Debug)]
pub struct Plan {
    dir: tempfile::TempDir,
    pages: u64,
    hot_reads: u64,
    has_fio: bool,
}

impl Plan {
    /// Writes the file.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn new(pace: Pace) -> anyhow::Result<Self> {
        match pace {
            Pace::Quick => Self::of(128 << 10, 200_000),
            Pace::Full => Self::of(512 << 10, 1_000_000),
        }
    }

    /// With a file of `pages` pages.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn of(pages: u64, hot_reads: u64) -> anyhow::Result<Self> {
        // Next to the program: a temporary folder may be in memory.
        let beside = std::env::current_exe().context("where is this program?")?;
        let beside = beside.parent().context("a program in no folder")?;
        let has_fio = Command::new("fio").arg("--version").output().is_ok();
        if !has_fio {
            eprintln!("note: fio is not installed (apt-get install fio): it is left out");
        }
        let plan = Self {
            dir: tempfile::tempdir_in(beside)?,
            pages,
            hot_reads,
            has_fio,
        };
        plan.write()?;
        Ok(plan)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut file = File::create(self.path())?;
        let mut random = fastrand::Rng::with_seed(1);
        let mut bytes = vec![0; READ_BYTES];
        let pages_each = (READ_BYTES / PAGE_BYTES) as u64;
        for first in (0..self.pages).step_by(pages_each as usize) {
            random.fill(&mut bytes);
            let pages = bytes.chunks_exact_mut(PAGE_BYTES);
            for (number, page) in (first..self.pages).zip(pages) {
                page[..8].copy_from_slice(&number.to_ne_bytes());
            }
            let pages = pages_each.min(self.pages - first) as usize;
            file.write_all(&bytes[..pages * PAGE_BYTES])?;
        }
        Ok(file.sync_all()?)
    }

    /// Cold reads, then hot ones.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let through_us =
            |engine, policy| Contender::new(engine, "cold-sequential", move || self.cold(policy));
        let mut cold = vec![
            Contender::new(Engine::Kernel, "cold-sequential", || self.cold_kernel()),
            through_us(Engine::OnDemand, Policy::OnDemand),
            through_us(Engine::Context, Policy::Context),
            through_us(Engine::Standpipe, Policy::Adaptive),
        ];
        if self.has_fio {
            cold.push(Contender::new(Engine::Fio, "cold-sequential", || {
                self.fio()
            }));
        }
        let hot = |case, order: Order| {
            vec![
                Contender::new(Engine::Kernel, case, move || self.hot_kernel(order)),
                Contender::new(Engine::Standpipe, case, move || self.hot(order)),
            ]
        };
        vec![
            cold,
            hot("hot-4k-sequential", Order::Sequential),
            hot("hot-4k-random", Order::Random),
        ]
    }

    /// Through a cache of its own, a new one each time.
    fn open(&self, policy: Policy) -> anyhow::Result<file::File> {
        let cache = Cache::new(file::CacheOptions::default())?;
        let options = file::Options::new().cache(&cache).policy(policy);
        let path = self.path();
        Ok(options.open(path.to_str().context("a path that is text")?)?)
    }

    fn cold(&self, policy: Policy) -> anyhow::Result<Sample> {
        self.drop_pages()?;
        let start = Instant::now();
        let mut file = self.open(policy)?;
        self.read_all(&mut file)?;
        let mut sample = self.throughput(start);
        let accounts = file.accounts();
        let avg_io_kib = accounts.read_pages as f64 * 4.0 / accounts.reads.max(1) as f64;
        sample.push((Metric::AvgIoKib, avg_io_kib));
        Ok(sample)
    }

    fn cold_kernel(&self) -> anyhow::Result<Sample> {
        self.drop_pages()?;
        let start = Instant::now();
        self.read_all(&mut File::open(self.path())?)?;
        Ok(self.throughput(start))
    }

    fn throughput(&self, start: Instant) -> Sample {
        let wall_s = start.elapsed().as_secs_f64();
        let bytes = self.pages * PAGE_BYTES as u64;
        vec![
            (Metric::MbPerS, bytes as f64 / 1e6 / wall_s),
            (Metric::WallS, wall_s),
        ]
    }

    fn drop_pages(&self) -> anyhow::Result<()> {
        let file = File::open(self.path())?;
        Ok(rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?)
    }

    fn read_all(&self, file: &mut impl Read) -> anyhow::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        let mut page = 0;
        loop {
            let count = read_full(file, &mut bytes)?;
            for found in bytes[..count].chunks_exact(PAGE_BYTES) {
                check(found, page)?;
                page += 1;
            }
            if count < bytes.len() {
                ensure!(page == self.pages, "{page} pages came of {}", self.pages);
                return Ok(());
            }
        }
    }

    fn fio(&self) -> anyhow::Result<Sample> {
        self.drop_pages()?;
        let mut command = Command::new("fio");
        command.args([
            "--name=cold",
            "--rw=read",
            "--bs=1M",
            "--iodepth=8",
            "--ioengine=io_uring",
            "--direct=1",
            "--output-format=json",
        ]);
        command.arg(format!("--filename={}", self.path().display()));
        let output = command.output().context("fio")?;
        let start = output.stdout.iter().position(|&byte| byte == b'{');
        let json: Value = serde_json::from_slice(&output.stdout[start.unwrap_or(0)..])
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let read = &json["jobs"][0]["read"];
        let bytes = read["io_bytes"].as_u64();
        ensure!(
            bytes == Some(self.pages * PAGE_BYTES as u64),
            "fio read {bytes:?} bytes"
        );
        let mb_per_s = read["bw_bytes"]
            .as_f64()
            .context("fio names no bandwidth")?
            / 1e6;
        let wall_s = read["runtime"].as_f64().context("fio names no time")? / 1e3;
        Ok(vec![(Metric::MbPerS, mb_per_s), (Metric::WallS, wall_s)])
    }

    fn hot(&self, order: Order) -> anyhow::Result<Sample> {
        let file = self.open(Policy::Adaptive)?;
        self.hot_reads(order, |page, offset| file.read_at(page, offset))
    }

    fn hot_kernel(&self, order: Order) -> anyhow::Result<Sample> {
        let file = File::open(self.path())?;
        self.hot_reads(order, |page, offset| file.read_at(page, offset))
    }

    fn hot_reads(
        &self,
        order: Order,
        read: impl Fn(&mut [u8], u64) -> std::io::Result<usize>,
    ) -> anyhow::Result<Sample> {
        let pages = HOT_PAGES.min(self.pages);
        let mut bytes = [0; PAGE_BYTES];
        let mut once = |page: u64| {
            let count = read(&mut bytes, page * PAGE_BYTES as u64)?;
            ensure!(count == PAGE_BYTES, "a read of {count} bytes");
            check(&bytes, page)
        };
        (0..pages).try_for_each(&mut once)?;
        let mut random = fastrand::Rng::with_seed(2);
        let start = Instant::now();
        for number in 0..self.hot_reads {
            once(match order {
                Order::Sequential => number % pages,
                Order::Random => random.u64(..pages),
            })?;
        }
        let avg_ns = start.elapsed().as_nanos() as f64 / self.hot_reads as f64;
        Ok(vec![(Metric::AvgNs, avg_ns)])
    }
}

/// In which order hot pages are read.
#[derive(Clone, Copy, Debug)]
enum Order {
    Sequential,
    Random,
}

fn check(page: &[u8], number: u64) -> anyhow::Result<()> {
    ensure!(
        page[..8] == number.to_ne_bytes(),
        "page {number} begins with {:?}, expected its number",
        &page[..8]
    );
    Ok(())
}

fn read_full(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read(&mut bytes[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}
