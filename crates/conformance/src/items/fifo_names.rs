//! FIFOs: names and files (items 74 to 76, 84 to 88, 93, 94).

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, Stat, Timestamps};

use super::{CAPACITY, fill, pattern};
use crate::ends::{Reader, Writer, kind};
use crate::fail::Fail;
use crate::paths;
use crate::raw::{self, borrow, open_and_close};
use crate::remote::Remote;
use crate::setting::{PeerKind, Setting};
use crate::suite::behaviours;

behaviours! {
    by_descriptor("typed ends have no name"):
        item_74_mkfifo_makes_an_empty_file_of_that_mode,
        item_74_mkfifo_changes_the_times_of_the_directory,
        item_75_mkfifo_says_why_not,
        item_75_mkfifo_needs_permission,
        item_76_mknod_is_the_same_and_ignores_the_device,
        item_84_flags_that_files_know_do_nothing,
        item_84_flags_that_make_no_sense_are_refused,
        item_85_o_path_takes_no_part,
        item_86_truncate_is_einval,
        item_87_permissions_are_checked_at_open_only,
        item_87_fchmod_changes_the_named_file,
        item_88_all_names_are_one_pipe,
        item_88_an_unlinked_fifo_goes_on,
        item_94_stat_never_shows_queued_bytes;
    kernel("Rust has no bad addresses"):
        item_75_a_bad_address_is_efault;
    kernel("bytes in the lane leave no trace in the file"):
        item_93_writes_and_reads_change_the_times;
}

fn stat(path: &CStr) -> Stat {
    rustix::fs::stat(path).expect("cannot stat")
}

fn mode(path: &CStr) -> u32 {
    Mode::from_raw_mode(stat(path).st_mode).bits()
}

/// `name` next to `path`.
fn beside(path: &CStr, name: &str) -> CString {
    let path = Path::new(path.to_str().expect("our own paths"));
    let beside = path.with_file_name(name);
    CString::new(beside.into_os_string().into_encoded_bytes()).expect("no zero bytes")
}

/// What `check` says here and at a peer.
fn here_and_at_a_peer(s: Setting, check: impl FnOnce() + Clone + Send + 'static) {
    let there = check.clone();
    s.spawn((), |()| there()).join();
    check();
}

fn item_74_mkfifo_makes_an_empty_file_of_that_mode(s: Setting) {
    here_and_at_a_peer(s, move || {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        for (umask, asked, made) in [
            (0o022, 0o666, 0o644),
            (0o077, 0o777, 0o700),
            (0, 0o622, 0o622),
            (0o022, 0o7777, 0o7755),
        ] {
            let path = paths::fresh();
            let before = rustix::process::umask(Mode::from_raw_mode(umask));
            s.mkfifo(&path, asked).unwrap();
            rustix::process::umask(before);
            let stat = stat(&path);
            assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo);
            assert_eq!(mode(&path), made, "{asked:o} under umask {umask:o}");
            assert_eq!((stat.st_size, stat.st_nlink, stat.st_rdev), (0, 1, 0));
            assert_eq!((stat.st_uid, stat.st_gid), (user, group));
        }
    });
}

fn set_times_to_the_epoch(path: &CStr) {
    let epoch = rustix::time::Timespec::default();
    let times = Timestamps {
        last_access: epoch,
        last_modification: epoch,
    };
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
}

fn item_74_mkfifo_changes_the_times_of_the_directory(s: Setting) {
    here_and_at_a_peer(s, move || {
        let directory = paths::fresh();
        rustix::fs::mkdir(&*directory, Mode::RWXU).unwrap();
        set_times_to_the_epoch(&directory);
        assert_eq!(stat(&directory).st_mtime, 0);
        let name = [directory.as_bytes(), b"/fifo"].concat();
        s.mkfifo(&CString::new(name).unwrap(), 0o600).unwrap();
        let stat = stat(&directory);
        assert_ne!(stat.st_mtime, 0);
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        assert_eq!((stat.st_mtime, stat.st_mtime_nsec), changed);
    });
}

