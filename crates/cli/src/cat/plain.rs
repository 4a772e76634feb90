//! From a descriptor to standard output.

use std::io;

use super::range::Range;
use crate::progress::Meter;
use crate::stream::{Input, Output, Trouble, Watch, behind_the_end, pass};

/// Copied at a time.
const COPY_BYTES: usize = 128 << 10;

/// Writes what is wanted of an input.
pub fn write(input: &Input, span: Range, output: &Output, meter: &Meter) -> Result<(), Trouble> {
    if span.is_all() {
        return pass(input, output, &mut Counted(meter));
    }
    let mut buffer = vec![0; COPY_BYTES];
    let mut left = go_to(input, span, &mut buffer)?;
    while left > 0 {
        let wanted = left.min(COPY_BYTES as u64) as usize;
        match input.read(&mut buffer[..wanted])? {
            0 => break,
            count => {
                output.write_all(&buffer[..count])?;
                meter.add(count);
                left -= count as u64;
            }
        }
    }
    Ok(())
}

/// By what the bytes came, for people.
pub fn access(input: &Input) -> &'static str {
    if input.lane_bytes() > 0 {
        "lane"
    } else {
        "kernel"
    }
}

/// Goes to where the range begins; how many bytes are wanted from there on.
fn go_to(input: &Input, span: Range, buffer: &mut [u8]) -> Result<u64, Trouble> {
    let behind = |start, length| input.trouble(behind_the_end(start, length));
    if let Some(length) = input.left_bytes() {
        let (start, wanted) = span.within(length).map_err(|start| behind(start, length))?;
        input.skip(start)?;
        return Ok(wanted.unwrap_or(u64::MAX));
    }
    let Range::From { start, length } = span else {
        let text = "it has no end to count back from, expected a file or an object";
        return Err(input.trouble(io::Error::new(io::ErrorKind::InvalidInput, text)));
    };
    let mut skipped = 0;
    while skipped < start {
        let wanted = (start - skipped).min(buffer.len() as u64) as usize;
        match input.read(&mut buffer[..wanted])? {
            0 => return Err(behind(start, skipped)),
            count => skipped += count as u64,
        }
    }
    Ok(length.unwrap_or(u64::MAX))
}

/// Counts what passes.
struct Counted<'a>(&'a Meter);

impl Watch for Counted<'_> {
    fn moved(&mut self, bytes: usize) {
        self.0.add(bytes);
    }
}
