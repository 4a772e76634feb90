//! Why a try failed, and whether another may help.

use std::time::Duration;

use object_store::Error;

use crate::store::StoreError;

/// Why a try failed.
pub enum Failure {
    /// Nothing came for too long.
    Stalled,
    /// The body ended early.
    Truncated,
    /// The answer is of another object than was opened.
    Changed {
        /// What was opened.
        was: String,
        /// What came.
        is: String,
    },
    /// Another range came than was asked for, or more.
    Unasked(String),
    /// What the library says.
    Said(Error),
}

/// What was tried.
pub struct Attempted<'a> {
    pub name: &'a str,
    /// What was asked for first.
    pub offset_bytes: u64,
    pub wanted: usize,
    /// What came of it.
    pub got: usize,
    pub tries: u32,
    pub stall: Duration,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

impl Failure {
    /// Whether trying again is of no use.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Stalled | Self::Truncated => false,
            Self::Said(Error::Generic { .. } | Error::JoinError { .. }) => {
                self.ignores_ranges() || self.status().is_some_and(is_final_status)
            }
            Self::Changed { .. } | Self::Unasked(_) | Self::Said(_) => true,
        }
    }

    /// Whether it may come of the object having changed: the servers of this world have several ways to say
    /// so, some of them wrong.
    pub fn may_be_change(&self) -> bool {
        let is_refused = matches!(self, Self::Said(Error::Precondition { .. }));
        is_refused || matches!(self.status(), Some(412 | 416))
    }

    /// The code that the server gave. The library tells it in words only.
    fn status(&self) -> Option<u16> {
        let Self::Said(error) = self else {
            return None;
        };
        let text = error.to_string();
        let (_, code) = text.split_once("status code: ")?;
        code.get(..3)?.parse().ok()
    }

    /// Whether the whole object came where a part was asked for.
    fn ignores_ranges(&self) -> bool {
        match self {
            Self::Said(Error::NotSupported { .. }) => true,
            Self::Said(error) => error.to_string().contains("non-partial response"),
            _ => false,
        }
    }

    /// For the user.
    pub fn into_error(self, attempted: &Attempted<'_>) -> StoreError {
        let Attempted {
            offset_bytes,
            wanted,
            got,
            tries,
            stall,
            ..
        } = *attempted;
        let name = attempted.name.to_owned();
        let (status, ignores_ranges) = (self.status(), self.ignores_ranges());
        match self {
            Self::Stalled => StoreError::Stalled {
                name,
                offset_bytes,
                waited: stall,
                tries,
            },
            Self::Truncated => StoreError::Truncated {
                name,
                offset_bytes,
                wanted,
                got,
                tries,
            },
            Self::Changed { was, is } => StoreError::Changed { name, was, is },
            Self::Unasked(reason) => StoreError::Remote {
                name,
                offset_bytes,
                reason,
                tries,
            },
            Self::Said(_) if ignores_ranges => StoreError::NoRanges { name },
            Self::Said(error) => said(name, error, status, attempted),
        }
    }
}

/// What the library said of an object, for the user.
fn said(name: String, error: Error, status: Option<u16>, attempted: &Attempted<'_>) -> StoreError {
    let Attempted {
        offset_bytes,
        tries,
        ..
    } = *attempted;
    match (error, status) {
        (Error::NotFound { .. }, _) => StoreError::NotFound { name },
        (Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. }, _) => {
            StoreError::Denied {
                name,
                reason: source.to_string(),
            }
        }
        (_, Some(status)) => StoreError::Status {
            name,
            offset_bytes,
            status,
            tries,
        },
        (error, None) => StoreError::Remote {
            name,
            offset_bytes,
            reason: error.to_string(),
            tries,
        },
    }
}

/// Those that mean the request itself, and not that the server is busy or ill.
fn is_final_status(status: u16) -> bool {
    (300..500).contains(&status) && ![408, 425, 429].contains(&status)
}
