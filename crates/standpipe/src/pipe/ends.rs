//! The two ends.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Stdio;
use std::sync::Arc;

use rustix::io::Errno;
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{Side, Stats};
use standpipe_shm::sync::{AtomicBool, Ordering};

use super::shared::Shared;
use super::{handover, kernel};

/// Most slices in one vectored call (`IOV_MAX` of Linux).
const IOV_MAX: usize = 1024;

macro_rules! end {
    ($(#[$doc:meta])* $end:ident, $side:expr, $name:literal) => {
        $(#[$doc])*
        pub struct $end {
            pub(super) shared: Arc<Shared>,
            /// `None` only while it is dropped or handed on.
            fd: Option<OwnedFd>,
            /// The mode as last seen. The truth belongs to the open file description, which others
            /// may change; it is asked before it matters.
            nonblocking: AtomicBool,
        }

        impl $end {
            pub(super) fn new(fd: OwnedFd, shared: Arc<Shared>, nonblocking: bool) -> Self {
                shared.locals($side).ends.fetch_add(1, Ordering::Relaxed);
                Self { shared, fd: Some(fd), nonblocking: AtomicBool::new(nonblocking) }
            }

            /// Another descriptor of the same end, as by dup(2): it shares the open file
            /// description, hence the blocking mode.
            ///
            /// # Errors
            /// As dup(2).
            pub fn try_clone(&self) -> io::Result<Self> {
                let fd = self.borrow().try_clone_to_owned()?;
                Ok(Self::new(fd, self.shared.clone(), self.is_nonblocking_hint()))
            }

            /// Capacity and segment.
            #[must_use]
            pub fn size(&self) -> PipeSize {
                self.shared.size()
            }

            /// How many bytes the pipe holds.
            #[must_use]
            pub fn capacity_bytes(&self) -> usize {
                self.size().capacity_bytes()
            }

            /// After how many bytes of a transfer the peers are woken.
            #[must_use]
            pub fn segment_bytes(&self) -> usize {
                self.size().segment_bytes()
            }

            /// Sets or clears `O_NONBLOCK` of the open file description, for all its copies in all
            /// processes.
            ///
            /// # Errors
            /// As fcntl(2).
            pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                kernel::set_nonblocking(self.borrow(), yes)?;
                self.nonblocking.store(yes, Ordering::Relaxed);
                Ok(())
            }

            /// What went through this side of the pipe so far.
            #[must_use]
            pub fn stats(&self) -> Stats {
                let lane = self.shared.lane();
                let mut stats = lane.map(|lane| lane.stats($side)).unwrap_or_default();
                stats.kernel_bytes =
                    self.shared.locals($side).kernel_bytes.load(Ordering::Relaxed);
                stats
            }

            #[inline]
            pub(super) fn borrow(&self) -> BorrowedFd<'_> {
                self.fd.as_ref().expect("an end has its descriptor until dropped").as_fd()
            }

            #[inline]
            pub(super) fn is_nonblocking_hint(&self) -> bool {
                self.nonblocking.load(Ordering::Relaxed)
            }

            /// Asks the kernel for the mode.
            pub(super) fn ask_nonblocking(&self) -> io::Result<bool> {
                let nonblocking = kernel::is_nonblocking(self.borrow())?;
                self.nonblocking.store(nonblocking, Ordering::Relaxed);
                Ok(nonblocking)
            }
        }

        impl Drop for $end {
            fn drop(&mut self) {
                // Release pairs with the Acquire in `may_have_lane_writers`: what we wrote is seen.
                self.shared.locals($side).ends.fetch_sub(1, Ordering::Release);
                if let Some(fd) = self.fd.take() {
                    drop(fd);
                    // After the close: whoever reads the note asks the kernel and is told.
                    if let Some(lane) = self.shared.lane() {
                        lane.note_departure($side);
                    }
                }
            }
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.borrow()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.borrow().as_raw_fd()
            }
        }

        /// Hands the descriptor on to code that does not know the lane. Panics if bytes are queued and
        /// can't be moved into the kernel pipe: [`ReadEnd::try_into_fd`] says so instead.
        impl From<$end> for OwnedFd {
            fn from(end: $end) -> OwnedFd {
                end.hand_over()
            }
        }

        /// Hands the end to a program that does not know the lane.
        impl From<$end> for Stdio {
            fn from(end: $end) -> Stdio {
                end.hand_over().into()
            }
        }

        impl fmt::Debug for $end {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).field("fd", &self.as_raw_fd()).field("size", &self.size()).finish()
            }
        }
    };
}

end! {
    /// The end to read from.
    ReadEnd, Side::Reader, "ReadEnd"
}
end! {
    /// The end to write to.
    WriteEnd, Side::Writer, "WriteEnd"
}

impl ReadEnd {
    /// Hands the descriptor on to code that does not know the lane. Bytes that are queued move into
    /// the kernel pipe.
    ///
    /// # Errors
    /// When they can't: no `/proc`, no descriptor left, or the pipe may not be opened any more
    /// (after `setuid`).
    pub fn try_into_fd(mut self) -> io::Result<OwnedFd> {
        handover::give_reader_away(&self.shared, self.borrow())?;
        self.fd.take().ok_or_else(|| Errno::BADF.into())
    }

    fn hand_over(self) -> OwnedFd {
        self.try_into_fd()
            .expect("queued bytes can be moved into the kernel pipe")
    }
}

impl WriteEnd {
    fn hand_over(mut self) -> OwnedFd {
        handover::give_writer_away(&self.shared);
        self.fd.take().expect("taken here only")
    }
}

impl Read for &ReadEnd {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.read_some(&mut [IoSliceMut::new(buf)])
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if bufs.len() > IOV_MAX {
            return Err(Errno::INVAL.into());
        }
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        self.read_some(bufs)
    }
}

impl Read for ReadEnd {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for &WriteEnd {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.write_some(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if bufs.len() > IOV_MAX {
            return Err(Errno::INVAL.into());
        }
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        self.write_some(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for WriteEnd {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
