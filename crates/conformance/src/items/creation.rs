//! Creation, descriptors, flags (items 1, 2, 9, 19).

use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::engine::Options;
use crate::fail::Fail;
use crate::raw;
use crate::setting::Setting;
use crate::suite::behaviours;

behaviours! {
    everywhere():
        item_9_wrong_direction_is_ebadf,
        item_9_closed_descriptor_is_ebadf,
        item_19_o_nonblock_set_on_the_descriptor_is_heeded,
        item_19_fd_cloexec_belongs_to_the_descriptor;
    inherited("the facts of anonymous pipes"):
        item_1_the_two_lowest_free_descriptors_read_end_first,
        item_2_one_reads_one_writes_and_no_flag_is_set;
    inherited("who opens a path has a description of its own"):
        item_19_o_nonblock_belongs_to_the_description;
}

fn item_1_the_two_lowest_free_descriptors_read_end_first(s: Setting) {
    let null = File::open("/dev/null").unwrap();
    let held: Vec<_> = (0..8)
        .map(|_| null.try_clone().unwrap().into_raw_fd())
        .collect();
    // Two holes that are not neighbours.
    let (low, high) = (held[2], held[5]);
    raw::close(low).unwrap();
    raw::close(high).unwrap();
    let (r, w) = s.pipe();
    assert_eq!((r.fd(), w.fd()), (low, high));
}

fn item_2_one_reads_one_writes_and_no_flag_is_set(s: Setting) {
    let (r, w) = s.pipe();
    let flags = |fd| raw::fcntl(fd, libc::F_GETFL, 0).unwrap();
    // The kernel shows O_LARGEFILE, which has no value in this C library's headers, on some
    // descriptors; a pipe has none of it.
    assert_eq!(flags(r.fd()), libc::O_RDONLY);
    assert_eq!(flags(w.fd()), libc::O_WRONLY);
    assert!(!raw::is_close_on_exec(r.fd()).unwrap() && !raw::is_close_on_exec(w.fd()).unwrap());

    let (r, w) = s.pipe_with(&Options {
        nonblocking: true,
        close_on_exec: true,
        ..Options::default()
    });
    assert_eq!(flags(r.fd()), libc::O_RDONLY | libc::O_NONBLOCK);
    assert_eq!(flags(w.fd()), libc::O_WRONLY | libc::O_NONBLOCK);
    assert!(raw::is_close_on_exec(r.fd()).unwrap() && raw::is_close_on_exec(w.fd()).unwrap());
}

fn item_9_wrong_direction_is_ebadf(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(raw::write(r.fd(), b"x"), Err(Fail::BADF));
    assert_eq!(raw::write(r.fd(), b""), Err(Fail::BADF));
    assert_eq!(raw::read_byte(w.fd()), Err(Fail::BADF));
    assert_eq!(raw::read_nowhere(w.fd(), 0), Err(Fail::BADF));
}

fn item_9_closed_descriptor_is_ebadf(s: Setting) {
    let (r, w) = s.pipe();
    let (read_fd, write_fd) = (r.fd(), w.fd());
    drop((r, w));
    for fd in [read_fd, write_fd] {
        assert_eq!(raw::read_byte(fd), Err(Fail::BADF));
        assert_eq!(raw::write(fd, b"x"), Err(Fail::BADF));
        assert_eq!(raw::fcntl(fd, libc::F_GETFL, 0), Err(Fail::BADF));
        assert_eq!(raw::close(fd), Err(Fail::BADF));
    }
}

fn item_19_o_nonblock_belongs_to_the_description(s: Setting) {
    let (r, w) = s.pipe();
    let copy = r.try_clone();
    s.spawn(r.try_clone(), |r| r.set_nonblocking(true)).join();
    for end in [&r, &copy] {
        assert!(
            raw::is_nonblocking(end.fd()).unwrap(),
            "set by a peer, seen here"
        );
        assert_eq!(end.read(1), Err(Fail::AGAIN));
    }
    assert!(
        !raw::is_nonblocking(w.fd()).unwrap(),
        "the other end is another description"
    );
    copy.set_nonblocking(false);
    let reader = s.spawn(r, |r| r.read(1));
    reader.until_asleep();
    assert_eq!(w.write(b"x"), Ok(1));
    assert_eq!(reader.join(), Ok(b"x".to_vec()));
}

/// Programs set the flag with fcntl on whatever descriptor they were given.
fn item_19_o_nonblock_set_on_the_descriptor_is_heeded(s: Setting) {
    let (r, w) = s.pipe();
    let set = |fd, flag| {
        let others = raw::fcntl(fd, libc::F_GETFL, 0).unwrap() & !libc::O_NONBLOCK;
        raw::fcntl(fd, libc::F_SETFL, others | flag).unwrap();
    };
    set(r.fd(), libc::O_NONBLOCK);
    assert_eq!(r.read(1), Err(Fail::AGAIN));
    set(w.fd(), libc::O_NONBLOCK);
    super::fill(&w);
    assert_eq!(w.write(b"x"), Err(Fail::AGAIN));
    set(w.fd(), 0);
    let writer = s.spawn(w, |w| w.write(b"x"));
    writer.until_asleep();
    drop(r.read_exactly(super::CAPACITY));
    assert_eq!(writer.join(), Ok(1));
}

fn item_19_fd_cloexec_belongs_to_the_descriptor(s: Setting) {
    let (r, w) = s.pipe_with(&Options {
        close_on_exec: true,
        ..Options::default()
    });
    for fd in [r.fd(), w.fd()] {
        let copy = raw::dup(fd).unwrap();
        assert!(!raw::is_close_on_exec(copy).unwrap(), "dup clears it");

        let at_least = File::open("/dev/null").unwrap().as_raw_fd() + 10;
        let copy = raw::fcntl(fd, libc::F_DUPFD, at_least).unwrap();
        assert_eq!((copy, raw::is_close_on_exec(copy)), (at_least, Ok(false)));
        let next = raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, at_least).unwrap();
        assert_eq!(
            (next, raw::is_close_on_exec(next)),
            (at_least + 1, Ok(true))
        );
        raw::close(copy).unwrap();
        raw::close(next).unwrap();

        assert_eq!(raw::dup2(fd, fd), Ok(fd));
        assert_eq!(
            raw::is_close_on_exec(fd),
            Ok(true),
            "dup2 onto itself changes nothing"
        );
        assert_eq!(raw::dup3(fd, fd, 0), Err(Fail::INVAL));
        assert_eq!(raw::dup3(fd, copy, libc::O_NONBLOCK), Err(Fail::INVAL));
    }
}
