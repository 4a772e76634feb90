//! The kernel's limits by user and machine (items 8, 102, 105 to 107).

use std::fs::{self, File};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{CAPACITY, PAGE};
use crate::ends::{Both, Reader, Writer};
use crate::fail::Fail;
use crate::raw;
use crate::setting::{PeerKind, Setting};
use crate::suite::behaviours;

behaviours! {
    kernel("standpipe has limits of its own"):
        item_102_more_than_pipe_max_size_is_eperm,
        item_106_beyond_the_soft_limit_pipes_are_small;
    kernel("standpipe has limits of its own"), changes_limits():
        item_8_beyond_the_hard_limit_is_enfile_or_enomem,
        item_105_pipe_max_size_is_rounded_and_caps_new_pipes,
        item_107_beyond_the_hard_limit_nothing_grows;
}

/// What a user without privileges sees, who is no other test's user.
fn as_nobody(s: Setting, check: impl FnOnce(Setting) + Send + 'static) {
    // Who is a thread, or makes a FIFO, would be in the way.
    let peers = PeerKind::Fork;
    let s = Setting { peers, ..s };
    s.spawn((), move |()| {
        raw::become_nobody();
        check(s);
    })
    .join();
}

/// Numbers of capabilities(7).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// Whether this process has it; root has not each of them everywhere.
fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let effective = lines.find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
    effective >> number & 1 == 1
}

/// A limit of `/proc/sys/fs`, which is what it was when this is dropped.
struct Sysctl {
    path: String,
    before: String,
    /// Tests in other processes look at the limits as well: who changes one is alone.
    _lock: File,
}

impl Sysctl {
    fn to_look_at(name: &str) -> Self {
        Self::locked(name, FlockOperation::LockShared)
    }

    fn to_change(name: &str) -> Self {
        Self::locked(name, FlockOperation::LockExclusive)
    }

    fn locked(name: &str, how: FlockOperation) -> Self {
        let lock = File::open("/proc/sys/fs/pipe-max-size").unwrap();
        flock(&lock, how).unwrap();
        let path = format!("/proc/sys/fs/{name}");
        let before = fs::read_to_string(&path).unwrap();
        Self {
            path,
            before,
            _lock: lock,
        }
    }

    fn set(&self, value: &str) -> Result<(), Fail> {
        Ok(fs::write(&self.path, value)?)
    }

    fn get(&self) -> usize {
        let text = fs::read_to_string(&self.path).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).unwrap() != self.before {
            fs::write(&self.path, &self.before).expect("cannot put the limit back");
        }
    }
}

fn item_102_more_than_pipe_max_size_is_eperm(s: Setting) {
    let limit = Sysctl::to_look_at("pipe-max-size");
    let most = limit.get();
    as_nobody(s, move |s| {
        let (_r, w) = s.pipe();
        assert_eq!(w.set_capacity_bytes(most), Ok(most));
        assert_eq!(w.set_capacity_bytes(most + 1), Err(Fail::PERM));
        assert_eq!(w.capacity_bytes(), Ok(most));
    });
}

fn item_105_pipe_max_size_is_rounded_and_caps_new_pipes(s: Setting) {
    let most = Sysctl::to_change("pipe-max-size");
    for (asked, given) in [("5000", 8192), ("1", 4096), ("1048576", 1 << 20)] {
        most.set(asked).unwrap();
        assert_eq!(most.get(), given, "{asked}");
    }
    for bad in ["-1", "2147483649", "none"] {
        assert_eq!(most.set(bad), Err(Fail::INVAL), "{bad}");
    }
    most.set("8192").unwrap();
    as_nobody(s, |s| assert_eq!(s.pipe().0.capacity_bytes(), Ok(8192)));
    if has_capability(CAP_SYS_RESOURCE) {
        assert_eq!(s.pipe().0.capacity_bytes(), Ok(CAPACITY));
    }
}

/// As many descriptors as the kernel lets this process have.
fn allow_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    usize::try_from(current.unwrap_or(u64::MAX)).unwrap()
}

fn item_106_beyond_the_soft_limit_pipes_are_small(s: Setting) {
    let limit = Sysctl::to_look_at("pipe-user-pages-soft");
    let soft_pages = limit.get();
    let pipes = soft_pages * PAGE / CAPACITY;
    if soft_pages == 0 || allow_descriptors() < 2 * pipes + 100 {
        return;
    }
    as_nobody(s, move |s| {
        let mut held: Vec<(Reader, Writer)> = Vec::new();
        while held.len() < pipes {
            let pipe = s.pipe();
            assert_eq!(
                pipe.0.capacity_bytes(),
                Ok(CAPACITY),
                "{} pipes",
                held.len()
            );
            held.push(pipe);
        }
        let (r, w) = s.pipe();
        assert_eq!(r.capacity_bytes(), Ok(2 * PAGE));
        assert_eq!(w.set_capacity_bytes(4 * PAGE), Err(Fail::PERM));
        assert_eq!(w.set_capacity_bytes(2 * PAGE), Ok(2 * PAGE));
        assert_eq!(w.set_capacity_bytes(PAGE), Ok(PAGE));
        assert_eq!(
            (w.write(b"works"), r.read(9)),
            (Ok(5), Ok(b"works".to_vec()))
        );
    });
}

fn item_8_beyond_the_hard_limit_is_enfile_or_enomem(s: Setting) {
    let hard = Sysctl::to_change("pipe-user-pages-hard");
    let path = s.fifo();
    rustix::fs::chmod(&*path, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    let directory = crate::paths::named(".");
    rustix::fs::chmod(&*directory, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
    hard.set("64").unwrap();
    as_nobody(s, move |s| {
        let held: Vec<_> = std::iter::from_fn(|| s.try_pipe().ok()).collect();
        assert!(!held.is_empty(), "nothing fits the limit");
        assert_eq!(s.try_pipe().map(drop), Err(Fail::NFILE));
        let opened = s.open::<crate::ends::kind::Both>(&path, OFlags::RDWR);
        assert_eq!(opened.map(drop), Err(Fail::NOMEM));
    });
    if has_capability(CAP_SYS_ADMIN) {
        let _exempt: (Both, _) = (s.open(&s.fifo(), OFlags::RDWR).unwrap(), s.pipe());
    }
}

fn item_107_beyond_the_hard_limit_nothing_grows(s: Setting) {
    let hard = Sysctl::to_change("pipe-user-pages-hard");
    assert_eq!(hard.get(), 0, "off by default");
    hard.set("64").unwrap();
    as_nobody(s, move |s| {
        let (_r, w) = s.try_pipe().unwrap();
        assert_eq!(w.set_capacity_bytes(1 << 20), Err(Fail::PERM));
        assert_eq!(w.set_capacity_bytes(PAGE), Ok(PAGE));
    });
    if has_capability(CAP_SYS_ADMIN) {
        assert_eq!(s.pipe().1.set_capacity_bytes(1 << 20), Ok(1 << 20));
    }
}
