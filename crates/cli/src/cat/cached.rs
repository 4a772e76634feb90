//! From the page cache to standard output.

use std::io::{self, IoSlice, Seek as _, SeekFrom, Write};

use standpipe::file::File;

use super::range::Range;
use crate::progress::Meter;
use crate::stream::{Output, Trouble, behind_the_end};

/// Moved between two looks at what has passed.
const STEP_BYTES: u64 = 1 << 20;

/// Writes what is wanted of a file.
pub fn write(file: &File, span: Range, output: &Output, meter: &Meter) -> Result<(), Trouble> {
    let trouble = |error| Trouble::Input(file.name().to_owned(), error);
    let length = file.len().map_err(trouble)?;
    let (start, wanted) = span
        .within(length)
        .map_err(|start| trouble(behind_the_end(start, length)))?;
    let mut reader = file;
    reader.seek(SeekFrom::Start(start)).map_err(trouble)?;
    let mut left = wanted.unwrap_or(u64::MAX);
    let mut sink = Sink {
        output,
        trouble: None,
    };
    while left > 0 {
        let moved = file.splice(&mut sink, left.min(STEP_BYTES));
        if let Some(trouble) = sink.trouble.take() {
            return Err(trouble);
        }
        match moved.map_err(trouble)? {
            0 => break,
            bytes => {
                meter.add(bytes as usize);
                left -= bytes;
            }
        }
    }
    Ok(())
}

/// Standard output, which remembers that it was the one that failed.
struct Sink<'a> {
    output: &'a Output,
    trouble: Option<Trouble>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.output.write_some(slices).map_err(|trouble| {
            self.trouble = Some(trouble);
            io::Error::other("standard output failed")
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
