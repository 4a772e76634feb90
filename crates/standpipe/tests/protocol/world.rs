//! What all participants share, and what each has of its own.

use std::fmt;

/// A byte knows who wrote it, and as which of its bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Byte {
    pub writer: u8,
    pub seq: u8,
}

impl fmt::Debug for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(b'a' + self.writer), self.seq)
    }
}

/// A few bytes in their order.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    len: u8,
    bytes: [Byte; 8],
}

impl Queue {
    pub fn len(&self) -> u8 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push(&mut self, byte: Byte) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    pub fn first(&self) -> Byte {
        assert!(!self.is_empty());
        self.bytes[0]
    }

    pub fn take_first(&mut self) -> Byte {
        let byte = self.first();
        self.bytes.rotate_left(1);
        self.len -= 1;
        // Equal queues are equal states.
        self.bytes[usize::from(self.len)] = Byte::default();
        if self.len < 7 {
            self.bytes[7] = Byte::default();
        }
        byte
    }

    pub fn iter(&self) -> impl Iterator<Item = &Byte> {
        self.bytes[..usize::from(self.len)].iter()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Most participants of a scenario.
pub const MAX: usize = 5;

/// One moment of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The kernel pipe.
    pub kernel: Queue,
    /// The pipe between lane and kernel pipe.
    pub stage: Queue,
    /// The lane's bytes from `head` to `tail`.
    pub lane: Queue,
    /// Whether `staged_from` is where `head` is.
    pub is_staged_from_head: bool,
    /// How far behind `head`. A mark that `head` has passed stands at `head` as well.
    pub mark: Option<u8>,
    pub is_serving: bool,
    pub due: u8,
    pub is_outside: bool,
    pub is_retired: bool,
    pub has_unaware_writers: bool,
    pub write_lock: Option<u8>,
    pub read_lock: Option<u8>,
    pub parties: [Party; MAX],
    pub deaths_left: u8,
    /// How many bytes of each writer were read.
    pub taken: [u8; MAX],
    /// Whether the last member went by force.
    pub last_member_was_killed: bool,
}

impl World {
    /// `head` moves on.
    pub fn leave_lane(&mut self) -> Byte {
        self.is_staged_from_head = false;
        self.mark = self.mark.map(|mark| mark.saturating_sub(1));
        self.lane.take_first()
    }

    pub fn has_readers(&self) -> bool {
        self.parties.iter().any(|party| party.has_read_end)
    }

    pub fn has_writers(&self) -> bool {
        self.parties.iter().any(|party| party.has_write_end)
    }

    /// What a poll of *presence* says.
    pub fn is_reader_present(&self) -> bool {
        self.parties.iter().any(|party| party.is_present)
    }

    pub fn has_members(&self) -> bool {
        self.parties.iter().any(|party| party.is_member)
    }

    pub fn kernel_room(&self, capacity: u8) -> u8 {
        capacity.saturating_sub(self.kernel.len())
    }
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    pub at: At,
    pub has_read_end: bool,
    pub has_write_end: bool,
    pub is_member: bool,
    /// Holds *presence* open.
    pub is_present: bool,
    /// What it knows of readers, and whether one departed since it asked.
    pub thinks_present: bool,
    pub has_news: bool,
    /// What it saw in the kernel pipe.
    pub kernel_seen: u8,
    pub saw_end: bool,
    /// Writes that returned; bytes that were read.
    pub done: u8,
    /// Where it goes on after emptying the lane.
    pub then: Then,
}

impl Party {
    pub const GONE: Self = Self {
        at: At::Gone,
        has_read_end: false,
        has_write_end: false,
        is_member: false,
        is_present: false,
        thinks_present: false,
        has_news: true,
        kernel_seen: 0,
        saw_end: false,
        done: 0,
        then: Then::Write,
    };
}

/// The next step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Not started yet (somebody's child).
    Unborn,
    /// Between two calls.
    Idle,
    /// Gone.
    Gone,
    /// An unaware reader or writer in its call.
    Plain,
    // A member writes.
    AskDepartures,
    AskPresence,
    AskKernel,
    LockWrite,
    CheckNote,
    LookOutside,
    PutMark,
    ClearOutside,
    Publish,
    PutMarkLate,
    ClearOutsideLate,
    UnlockWrite,
    SleepForRoom,
    WriteKernel,
    LockOutside,
    SetOutside,
    UnlockOutside,
    // Emptying the lane.
    EmptyLock,
    EmptyRecover,
    EmptyMark,
    EmptySplice,
    EmptyNoteStage,
    EmptyCopy,
    EmptyHead,
    EmptyUnlock,
    EmptyWait,
    // A reader leaves.
    ClosePresence,
    NoteDeparture,
    PassWriteLock,
    PassedWriteLock,
    ClosePresenceLate,
    Retire,
    GoOn,
    // A member reads.
    Enter,
    LockRead,
    Recover,
    FinishStage,
    Decide,
    NoteServing,
    TakeMarkOff,
    AskDue,
    StoreDue,
    ServingOff,
    TakeDue,
    CountDue,
    TakeLane,
    SeeTail,
    MarkForKernel,
    AskInput,
    LookAgain,
    TakeKernel,
    Return,
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Write,
    LeaveReader,
    LeaveWriter,
}
