//! An object of 256 MB on a server far away (20 ms to the first byte, 90 MB/s for each connection), read
//! from its beginning on, in reads of one size.
//!
//! The server, and each of those who read, are processes of their own. Rivals who would need minutes are
//! stopped after a while: what they have read by then is their throughput. Ours keeps to 128 MiB of memory,
//! all of the process counted.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::StreamExt;
use object_store::buffered::BufReader;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt};
use rustix::pipe::{PipeFlags, pipe_with};
use standpipe::file;
use standpipe_origin::{Manners, Origin};
use tokio::io::AsyncReadExt;

use super::Pace;
use crate::clock::{now_ns, ns};
use crate::family::Family;
use crate::measure::{Contender, Round, Sample};
use crate::memory::peak_bytes;
use crate::record::{Engine, Metric};
use crate::shell::is_program;
use crate::verify::{Block, Checker};

/// The content repeats after so much, but for the number of the block.
const BLOCK_BYTES: usize = 64 << 10;
/// Of the cache. The rest of the memory is for the program itself, and for what is on its way to pages.
const BUDGET_BYTES: u64 = 80 << 20;
/// Of the whole process that reads by ours.
const MOST_BYTES: u64 = 128 << 20;

/// What to run.
#[derive(Debug)]
pub struct Plan {
    server: Server,
    reads: Vec<(&'static str, usize)>,
    rivals: Vec<Engine>,
    limit: Duration,
}

impl Plan {
    /// Starts the server.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn new(pace: Pace) -> anyhow::Result<Self> {
        let limit = match pace {
            Pace::Quick => Duration::from_millis(1400),
            Pace::Full => Duration::from_secs(10),
        };
        Self::of(256_000_000, Manners::far_away(), limit)
    }

    /// Starts a server of an object of about `bytes` bytes. Reading ends after `limit`.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn of(bytes: usize, manners: Manners, limit: Duration) -> anyhow::Result<Self> {
        let mut rivals = vec![Engine::GetStream, Engine::BufReader];
        if is_program("curl") {
            rivals.push(Engine::Curl);
        } else {
            eprintln!("note: curl is not installed (apt-get install curl): it is left out");
        }
        Ok(Self {
            server: Server::start(bytes, manners)?,
            reads: vec![("64KiB", 64 << 10), ("1MiB", 1 << 20)],
            rivals,
            limit,
        })
    }

    /// One round for each size of reads.
    #[must_use]
    pub fn rounds(&self) -> Vec<Round<'_>> {
        let round = |&(case, read_bytes): &(&'static str, usize)| {
            let engines = self.rivals.iter().copied().chain([Engine::Standpipe]);
            let contender =
                |engine| Contender::new(engine, case, move || self.run(engine, read_bytes));
            engines.map(contender).collect()
        };
        self.reads.iter().map(round).collect()
    }

    fn run(&self, engine: Engine, read_bytes: usize) -> anyhow::Result<Sample> {
        let mut family = Family::new()?;
        family.spawn(engine.to_string(), (), |()| {
            let mut reading = Reading::new(self.limit);
            let url = &self.server.url;
            match engine {
                Engine::GetStream => stream(url, read_bytes, &mut reading)?,
                Engine::BufReader => buffered(url, read_bytes, &mut reading)?,
                Engine::Curl => curl(url, read_bytes, &mut reading)?,
                _ => ours(url, read_bytes, &mut reading)?,
            }
            reading.finish(self.server.bytes)
        })?;
        let reports = family.run()?;
        let [bytes, elapsed_ns] = reports[0][..] else {
            anyhow::bail!("expected two numbers, got {:?}", reports[0]);
        };
        let mb_per_s = bytes as f64 * 1e3 / elapsed_ns as f64;
        Ok(vec![(Metric::MbPerS, mb_per_s)])
    }
}

/// A process that serves the object, until this is dropped.
#[derive(Debug)]
struct Server {
    url: String,
    bytes: u64,
    _family: Family,
}

impl Server {
    fn start(bytes: usize, manners: Manners) -> anyhow::Result<Self> {
        let bytes = bytes.next_multiple_of(BLOCK_BYTES);
        let mut family = Family::new()?;
        let (told, tell) = pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe")?;
        let tell = family.spawn("server", tell, |tell| {
            let origin = Origin::start(content(bytes), manners)?;
            File::from(tell).write_all(origin.url().as_bytes())?;
            loop {
                // Until it is killed, when the family is dropped.
                std::thread::park();
            }
        })?;
        drop(tell);
        family.open_gate()?;
        let url = std::io::read_to_string(File::from(told))?;
        ensure!(!url.is_empty(), "the server did not start");
        Ok(Self {
            url,
            bytes: bytes as u64,
            _family: family,
        })
    }
}

