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

/// A few bytes in their order. What is behind the last is blank: equal queues are equal states.
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

    pub fn take_first(&mut self) -> Byte {
        assert!(!self.is_empty());
        let byte = std::mem::take(&mut self.bytes[0]);
        self.bytes.rotate_left(1);
        self.len -= 1;
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

/// A lock that outlives its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lock {
    #[default]
    Free,
    Held {
        by: u8,
    },
    /// The next owner is told.
    OwnerDied,
}

/// Most participants of a scenario.
pub const MAX: usize = 5;

/// One moment of a pipe. Positions of the lane are relative to `head`.
#[allow(clippy::struct_excessive_bools, reason = "as many words of the header")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub kernel: Queue,
    pub stage: Queue,
    /// From `head` to `tail`.
    pub lane: Queue,
    pub staged_from: Option<i8>,
    pub mark: Option<i8>,
    pub is_serving: bool,
    pub due: u8,
    pub is_inside: bool,
    pub is_retired: bool,
    pub has_unaware_writers: bool,
    pub write_lock: Lock,
    pub read_lock: Lock,
    pub parties: [Party; MAX],
    pub deaths_left: u8,
    /// How many bytes of each writer were read.
    pub taken: [u8; MAX],
    /// Whether the last member went by force.
    pub last_member_was_killed: bool,
}

impl World {
    /// How far behind `head`.
    pub fn tail(&self) -> i8 {
        self.lane.len().cast_signed()
    }

    /// `head` moves on by a byte.
    pub fn advance_head(&mut self) -> Byte {
        let positions = [&mut self.staged_from, &mut self.mark];
        let seen = self.parties.iter_mut().map(|party| &mut party.tail_seen);
        for position in positions.into_iter().chain(seen).flatten() {
            // Far behind is as good as a little behind.
            *position = (*position - 1).max(-1);
        }
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

    /// Whether anybody alive knows of what is in the lane.
    pub fn has_members(&self) -> bool {
        self.parties.iter().any(|party| party.is_member)
    }

    /// All members were killed.
    pub fn is_forgotten(&self) -> bool {
        !self.has_members() && self.last_member_was_killed
    }

    pub fn is_all_read(&self) -> bool {
        self.kernel.is_empty() && self.stage.is_empty() && self.lane.is_empty()
    }

    /// As it closes when its owner ends.
    pub fn bury(&mut self, i: usize, was_killed: bool) {
        if self.parties[i].is_member {
            self.last_member_was_killed = was_killed;
        }
        self.parties[i] = Party {
            done: self.parties[i].done,
            ..Party::GONE
        };
        for lock in [&mut self.write_lock, &mut self.read_lock] {
            if *lock == (Lock::Held { by: i as u8 }) {
                *lock = Lock::OwnerDied;
            }
        }
    }
}

/// A process.
#[allow(clippy::struct_excessive_bools, reason = "what it has and knows")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    pub at: At,
    pub has_read_end: bool,
    pub has_write_end: bool,
    pub is_member: bool,
    /// Holds *presence* open.
    pub is_present: bool,
    /// And its process knows.
    pub is_known_here: bool,
    /// What it knows of readers, and whether one departed since it asked.
    pub thinks_present: bool,
    pub has_news: bool,
    /// Nobody had a read end when its write began.
    pub began_unread: bool,
    /// What it saw in the kernel pipe.
    pub kernel_seen: u8,
    pub tail_seen: Option<i8>,
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
        is_known_here: false,
        thinks_present: false,
        has_news: true,
        began_unread: false,
        kernel_seen: 0,
        tail_seen: None,
        saw_end: false,
        done: 0,
        then: Then::Write,
    };
}

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Somebody's child, not started so far.
    Unborn,
    /// Between two calls.
    Idle,
    Gone,
    // A member writes.
    AskPresence,
    AskKernel,
    NoteKernelBytes,
    LockWrite,
    LookForNews,
    LookInside,
    GoInside,
    AskForMark,
    PutMark,
    Publish,
    PublishUnmarked,
    PutMarkLate,
    UnlockWrite,
    SleepForRoom,
    WriteKernel,
    NoteOutside,
    // Emptying the lane.
    LookEmpty,
    EmptyLock,
    EmptyRepair,
    EmptyMark,
    EmptySplice,
    EmptyStageOff,
    EmptyNoteStage,
    EmptyCopy,
    EmptyHead,
    EmptyUnlock,
    EmptyWait,
    // Leaving, and handing over.
    Forget,
    ClosePresence,
    NoteDeparture,
    PassWriteLock,
    PassedWriteLock,
    Retire,
    ClosePresenceLate,
    GoOn,
    AnnounceWriter,
    // A member reads.
    Enter,
    NoteEntered,
    LockRead,
    TakeTurn,
    NoteServing,
    TakeMarkOff,
    AskDue,
    StoreDue,
    ServingOff,
    TakeDue,
    CountDue,
    RepairStage,
    TakeStage,
    TakeLane,
    AskInput,
    LookAgain,
    TakeKernel,
    StoreRest,
    Return,
    ReturnFromLane,
    LookBeside,
    SeeTail,
    MarkUnaware,
    Sleep,
}

/// What emptying the lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Write,
    LeaveReader,
    LeaveWriter,
    HandWriterOver,
}
