//! Creation and flags (items 1 to 4, 6, 7, 9, 18 to 21).

use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::ends::{Both, Reader, Writer};
use crate::engine::Options;
use crate::fail::Fail;
use crate::raw;
use crate::setting::Setting;
use crate::suite::behaviours;

behaviours! {
    everywhere():
        item_7_a_full_descriptor_table_is_emfile,
        item_9_wrong_direction_is_ebadf,
        item_9_closed_descriptor_is_ebadf,
        item_18_f_setfl_changes_what_it_may,
        item_19_o_nonblock_set_on_the_descriptor_is_heeded,
        item_19_fd_cloexec_belongs_to_the_descriptor,
        item_20_fionbio_and_fioasync_set_the_descriptions_flags;
    inherited("the facts of anonymous pipes"):
        item_1_the_two_lowest_free_descriptors_read_end_first,
        item_2_one_reads_one_writes_and_no_flag_is_set;
    inherited("who opens a path has a description of its own"):
        item_19_o_nonblock_belongs_to_the_description;
    by_descriptor("typed ends are made by options with names"):
        item_3_pipe2_takes_any_mix_of_its_flags;
    by_descriptor("typed ends are not opened"):
        item_21_proc_self_fd_opens_a_description_of_its_own,
        item_21_proc_self_fd_opens_a_read_end_for_both;
    kernel("Rust's options have no other bits"):
        item_4_any_other_pipe2_flag_is_einval;
    kernel("Rust has no bad addresses"):
        item_6_a_bad_array_is_efault_and_leaves_no_descriptor,
        item_7_emfile_leaves_the_array_alone;
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

fn item_3_pipe2_takes_any_mix_of_its_flags(s: Setting) {
    let flags = [libc::O_CLOEXEC, libc::O_NONBLOCK, libc::O_DIRECT];
    for mix in 0..8 {
        let chosen = |i: usize| if mix >> i & 1 == 1 { flags[i] } else { 0 };
        let [close_on_exec, nonblocking, direct] = [0, 1, 2].map(chosen);
        let (r, w) = s.pipe2(close_on_exec | nonblocking | direct).unwrap();
        let status = |fd| raw::fcntl(fd, libc::F_GETFL, 0).unwrap();
        assert_eq!(status(r.fd()), libc::O_RDONLY | nonblocking, "{mix:03b}");
        assert_eq!(status(w.fd()), libc::O_WRONLY | nonblocking | direct);
        for fd in [r.fd(), w.fd()] {
            assert_eq!(raw::is_close_on_exec(fd), Ok(close_on_exec != 0));
        }
    }
}

fn item_4_any_other_pipe2_flag_is_einval(_: Setting) {
    use libc::{O_APPEND, O_ASYNC, O_CREAT, O_NOATIME, O_NOFOLLOW, O_RDWR, O_SYNC, O_WRONLY};
    let mut ends = [-1; 2];
    for bad in [
        O_APPEND, O_ASYNC, O_CREAT, O_NOATIME, O_NOFOLLOW, O_RDWR, O_SYNC, O_WRONLY,
    ] {
        for good in [0, libc::O_CLOEXEC] {
            let made = raw::pipe2(&mut ends, bad | good);
            assert_eq!(made, Err(Fail::INVAL), "{bad:#o}");
        }
    }
    // The bit of notification pipes, which few kernels are built with.
    if let Err(fail) = raw::pipe2(&mut ends, libc::O_EXCL) {
        assert_eq!(fail, Fail::NOPKG);
    }
}

/// The lowest number that is free.
fn lowest_free() -> i32 {
    File::open("/dev/null").unwrap().as_raw_fd()
}

fn item_6_a_bad_array_is_efault_and_leaves_no_descriptor(_: Setting) {
    let before = lowest_free();
    assert_eq!(raw::pipe_nowhere(), Err(Fail::FAULT));
    assert_eq!(lowest_free(), before);
}

/// Takes all descriptors but `free`; gives those that it took.
fn take_all_descriptors_but(free: usize) -> Vec<File> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = Rlimit {
        current: Some(64),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let null = File::open("/dev/null").unwrap();
    let mut taken: Vec<_> = std::iter::from_fn(|| null.try_clone().ok()).collect();
    taken.push(null);
    taken.truncate(taken.len() - free);
    taken
}

fn item_7_a_full_descriptor_table_is_emfile(s: Setting) {
    for free in [0, 1] {
        let mut taken = take_all_descriptors_but(free);
        assert_eq!(s.try_pipe().map(drop), Err(Fail::MFILE), "{free} free");
        let more: Vec<_> = std::iter::from_fn(|| taken[0].try_clone().ok()).collect();
        assert_eq!(more.len(), free, "what was free is free");
        drop(taken.split_off(taken.len() - 12));
        let (r, w) = s.try_pipe().unwrap();
        assert_eq!((w.write(b"good"), r.read(9)), (Ok(4), Ok(b"good".to_vec())));
    }
}

fn item_7_emfile_leaves_the_array_alone(_: Setting) {
    for free in [0, 1] {
        let _taken = take_all_descriptors_but(free);
        let mut ends = [77, 88];
        assert_eq!(raw::pipe2(&mut ends, 0), Err(Fail::MFILE));
        assert_eq!(ends, [77, 88]);
    }
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

fn item_18_f_setfl_changes_what_it_may(s: Setting) {
    let facts = |fd: i32, access: i32| {
        let set = |flags| raw::fcntl(fd, libc::F_SETFL, flags).unwrap();
        let get = || raw::fcntl(fd, libc::F_GETFL, 0).unwrap();
        for flag in [
            libc::O_NONBLOCK,
            libc::O_APPEND,
            libc::O_ASYNC,
            libc::O_DIRECT,
        ] {
            set(flag);
            assert_eq!(get(), access | flag);
        }
        set(libc::O_RDWR);
        assert_eq!(get(), access, "the access mode is what it was");
    };
    let (r, w) = s.pipe();
    let check = move |(r, w): (Reader, Writer)| {
        // The kernel shows O_LARGEFILE, which has no value in this C library's headers, on a
        // descriptor that was opened by a path.
        let opened = raw::fcntl(r.fd(), libc::F_GETFL, 0).unwrap() & !libc::O_ACCMODE;
        facts(r.fd(), libc::O_RDONLY | opened);
        facts(w.fd(), libc::O_WRONLY | opened);
        let append = raw::fcntl(w.fd(), libc::F_GETFL, 0).unwrap() | libc::O_APPEND;
        raw::fcntl(w.fd(), libc::F_SETFL, append).unwrap();
        assert_eq!((w.write(b"same"), r.read(9)), (Ok(4), Ok(b"same".to_vec())));
    };
    s.spawn((r.try_clone(), w.try_clone()), check).join();
    check((r, w));
}

fn item_20_fionbio_and_fioasync_set_the_descriptions_flags(s: Setting) {
    let (r, w) = s.pipe();
    let copy = r.try_clone();
    let flags = |fd| raw::fcntl(fd, libc::F_GETFL, 0).unwrap();
    for (request, flag) in [
        (libc::FIONBIO, libc::O_NONBLOCK),
        (libc::FIOASYNC, libc::O_ASYNC),
    ] {
        raw::ioctl(r.fd(), request, 1).unwrap();
        assert_eq!(flags(copy.fd()) & flag, flag, "a copy shares it");
        assert_eq!(flags(w.fd()) & flag, 0, "the other end does not");
        if flag == libc::O_NONBLOCK {
            assert_eq!(r.read(1), Err(Fail::AGAIN));
        }
        raw::ioctl(r.fd(), request, 0).unwrap();
        assert_eq!(flags(copy.fd()) & flag, 0);
    }
    let reader = s.spawn(r, |r| r.read(1));
    reader.until_asleep();
    assert_eq!(w.write(b"x"), Ok(1));
    assert_eq!(reader.join(), Ok(b"x".to_vec()));
}

/// Opens what a descriptor of this process refers to.
fn open_again(fd: i32, access: OFlags) -> OwnedFd {
    let path = format!("/proc/self/fd/{fd}");
    rustix::fs::open(path, access | OFlags::NONBLOCK, Mode::empty()).unwrap()
}

fn item_21_proc_self_fd_opens_a_description_of_its_own(s: Setting) {
    let (r, w) = s.pipe();
    let again: Reader = s.adopt(open_again(r.fd(), OFlags::RDONLY));
    assert_eq!(raw::is_nonblocking(r.fd()), Ok(false));
    assert_eq!(again.read(1), Err(Fail::AGAIN));
    let writer = s.spawn(w, |w| w.write(b"one pipe"));
    assert_eq!(writer.join(), Ok(8));
    assert_eq!(r.read(4), Ok(b"one ".to_vec()));
    assert_eq!(again.read(9), Ok(b"pipe".to_vec()));
    assert_eq!(again.read(9), Ok(vec![]), "no writer is left");
}

fn item_21_proc_self_fd_opens_a_read_end_for_both(s: Setting) {
    let (r, w) = s.pipe();
    let both: Both = s.adopt(open_again(r.fd(), OFlags::RDWR));
    drop(w);
    both.set_nonblocking(false);
    let reader = s.spawn(r, |r| r.read(9));
    reader.until_asleep();
    assert_eq!(both.write(b"both"), Ok(4));
    assert_eq!(reader.join(), Ok(b"both".to_vec()));
    assert_eq!(
        (both.write(b"ways"), both.read(9)),
        (Ok(4), Ok(b"ways".to_vec()))
    );
}
