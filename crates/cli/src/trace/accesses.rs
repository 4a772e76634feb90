//! Which parts of which objects were read, by whom, when.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, ensure};

use super::{columns, strace};

/// A trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accesses {
    pub objects: Vec<Object>,
    pub streams: Vec<Stream>,
    /// In the order of their time.
    pub all: Vec<Access>,
    objects_by_name: HashMap<String, usize>,
    streams_by_name: HashMap<(String, usize), usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub name: String,
    /// As far as anybody read.
    pub bytes: u64,
}

/// Somebody who has an object open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    pub name: String,
    pub object: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub time_ns: u64,
    pub stream: usize,
    pub offset: u64,
    /// What it got: nothing at the end of the object.
    pub length: u64,
}

impl Accesses {
    /// Reads a trace, of whichever kind; `-` is standard input.
    pub fn of_file(path: &Path) -> anyhow::Result<Self> {
        let is_stdin = path == Path::new("-");
        let name = || {
            let name = if is_stdin { Path::new("stdin") } else { path };
            name.display().to_string()
        };
        let mut bytes = Vec::new();
        if is_stdin {
            io::stdin().read_to_end(&mut bytes).with_context(name)?;
        } else {
            bytes = fs::read(path).with_context(name)?;
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut accesses = if columns::is_csv(&text) {
            columns::read(&text).with_context(name)?
        } else {
            strace::read(&text)
        };
        accesses.sort();
        ensure!(
            accesses.reads() > 0,
            "{}: no reads in it, expected CSV that begins with {}, or the output of strace",
            name(),
            columns::HEAD
        );
        Ok(accesses)
    }

    pub fn add(&mut self, time_ns: u64, stream: &str, object: &str, offset: u64, length: u64) {
        let object = self.object(object);
        let bytes = &mut self.objects[object].bytes;
        *bytes = (*bytes).max(offset.saturating_add(length));
        let stream = self.stream(stream, object);
        self.all.push(Access {
            time_ns,
            stream,
            offset,
            length,
        });
    }

    fn object(&mut self, name: &str) -> usize {
        if let Some(number) = self.objects_by_name.get(name) {
            return *number;
        }
        self.objects.push(Object {
            name: name.to_owned(),
            bytes: 0,
        });
        let number = self.objects.len() - 1;
        self.objects_by_name.insert(name.to_owned(), number);
        number
    }

    fn stream(&mut self, name: &str, object: usize) -> usize {
        let key = (name.to_owned(), object);
        if let Some(number) = self.streams_by_name.get(&key) {
            return *number;
        }
        self.streams.push(Stream {
            name: name.to_owned(),
            object,
        });
        let number = self.streams.len() - 1;
        self.streams_by_name.insert(key, number);
        number
    }

    /// Takes over what another one has, but for these objects.
    pub fn join(&mut self, other: &Self, but: impl Fn(&str) -> bool) {
        for access in &other.all {
            let stream = &other.streams[access.stream];
            let object = &other.objects[stream.object].name;
            if !but(object) {
                let (offset, length) = (access.offset, access.length);
                self.add(access.time_ns, &stream.name, object, offset, length);
            }
        }
        self.sort();
    }

    /// In the order of time, which begins at 0.
    pub fn sort(&mut self) {
        self.all.sort_by_key(|access| access.time_ns);
        let first_ns = self.all.first().map_or(0, |access| access.time_ns);
        for access in &mut self.all {
            access.time_ns -= first_ns;
        }
    }

    /// How many of them got something.
    pub fn reads(&self) -> usize {
        self.all.iter().filter(|access| access.length > 0).count()
    }

    /// How much they got.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(|access| access.length).sum()
    }

    /// The object of an access.
    pub fn object_of(&self, access: &Access) -> &Object {
        &self.objects[self.streams[access.stream].object]
    }
}
