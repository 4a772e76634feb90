use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What can go wrong with an object. Names the object, and what was expected of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The object is not what it was when it was opened.
    #[error("{name} changed while it was read: it was {was}, it is {is}")]
    Changed {
        /// The object.
        name: String,
        /// The version that was opened.
        was: String,
        /// The version that is there now.
        is: String,
    },
    /// Fewer bytes came than the object has, each time it was tried.
    #[error("{name}: {got} of {wanted} bytes came from offset {offset_bytes} on, {tries} times")]
    Truncated {
        /// The object.
        name: String,
        /// Where the read began.
        offset_bytes: u64,
        /// How many bytes were asked for.
        wanted: usize,
        /// How many came.
        got: usize,
        /// How often it was tried.
        tries: u32,
    },
    /// There is no such object.
    #[error("{name}: no such file or object")]
    NotFound {
        /// The object.
        name: String,
    },
    /// It may not be read.
    #[error("{name}: permission denied: {reason}")]
    Denied {
        /// The object.
        name: String,
        /// Who says so.
        reason: String,
    },
    /// It has no bytes at places, with a length, as a file has.
    #[error("{name} is {what}, expected a regular file or a block device")]
    NotAFile {
        /// The object.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// A server said no, and would again.
    #[error("{name}, at offset {offset_bytes}: the server answered {status}, {tries} times")]
    Status {
        /// The object.
        name: String,
        /// Where the read began.
        offset_bytes: u64,
        /// The code that the server gave, of HTTP.
        status: u16,
        /// How often it was tried.
        tries: u32,
    },
    /// Nothing came for too long.
    #[error("{name}, at offset {offset_bytes}: nothing came for {} s, {tries} times", waited.as_secs_f64())]
    Stalled {
        /// The object.
        name: String,
        /// Where the read began.
        offset_bytes: u64,
        /// How long was waited, each time.
        waited: Duration,
        /// How often it was tried.
        tries: u32,
    },
    /// The server gives whole objects only.
    #[error(
        "{name}: the server ignores the range of a request, expected one that gives parts (206)"
    )]
    NoRanges {
        /// The object.
        name: String,
    },
    /// It can't be opened as it is written.
    #[error("{name}: {reason}, expected a path or a URL of s3, gs, az, http, https, file, memory")]
    BadName {
        /// The object.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// Anything that a library says of a server.
    #[error("{name}, at offset {offset_bytes}, tried {tries} times: {reason}")]
    Remote {
        /// The object.
        name: String,
        /// Where the read began.
        offset_bytes: u64,
        /// What was said.
        reason: String,
        /// How often it was tried.
        tries: u32,
    },
    /// Anything that the operating system says.
    #[error("{name}, at offset {offset_bytes}: {error}")]
    Io {
        /// The object.
        name: String,
        /// Where the read began.
        offset_bytes: u64,
        /// What was said.
        error: Arc<io::Error>,
    },
}

impl StoreError {
    pub(super) fn io(name: &str, offset_bytes: u64, error: io::Error) -> Self {
        Self::Io {
            name: name.to_owned(),
            offset_bytes,
            error: Arc::new(error),
        }
    }

    /// What `open(2)` said.
    pub(super) fn open(name: &str, error: io::Error) -> Self {
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { name },
            io::ErrorKind::PermissionDenied => Self::Denied {
                name,
                reason: error.to_string(),
            },
            _ => Self::io(&name, 0, error),
        }
    }

    pub(super) fn not_a_file(name: &str, what: &'static str) -> Self {
        Self::NotAFile {
            name: name.to_owned(),
            what,
        }
    }
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::NotFound { .. } => io::ErrorKind::NotFound,
            StoreError::Denied { .. } => io::ErrorKind::PermissionDenied,
            StoreError::NotAFile { .. } | StoreError::BadName { .. } => io::ErrorKind::InvalidInput,
            StoreError::NoRanges { .. } => io::ErrorKind::Unsupported,
            StoreError::Stalled { .. } => io::ErrorKind::TimedOut,
            StoreError::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            StoreError::Io { error, .. } => error.kind(),
            StoreError::Changed { .. } | StoreError::Status { .. } | StoreError::Remote { .. } => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}
