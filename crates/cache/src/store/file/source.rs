//! A file, opened, and what it is like.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Statx, StatxFlags};
use standpipe_core::size::PAGE_BYTES;
use standpipe_shm::sync::{AtomicBool, Ordering};

use crate::store::StoreError;

/// An opened file. It stays the one that was opened, whatever comes to be under its path.
pub struct Source {
    name: String,
    file: File,
    kind: Kind,
    /// Whether reads go around the kernel's page cache. A file system that turns out not to do so is asked
    /// no more. Relaxed: it is about speed only.
    is_direct: AtomicBool,
}

/// What `statfs(2)` says of file systems in memory.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Regular,
    BlockDevice,
}

impl Source {
    /// Opens a file; also says what it is like now.
    pub fn open(name: &str, path: &Path, wants_direct: bool) -> Result<(Self, Statx), StoreError> {
        // O_NONBLOCK: a FIFO shall not make us wait for a writer before we see that it is one.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty());
        let file = file.map_err(|error| StoreError::open(name, error.into()))?;
        let of = |error| StoreError::io(name, 0, error);
        let statx = stat(file.as_fd()).map_err(of)?;
        let kind = match FileType::from_raw_mode(statx.stx_mode.into()) {
            FileType::RegularFile => Kind::Regular,
            FileType::BlockDevice => Kind::BlockDevice,
            other => return Err(StoreError::not_a_file(name, what(other))),
        };
        let source = Self {
            name: name.to_owned(),
            file: file.into(),
            kind,
            is_direct: AtomicBool::new(false),
        };
        let is_direct = wants_direct && may_be_direct(&statx) && !source.is_in_memory();
        source.set_direct(is_direct).map_err(of)?;
        source.refuse_without_length().map_err(of)??;
        Ok((source, statx))
    }

    /// As the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_regular(&self) -> bool {
        self.kind == Kind::Regular
    }

    pub fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    /// Whether the file is nothing but pages of the kernel: going around them is no way, though some kernels
    /// allow the flag.
    fn is_in_memory(&self) -> bool {
        let of = rustix::fs::fstatfs(&self.file).map(|of| of.f_type.cast_unsigned());
        of.is_ok_and(|of| [TMPFS, RAMFS].contains(&of))
    }

    /// Reads by the kernel's page cache from now on.
    pub fn stop_direct(&self) -> io::Result<()> {
        self.set_direct(false)
    }

    /// Also ends the `O_NONBLOCK` of opening, which would have `io_uring` give up where it should wait.
    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        let flags = if is_direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        match rustix::fs::fcntl_setfl(&self.file, flags) {
            Ok(()) => self.is_direct.store(is_direct, Ordering::Relaxed),
            Err(_) if is_direct => return self.set_direct(false),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The length now.
    pub fn length_bytes(&self) -> io::Result<u64> {
        Ok(match self.kind {
            Kind::Regular => rustix::fs::fstat(&self.file)?.st_size.cast_unsigned(),
            Kind::BlockDevice => rustix::fs::seek(&self.file, SeekFrom::End(0))?,
        })
    }

    /// The files of `/proc` and the like say that they are empty, and are not.
    fn refuse_without_length(&self) -> io::Result<Result<(), StoreError>> {
        let mut byte = [0];
        if self.length_bytes()? > 0 || self.is_direct() {
            return Ok(Ok(()));
        }
        let got = rustix::io::pread(&self.file, &mut byte, 0).unwrap_or(0);
        // It may have grown just now.
        let has_no_length = got > 0 && self.length_bytes()? == 0;
        Ok(if has_no_length {
            Err(StoreError::not_a_file(
                &self.name,
                "a file without a length",
            ))
        } else {
            Ok(())
        })
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html) of an open file.
fn stat(file: BorrowedFd<'_>) -> io::Result<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::DIOALIGN;
    Ok(rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?)
}

/// Whether pages can be read around the kernel's page cache, as far as the file system says so (it does
/// since Linux 6.1); where it says nothing, a read will tell.
fn may_be_direct(statx: &Statx) -> bool {
    let says = StatxFlags::from_bits_retain(statx.stx_mask).contains(StatxFlags::DIOALIGN);
    let fits = |align: u32| align > 0 && PAGE_BYTES.is_multiple_of(align as usize);
    !says || (fits(statx.stx_dio_mem_align) && fits(statx.stx_dio_offset_align))
}

/// What a file is that can't be read at a place.
fn what(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        _ => "something else",
    }
}