fn item_75_mkfifo_says_why_not(s: Setting) {
    here_and_at_a_peer(s, move || {
        let make = |path: &CStr| s.mkfifo(path, 0o600);
        let path = paths::fresh();
        make(&path).unwrap();
        assert_eq!(make(&path), Err(Fail::EXIST));
        let dangling = paths::fresh();
        rustix::fs::symlink(&*paths::fresh(), &*dangling).unwrap();
        assert_eq!(make(&dangling), Err(Fail::EXIST));
        let below = |directory: &CStr, name: &[u8]| {
            CString::new([directory.to_bytes(), b"/", name].concat()).unwrap()
        };
        assert_eq!(make(&below(&paths::fresh(), b"fifo")), Err(Fail::NOENT));
        assert_eq!(make(c""), Err(Fail::NOENT));
        assert_eq!(make(&below(&paths::fresh(), b"")), Err(Fail::NOENT));
        assert_eq!(make(&below(&path, b"fifo")), Err(Fail::NOTDIR));
        assert_eq!(
            make(&paths::named(&"x".repeat(256))),
            Err(Fail::NAMETOOLONG)
        );
        let closed = raw::dup(0).unwrap();
        raw::close(closed).unwrap();
        let outcome = rustix::fs::mkfifoat(borrow(closed), c"fifo", Mode::RWXU);
        assert_eq!(outcome.map_err(Fail::from), Err(Fail::BADF));
    });
}

/// At a peer without privileges, which is a process of its own.
fn as_nobody(s: Setting, check: impl FnOnce() + Send + 'static) {
    let peers = match s.peers {
        PeerKind::Thread => PeerKind::Fork,
        other => other,
    };
    let directory = paths::named(".");
    rustix::fs::chmod(&*directory, Mode::from_raw_mode(0o755)).unwrap();
    let peer = Setting { peers, ..s }.spawn((), |()| {
        raw::become_nobody();
        check();
    });
    peer.join();
}

fn item_75_mkfifo_needs_permission(s: Setting) {
    let directory = paths::fresh();
    rustix::fs::mkdir(&*directory, Mode::empty()).unwrap();
    let path = CString::new([directory.as_bytes(), b"/fifo"].concat()).unwrap();
    as_nobody(s, move || {
        assert_eq!(s.mkfifo(&path, 0o600), Err(Fail::ACCES));
    });
}

fn item_75_a_bad_address_is_efault(_: Setting) {
    assert_eq!(raw::mkfifo_nowhere(), Err(Fail::FAULT));
}

fn item_76_mknod_is_the_same_and_ignores_the_device(s: Setting) {
    let path = paths::fresh();
    let device = rustix::fs::makedev(7, 7);
    rustix::fs::mknodat(CWD, &*path, FileType::Fifo, Mode::RWXU, device).unwrap();
    let stat = stat(&path);
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo);
    assert_eq!((stat.st_rdev, stat.st_size, mode(&path)), (0, 0, 0o700));
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&path.as_c_str().into(), OFlags::WRONLY);
    assert_eq!(w.write(b"a pipe"), Ok(6));
    assert_eq!(r.read(9), Ok(b"a pipe".to_vec()));
}

fn item_84_flags_that_files_know_do_nothing(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    for flags in [
        OFlags::empty(),
        OFlags::TRUNC,
        OFlags::APPEND,
        OFlags::CREATE,
        OFlags::CREATE | OFlags::TRUNC,
    ] {
        let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY | flags);
        assert_eq!(w.write(b"kept,"), Ok(5), "{flags:?}");
        w.close();
    }
    let r_too: Reader = s.open(&path, OFlags::RDWR | OFlags::TRUNC).unwrap();
    assert_eq!(r.read(99), Ok(b"kept,".repeat(5)));
    drop(r_too);
}

