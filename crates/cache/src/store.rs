//! Where the bytes come from: one version of one object.

use std::path::Path;
use std::sync::Arc;

use standpipe_core::readahead::Speed;
use standpipe_shm::arena::Lease;

mod error;
pub mod faulty;
pub mod file;
pub mod object;
mod options;
pub mod process;
mod slices;
#[cfg(test)]
mod testing;
mod unique;

pub use error::StoreError;
pub use options::Options;

/// Opens what the user calls so: a path, or a URL of `s3`, `gs`, `az`, `http`, `https`, `file`, `memory`.
///
/// A path that looks like a URL can be written with `./` before it.
///
/// # Errors
/// It isn't there, may not be read, or can't be reached; it has another kind of name.
pub fn open(name: &str, options: &Options) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match scheme(name) {
        None => Arc::new(file::FileStore::open(Path::new(name), options)?),
        Some("file") => {
            let path = object::path_of(name)?;
            Arc::new(file::FileStore::open_named(name, &path, options)?)
        }
        Some(_) => Arc::new(object::Object::open(name, options)?),
    })
}

/// What stands before `://`.
fn scheme(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once("://")?;
    let is_scheme = |(at, byte): (usize, u8)| match byte {
        b'a'..=b'z' | b'A'..=b'Z' => true,
        b'0'..=b'9' | b'+' | b'-' | b'.' => at > 0,
        _ => false,
    };
    let mut bytes = scheme.bytes().enumerate();
    (!scheme.is_empty() && bytes.all(is_scheme)).then_some(scheme)
}

/// One version of one object, opened.
pub trait Store: Send + Sync {
    /// As the user wrote it, for messages.
    fn name(&self) -> &str;

    /// How it is read, for people: `io_uring, O_DIRECT`, `pread`, `ranged GET`.
    fn access(&self) -> &'static str;

    /// Equal versions mean equal bytes.
    fn version(&self) -> &Version;

    /// The length when it was last looked at.
    fn length_bytes(&self) -> u64;

    /// Looks at the length again: files grow and shrink while they are read.
    ///
    /// # Errors
    /// The object is another version now, is gone, or can't be reached.
    fn refresh(&self) -> Result<u64, StoreError>;

    /// Whether the length is part of the version, so that there is no use in looking at it again.
    fn has_fixed_length(&self) -> bool {
        false
    }

    /// How many bytes are best asked for at once: enough that the time of a transfer counts for more than
    /// that of asking, and not so much that the first of them wait long for the last.
    fn transfer_bytes(&self) -> usize {
        1 << 20
    }

    /// How fast it is taken to be until it was seen: a quick disk.
    fn speed(&self) -> Speed {
        Speed {
            latency_ns: 200_000,
            bytes_per_s: 1 << 30,
        }
    }

    /// Starts a read, and returns before it is done. What comes of it is told through [`Read::done`].
    fn start(&self, read: Read);
}

/// A read of whole pages.
pub struct Read {
    /// Where it begins, a multiple of the page size.
    pub offset_bytes: u64,
    /// How many bytes are wanted: up to the object's end at most, and what the lease has room for.
    pub len_bytes: usize,
    /// The pages that the bytes go to; nobody else sees them before the read is done.
    pub lease: Lease,
    /// Called exactly once.
    pub done: Done,
}

/// Hears what came of a read: the pages again, and how many bytes arrived. Fewer than were wanted arrive
/// only where the object ends; what lies behind them in the last page is zero.
pub type Done = Box<dyn FnOnce(Lease, Result<usize, StoreError>) + Send>;

/// What tells one state of an object from another: an entity tag, or a file's inode and time of change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(pub String);
