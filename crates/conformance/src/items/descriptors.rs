//! What else a descriptor of a pipe can and cannot do (items 10, 12 to 17, 22).

use rustix::fs::{FallocateFlags, FileType, Gid, Mode, Uid};

use crate::ends::{Reader, Writer};
use crate::fail::Fail;
use crate::raw::{self, borrow};
use crate::setting::Setting;
use crate::signals;
use crate::suite::behaviours;

behaviours! {
    everywhere():
        item_10_fstat_shows_a_fifo_of_size_0,
        item_12_lseek_is_espipe,
        item_13_reads_and_writes_at_an_offset_are_espipe,
        item_15_what_files_can_do_and_pipes_cannot,
        item_16_advice_is_espipe,
        item_16_readahead_is_einval,
        item_17_fchmod_and_fchown_show_at_both_ends,
        item_22_pipe_buf_is_4096;
    by_descriptor("typed ends have no bare reads"):
        item_14_preadv2_and_pwritev2_at_offset_minus_1_are_readv_and_writev,
        item_14_rwf_nosignal_is_epipe_without_a_signal;
    by_descriptor("typed ends have no bare reads"), inherited("a FIFO does not know the flag"):
        item_14_rwf_nowait_does_not_wait;
}

/// Facts that hold here and at a peer that came by both ends.
fn here_and_at_a_peer(s: Setting, facts: fn(&Reader, &Writer)) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(b"queued"), Ok(6));
    facts(&r, &w);
    let given = (r.try_clone(), w.try_clone());
    s.spawn(given, move |(r, w)| facts(&r, &w)).join();
    assert_eq!(r.read(9), Ok(b"queued".to_vec()), "nothing was hurt");
}

fn item_10_fstat_shows_a_fifo_of_size_0(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        let [r, w] = [r.fd(), w.fd()].map(|fd| rustix::fs::fstat(borrow(fd)).unwrap());
        assert_eq!((r.st_dev, r.st_ino), (w.st_dev, w.st_ino));
        for stat in [r, w] {
            assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo);
            assert_eq!(Mode::from_raw_mode(stat.st_mode).bits(), 0o600);
            assert_eq!((stat.st_nlink, stat.st_size, stat.st_blksize), (1, 0, 4096));
            let user = rustix::process::geteuid().as_raw();
            let group = rustix::process::getegid().as_raw();
            assert_eq!((stat.st_uid, stat.st_gid), (user, group));
        }
    });
}

fn item_12_lseek_is_espipe(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        for fd in [r.fd(), w.fd()] {
            for whence in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END] {
                assert_eq!(raw::lseek(fd, 0, whence), Err(Fail::SPIPE));
            }
            assert_eq!(raw::lseek(fd, 0, 99), Err(Fail::INVAL));
        }
    });
}

fn item_13_reads_and_writes_at_an_offset_are_espipe(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        for fd in [r.fd(), w.fd()] {
            for bytes in [0, 1] {
                assert_eq!(raw::pread(fd, bytes, 0), Err(Fail::SPIPE));
                assert_eq!(raw::pwrite(fd, &b"x"[..bytes], 0), Err(Fail::SPIPE));
                assert_eq!(raw::preadv2(fd, &mut [0][..bytes], 0, 0), Err(Fail::SPIPE));
                assert_eq!(raw::pwritev2(fd, &b"x"[..bytes], 0, 0), Err(Fail::SPIPE));
            }
            assert_eq!(raw::pread(fd, 1, -1), Err(Fail::INVAL));
            assert_eq!(raw::pwrite(fd, b"x", -1), Err(Fail::INVAL));
        }
    });
}

/// A pipe whose descriptors are used without the engine, here and at the peers.
fn bare_pipe(s: Setting) -> (Reader, Writer) {
    let (r, w) = s.pipe();
    assert_eq!((w.write(b"."), r.read(1)), (Ok(1), Ok(b".".to_vec())));
    r.use_kernel();
    w.use_kernel();
    (r, w)
}

fn item_14_preadv2_and_pwritev2_at_offset_minus_1_are_readv_and_writev(s: Setting) {
    let (r, w) = bare_pipe(s);
    let writer = s.spawn(w, |w| raw::pwritev2(w.fd(), b"vector", -1, 0));
    assert_eq!(writer.join(), Ok(6));
    let mut buf = [0; 9];
    assert_eq!(raw::preadv2(r.fd(), &mut buf, -1, 0), Ok(6));
    assert_eq!(&buf[..6], b"vector");
}

fn item_14_rwf_nowait_does_not_wait(s: Setting) {
    let (r, w) = bare_pipe(s);
    let read_now = |r: &Reader| raw::preadv2(r.fd(), &mut [0], -1, libc::RWF_NOWAIT);
    assert_eq!(read_now(&r), Err(Fail::AGAIN));
    super::fill(&w);
    let writer = s.spawn(w, |w| raw::pwritev2(w.fd(), b"x", -1, libc::RWF_NOWAIT));
    assert_eq!(writer.join(), Err(Fail::AGAIN));
    assert_eq!(read_now(&r), Ok(1));
    assert_eq!(raw::is_nonblocking(r.fd()), Ok(false), "that call only");
}

