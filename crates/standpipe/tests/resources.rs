//! What a pipe costs: memory, descriptors, page faults. One test function, since all of them look
//! at the whole process.

use std::io::{Read, Write};

use standpipe::completion::{Operation, Ring};
use standpipe::end::End;
use standpipe::pipe::{Builder, pipe};

fn lanes_mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .filter(|line| line.contains("standpipe-lane"))
        .count()
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn page_faults() -> i64 {
    // SAFETY: all bits zero are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: getrusage(2) writes the struct that it is given.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_minflt
}

fn an_idle_pipe_is_two_descriptors() {
    let (lanes, descriptors) = (lanes_mapped(), open_descriptors());
    let pipes: Vec<_> = (0..100).map(|_| pipe().unwrap()).collect();
    assert_eq!(lanes_mapped(), lanes);
    assert_eq!(open_descriptors(), descriptors + 200);
    drop(pipes);
    assert_eq!(open_descriptors(), descriptors);
}

fn pipes_opened_and_closed_again_and_again_share_one_lane() {
    let carry = || {
        let (mut reader, mut writer) = pipe().unwrap();
        writer.write_all(&[1; 1024]).unwrap();
        // Left unread on purpose half of the time: the next pipe must not see it.
        let mut buffer = [0; 2048];
        assert_eq!(reader.read(&mut buffer).unwrap(), 1024);
        writer.write_all(b"unread").unwrap();
    };
    carry();
    let (lanes, descriptors) = (lanes_mapped(), open_descriptors());
    (0..1000).for_each(|_| carry());
    assert_eq!(lanes_mapped(), lanes);
    assert_eq!(open_descriptors(), descriptors);
}

fn a_ring_that_is_gone_has_nothing_open() {
    let (reader, _writer) = pipe().unwrap();
    let reader = End::from(reader);
    let descriptors = open_descriptors();
    let mut ring = Ring::new(1).unwrap();
    let end = ring.attach(reader.try_clone().unwrap());
    ring.submit(1, Operation::read(end, vec![0])).unwrap();
    assert_eq!(ring.reap().unwrap().len(), 0);
    drop(ring);
    assert_eq!(open_descriptors(), descriptors);
}

fn a_large_pipe_takes_memory_as_it_fills_and_gives_it_back() {
    let before = resident_bytes();
    let lanes = lanes_mapped();
    let (mut reader, mut writer) = Builder::new().capacity_bytes(1 << 30).build().unwrap();
    writer.write_all(&[1]).unwrap();
    assert!(
        resident_bytes() - before < 8 << 20,
        "memory comes when it is needed"
    );
    let chunk = vec![7; 1 << 20];
    for _ in 0..64 {
        writer.write_all(&chunk).unwrap();
    }
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    while bytes < (64 << 20) + 1 {
        bytes += reader.read(&mut buffer).unwrap();
    }
    assert_eq!(bytes, (64 << 20) + 1);
    drop((reader, writer));
    assert_eq!(lanes_mapped(), lanes, "too large to keep");
    assert!(resident_bytes() - before < 8 << 20, "given back");
}

fn no_page_fault_in_the_steady_state() {
    let (mut reader, mut writer) = Builder::new().capacity_bytes(1 << 20).build().unwrap();
    let mut buffer = vec![1; 64 << 10];
    let mut turn = || {
        writer.write_all(&buffer).unwrap();
        reader.read_exact(&mut buffer).unwrap();
    };
    (0..40).for_each(|_| turn());
    let before = page_faults();
    (0..1000).for_each(|_| turn());
    assert_eq!(page_faults() - before, 0);
    let stats = writer.stats();
    assert_eq!(stats.bytes + stats.kernel_bytes, 1040 << 16);
    assert!(stats.bytes > 1000 << 16, "{stats:?}");
    assert_eq!(
        (stats.pages_populated_outside, stats.pages_populated_inside),
        (256, 0)
    );
}

#[test]
fn a_pipe_costs_what_it_uses() {
    an_idle_pipe_is_two_descriptors();
    pipes_opened_and_closed_again_and_again_share_one_lane();
    a_ring_that_is_gone_has_nothing_open();
    a_large_pipe_takes_memory_as_it_fills_and_gives_it_back();
    no_page_fault_in_the_steady_state();
}
