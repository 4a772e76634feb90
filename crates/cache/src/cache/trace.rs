//! The accesses of a process, written down as they are made.
//!
//! If [`TRACE_ENV`] names a file, a line is appended to it for every read of every cache: when it began, who
//! read (process and reader), what, from where on, how much it got. A file without bytes gets the head line
//! [`HEAD`] first. Each line is written at once: processes may share the file, and one that is killed leaves
//! all that it read.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use standpipe_shm::sync::{AtomicU64, Ordering};

/// The environment variable that names the file.
pub const TRACE_ENV: &str = "STANDPIPE_TRACE";

/// The names of the columns. Times are since 1970; a stream is `PROCESS.READER`.
pub const HEAD: &str = "time_ns,stream,object,offset,length";

/// A trace that is written.
pub(super) struct Trace {
    file: File,
    streams: AtomicU64,
}

/// One reader of it.
pub(super) struct Stream {
    trace: &'static Trace,
    number: u64,
    /// As it is written.
    object: String,
}

impl Trace {
    /// The trace of this process, if there is one.
    ///
    /// # Errors
    /// The file that [`TRACE_ENV`] names can't be written.
    pub fn of_process() -> io::Result<Option<&'static Self>> {
        static TRACE: OnceLock<Option<Trace>> = OnceLock::new();
        if let Some(trace) = TRACE.get() {
            return Ok(trace.as_ref());
        }
        let path = std::env::var_os(TRACE_ENV).filter(|path| !path.is_empty());
        let Some(path) = path else {
            return Ok(TRACE.get_or_init(|| None).as_ref());
        };
        let trace = Self::open(path.as_ref()).map_err(|error| {
            let text = format!("{TRACE_ENV}={}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })?;
        Ok(TRACE.get_or_init(|| Some(trace)).as_ref())
    }

    fn open(path: &std::path::Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        if file.metadata()?.len() == 0 {
            // Another process may do so at the same time: who reads it passes over the second one.
            (&file).write_all(format!("{HEAD}\n").as_bytes())?;
        }
        Ok(Self {
            file,
            streams: AtomicU64::new(0),
        })
    }

    /// One more reader.
    pub fn stream(&'static self, object: &str) -> Stream {
        Stream {
            trace: self,
            number: self.streams.fetch_add(1, Ordering::Relaxed) + 1,
            object: quoted(object).into_owned(),
        }
    }
}

impl Stream {
    /// It read so many bytes. What can't be written is not traced: the reader comes first.
    pub fn note(&self, began: SystemTime, offset_bytes: u64, len_bytes: usize) {
        let time_ns = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = format!(
            "{},{}.{},{},{offset_bytes},{len_bytes}\n",
            time_ns.as_nanos(),
            std::process::id(),
            self.number,
            self.object,
        );
        let _ = (&self.trace.file).write_all(line.as_bytes());
    }
}

/// As a field of CSV (RFC 4180).
fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_have_to_be() {
        for (name, field) in [
            ("/a b/c", "/a b/c"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\nb", "\"a\nb\""),
        ] {
            assert_eq!(quoted(name), field);
        }
    }

    #[test]
    fn lines_are_appended_behind_one_head() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        for length in [10, 20] {
            let trace: &'static Trace = Box::leak(Box::new(Trace::open(&path).unwrap()));
            trace.stream("a,b").note(UNIX_EPOCH, 4096, length);
        }
        let id = std::process::id();
        let expected = format!("{HEAD}\n0,{id}.1,\"a,b\",4096,10\n0,{id}.1,\"a,b\",4096,20\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
    }
}
