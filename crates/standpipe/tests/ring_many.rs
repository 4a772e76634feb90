//! Thousands of pipes at one ring. (Alone in its program: it sets the limit on descriptors.)

use std::fs::File;
use std::io::{Read, Write};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use standpipe::completion::{Operation, Ring};
use standpipe::pipe::pipe;

const LIMIT: u64 = 6000;
const PIPES: usize = 2500;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn pipes_that_wait_leave_the_descriptors_to_the_program() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(LIMIT);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();

    // Idle ones are their kernel pipe, and nothing beside it.
    let mut ring = Ring::new(PIPES).unwrap();
    let before = descriptors();
    let mut writers = Vec::new();
    for token in 0..PIPES {
        let (reader, writer) = pipe().unwrap();
        let end = ring.attach(reader);
        ring.submit(token as u64, Operation::read(end, vec![0]))
            .unwrap();
        writers.push(writer);
    }
    assert_eq!(ring.reap().unwrap().count(), 0);
    assert_eq!(descriptors() - before, 2 * PIPES);

    // All are armed.
    for token in [0, 1, PIPES / 2, PIPES - 1] {
        writers[token].write_all(b"x").unwrap();
        let completions: Vec<_> = ring.wait(None).unwrap().collect();
        let tokens: Vec<_> = completions.iter().map(|of| of.token).collect();
        assert_eq!(tokens, [token as u64]);
    }
    drop((ring, writers));

    // Busy ones get lanes, but not so many that the program can open nothing more.
    let pipes: Vec<_> = (0..LIMIT / 8).map(|_| pipe().unwrap()).collect();
    for (reader, writer) in &pipes {
        for _ in 0..50 {
            (&*writer).write_all(b"x").unwrap();
            (&*reader).read_exact(&mut [0]).unwrap();
        }
    }
    let open = || File::open("/dev/null").unwrap();
    let _files: Vec<_> = (0..LIMIT / 5).map(|_| open()).collect();
}
