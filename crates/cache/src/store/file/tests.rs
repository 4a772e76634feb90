use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use standpipe_shm::arena::Arena;
use tempfile::TempDir;

use super::*;
use crate::store::testing::{assert_reads, bytes, dirty, in_a_fork, read};

/// All ways to read a file. Which one is taken is for the file system and the kernel to say.
fn ways() -> [Options; 4] {
    let way = |may_be_direct, may_ring| Options {
        may_be_direct,
        may_ring,
        ..Options::default()
    };
    [
        way(true, true),
        way(true, false),
        way(false, true),
        way(false, false),
    ]
}

/// A file of these bytes.
fn file(dir: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("file");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn files_of_any_length_in_every_way() {
    let dir = TempDir::new().unwrap();
    for length in [0, 1, 511, 512, 4095, 4096, 4097, 65536, 1_000_003] {
        let content = bytes(length);
        let path = file(&dir, &content);
        for way in ways() {
            assert_reads(&FileStore::open(&path, &way).unwrap(), &content);
        }
    }
}

#[test]
fn says_how_it_reads() {
    // A file system on a disk, here and in CI, reads directly; one in memory does not.
    let memory = TempDir::new_in("/dev/shm").unwrap();
    let path = file(&memory, b"in memory");
    let store = FileStore::open(&path, &Options::default()).unwrap();
    assert_eq!(store.access(), "pread");
    assert_reads(&store, b"in memory");

    let disk = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = file(&disk, b"on a disk");
    let accesses = ways().map(|way| FileStore::open(&path, &way).unwrap().access());
    let is_direct = accesses[1] == "pread, O_DIRECT";
    assert!(is_direct || accesses[1] == "pread", "{accesses:?}");
    assert_eq!(accesses[2..], ["pread", "pread"]);
    let has_ring = io_uring::IoUring::new(2).is_ok();
    if is_direct && has_ring {
        assert_eq!(accesses[0], "io_uring, O_DIRECT");
    }
}

#[test]
fn sparse_files_read_as_zeroes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"beginning", 0).unwrap();
    file.write_all_at(b"end", 1_000_000).unwrap();
    let wanted = fs::read(&path).unwrap();
    for way in ways() {
        assert_reads(&FileStore::open(&path, &way).unwrap(), &wanted);
    }
}

#[test]
fn grows_and_shrinks_while_it_is_open() {
    let dir = TempDir::new().unwrap();
    let arena = Arena::new(64).unwrap();
    for way in ways() {
        let content = bytes(20_000);
        let path = file(&dir, &content[..5000]);
        let store = FileStore::open(&path, &way).unwrap();
        assert_reads(&store, &content[..5000]);

        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&content[5000..]).unwrap();
        assert_eq!(store.length_bytes(), 5000, "not looked at yet");
        // What was the end is the end of this read still.
        let (got, page) = read(&store, &arena, 4096, 904);
        assert_eq!((got, &page[..904]), (904, &content[4096..5000]));
        assert!(page[904..].iter().all(|&byte| byte == 0));
        assert_eq!(store.refresh().unwrap(), 20_000);
        assert_reads(&store, &content);

        file.set_len(6000).unwrap();
        let (got, bytes) = read(&store, &arena, 0, 20_000);
        assert_eq!((got, &bytes[..6000]), (6000, &content[..6000]));
        assert!(bytes[6000..].iter().all(|&byte| byte == 0));
        assert_eq!(read(&store, &arena, 8192, 4096).0, 0, "behind the end");
        assert_eq!(store.refresh().unwrap(), 6000);
    }
}

#[test]
fn stays_the_file_that_was_opened() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, b"the old one");
    let store = FileStore::open(&path, &Options::default()).unwrap();
    let other = dir.path().join("other");
    fs::write(&other, b"the new one, which is longer").unwrap();
    fs::rename(other, &path).unwrap();
    assert_eq!(store.refresh().unwrap(), 11);
    assert_reads(&store, b"the old one");
    let new = FileStore::open(&path, &Options::default()).unwrap();
    assert_ne!(new.version(), store.version());
    fs::remove_file(&path).unwrap();
    assert_reads(&new, b"the new one, which is longer");
}

