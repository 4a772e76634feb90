//! Who has a FIFO open, found in `/proc` without touching it.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

use procfs::net::UnixState;
use procfs::process::{FDInfo, FDPermissions, FDTarget, Process};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::Serialize;

/// The file, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// A process that has it open.
#[derive(Debug, Serialize)]
pub struct Opener {
    pub pid: i32,
    pub command: String,
    pub reads: bool,
    pub writes: bool,
    #[serde(skip)]
    fd: i32,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub open: Vec<Opener>,
    /// Processes of others, which may have it open, too.
    pub hidden: usize,
    /// Who listens at the lane's rendezvous.
    pub host: Option<Host>,
}

/// Who listens at the rendezvous: anybody of this network namespace.
#[derive(Debug, Serialize)]
pub struct Host {
    /// Absent where it is a process of others.
    pub pid: Option<i32>,
}

impl Found {
    /// Looks at all processes.
    pub fn of(file: FileId) -> anyhow::Result<Self> {
        let socket = rendezvous_inode(file);
        let mut found = Self {
            host: socket.map(|_| Host { pid: None }),
            ..Self::default()
        };
        for process in procfs::process::all_processes()?.flatten() {
            let Ok(fds) = process.fd() else {
                // gone meanwhile, or not for us to look at
                found.hidden += usize::from(process.is_alive());
                continue;
            };
            let fds: Vec<FDInfo> = fds.flatten().collect();
            found.open.extend(opener(&process, &fds, file));
            let listens =
                |fd: &FDInfo| matches!(fd.target, FDTarget::Socket(inode) if Some(inode) == socket);
            if fds.iter().any(listens) {
                found.host = Some(Host {
                    pid: Some(process.pid),
                });
            }
        }
        Ok(found)
    }

    /// A copy of somebody's descriptor, where the kernel lets us have one: opening the FIFO would
    /// make us one of its readers or writers, which others would see.
    pub fn borrow_fd(&self) -> Option<OwnedFd> {
        let borrow = |opener: &Opener| {
            let pidfd = pidfd_open(Pid::from_raw(opener.pid)?, PidfdFlags::empty()).ok()?;
            pidfd_getfd(pidfd, opener.fd, PidfdGetfdFlags::empty()).ok()
        };
        self.open.iter().find_map(borrow)
    }
}

/// The process, if it has the file open.
fn opener(process: &Process, fds: &[FDInfo], file: FileId) -> Option<Opener> {
    let is_open = |fd: &&FDInfo| {
        let link = format!("/proc/{}/fd/{}", process.pid, fd.fd);
        let accesses = fd
            .mode()
            .intersects(FDPermissions::READ | FDPermissions::WRITE);
        accesses
            && matches!(fd.target, FDTarget::Path(_))
            && fs::metadata(link).is_ok_and(|m| (m.dev(), m.ino()) == (file.device, file.inode))
    };
    let fds: Vec<&FDInfo> = fds.iter().filter(is_open).collect();
    let has = |permission| fds.iter().any(|fd| fd.mode().contains(permission));
    Some(Opener {
        pid: process.pid,
        command: process.stat().ok()?.comm,
        reads: has(FDPermissions::READ),
        writes: has(FDPermissions::WRITE),
        fd: fds.first()?.fd,
    })
}

/// The socket that listens at the lane's rendezvous of any version: `standpipe/VERSION/DEVICE/INODE`.
fn rendezvous_inode(file: FileId) -> Option<u64> {
    let end = format!("/{}/{}", file.device, file.inode);
    let is_it = |name: &str| {
        let version = name
            .strip_prefix("@standpipe/")
            .and_then(|rest| rest.strip_suffix(&end));
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let sockets = procfs::net::unix().ok()?;
    let found = sockets.iter().find(|socket| {
        let name = socket.path.as_ref().and_then(|path| path.to_str());
        // the sockets that it accepted bear the same name
        socket.state == UnixState::UNCONNECTED && name.is_some_and(is_it)
    });
    found.map(|socket| socket.inode)
}
