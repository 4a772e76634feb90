//! Whom to let in: who is at the other end of a connection, and whether the pipe is his as well.
//!
//! 1. The same user, or root.
//! 2. For a FIFO in a file system: whoever could open it for reading *and* writing, by the modes of
//!    the file and of each directory on the way to it. Both, because a lane cannot be shared one way:
//!    whoever has it can read what others wrote there, and write what others will read. Somebody who
//!    may only write (or only read) stays on the kernel pipe, which does keep the two apart.
//!
//! Where a file has an access control list, its mode says too little: then only rule 1 holds.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::PipeId;

/// `PIPEFS_MAGIC`: the file system of pipes that have no name.
pub const PIPEFS: i64 = 0x5049_5045;

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

const ROOT: u32 = 0;

/// More supplementary groups than this and a peer is judged by the first ones.
const MOST_GROUPS: usize = 1024;

/// Who may pass.
#[derive(Debug)]
pub struct Gate {
    id: PipeId,
    /// Where the FIFO lies; `None` for a pipe that has no name.
    path: Option<PathBuf>,
}

impl Gate {
    /// The gate of the pipe that `pipe` is an end of.
    pub fn of(pipe: BorrowedFd<'_>, id: PipeId) -> io::Result<Self> {
        let path = if rustix::fs::fstatfs(pipe)?.f_type == PIPEFS {
            None
        } else {
            Some(target(pipe)?)
        };
        Ok(Self { id, path })
    }

    /// Whether the peer of `socket` may join.
    pub fn admits(&self, socket: BorrowedFd<'_>) -> bool {
        let Ok(peer) = Peer::of(socket) else {
            return false;
        };
        let me = rustix::process::geteuid().as_raw();
        peer.uid == me
            || peer.uid == ROOT
            || self
                .path
                .as_ref()
                .is_some_and(|path| is_open_to(path, self.id, &peer).unwrap_or(false))
    }
}

/// What a descriptor is, as `/proc` has it.
pub fn target(fd: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let target = rustix::fs::readlink(link, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

/// Whether `peer` could open the FIFO at `path` for both, and it is still the one that we mean.
fn is_open_to(path: &Path, id: PipeId, peer: &Peer) -> io::Result<bool> {
    let file = rustix::fs::lstat(path)?;
    if PipeId::from_stat(&file) != id || has_list(path)? || !peer.may(READ | WRITE, &file) {
        return Ok(false);
    }
    for directory in path.ancestors().skip(1) {
        let stat = rustix::fs::lstat(directory)?;
        if has_list(directory)? || !peer.may(SEARCH, &stat) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// See acl(5).
fn has_list(path: &Path) -> io::Result<bool> {
    match rustix::fs::lgetxattr_query(path, "system.posix_acl_access") {
        Ok(_) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Who connected, or who listens.
#[derive(Debug)]
struct Peer {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Peer {
    /// See `SO_PEERCRED` and `SO_PEERGROUPS` in unix(7). (Not through rustix, whose process id is
    /// never 0, which that of a peer in a pid namespace out of sight is.)
    fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut credentials = [0_u32; 3];
        if get_option(socket, libc::SO_PEERCRED, &mut credentials)? != credentials.len() {
            return Err(Errno::INVAL.into());
        }
        let [_, uid, gid] = credentials;
        let mut groups = vec![0; MOST_GROUPS];
        let count = get_option(socket, libc::SO_PEERGROUPS, &mut groups).unwrap_or(0);
        groups.truncate(count);
        Ok(Self { uid, gid, groups })
    }

    /// Whether the mode of a file lets this user do all of `wanted`.
    fn may(&self, wanted: u32, file: &Stat) -> bool {
        let shift = if self.uid == file.st_uid {
            6
        } else if self.gid == file.st_gid || self.groups.contains(&file.st_gid) {
            3
        } else {
            0
        };
        (file.st_mode >> shift) & wanted == wanted
    }
}

/// See getsockopt(2). How many words were filled in.
fn get_option(socket: BorrowedFd<'_>, option: libc::c_int, words: &mut [u32]) -> io::Result<usize> {
    let mut bytes = size_of_val(words) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes to `words`, which may hold any, and how many
    // there were to `bytes`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            words.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes as usize / size_of::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A new FIFO, with the modes of its directory and its own.
    fn fifo(directory_mode: u32, mode: u32) -> (tempfile::TempDir, PathBuf, PipeId) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        let new = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, new, 0).unwrap();
        let id = PipeId::from_stat(&rustix::fs::stat(&path).unwrap());
        for (path, mode) in [(&*path, mode), (directory.path(), directory_mode)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        (directory, path, id)
    }

    /// Whether a peer could open it for both.
    fn open(directory_mode: u32, mode: u32, peer: &Peer) -> bool {
        let (_directory, path, id) = fifo(directory_mode, mode);
        is_open_to(&path, id, peer).unwrap()
    }

    fn stranger() -> Peer {
        Peer {
            uid: 0x7fff_0001,
            gid: 0x7fff_0002,
            groups: vec![0x7fff_0003],
        }
    }

    #[test]
    fn a_stranger_passes_by_the_modes_of_the_file_and_of_its_directories() {
        for (directory, file, expected) in [
            (0o755, 0o666, true),
            (0o755, 0o644, false),
            (0o755, 0o622, false),
            (0o755, 0o660, false),
            (0o700, 0o666, false),
            (0o711, 0o606, true),
        ] {
            let found = open(directory, file, &stranger());
            assert_eq!(found, expected, "{directory:o} {file:o}");
        }
    }

    #[test]
    fn one_class_decides_owner_before_group_before_others() {
        let me = rustix::process::geteuid().as_raw();
        let my_group = rustix::process::getegid().as_raw();
        let owner = Peer {
            uid: me,
            ..stranger()
        };
        assert!(open(0o700, 0o600, &owner));
        assert!(!open(0o700, 0o066, &owner), "the owner's own bits decide");
        let member = Peer {
            groups: vec![1, my_group],
            ..stranger()
        };
        assert!(open(0o710, 0o660, &member));
        assert!(!open(0o715, 0o606, &member), "the group's bits decide");
    }

    #[test]
    fn a_file_with_an_access_control_list_lets_no_stranger_in() {
        // Version 2; then tag, permissions and user of each entry: owner, one user, group, mask, others.
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, user) in [
            (1_u16, 6_u16, u32::MAX),
            (2, 0, stranger().uid),
            (4, 6, u32::MAX),
            (0x10, 6, u32::MAX),
            (0x20, 6, u32::MAX),
        ] {
            list.extend(tag.to_le_bytes());
            list.extend(permissions.to_le_bytes());
            list.extend(user.to_le_bytes());
        }
        for on_directory in [false, true] {
            let (directory, path, id) = fifo(0o755, 0o666);
            let place = if on_directory {
                directory.path()
            } else {
                &path
            };
            let flags = rustix::fs::XattrFlags::empty();
            match rustix::fs::setxattr(place, "system.posix_acl_access", &list, flags) {
                Err(Errno::OPNOTSUPP) => return eprintln!("not run: no lists in this file system"),
                set => set.unwrap(),
            }
            assert!(!is_open_to(&path, id, &stranger()).unwrap());
        }
    }

    #[test]
    fn another_file_at_the_same_path_lets_nobody_in() {
        let owner = Peer {
            uid: rustix::process::geteuid().as_raw(),
            ..stranger()
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let id = PipeId {
            device: 1,
            inode: 1,
        };
        assert!(!is_open_to(file.path(), id, &owner).unwrap());
    }
}
