//! One input to one output, with nothing in between but the pipes on both sides.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use super::{Input, Output, Trouble};

/// Copied before it is decided how to go on: a neighbour that speaks standpipe shows itself
/// meanwhile, and one that is done with the lane does, too.
const WINDOW_BYTES: usize = 4 << 20;

/// Copied at a time. Both copies of it should find it in the processor's second-level cache.
const COPY_BYTES: usize = 128 << 10;

/// Spliced at a time: all that a pipe holds.
const SPLICE_BYTES: usize = 1 << 20;

/// Whoever wants to know what passes, or to hold it up.
pub trait Watch {
    /// How many of `bytes` may pass now; returns when it is at least one.
    fn admit(&mut self, bytes: usize) -> usize {
        bytes
    }

    /// So many passed.
    fn moved(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// Nobody does.
pub struct Unwatched;

impl Watch for Unwatched {}

/// Moves everything, by the cheapest way there is.
///
/// A lane that brings the bytes is the best source there is. Without one, pages are moved from the
/// kernel's pipe or file to the kernel's pipe: even where the reader has a lane, being given a page
/// is cheaper for both sides than a copy.
pub fn pass(input: &Input, output: &Output, watch: &mut impl Watch) -> Result<(), Trouble> {
    let mut buffer = vec![0; COPY_BYTES];
    if input.is_pipe() && !copy_while_lane(input, output, watch, &mut buffer)? {
        return Ok(());
    }
    if may_splice(input, output)? && splice_all(input, output, watch)? {
        return Ok(());
    }
    while copy(input, output, watch, &mut buffer)? > 0 {}
    Ok(())
}

/// Copies until nothing comes through a lane (any more); `false` if that was all.
fn copy_while_lane(
    input: &Input,
    output: &Output,
    watch: &mut impl Watch,
    buffer: &mut [u8],
) -> Result<bool, Trouble> {
    loop {
        let before = input.lane_bytes();
        let mut left = WINDOW_BYTES;
        while left > 0 {
            match copy(input, output, watch, buffer)? {
                0 => return Ok(false),
                count => left = left.saturating_sub(count),
            }
        }
        if input.lane_bytes() == before {
            return Ok(true);
        }
    }
}

/// One piece; how long it was.
fn copy(
    input: &Input,
    output: &Output,
    watch: &mut impl Watch,
    buffer: &mut [u8],
) -> Result<usize, Trouble> {
    let admitted = watch.admit(buffer.len());
    let count = input.read(&mut buffer[..admitted])?;
    output.write_all(&buffer[..count])?;
    watch.moved(count);
    Ok(count)
}

/// Whether one of the sides is a pipe, as splice(2) wants it; no lane is in the way then.
fn may_splice(input: &Input, output: &Output) -> Result<bool, Trouble> {
    if !(input.is_pipe() || output.is_pipe()) {
        return Ok(false);
    }
    input.use_kernel().map_err(|error| input.trouble(error))?;
    output.use_kernel().map_err(|error| output.trouble(error))?;
    Ok(true)
}

/// Splices until the end; `false` if it has to be copied from here on.
fn splice_all(input: &Input, output: &Output, watch: &mut impl Watch) -> Result<bool, Trouble> {
    let mut gather = Gather::new();
    loop {
        let admitted = watch.admit(SPLICE_BYTES);
        match splice(input, None, output, None, admitted, SpliceFlags::empty()) {
            Ok(0) => return Ok(true),
            Ok(count) => {
                watch.moved(count);
                gather.after(count);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for_both(input, output)?,
            // a file system, a terminal or an `O_APPEND` that cannot
            Err(Errno::INVAL) => return Ok(false),
            Err(error) => return Err(blame(input, output, error)),
        }
    }
}

/// splice(2) does not say which side would have to wait.
fn wait_for_both(input: &Input, output: &Output) -> Result<(), Trouble> {
    input.await_bytes().map_err(|error| input.trouble(error))?;
    output.await_room().map_err(|error| output.trouble(error))
}

/// splice(2) does not say which side failed either. Of pipes, only the one that nobody reads fails.
fn blame(input: &Input, output: &Output, error: Errno) -> Trouble {
    if error != Errno::PIPE && output.is_pipe() {
        input.trouble(error.into())
    } else {
        output.trouble(error.into())
    }
}

/// Lets some bytes gather in a fast stream before the next splice.
///
/// A page moves on in some nanoseconds, so the input is always empty when the next piece comes,
/// and every piece of every writer costs a wake-up. A nap of [`NAP`], in which a fast writer puts a
/// few hundred KiB into its pipe, spares most of them (2 processors, `cat | X | cat`: a quarter of
/// the time). A stream that is not fast is never held up.
struct Gather {
    before: Instant,
}

/// What a pipe of 1 MiB still has room for at 5 GB/s, with the time that the timer adds.
const NAP: Duration = Duration::from_micros(100);

/// Pieces this large, this close to each other, are a fast stream (here: more than 64 MB/s).
const FAST_BYTES: usize = 64 << 10;
const FAST_INTERVAL: Duration = Duration::from_millis(1);

impl Gather {
    fn new() -> Self {
        Self {
            before: Instant::now(),
        }
    }

    fn after(&mut self, count: usize) {
        let now = Instant::now();
        let close = now.duration_since(self.before) < FAST_INTERVAL;
        if close && (FAST_BYTES..SPLICE_BYTES / 2).contains(&count) {
            std::thread::sleep(NAP);
        }
        self.before = Instant::now();
    }
}
