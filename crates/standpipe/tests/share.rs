//! Bytes in the kernel pipe take room in the lane: when they are read, writers go on.

mod common;

use std::io::{Read, Write};

use common::{fill, once_asleep};
use standpipe::end::End;
use standpipe::pipe::{Builder, PIPE_BUF};

#[test]
fn a_writer_that_waits_for_them_is_woken() {
    let (reader, writer) = Builder::new().capacity_bytes(64 << 10).build().unwrap();
    let (reader, writer) = (End::from(reader), End::from(writer));
    let mut byte = [0];
    once_asleep(
        || (&reader).read_exact(&mut byte).unwrap(),
        |_| (&writer).write_all(b"x").unwrap(),
    );
    // Outside, and full.
    reader.suspend().unwrap();
    writer.set_nonblocking(true).unwrap();
    fill(&writer);
    let queued = writer.unread_bytes().unwrap();
    writer.set_nonblocking(false).unwrap();
    // Inside again, where there is no room for a small write, which is not split.
    (&reader).read_exact(&mut byte).unwrap();
    let mut older = vec![0; queued - 1];
    once_asleep(
        || (&writer).write_all(&[1; PIPE_BUF]).unwrap(),
        |_| (&reader).read_exact(&mut older).unwrap(),
    );
}