#[test]
fn more_reads_at_once_than_the_ring_has_room_for() {
    const PAGES: usize = 1000;
    let dir = TempDir::new().unwrap();
    let content = bytes(PAGES * PAGE_BYTES);
    let path = file(&dir, &content);
    let arena = Arena::new(4 * PAGES as u32).unwrap();
    for way in ways() {
        let store = FileStore::open(&path, &way).unwrap();
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for page in 0..PAGES {
                        let tell = tell.clone();
                        store.start(Read {
                            offset_bytes: (page * PAGE_BYTES) as u64,
                            len_bytes: PAGE_BYTES,
                            lease: dirty(&arena, 1),
                            done: Box::new(move |lease, result| {
                                tell.send((page, lease, result.unwrap())).unwrap();
                            }),
                        });
                    }
                });
            }
        });
        drop(tell);
        let mut seen = vec![0; PAGES];
        for (page, lease, got) in told {
            seen[page] += 1;
            assert_eq!(got, PAGE_BYTES);
            let at = page * PAGE_BYTES;
            assert!(lease.freeze()[0][..] == content[at..at + PAGE_BYTES]);
        }
        assert!(seen.iter().all(|&times| times == 4), "each is told of once");
    }
    assert_eq!(arena.audit().unwrap().free, 4 * PAGES);
}

#[test]
fn memory_in_many_runs() {
    let dir = TempDir::new().unwrap();
    let content = bytes(3000 * PAGE_BYTES - 77);
    let path = file(&dir, &content);
    let arena = Arena::new(6000).unwrap();
    let mut at = 0;
    let mut held = arena.take(6000).unwrap().freeze();
    held.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    for way in ways() {
        let store = FileStore::open(&path, &way).unwrap();
        let access = store.access();
        let (got, bytes) = read(&store, &arena, 0, content.len());
        assert!((got, &bytes[..got]) == (content.len(), &content[..]));
        assert_eq!(store.access(), access, "nothing was refused");
    }
}

#[test]
fn a_panic_of_who_hears_stops_nobody_else() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, b"fine");
    let arena = Arena::new(64).unwrap();
    for way in ways() {
        let store = FileStore::open(&path, &way).unwrap();
        for _ in 0..10 {
            store.start(Read {
                offset_bytes: 0,
                len_bytes: 4,
                lease: dirty(&arena, 1),
                done: Box::new(|_, _| panic!("this is meant to be")),
            });
        }
        assert_eq!(read(&store, &arena, 0, 4).0, 4);
    }
}

#[test]
fn what_is_not_a_file_is_named() {
    let dir = TempDir::new().unwrap();
    let error = |path: &Path| {
        let error = FileStore::open(path, &Options::default()).err().unwrap();
        error
            .to_string()
            .replace(&dir.path().display().to_string(), "DIR")
    };
    assert_eq!(
        error(dir.path()),
        "DIR is a directory, expected a regular file or a block device"
    );
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(
        error(&fifo),
        "DIR/fifo is a FIFO, expected a regular file or a block device"
    );
    assert_eq!(
        error(Path::new("/dev/null")),
        "/dev/null is a character device, expected a regular file or a block device"
    );
    assert_eq!(
        error(Path::new("/proc/self/status")),
        "/proc/self/status is a file without a length, expected a regular file or a block device"
    );
    assert_eq!(
        error(&dir.path().join("nothing")),
        "DIR/nothing: no such file or object"
    );
}

#[test]
fn a_forked_child_reads_by_an_engine_of_its_own() {
    let dir = TempDir::new().unwrap();
    let content = bytes(100_000);
    let path = file(&dir, &content);
    let stores = ways().map(|way| FileStore::open(&path, &way).unwrap());
    for store in &stores {
        assert_reads(store, &content);
    }
    let is_right = in_a_fork(|| {
        for store in &stores {
            assert_reads(store, &content);
        }
    });
    assert!(is_right);
    for store in &stores {
        assert_reads(store, &content);
    }
}

fn statx(path: &Path) -> Statx {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    rustix::fs::statx(CWD, path, AtFlags::empty(), wanted).unwrap()
}

#[test]
fn a_settled_file_is_the_same_until_it_changes() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, b"one");
    let later = SystemTime::now() + Duration::from_hours(1);
    let version = |path: &Path| version::of_file(&statx(path), later);
    let before = version(&path);
    assert_eq!(before, version(&path));

    // The same length and the same time of writing, as a careful forger would leave it.
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    // Again and again, until the kernel's clock ticks.
    let is_seen = (0..100_000).any(|_| {
        file.write_all_at(b"two", 0).unwrap();
        file.set_modified(written).unwrap();
        version(&path) != before
    });
    assert!(is_seen);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
}

#[test]
fn a_file_changed_just_now_is_shared_with_nobody() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, b"one");
    let of = |after: Duration| {
        let statx = statx(&path);
        let changed = Duration::new(
            statx.stx_ctime.tv_sec.cast_unsigned(),
            statx.stx_ctime.tv_nsec,
        );
        version::of_file(&statx, SystemTime::UNIX_EPOCH + changed + after)
    };
    let millis = Duration::from_millis;
    assert_ne!(of(millis(0)), of(millis(0)));
    assert_ne!(of(millis(11)), of(millis(11)));
    assert_eq!(of(millis(3000)), of(millis(4000)));
}