fn item_84_flags_that_make_no_sense_are_refused(s: Setting) {
    here_and_at_a_peer(s, move || {
        let path = s.fifo();
        let now = libc::O_RDWR | libc::O_NONBLOCK;
        let open = |flags| open_and_close(&path, flags);
        assert_eq!(open(now), Ok(()));
        let exclusive = libc::O_CREAT | libc::O_EXCL;
        assert_eq!(open(now | exclusive), Err(Fail::EXIST));
        assert_eq!(open(now | libc::O_DIRECTORY), Err(Fail::NOTDIR));
        assert_eq!(open(libc::O_ACCMODE | libc::O_NONBLOCK), Err(Fail::INVAL));
        assert_eq!(open(now | libc::O_DIRECT), Err(Fail::INVAL));
        let slash = CString::new([path.to_bytes(), b"/"].concat()).unwrap();
        assert_eq!(open_and_close(&slash, now), Err(Fail::NOTDIR));
        rustix::fs::chmod(&*path, Mode::RWXU).unwrap();
        let program = std::process::Command::new(path.to_str().unwrap()).spawn();
        assert_eq!(Fail::from(program.unwrap_err()), Fail::ACCES);
    });
}

fn item_85_o_path_takes_no_part(s: Setting) {
    let path = s.fifo();
    let only_path = rustix::fs::open(&*path, OFlags::PATH, Mode::empty()).unwrap();
    let write_now = OFlags::WRONLY | OFlags::NONBLOCK;
    let w = s.open::<kind::Write>(&path, write_now).map(drop);
    assert_eq!(w, Err(Fail::NXIO), "no reader");
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    assert_eq!(r.read(1), Ok(vec![]), "no writer");
    let fd = only_path.as_raw_fd();
    assert_eq!(raw::read_byte(fd), Err(Fail::BADF));
    assert_eq!(raw::fcntl(fd, libc::F_GETPIPE_SZ, 0), Err(Fail::BADF));
    assert_eq!(raw::fcntl(fd, libc::F_SETPIPE_SZ, 4096), Err(Fail::BADF));
    if s.engine.is_standpipe() {
        let adopted = standpipe::end::End::from_fd(only_path);
        assert!(adopted.is_err(), "there is nothing to adopt");
    }
}

fn item_86_truncate_is_einval(s: Setting) {
    let path = s.fifo();
    let both: Writer = s.open(&path, OFlags::RDWR).unwrap();
    assert_eq!(both.write(b"kept"), Ok(4));
    let name = path.clone();
    here_and_at_a_peer(s, move || {
        assert_eq!(raw::truncate(&name, 0), Err(Fail::INVAL));
    });
    let truncated = rustix::fs::ftruncate(borrow(both.fd()), 0);
    assert_eq!(truncated.map_err(Fail::from), Err(Fail::INVAL));
    assert_eq!(both.unread_bytes(), Ok(4));
}

fn item_87_permissions_are_checked_at_open_only(s: Setting) {
    let path = s.fifo();
    let open_both: Writer = s.open(&path, OFlags::RDWR).unwrap();
    for (mode, read, write) in [
        (0o666, true, true),
        (0o444, true, false),
        (0o222, false, true),
        (0, false, false),
    ] {
        rustix::fs::chmod(&*path, Mode::from_raw_mode(mode)).unwrap();
        let path = path.clone();
        as_nobody(s, move || {
            let open = |access| {
                s.open::<kind::Both>(&path, access | OFlags::NONBLOCK)
                    .map(drop)
            };
            let expect = |allowed| if allowed { Ok(()) } else { Err(Fail::ACCES) };
            assert_eq!(open(OFlags::RDONLY), expect(read), "{mode:o}");
            assert_eq!(open(OFlags::WRONLY), expect(write), "{mode:o}");
            assert_eq!(open(OFlags::RDWR), expect(read && write), "{mode:o}");
        });
    }
    assert_eq!(open_both.write(b"still open"), Ok(10), "mode 0 by now");
}

