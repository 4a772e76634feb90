//! The descriptors that come with a welcome: is each what it claims to be?
//!
//! Order: memory, reader bell, writer bell, presence (read end), stage (read end, write end).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags, SealFlags};
use standpipe_core::size::{PAGE_BYTES, PipeSize};

use super::PipeId;
use super::message::{DESCRIPTORS, Malformed};
use super::peer::{PIPEFS, target};
use crate::lane::{Parts, Wake};

/// `TMPFS_MAGIC`: the file system of memfds. (Those of huge pages lie in another one.)
const TMPFS: i64 = 0x0102_1994;

/// The lane of `pipe`, as it came with a welcome. On an error, all of it is closed.
pub fn check(
    pipe: PipeId,
    size: PipeSize,
    wake: Wake,
    descriptors: Vec<OwnedFd>,
) -> Result<Parts, Malformed> {
    let [
        memory,
        reader_bell,
        writer_bell,
        presence,
        from_stage,
        to_stage,
    ] = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors).map_err(|descriptors| {
        Malformed::Descriptors {
            found: descriptors.len(),
            expected: DESCRIPTORS,
        }
    })?;
    check_memory(memory.as_fd(), size)?;
    check_bell("reader bell", reader_bell.as_fd())?;
    check_bell("writer bell", writer_bell.as_fd())?;
    check_pipes(pipe, presence.as_fd(), from_stage.as_fd(), to_stage.as_fd())?;
    Ok(Parts {
        size,
        wake,
        memory,
        reader_bell,
        writer_bell,
        presence,
        stage: [from_stage, to_stage],
    })
}

/// A page that vanishes under a mapping is a SIGBUS for us: hence the seal. Only files of
/// `memfd_create` can have it. One of huge pages would be mapped over more than the place that we made
/// for it.
fn check_memory(fd: BorrowedFd<'_>, size: PipeSize) -> Result<(), Malformed> {
    let check = |holds: bool, expected| {
        holds.then_some(()).ok_or(Malformed::Descriptor {
            field: "memory",
            expected,
        })
    };
    let seals = rustix::fs::fcntl_get_seals(fd).unwrap_or(SealFlags::empty());
    check(
        seals.contains(SealFlags::SHRINK),
        "a memfd, sealed against shrinking",
    )?;
    check(
        rustix::fs::fstatfs(fd).is_ok_and(|stat| stat.f_type == TMPFS),
        "a memfd of pages of the usual size",
    )?;
    let writable = has_access(fd, OFlags::RDWR)
        && !seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE);
    check(writable, "to be readable and writable")?;
    let needed = (PAGE_BYTES + size.capacity_bytes()) as u64;
    let long_enough =
        rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size.cast_unsigned() >= needed);
    check(long_enough, "a page and the capacity")
}

/// One that blocks could stop us for ever.
fn check_bell(field: &'static str, fd: BorrowedFd<'_>) -> Result<(), Malformed> {
    let is_eventfd = target(fd).is_ok_and(|name| name == Path::new("anon_inode:[eventfd]"));
    let is_nonblocking =
        rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    if is_eventfd && is_nonblocking {
        return Ok(());
    }
    Err(Malformed::Descriptor {
        field,
        expected: "an eventfd that does not block",
    })
}

/// The pipe itself, where another is expected, would make bytes go in circles.
fn check_pipes(
    pipe: PipeId,
    presence: BorrowedFd<'_>,
    from_stage: BorrowedFd<'_>,
    to_stage: BorrowedFd<'_>,
) -> Result<(), Malformed> {
    let wrong = |field, expected| Malformed::Descriptor { field, expected };
    let presence = unnamed_pipe(presence, OFlags::RDONLY)
        .filter(|&id| id != pipe)
        .ok_or(wrong("presence", "the read end of a pipe of its own"))?;
    let stage = unnamed_pipe(from_stage, OFlags::RDONLY)
        .filter(|&id| id != pipe && id != presence)
        .ok_or(wrong(
            "stage, to read from",
            "the read end of a pipe of its own",
        ))?;
    unnamed_pipe(to_stage, OFlags::WRONLY)
        .filter(|&id| id == stage)
        .ok_or(wrong("stage, to write to", "the write end of that pipe"))?;
    Ok(())
}

/// The pipe without a name that this is an end of, if it is one with this access.
fn unnamed_pipe(fd: BorrowedFd<'_>, access: OFlags) -> Option<PipeId> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let is_unnamed = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo
        && rustix::fs::fstatfs(fd).ok()?.f_type == PIPEFS;
    (is_unnamed && has_access(fd, access)).then(|| PipeId::from_stat(&stat))
}

/// Whether it was opened for exactly this (`O_PATH` is for nothing).
fn has_access(fd: BorrowedFd<'_>, access: OFlags) -> bool {
    rustix::fs::fcntl_getfl(fd)
        .is_ok_and(|flags| !flags.contains(OFlags::PATH) && flags & OFlags::ACCMODE == access)
}
