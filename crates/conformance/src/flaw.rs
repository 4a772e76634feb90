//! Kernel pipes with one flaw each, to prove that the suite detects: see [`Flaw::caught_by`].

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::PollFlags;
use rustix::event::epoll;

use crate::side::Side;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A write of up to `PIPE_BUF` bytes is made in two halves.
    TornWrite,
    /// A write says that it was whole, and its last byte is missing.
    LostByte,
    /// A long blocking write stops after the first half.
    ShortWrite,
    /// A write without readers says that all is well.
    SwallowedEpipe,
    /// A read gives one byte at a time.
    ShortRead,
    /// A read of an empty pipe does not wait.
    EarlyEof,
    /// A read that a signal interrupted says that it was the end.
    SwallowedEintr,
    /// A vectored read fills the last vector first.
    ReversedVectors,
    /// Two packets are read as one.
    MergedPackets,
    /// A reader without a writer is told that there are bytes.
    InWithHup,
    /// A writer is told of room in a full pipe.
    OutWhenFull,
    /// epoll hears of nothing.
    LostEvents,
    /// Nobody says how many bytes are unread.
    NothingUnread,
    /// A size is given as it was asked for, by the page.
    RoundedToPages,
    /// Shrinking below what is queued says that all is well.
    CarelessShrink,
    /// An open does not wait for the other side.
    EagerOpen,
}

impl Flaw {
    /// Each flaw.
    pub const ALL: [Self; 16] = [
        Self::TornWrite,
        Self::LostByte,
        Self::ShortWrite,
        Self::SwallowedEpipe,
        Self::ShortRead,
        Self::EarlyEof,
        Self::SwallowedEintr,
        Self::ReversedVectors,
        Self::MergedPackets,
        Self::InWithHup,
        Self::OutWhenFull,
        Self::LostEvents,
        Self::NothingUnread,
        Self::RoundedToPages,
        Self::CarelessShrink,
        Self::EagerOpen,
    ];

    /// The behaviours that must fail on a pipe with this flaw.
    #[must_use]
    pub fn caught_by(self) -> &'static [&'static str] {
        match self {
            Self::TornWrite => &[
                "item_35_writes_up_to_pipe_buf_are_atomic",
                "item_37_small_blocking_write_queues_nothing_until_all_fits",
                "item_38_small_nonblocking_write_is_all_or_eagain",
            ],
            Self::LostByte => &[
                "item_27_successive_writes_are_one_stream",
                "item_31_each_byte_goes_to_exactly_one_reader",
                "item_36_larger_writes_arrive_whole_and_in_order",
                "item_40_large_blocking_write_returns_after_everything_is_queued",
                "unaware_writer_and_aware_writer_share_a_pipe",
            ],
            Self::ShortWrite => {
                &["item_40_large_blocking_write_returns_after_everything_is_queued"]
            }
            Self::SwallowedEpipe => &[
                "item_45_no_readers_is_epipe_and_sigpipe_for_the_caller",
                "item_48_last_readers_close_wakes_every_writer",
                "item_96_killed_reader_is_epipe",
            ],
            Self::ShortRead => &["item_27_successive_writes_are_one_stream"],
            Self::EarlyEof => &[
                "item_23_empty_pipe_sleeps_or_eagain",
                "item_95_eof_only_when_every_copy_is_gone",
            ],
            Self::SwallowedEintr => &["item_34_signal_interrupts_a_sleeping_read"],
            Self::ReversedVectors => &["item_30_readv_fills_in_order"],
            Self::MergedPackets => &[
                "item_108_a_write_is_a_packet",
                "item_111_the_mode_can_be_switched",
            ],
            Self::InWithHup => &[
                "item_55_read_end_without_data_and_writer_is_hup_alone",
                "item_62_hup_goes_with_the_next_writer_and_comes_back",
            ],
            Self::OutWhenFull => &[
                "item_56_write_end_shows_room_and_nothing_else",
                "item_60_a_fifo_open_for_both_never_hangs_up",
            ],
            Self::LostEvents => &[
                "item_67_level_triggered_shows_what_poll_shows",
                "item_68_edge_triggered_a_write_after_eagain_is_an_event",
                "item_69_edge_triggered_room_after_eagain_is_an_event",
                "item_70_oneshot_is_shown_once_and_again_on_demand",
            ],
            Self::NothingUnread => &["item_72_unread_bytes_are_told_at_either_end"],
            Self::RoundedToPages => &["item_101_sizes_are_rounded_up_to_a_power_of_two_of_pages"],
            Self::CarelessShrink => &["item_103_shrinking_below_what_is_queued_is_ebusy"],
            Self::EagerOpen => &[
                "item_77_open_waits_for_the_other_side",
                "item_81_another_reader_is_no_partner",
            ],
        }
    }
}