/// The flag is younger than this C library's headers, and than some kernels.
const RWF_NOSIGNAL: i32 = 0x100;

fn item_14_rwf_nosignal_is_epipe_without_a_signal(s: Setting) {
    signals::handle(rustix::process::Signal::PIPE, false);
    let (r, w) = bare_pipe(s);
    drop(r);
    let writer = s.spawn(w, |w| raw::pwritev2(w.fd(), b"x", -1, RWF_NOSIGNAL));
    match writer.join() {
        Err(Fail::OPNOTSUPP) => {}
        outcome => assert_eq!(outcome, Err(Fail::PIPE)),
    }
    assert!(signals::is_silent());
}

fn item_15_what_files_can_do_and_pipes_cannot(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        for fd in [r.fd(), w.fd()] {
            let end = borrow(fd);
            let fail = |outcome: rustix::io::Result<()>| outcome.map_err(Fail::from);
            assert_eq!(fail(rustix::fs::fsync(end)), Err(Fail::INVAL));
            assert_eq!(fail(rustix::fs::fdatasync(end)), Err(Fail::INVAL));
            assert_eq!(fail(rustix::fs::ftruncate(end, 0)), Err(Fail::INVAL));
            assert_eq!(fail(rustix::process::fchdir(end)), Err(Fail::NOTDIR));
            let none = FallocateFlags::empty();
            let allocated = fail(rustix::fs::fallocate(end, none, 0, 1));
            let expected = if fd == r.fd() {
                Fail::BADF
            } else {
                Fail::SPIPE
            };
            assert_eq!(allocated, Err(expected));
            assert_eq!(raw::sync_file_range(fd), Err(Fail::SPIPE));
            for request in [libc::TCGETS, libc::TIOCGWINSZ, libc::TIOCGPGRP] {
                assert_eq!(raw::ioctl(fd, request, 0), Err(Fail::NOTTY));
            }
            assert!(!rustix::termios::isatty(end));
        }
        assert_eq!(raw::mmap(r.fd()), Err(Fail::NODEV));
        let sink = rustix::fs::memfd_create("sink", rustix::fs::MemfdFlags::empty()).unwrap();
        let copied = rustix::fs::copy_file_range(borrow(r.fd()), None, &sink, None, 1);
        assert_eq!(copied.map_err(Fail::from), Err(Fail::INVAL));
        let copied = rustix::fs::copy_file_range(&sink, None, borrow(w.fd()), None, 1);
        assert_eq!(copied.map_err(Fail::from), Err(Fail::INVAL));
    });
}

fn item_16_advice_is_espipe(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        for fd in [r.fd(), w.fd()] {
            for advice in [libc::POSIX_FADV_NORMAL, libc::POSIX_FADV_WILLNEED, 99] {
                assert_eq!(raw::posix_fadvise(fd, advice), libc::ESPIPE);
            }
        }
    });
}

fn item_16_readahead_is_einval(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        assert_eq!(raw::readahead(r.fd()), Err(Fail::INVAL));
        assert_eq!(raw::readahead(w.fd()), Err(Fail::BADF));
    });
}

fn item_17_fchmod_and_fchown_show_at_both_ends(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        let stat = |fd| rustix::fs::fstat(borrow(fd)).unwrap();
        let mode = |fd| Mode::from_raw_mode(stat(fd).st_mode).bits();
        for (changed, bits) in [(r.fd(), 0o640), (w.fd(), 0o660)] {
            rustix::fs::fchmod(borrow(changed), Mode::from_raw_mode(bits)).unwrap();
            assert_eq!((mode(r.fd()), mode(w.fd())), (bits, bits));
        }
        // To oneself, which needs no privilege; root goes on to somebody else.
        let root = rustix::process::geteuid().is_root();
        let own = (stat(r.fd()).st_uid, stat(r.fd()).st_gid);
        for (uid, gid) in [Some(own), root.then_some((12, 34)), Some(own)]
            .into_iter()
            .flatten()
        {
            let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            rustix::fs::fchown(borrow(w.fd()), owner.0, owner.1).unwrap();
            for fd in [r.fd(), w.fd()] {
                assert_eq!((stat(fd).st_uid, stat(fd).st_gid), (uid, gid));
            }
        }
    });
}

fn item_22_pipe_buf_is_4096(s: Setting) {
    here_and_at_a_peer(s, |r, w| {
        for fd in [r.fd(), w.fd()] {
            assert_eq!(raw::fpathconf_pipe_buf(fd), 4096);
        }
    });
    assert_eq!(libc::PIPE_BUF, 4096);
    assert_eq!(rustix::pipe::PIPE_BUF, 4096);
}