fn content(bytes: usize) -> Vec<u8> {
    let mut block = Block::new(0, BLOCK_BYTES);
    let mut content = Vec::with_capacity(bytes);
    for number in 0..(bytes / BLOCK_BYTES) as u64 {
        content.extend_from_slice(block.stamped(number));
    }
    content
}

/// What was read so far, checked.
struct Reading {
    checker: Checker,
    bytes: u64,
    start_ns: u64,
    limit_ns: u64,
    now_ns: u64,
}

impl Reading {
    fn new(limit: Duration) -> Self {
        let start_ns = now_ns();
        Self {
            checker: Checker::exact(BLOCK_BYTES),
            bytes: 0,
            start_ns,
            limit_ns: ns(limit),
            now_ns: start_ns,
        }
    }

    /// Takes what comes next. Whether to go on.
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        self.checker.check(bytes)?;
        self.bytes += bytes.len() as u64;
        self.now_ns = now_ns();
        Ok(self.now_ns - self.start_ns < self.limit_ns)
    }

    /// How many bytes were read, and in how much time.
    fn finish(self, wanted: u64) -> anyhow::Result<Vec<u64>> {
        let elapsed_ns = self.now_ns - self.start_ns;
        ensure!(
            self.bytes == wanted || elapsed_ns >= self.limit_ns,
            "{} bytes were read, expected {wanted}",
            self.bytes
        );
        Ok(vec![self.bytes, elapsed_ns])
    }
}

/// Reads of `read_bytes` each, until there is no more, or it was enough.
fn read_all(mut from: impl Read, read_bytes: usize, reading: &mut Reading) -> anyhow::Result<()> {
    let mut buffer = vec![0; read_bytes];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 || !reading.take(&buffer[..count])? {
            return Ok(());
        }
    }
}

fn ours(url: &str, read_bytes: usize, reading: &mut Reading) -> anyhow::Result<()> {
    let cache = file::Cache::new(file::CacheOptions {
        budget_bytes: BUDGET_BYTES,
        ..file::CacheOptions::default()
    })?;
    let file = file::Options::new().cache(&cache).open(url)?;
    read_all(file, read_bytes, reading)?;
    let peak_bytes = peak_bytes()?;
    ensure!(
        peak_bytes <= MOST_BYTES,
        "{peak_bytes} bytes of memory were used, expected {MOST_BYTES} at most"
    );
    Ok(())
}

fn curl(url: &str, read_bytes: usize, reading: &mut Reading) -> anyhow::Result<()> {
    let mut curl = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", url])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run curl")?;
    let output = curl.stdout.take().context("curl has no output")?;
    let read = read_all(output, read_bytes, reading);
    // It may have more to say than we want to hear.
    let _gone = curl.kill();
    curl.wait()?;
    read
}

/// A client as the library makes it.
fn client(url: &str) -> anyhow::Result<(Arc<dyn ObjectStore>, Path)> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (server, path) = url.rsplit_once('/').context("a URL with a path")?;
    let options = ClientOptions::new().with_allow_http(true);
    let builder = HttpBuilder::new().with_url(server);
    let client = builder.with_client_options(options).build()?;
    Ok((Arc::new(client), Path::from(path)))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

/// What comes in whatever pieces is handed on in reads of the size that is asked for.
fn stream(url: &str, read_bytes: usize, reading: &mut Reading) -> anyhow::Result<()> {
    let (client, path) = client(url)?;
    runtime()?.block_on(async {
        let mut stream = client.get(&path).await?.into_stream();
        let mut buffer = Vec::with_capacity(read_bytes);
        while let Some(bytes) = stream.next().await {
            let mut bytes = &bytes?[..];
            while !bytes.is_empty() {
                let (now, later) = bytes.split_at(bytes.len().min(read_bytes - buffer.len()));
                buffer.extend_from_slice(now);
                bytes = later;
                if buffer.len() == read_bytes {
                    if !reading.take(&buffer)? {
                        return Ok(());
                    }
                    buffer.clear();
                }
            }
        }
        reading.take(&buffer)?;
        Ok(())
    })
}

fn buffered(url: &str, read_bytes: usize, reading: &mut Reading) -> anyhow::Result<()> {
    let (client, path) = client(url)?;
    runtime()?.block_on(async {
        let meta = client.head(&path).await?;
        let mut reader = BufReader::with_capacity(client, &meta, read_bytes);
        let mut buffer = vec![0; read_bytes];
        loop {
            let count = reader.read(&mut buffer).await?;
            if count == 0 || !reading.take(&buffer[..count])? {
                return Ok(());
            }
        }
    })
}
