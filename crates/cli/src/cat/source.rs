//! What is to be written, and how it is read.

use std::fs;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::io::{ReadWriteFlags, preadv2};
use standpipe::file::{BUDGET_ENV, Cache, CacheOptions, File, Options};

use super::range::Range;
use super::report::SourceReport;
use super::{CatArgs, cached, plain};
use crate::progress::Meter;
use crate::stream::{Input, Output, Trouble};

/// Enough to read far ahead of a fast reader, and little to any machine.
const CACHE_BYTES: u64 = 64 << 20;

/// Looks that tell whether a file is in the kernel's memory.
const SAMPLES: u64 = 16;

/// Something to be written.
pub enum Source {
    /// Through the page cache of standpipe.
    Cached(File),
    /// What has no places to read at, or is in the kernel's memory already.
    Plain(Input),
}

impl Source {
    pub fn open(name: &Path, reading: &mut Reading) -> Result<Self, Trouble> {
        if !is_url(name) && !reading.is_better_for(name)? {
            return Input::open(name).map(Self::Plain);
        }
        let text = name.to_str().ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "expected a name in UTF-8");
            Trouble::Input(name.display().to_string(), error)
        })?;
        let file = reading.open(text);
        file.map(Self::Cached)
            .map_err(|error| Trouble::Input(text.to_owned(), error))
    }

    /// Writes what is wanted of it. The report says how far it got if it failed.
    pub fn write(
        &self,
        span: Range,
        output: &Output,
        meter: &Meter,
    ) -> (SourceReport, Result<(), Trouble>) {
        let before = meter.counts().bytes;
        let began = std::time::Instant::now();
        let result = match self {
            Self::Cached(file) => cached::write(file, span, output, meter),
            Self::Plain(input) => plain::write(input, span, output, meter),
        };
        let bytes = meter.counts().bytes - before;
        let (name, access, accounts) = match self {
            Self::Cached(file) => (file.name(), file.access(), Some(file.accounts())),
            Self::Plain(input) => (&*input.name, plain::access(input), None),
        };
        let report = SourceReport {
            name: name.to_owned(),
            bytes,
            seconds: began.elapsed().as_secs_f64(),
            access,
            complete: result.is_ok(),
            cache: accounts.as_ref().map(Into::into),
        };
        (report, result)
    }
}

/// How files and objects are read; the cache is made for the first of them.
pub struct Reading<'a> {
    args: &'a CatArgs,
    options: Option<Options>,
}

impl<'a> Reading<'a> {
    pub fn new(args: &'a CatArgs) -> Self {
        Self {
            args,
            options: None,
        }
    }

    fn open(&mut self, name: &str) -> io::Result<File> {
        let options = match self.options.take() {
            Some(options) => options,
            None => self.choose()?,
        };
        self.options.insert(options).open(name)
    }

    fn choose(&self) -> io::Result<Options> {
        let budget_bytes = self.args.cache.map(|bytes| bytes as u64);
        let mut options = Options::new();
        let cache = match budget_bytes {
            None if std::env::var_os(BUDGET_ENV).is_some() => standpipe::file::cache()?,
            _ => Cache::new(CacheOptions {
                budget_bytes: budget_bytes.unwrap_or(CACHE_BYTES),
                ..CacheOptions::default()
            })?,
        };
        let budget_bytes = cache.stat().room.budget_pages * 4096;
        let max_ahead = self.args.max_ahead.map(|bytes| bytes as u64);
        options = options
            .cache(&cache)
            .max_ahead_bytes(max_ahead.unwrap_or(budget_bytes / 2));
        if let Some(policy) = self.args.policy {
            options = options.policy(policy);
        }
        if let Some(streams) = self.args.streams {
            options = options.max_reads(streams.into());
            options = options.store(standpipe::file::StoreOptions {
                parallelism: streams.into(),
                ..standpipe::file::StoreOptions::default()
            });
        }
        Ok(options)
    }

    /// Whether a path is better read through the cache: a file or disk, with something to be read from
    /// the device. Files of /proc and /sys have no blocks there. Who says how to read has chosen.
    fn is_better_for(&self, path: &Path) -> Result<bool, Trouble> {
        if path == Path::new("-") {
            return Ok(false);
        }
        let trouble = |error| Trouble::Input(path.display().to_string(), error);
        let metadata = fs::metadata(path).map_err(trouble)?;
        let is_file = metadata.is_file() && metadata.blocks() > 0;
        if !is_file && !metadata.file_type().is_block_device() {
            return Ok(false);
        }
        let is_kept = || is_in_memory(path, self.args.span(), metadata.len());
        Ok(self.args.is_particular() || !is_kept().map_err(trouble)?)
    }
}

/// Whether the kernel has most of what is wanted in memory, by samples.
fn is_in_memory(path: &Path, span: Range, length: u64) -> io::Result<bool> {
    let Ok((start, wanted)) = span.within(length) else {
        return Ok(false);
    };
    let wanted = wanted.unwrap_or(u64::MAX).min(length - start);
    let file = fs::File::open(path)?;
    let is_there = |sample: &u64| {
        let at = start + (u128::from(wanted) * u128::from(*sample) / u128::from(SAMPLES)) as u64;
        let mut byte = [0];
        let mut to = [IoSliceMut::new(&mut byte)];
        preadv2(&file, &mut to, at, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    Ok((0..SAMPLES).filter(is_there).count() as u64 * 2 >= SAMPLES)
}

/// Whether it names an object of a store.
fn is_url(name: &Path) -> bool {
    let Some((scheme, _)) = name.to_str().and_then(|name| name.split_once("://")) else {
        return false;
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for (name, expected) in [
            ("s3://bucket/key", true),
            ("HTTP://host/", true),
            ("file:///etc/passwd", true),
            ("a/s3://bucket", false),
            ("./http://host", false),
            ("://x", false),
            ("9p://x", false),
            ("c:/x", false),
        ] {
            assert_eq!(is_url(Path::new(name)), expected, "{name}");
        }
    }
}
