//! A page of numbers that other processes may look at.
//!
//! A board is a memfd with a name that its readers know: they find it among the descriptors of its process
//! in `/proc`, and read it as a file. Only the process that made it can write it, and nothing of it remains
//! when that process is gone.
//!
//! Each number is whole. Numbers that are written one after the other may be read as they were in between.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::SealFlags;
use standpipe_core::size::PAGE_BYTES;

use crate::arena::{memfd, seal};
use crate::mapping::Mapping;
use crate::private_fd::PrivateFd;
use crate::sync::{AtomicU64, Ordering};

/// How many numbers a board has.
pub const NUMBERS: usize = PAGE_BYTES / size_of::<u64>();

/// A page of numbers. See the [module](self).
pub struct Board {
    memory: Mapping,
    /// What others find.
    file: PrivateFd,
}

impl Board {
    /// A board of zeros.
    ///
    /// # Errors
    /// As `memfd_create(2)` and `mmap(2)`.
    pub fn new(name: &str) -> io::Result<Self> {
        let file = memfd(name, PAGE_BYTES)?;
        let memory = Mapping::reserve(PAGE_BYTES)?;
        memory.map(&file, 0, 0, PAGE_BYTES)?;
        memory.populate(0, PAGE_BYTES)?;
        // Others get no mapping that can be written, and can't write the file.
        seal(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(Self { memory, file })
    }

    /// Writes numbers, from the first one on.
    ///
    /// # Panics
    /// If there are more than [`NUMBERS`].
    pub fn write(&self, numbers: impl IntoIterator<Item = u64>) {
        for (index, number) in numbers.into_iter().enumerate() {
            // Each stands alone.
            self.numbers()[index].store(number, Ordering::Relaxed);
        }
    }

    fn numbers(&self) -> &[AtomicU64; NUMBERS] {
        // SAFETY: the mapping has this size, is zeroed or holds what `write` left, and lives as long as
        // `self`; whoever reads it elsewhere reads the file.
        unsafe { self.memory.base().cast().as_ref() }
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The numbers of what was read of a board's file.
///
/// # Errors
/// `InvalidData` if it has not the size of one.
pub fn numbers(bytes: &[u8]) -> io::Result<Vec<u64>> {
    if bytes.len() != PAGE_BYTES {
        let text = format!("a board of {} bytes: expected {PAGE_BYTES}", bytes.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let (words, _) = bytes.as_chunks();
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn what_is_written_is_found_by_name_and_read() {
        let board = Board::new("standpipe-test-board").unwrap();
        board.write([7, u64::MAX]);
        board.write([8]);
        let link = format!("/proc/self/fd/{}", board.as_fd().as_raw_fd());
        let name = fs::read_link(&link).unwrap();
        assert_eq!(name.to_str(), Some("/memfd:standpipe-test-board (deleted)"));
        let found = numbers(&fs::read(&link).unwrap()).unwrap();
        assert_eq!(found.len(), NUMBERS);
        assert_eq!(found[..3], [8, u64::MAX, 0]);
    }

    #[test]
    fn nobody_else_can_write_or_cut_it() {
        let board = Board::new("standpipe-test-board").unwrap();
        let link = format!("/proc/self/fd/{}", board.as_fd().as_raw_fd());
        let file = fs::OpenOptions::new().read(true).write(true).open(link);
        let file = file.unwrap();
        rustix::io::pwrite(&file, &[1], 0).unwrap_err();
        file.set_len(0).unwrap_err();
        assert_eq!(board.numbers()[0].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_has_another_size_is_no_board() {
        for bytes in [&[][..], &[0; 4095], &[0; 4104]] {
            let error = numbers(bytes).unwrap_err();
            assert!(error.to_string().contains(&bytes.len().to_string()));
        }
    }
}
