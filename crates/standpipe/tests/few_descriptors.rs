//! Pipes of a process that may have few descriptors. (Alone in its program: it sets the limit.)

use std::io::{Read, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use standpipe::pipe::Builder;

#[test]
fn a_process_with_room_for_lanes_has_them_whatever_its_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    for (order, limit) in (0..).zip([2100, 2000, 1400, 1300, 1100, 1025, 1024, 512, 256, 64]) {
        let current = Some(limit);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        // Of a capacity of its own: a lane that is kept for the next pipe has numbers of another limit.
        let capacity_bytes = 4096 << order;
        let pipe = Builder::new().capacity_bytes(capacity_bytes).build();
        let (mut reader, mut writer) = pipe.unwrap();
        for _ in 0..50 {
            writer.write_all(b"x").unwrap();
            reader.read_exact(&mut [0]).unwrap();
        }
        let stats = reader.as_end().stats();
        assert!(stats.bytes > 0, "limit of {limit}: {stats:?}");
    }
}
