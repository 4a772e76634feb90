//! The process default, and what the builder accepts. One process, one default: one test.

use std::io::ErrorKind;

use standpipe::pipe::{Builder, PipeSize, SizeError, default_size, pipe, set_default};

#[test]
fn the_default_is_set_at_run_time_and_read_back() {
    let size: PipeSize = "10 3".parse().unwrap();
    set_default(size);
    assert_eq!(default_size(), size);
    let (reader, writer) = pipe().unwrap();
    assert_eq!(reader.size(), size);
    assert_eq!(
        (writer.capacity_bytes(), writer.segment_bytes()),
        (4 << 20, 512 << 10)
    );

    set_default("0 0".parse().unwrap());
    assert_eq!(pipe().unwrap().0.capacity_bytes(), 4096);
    assert_eq!(
        reader.capacity_bytes(),
        4 << 20,
        "pipes that exist keep theirs"
    );

    let (reader, _writer) = Builder::new()
        .capacity_bytes(100_000)
        .segment_bytes(5000)
        .build()
        .unwrap();
    assert_eq!(
        (reader.capacity_bytes(), reader.segment_bytes()),
        (131_072, 8192)
    );

    let error = Builder::new().capacity_bytes(1 << 32).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let reason = error
        .get_ref()
        .unwrap()
        .downcast_ref::<SizeError>()
        .unwrap();
    assert_eq!(
        *reason,
        SizeError::Capacity {
            capacity_bytes: 1 << 32
        }
    );
}
