//! The two ends, each with what it may do in its type.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Stdio;
use std::time::Duration;

use standpipe_core::size::PipeSize;
use standpipe_shm::lane::Stats;

use crate::end::{AdoptError, End};

macro_rules! end {
    ($(#[$doc:meta])* $end:ident, $may:ident, $name:literal, $reason:literal) => {
        $(#[$doc])*
        pub struct $end(End);

        impl $end {
            /// Adopts a descriptor (see [`End::from_fd`]).
            ///
            /// # Errors
            /// [`AdoptError`] if it is no such end of a pipe or FIFO.
            pub fn from_fd(fd: OwnedFd) -> Result<Self, AdoptError> {
                Self::try_from(End::from_fd(fd)?)
            }

            /// Another descriptor of the same end, as by dup(2): it shares the open file
            /// description, hence the blocking mode.
            ///
            /// # Errors
            /// As dup(2).
            pub fn try_clone(&self) -> io::Result<Self> {
                Ok(Self(self.0.try_clone()?))
            }

            /// Capacity and segment.
            #[must_use]
            pub fn size(&self) -> PipeSize {
                self.0.size()
            }

            /// How many bytes the pipe holds.
            #[must_use]
            pub fn capacity_bytes(&self) -> usize {
                let capacity = self.0.capacity_bytes();
                capacity.unwrap_or_else(|_| self.size().capacity_bytes())
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
                self.0.set_nonblocking(yes)
            }

            /// How long a blocking call waits before it fails with `TimedOut`. `None`: for ever.
            pub fn set_timeout(&self, timeout: Option<Duration>) {
                self.0.set_timeout(timeout);
            }

            /// What went through this side of the pipe so far.
            #[must_use]
            pub fn stats(&self) -> Stats {
                self.0.stats()
            }

            /// The end, whatever it may do.
            #[must_use]
            pub fn as_end(&self) -> &End {
                &self.0
            }

            /// Hands the descriptor on to code or a program that may not know the lane (see
            /// [`End::try_into_fd`]).
            ///
            /// # Errors
            /// When queued bytes can't be moved into the kernel pipe.
            pub fn try_into_fd(self) -> io::Result<OwnedFd> {
                self.0.try_into_fd()
            }

            fn hand_over(self) -> OwnedFd {
                self.try_into_fd()
                    .expect("queued bytes can be moved into the kernel pipe")
            }
        }

        impl TryFrom<End> for $end {
            type Error = AdoptError;

            fn try_from(end: End) -> Result<Self, AdoptError> {
                if end.$may() {
                    return Ok(Self(end));
                }
                let reason = $reason;
                let fd = end.try_into_fd().expect("nothing was read through it");
                Err(AdoptError { fd, reason })
            }
        }

        impl From<$end> for End {
            fn from(end: $end) -> End {
                end.0
            }
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.0.as_raw_fd()
            }
        }

        /// Hands the descriptor on to code that does not know the lane. Panics if bytes are queued and
        /// can't be moved into the kernel pipe: `try_into_fd` says so instead.
        impl From<$end> for OwnedFd {
            fn from(end: $end) -> OwnedFd {
                end.hand_over()
            }
        }

        /// Hands the end to a program.
        impl From<$end> for Stdio {
            fn from(end: $end) -> Stdio {
                end.hand_over().into()
            }
        }

        impl fmt::Debug for $end {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple($name).field(&self.0).finish()
            }
        }
    };
}

end! {
    /// The end to read from.
    ReadEnd, can_read, "ReadEnd", "can't be read from"
}
end! {
    /// The end to write to.
    WriteEnd, can_write, "WriteEnd", "can't be written to"
}

macro_rules! reads {
    ($end:ty) => {
        impl Read for $end {
            #[inline]
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                (&self.0).read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                (&self.0).read_vectored(bufs)
            }
        }
    };
}
reads!(ReadEnd);
reads!(&ReadEnd);

macro_rules! writes {
    ($end:ty) => {
        impl Write for $end {
            #[inline]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                (&self.0).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                (&self.0).write_vectored(bufs)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
    };
}
writes!(WriteEnd);
writes!(&WriteEnd);