fn item_87_fchmod_changes_the_named_file(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    rustix::fs::fchmod(borrow(r.fd()), Mode::from_raw_mode(0o640)).unwrap();
    assert_eq!(mode(&path), 0o640);
    if rustix::process::geteuid().is_root() {
        let user = rustix::fs::Uid::from_raw(12);
        rustix::fs::fchown(borrow(r.fd()), Some(user), None).unwrap();
        assert_eq!(stat(&path).st_uid, 12);
    }
}

fn item_88_all_names_are_one_pipe(s: Setting) {
    let path = s.fifo();
    let link = beside(&path, "link");
    rustix::fs::link(&*path, &*link).unwrap();
    assert_eq!(stat(&path).st_nlink, 2);
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&link.as_c_str().into(), OFlags::WRONLY);
    assert_eq!(w.write(b"by a link,"), Ok(10));
    let renamed = beside(&path, "renamed");
    rustix::fs::renameat_with(CWD, &*link, CWD, &*renamed, RenameFlags::empty()).unwrap();
    let w_too: Remote<kind::Write> = s.remote_open(&renamed.as_c_str().into(), OFlags::WRONLY);
    assert_eq!(w_too.write(b"by a new name"), Ok(13));
    assert_eq!(r.read(99), Ok(b"by a link,by a new name".to_vec()));
    w.close();
    assert_eq!(r.events(), rustix::event::PollFlags::empty(), "one is left");
    w_too.close();
    assert_eq!(r.read(99), Ok(vec![]));
}

fn item_88_an_unlinked_fifo_goes_on(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    rustix::fs::unlink(&*path).unwrap();
    assert_eq!(w.write(b"goes on"), Ok(7));
    assert_eq!(rustix::fs::fstat(borrow(r.fd())).unwrap().st_nlink, 0);
    s.mkfifo(&path, 0o600).unwrap();
    let other = s.open::<kind::Write>(&path, OFlags::WRONLY | OFlags::NONBLOCK);
    assert_eq!(other.map(drop), Err(Fail::NXIO), "another pipe");
    assert_eq!(r.read(99), Ok(b"goes on".to_vec()));
    w.close();
    assert_eq!(r.read(99), Ok(vec![]));
}

fn item_93_writes_and_reads_change_the_times(s: Setting) {
    let path = s.fifo();
    let w: Writer = s.open(&path, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
    let r: Reader = s.open(&path, OFlags::RDONLY).unwrap();
    let times = || {
        let stat = stat(&path);
        (stat.st_atime, stat.st_mtime)
    };
    set_times_to_the_epoch(&path);
    assert_eq!(w.write(b""), Ok(0));
    let reopened = s.open::<kind::Both>(&path, OFlags::RDWR).map(drop);
    assert_eq!((reopened, times()), (Ok(()), (0, 0)), "nothing moved");
    fill(&w);
    let (atime, mtime) = times();
    assert!(atime == 0 && mtime > 0, "a write changes the second");
    set_times_to_the_epoch(&path);
    assert_eq!(w.write(&pattern(CAPACITY)), Err(Fail::AGAIN));
    assert_eq!(times(), (0, 0), "nothing moved");
    drop(r.read_exactly(1));
    let (atime, mtime) = times();
    let kept = rustix::fs::statvfs(&*path).unwrap().f_flag;
    let noatime = kept.contains(rustix::fs::StatVfsMountFlags::NOATIME);
    assert!(
        (atime > 0 || noatime) && mtime == 0,
        "a read changes the first"
    );
}

fn item_94_stat_never_shows_queued_bytes(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    assert_eq!(w.write(&[0; 10_000]), Ok(10_000));
    let stats = [stat(&path), rustix::fs::fstat(borrow(r.fd())).unwrap()];
    for stat in stats {
        assert_eq!((stat.st_size, stat.st_blocks), (0, 0));
    }
}