/// An end with a flaw.
pub(crate) struct Flawed {
    inner: OwnedFd,
    flaw: Flaw,
    /// What [`Flaw::LostEvents`] offers instead of the end.
    silence: Option<OwnedFd>,
}

fn silent() -> OwnedFd {
    epoll::create(epoll::CreateFlags::CLOEXEC).expect("no epoll")
}

impl AsRawFd for Flawed {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
}

impl Flawed {
    pub(crate) fn new(inner: OwnedFd, flaw: Flaw) -> Self {
        let lost = flaw == Flaw::LostEvents;
        let silence = lost.then(silent);
        Self {
            inner,
            flaw,
            silence,
        }
    }

    fn is_nonblocking(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.inner).is_ok_and(|f| f.contains(rustix::fs::OFlags::NONBLOCK))
    }

    fn has_data(&self) -> io::Result<bool> {
        Ok(rustix::io::ioctl_fionread(&self.inner)? > 0)
    }
}

impl Side for Flawed {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.flaw {
            Flaw::ShortRead if buf.len() > 1 => self.inner.read(&mut buf[..1]),
            Flaw::EarlyEof if !self.is_nonblocking() && !self.has_data()? => Ok(0),
            Flaw::SwallowedEintr => match self.inner.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                outcome => outcome,
            },
            Flaw::MergedPackets => {
                let first = self.inner.read(buf)?;
                let second = if self.has_data()? {
                    self.inner.read(&mut buf[first..])?
                } else {
                    0
                };
                Ok(first + second)
            }
            _ => self.inner.read(buf),
        }
    }
    fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if self.flaw == Flaw::ReversedVectors {
            bufs.reverse();
        }
        self.inner.read_vectored(bufs)
    }
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        let (first, second) = buf.split_at(buf.len() / 2);
        match self.flaw {
            Flaw::TornWrite if !first.is_empty() && buf.len() <= rustix::pipe::PIPE_BUF => {
                let written = self.inner.write(first)?;
                std::thread::yield_now();
                Ok(written + self.inner.write(second)?)
            }
            Flaw::LostByte if !first.is_empty() => Ok(self.inner.write(&buf[..buf.len() - 1])? + 1),
            Flaw::ShortWrite if buf.len() > rustix::pipe::PIPE_BUF => self.inner.write(first),
            Flaw::SwallowedEpipe => match self.inner.write(buf) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(buf.len()),
                outcome => outcome,
            },
            _ => self.inner.write(buf),
        }
    }
    fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.inner.write_vectored(bufs)
    }
    fn try_clone(&self) -> io::Result<Box<dyn Side>> {
        let inner = self.inner.try_clone()?;
        Ok(Box::new(Self::new(inner, self.flaw)))
    }
    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.inner.set_nonblocking(yes)
    }
    fn into_fd(self: Box<Self>) -> OwnedFd {
        self.inner
    }
    fn events(&self, wanted: PollFlags) -> io::Result<PollFlags> {
        let mut events = self.inner.events(wanted)?;
        match self.flaw {
            Flaw::InWithHup if events.contains(PollFlags::HUP) => events |= PollFlags::IN & wanted,
            Flaw::OutWhenFull => events |= PollFlags::OUT & wanted,
            _ => {}
        }
        Ok(events)
    }
    fn pollable(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.silence.as_ref().unwrap_or(&self.inner).as_fd())
    }
    fn unread_bytes(&self) -> io::Result<usize> {
        match self.flaw {
            Flaw::NothingUnread => Ok(0),
            _ => self.inner.unread_bytes(),
        }
    }
    fn capacity_bytes(&self) -> io::Result<usize> {
        self.inner.capacity_bytes()
    }
    fn set_capacity_bytes(&self, bytes: usize) -> io::Result<usize> {
        let outcome = self.inner.set_capacity_bytes(bytes);
        match (self.flaw, outcome) {
            (Flaw::RoundedToPages, Ok(_)) => Ok(bytes.next_multiple_of(4096)),
            (Flaw::CarelessShrink, Err(_)) => Ok(bytes),
            (_, outcome) => outcome,
        }
    }
    fn use_kernel(&self) -> io::Result<()> {
        self.inner.use_kernel()
    }
}
