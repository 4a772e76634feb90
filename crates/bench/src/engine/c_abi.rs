//! Ours as a C program uses it: descriptors, and a call of the C ABI for each transfer.

use std::ffi::{CString, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use standpipe_capi::{sp_close, sp_fcntl, sp_open, sp_pipe2, sp_read, sp_write};

/// A descriptor of the C ABI, closed when dropped.
#[derive(Debug)]
pub struct Descriptor(c_int);

impl Descriptor {
    /// A pipe as it comes: its read end and its write end.
    ///
    /// # Errors
    /// As pipe2(2).
    pub fn pipe() -> io::Result<(Self, Self)> {
        let mut fds = [-1; 2];
        // SAFETY: there is room for two descriptors.
        done(unsafe { sp_pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } as isize)?;
        Ok((Self(fds[0]), Self(fds[1])))
    }

    /// As open(2).
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path, flags: c_int) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path ends with a NUL, and lives until the call returns.
        let fd = unsafe { sp_open(path.as_ptr(), flags | libc::O_CLOEXEC, 0) };
        done(fd as isize)?;
        Ok(Self(fd))
    }

    /// How many bytes the pipe holds.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn capacity_bytes(&self) -> io::Result<usize> {
        // SAFETY: this command has no argument.
        done(unsafe { sp_fcntl(self.0, libc::F_GETPIPE_SZ, 0) } as isize)
    }

    /// Sets how many bytes the pipe holds.
    ///
    /// # Errors
    /// As fcntl(2).
    pub fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        // SAFETY: the argument of this command is a number.
        done(unsafe { sp_fcntl(self.0, libc::F_SETPIPE_SZ, bytes) } as isize)
    }

    /// As read(2).
    ///
    /// # Errors
    /// As read(2).
    #[inline]
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is ours to fill, to its length.
        done(unsafe { sp_read(self.0, buf.as_mut_ptr().cast(), buf.len()) })
    }

    /// As write(2).
    ///
    /// # Errors
    /// As write(2).
    #[inline]
    pub fn write(&self, buf: &[u8]) -> io::Result<usize> {
        // SAFETY: the buffer is ours to read, to its length.
        done(unsafe { sp_write(self.0, buf.as_ptr().cast(), buf.len()) })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let _nobody_to_tell = sp_close(self.0);
    }
}

/// What a call answered; its errno if that is -1.
#[inline]
fn done(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}
