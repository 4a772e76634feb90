//! Descriptors that the library needs for itself, out of the way of the program that it is part of.
//!
//! They have high numbers, so that a program that closed its standard streams does not print into one,
//! and low numbers are given out as it expects. And it is known which ones they are, so that a program
//! that closes all numbers it can think of does not close these.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::sync::{AtomicU64, Ordering};

/// Numbers from here on, if there may be as many: beyond what select(2) can name.
const FIRST: RawFd = 1024;

/// Numbers of which it is known (`fs.nr_open` of Linux, unless raised).
const KNOWN: usize = 1 << 20;

/// One bit for each number, touched where there is one.
static PRIVATE: [AtomicU64; KNOWN / 64] = [const { AtomicU64::new(0) }; KNOWN / 64];

/// Such a descriptor.
#[derive(Debug)]
pub struct PrivateFd(OwnedFd);

impl From<OwnedFd> for PrivateFd {
    fn from(fd: OwnedFd) -> Self {
        // Where there is no room, it keeps its number.
        let fd = if fd.as_raw_fd() < FIRST {
            raised(&fd).unwrap_or(fd)
        } else {
            fd
        };
        note(fd.as_raw_fd());
        Self(fd)
    }
}

impl PrivateFd {
    /// Another descriptor of the same description.
    ///
    /// # Errors
    /// As dup(2).
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.0.try_clone()?.into())
    }
}

/// Another descriptor of the same description, with such a number, for somebody else to keep.
///
/// # Errors
/// As dup(2).
pub fn copy_out_of_the_way(fd: impl AsFd) -> io::Result<OwnedFd> {
    let copy = || rustix::io::fcntl_dupfd_cloexec(&fd, 0);
    Ok(raised(&fd).map_or_else(copy, Ok)?)
}

/// As high as there is room for: in the upper half of a process that may have few descriptors.
fn raised(fd: impl AsFd) -> Option<OwnedFd> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = limit.and_then(|limit| RawFd::try_from(limit / 2).ok());
    let first = half.map_or(FIRST, |half| half.min(FIRST));
    rustix::io::fcntl_dupfd_cloexec(&fd, first).ok()
}

/// Whether the library holds this number for itself.
#[must_use]
pub fn is_private(fd: RawFd) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The numbers from `first` to `last` that the library holds for itself.
pub fn private_between(first: RawFd, last: RawFd) -> impl Iterator<Item = RawFd> {
    let number = |fd: RawFd| usize::try_from(fd).unwrap_or(0);
    let words = number(first) / 64..KNOWN.min(number(last).saturating_add(1)).div_ceil(64);
    words
        .filter(|word| PRIVATE[*word].load(Ordering::Relaxed) != 0)
        .flat_map(|word| word * 64..(word + 1) * 64)
        .filter_map(|number| RawFd::try_from(number).ok())
        .filter(move |fd| (first..=last).contains(fd) && is_private(*fd))
}

/// The library holds this number from now on, by other means than a [`PrivateFd`]: until it
/// [forgets](forget) it.
pub fn note(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// It is about to be closed; or was closed without dropping what held it.
pub fn forget(fd: RawFd) {
    if let Some((word, bit)) = place(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

fn place(fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    Some((PRIVATE.get(number / 64)?, 1 << (number % 64)))
}

impl Drop for PrivateFd {
    fn drop(&mut self) {
        // Before it is closed: the next one to get the number may be anybody.
        forget(self.0.as_raw_fd());
    }
}

impl AsFd for PrivateFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for PrivateFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_descriptor_is_high_and_known_while_it_is_open() {
        let (low, other) = rustix::pipe::pipe().unwrap();
        assert!(!is_private(low.as_raw_fd()));
        let private = PrivateFd::from(low);
        let number = private.as_raw_fd();
        assert!(number > other.as_raw_fd());
        assert!(is_private(number));
        let copy = private.try_clone().unwrap();
        assert!(is_private(copy.as_raw_fd()));
        let range = number.min(copy.as_raw_fd())..=number.max(copy.as_raw_fd());
        let known: Vec<_> = private_between(*range.start(), *range.end()).collect();
        assert!(known.contains(&number) && known.contains(&copy.as_raw_fd()));
        drop(private);
        assert!(!is_private(number));
    }

    #[test]
    fn a_copy_is_out_of_the_way_and_its_owners_business() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let copy = copy_out_of_the_way(&reader).unwrap();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let first = limit.map_or(FIRST, |limit| FIRST.min(limit as RawFd / 2));
        assert!(copy.as_raw_fd() >= first);
        assert!(!is_private(copy.as_raw_fd()));
    }

    #[test]
    fn numbers_that_nobody_has_are_not_private() {
        for fd in [-1, RawFd::MIN, RawFd::MAX, 1 << 20] {
            assert!(!is_private(fd));
        }
    }
}
