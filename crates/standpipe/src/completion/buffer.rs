//! The memory that an operation reads into, or writes from.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Bytes of an operation: the ring's until it completes, and then given back.
///
/// Memory by reference other than [`from_raw_parts`](Self::from_raw_parts) (a loan of a lane's or of a page)
/// would be a further kind here.
pub struct Buffer(Memory);

enum Memory {
    Owned(Vec<u8>),
    /// Of somebody who promised to leave it alone.
    Lent(Lent),
}

struct Lent {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: whoever lent it promised that nobody else uses it, from whichever thread.
unsafe impl Send for Lent {}
// SAFETY: as above; a shared buffer only gives shared slices.
unsafe impl Sync for Lent {}

impl Buffer {
    /// Memory that somebody else owns: nothing is copied, and nothing is freed.
    ///
    /// # Safety
    /// Until the buffer is dropped (by whoever reaps the completion, or with the ring), `bytes` from `start`
    /// are valid for reads and writes, initialised, and used by nobody else.
    #[must_use]
    pub unsafe fn from_raw_parts(start: NonNull<u8>, bytes: usize) -> Self {
        Self(Memory::Lent(Lent { start, bytes }))
    }

    /// Whether the memory is somebody else's.
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.0, Memory::Lent(_))
    }

    /// As a vector: a copy, if the memory is somebody else's.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Memory::Owned(vec) => vec,
            Memory::Lent(_) => self.to_vec(),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Memory::Owned(bytes))
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl<const N: usize> From<&[u8; N]> for Buffer {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.to_vec().into()
    }
}

impl From<Buffer> for Vec<u8> {
    fn from(buffer: Buffer) -> Self {
        buffer.into_vec()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Owned(vec) => vec,
            // SAFETY: promised to `from_raw_parts`; borrowed no longer than the buffer is.
            Memory::Lent(lent) => unsafe { slice::from_raw_parts(lent.start.as_ptr(), lent.bytes) },
        }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Owned(vec) => vec,
            // SAFETY: as in `deref`; this buffer is the only one of that memory.
            Memory::Lent(lent) => unsafe {
                slice::from_raw_parts_mut(lent.start.as_ptr(), lent.bytes)
            },
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Buffer {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Buffer {}

/// The buffers of an operation, given back.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Buffers {
    /// It had none.
    #[default]
    None,
    /// Of a read or write.
    One(Buffer),
    /// Of a vectored one.
    Many(Box<[Buffer]>),
}

impl Buffers {
    /// The first: of a read or write, its buffer. An empty one if there is none.
    #[must_use]
    pub fn into_first(self) -> Buffer {
        match self {
            Self::None => Buffer::default(),
            Self::One(buffer) => buffer,
            Self::Many(buffers) => buffers.into_vec().into_iter().next().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_others_is_used_where_it_is() {
        let mut memory = *b"hello";
        let start = NonNull::from(&mut memory).cast();
        // SAFETY: `memory` is not touched until the buffer is gone.
        let mut buffer = unsafe { Buffer::from_raw_parts(start, memory.len()) };
        buffer[0] = b'j';
        assert_eq!(buffer.as_ptr(), start.as_ptr().cast_const());
        assert_eq!(buffer, b"jello");
        assert_eq!(buffer.into_vec(), b"jello");
        assert_eq!(&memory, b"jello");
    }

    #[test]
    fn a_vector_is_given_back_without_a_copy() {
        let vec = vec![1, 2, 3];
        let start = vec.as_ptr();
        let vec = Buffer::from(vec).into_vec();
        assert_eq!(vec.as_ptr(), start);
    }
}
