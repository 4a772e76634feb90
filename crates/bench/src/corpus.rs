//! Real text to put through pipelines, assembled from what is on any machine.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use tempfile::TempDir;

/// Where text is looked for.
const SOURCES: [&str; 4] = ["/usr/share", "/usr/include", "/usr/lib/python3", "/etc"];
/// Enough text that no reader remembers it all.
const SEED_BYTES: usize = 32 << 20;
/// Files beyond this are data more often than text, and would crowd out the rest.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// A directory of inputs, removed in the end, whatever end that is.
#[derive(Debug)]
pub struct Corpus {
    // in this order they are dropped: what the directory's own destructor removed is no more work
    // for the janitor
    dir: TempDir,
    _janitor: Janitor,
    seed: Vec<u8>,
}

impl Corpus {
    /// Collects text.
    ///
    /// # Errors
    /// When there is none, or no temporary directory.
    pub fn new() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("standpipe-bench-")
            .tempdir();
        let dir = dir.context("cannot make a temporary directory (TMPDIR says where)")?;
        let janitor = Janitor::of(dir.path())?;
        let mut seed = Vec::with_capacity(SEED_BYTES);
        for source in SOURCES {
            collect(Path::new(source), &mut seed);
        }
        ensure!(
            !seed.is_empty(),
            "no text found in any of {}",
            SOURCES.join(", ")
        );
        Ok(Self {
            dir,
            _janitor: janitor,
            seed,
        })
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Makes a file of `bytes` bytes of text, on disk and in the page cache.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn text(&self, name: &str, bytes: usize) -> anyhow::Result<PathBuf> {
        let path = self.dir().join(name);
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            let mut left = bytes;
            while left > 0 {
                let part = &self.seed[..self.seed.len().min(left)];
                file.write_all(part)?;
                left -= part.len();
            }
            // written back now, so that the disk is idle during the measurements
            file.into_inner()?.sync_all()
        };
        write().with_context(|| format!("cannot write {} bytes to {}", bytes, path.display()))?;
        Ok(path)
    }

    /// Makes a directory of `count` files of text, of `bytes` bytes together.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn tree(&self, name: &str, count: usize, bytes: usize) -> anyhow::Result<()> {
        let dir = self.dir().join(name);
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let file_bytes = bytes / count;
        for number in 0..count {
            let start = number * file_bytes % (self.seed.len() - file_bytes).max(1);
            let part = &self.seed[start..self.seed.len().min(start + file_bytes)];
            let path = dir.join(format!("{number:03}.txt"));
            fs::write(&path, part).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// A process that waits for this one to end, and then removes a directory: a gigabyte of text is
/// not to be left behind by an interrupt.
#[derive(Debug)]
struct Janitor(Child);

impl Janitor {
    fn of(dir: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        // its standard input ends when the last copy of the other end is gone, that is, when this
        // process and those that it forked are
        command
            .args(["-c", "read -r _; rm -rf -- \"$1\"", "sh"])
            .arg(dir);
        // out of the reach of the terminal's interrupt
        command.stdin(Stdio::piped()).process_group(0);
        Ok(Self(command.spawn().context("cannot run sh")?))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _status = self.0.wait();
    }
}

/// Appends the text files below `dir` to `seed`, in the order of their names, until it is full.
/// What cannot be read is passed over: there is enough else.
fn collect(dir: &Path, seed: &mut Vec<u8>) {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        if seed.len() >= SEED_BYTES {
            return;
        }
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        if meta.is_dir() {
            collect(&path, seed);
        } else if meta.is_file() && meta.len() <= LARGEST_FILE_BYTES {
            let text = fs::read(&path).unwrap_or_default();
            if !text.contains(&0) && std::str::from_utf8(&text).is_ok() {
                seed.extend_from_slice(&text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_is_text_of_the_asked_size_and_goes_when_dropped() {
        let corpus = Corpus::new().unwrap();
        let path = corpus.text("text", 3_000_000).unwrap();
        let text = fs::read(&path).unwrap();
        assert_eq!(text.len(), 3_000_000);
        assert!(!text.contains(&0) && text.contains(&b'\n'));
        corpus.tree("tree", 10, 100_000).unwrap();
        let files = fs::read_dir(corpus.dir().join("tree")).unwrap();
        assert_eq!(
            files
                .map(|f| f.unwrap().metadata().unwrap().len())
                .sum::<u64>(),
            100_000
        );
        drop(corpus);
        assert!(!path.exists());
    }

    #[test]
    fn the_janitor_removes_what_an_end_without_destructors_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("left");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("text"), "text").unwrap();
        drop(Janitor::of(&left).unwrap());
        assert!(!left.exists() && dir.path().exists());
    }
}
