//! The border between C and Rust: errno, addresses, panics.

use std::ffi::c_int;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use standpipe::fifo::FifoError;

/// Why a call was not answered here.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// The descriptor is none of ours: the kernel's own call answers.
    Kernel,
    /// It fails with this.
    Errno(Errno),
}

/// What a call comes to.
pub type Answer<T> = Result<T, Refusal>;

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Errno(errno_of(&error))
    }
}

/// What C is told of an error that has no number of its own.
pub fn errno_of(error: &io::Error) -> Errno {
    errno_within(error).unwrap_or_else(|| match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        io::ErrorKind::Interrupted => Errno::INTR,
        io::ErrorKind::BrokenPipe => Errno::PIPE,
        io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        io::ErrorKind::InvalidInput => Errno::INVAL,
        io::ErrorKind::PermissionDenied => Errno::PERM,
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        _ => Errno::IO,
    })
}

/// What the kernel said, where it was the kernel.
fn errno_within(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error).or_else(|| {
        let of_fifo = error.get_ref()?.downcast_ref::<FifoError>()?;
        Errno::from_io_error(of_fifo.errno.as_ref()?)
    })
}

/// What C functions return when they fail.
pub trait Failure {
    /// The value.
    const FAILED: Self;
}

impl Failure for c_int {
    const FAILED: Self = -1;
}

impl Failure for isize {
    const FAILED: Self = -1;
}

impl<T> Failure for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

/// Answers a call: by `ours`, or by the `kernel`'s if that is where it belongs.
///
/// A panic, which would be a bug of ours, ends at this border: the call fails with `EIO`, after the
/// usual message on standard error. The kernel's call is made outside, so that a thread may be
/// cancelled in it.
#[inline]
pub fn answer<T: Failure>(ours: impl FnOnce() -> Answer<T>, kernel: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(ours)) {
        Ok(Ok(value)) => value,
        Ok(Err(Refusal::Kernel)) => kernel(),
        Ok(Err(Refusal::Errno(errno))) => fail(errno),
        Err(_) => fail(Errno::IO),
    }
}

/// Sets errno.
#[cold]
pub fn fail<T: Failure>(errno: Errno) -> T {
    // SAFETY: the C library gives each thread a place for errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: that place is this thread's own.
    unsafe { *place = errno.raw_os_error() };
    T::FAILED
}

/// What the C library's last call failed with.
pub fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Where the kernel's half of the address space begins, less a page that is never mapped.
const USER_END: usize = if cfg!(target_arch = "aarch64") {
    (1 << 52) - 4096
} else {
    (1 << 47) - 4096
};

/// Below this address nothing can be mapped (without `CAP_SYS_RAWIO`): `vm.mmap_min_addr` is this or
/// more wherever it isn't 0.
const USER_BEGIN: usize = 4096;

/// Refuses addresses at which no process has anything. Others are taken for what C says they are.
///
/// # Errors
/// `EFAULT`.
#[inline]
pub fn check_address<T>(address: *const T, bytes: usize) -> Result<(), Errno> {
    let begin = address.addr();
    match begin.checked_add(bytes) {
        Some(end) if begin >= USER_BEGIN && end <= USER_END => Ok(()),
        _ => Err(Errno::FAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_memory_are_refused() {
        let here = [0_u8; 16];
        assert_eq!(check_address(here.as_ptr(), 16), Ok(()));
        for bad in [0, 1, USER_END, usize::MAX] {
            let address = std::ptr::without_provenance::<u8>(bad);
            assert_eq!(check_address(address, 16), Err(Errno::FAULT), "{bad:#x}");
        }
        assert_eq!(check_address(here.as_ptr(), usize::MAX), Err(Errno::FAULT));
    }

    #[test]
    fn a_panic_ends_at_the_border() {
        let status: c_int = answer(|| panic!("a bug"), || 0);
        assert_eq!(status, -1);
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn errors_without_a_number_get_one() {
        let timed_out = io::Error::new(io::ErrorKind::TimedOut, "too late");
        assert_eq!(errno_of(&timed_out), Errno::TIMEDOUT);
        assert_eq!(errno_of(&Errno::NXIO.into()), Errno::NXIO);
        let missing = standpipe::fifo::open_read("/no/such/place").unwrap_err();
        assert_eq!(errno_of(&missing), Errno::NOENT);
        let no_fifo = standpipe::fifo::open_read("/").unwrap_err();
        assert_eq!(errno_of(&no_fifo), Errno::INVAL);
    }
}
