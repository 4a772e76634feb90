//! Who takes part, and by which rules.

use crate::world::{At, Byte, Lock, MAX, Party, Queue, World};

/// The protocol's rules. Each can be broken, to see that it is needed.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub struct Rules {
    /// Bytes that follow others in the kernel pipe are preceded by a mark.
    pub marks: bool,
    /// It is put before they are published.
    pub marks_first: bool,
    /// A mark that `head` has passed is served as well.
    pub serves_passed_marks: bool,
    /// Who goes inside says so before asking whether a mark is needed.
    pub goes_inside_first: bool,
    /// Whoever takes the write lock from the dead takes it that nobody is inside.
    pub repairs_inside: bool,
    /// The mark is taken off before the kernel pipe is asked.
    pub takes_off_first: bool,
    /// That this is going on is noted.
    pub notes_serving: bool,
    /// Where a piece came from is noted before it is copied into the stage.
    pub notes_staged: bool,
    /// Readers take what is in the stage before they go on with the lane.
    pub reads_stage: bool,
    /// While the lane is emptied, the mark goes with `head`.
    pub marks_while_emptying: bool,
    /// A reader that leaves closes *presence* before it empties the lane.
    pub closes_presence_first: bool,
    /// ... and passes through the write lock.
    pub passes_write_lock: bool,
    /// Writers look for departures under the write lock.
    pub looks_for_news: bool,
    /// Who goes out empties the lane.
    pub empties_first: bool,
    /// The lane is emptied before a write end is handed to a program.
    pub empties_before_hand_over: bool,
    /// And members stay outside from then on.
    pub unaware_writers_retire: bool,
    /// Writers of a reader's own process take it for present without asking, and are told that it is not
    /// before it leaves.
    pub forgets_first: bool,
}

impl Rules {
    pub const ALL: Self = Self {
        marks: true,
        marks_first: true,
        serves_passed_marks: true,
        goes_inside_first: true,
        repairs_inside: true,
        takes_off_first: true,
        notes_serving: true,
        notes_staged: true,
        reads_stage: true,
        marks_while_emptying: true,
        closes_presence_first: true,
        passes_write_lock: true,
        looks_for_news: true,
        empties_first: true,
        empties_before_hand_over: true,
        unaware_writers_retire: true,
        forgets_first: true,
    };
}

/// Reads until the end of the stream.
pub const TO_THE_END: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Reads,
    Writes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Member,
    /// Becomes a member between two calls, or never.
    Joins,
    Unaware,
}

/// A participant's part.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub side: Side,
    pub kind: Kind,
    /// After so many it closes its end.
    pub bytes: u8,
    /// Or keeps it, and does nothing.
    pub stays: bool,
    /// Started by another.
    pub is_child: bool,
    /// Starts a program that inherits its end.
    pub spawns: Option<Spawn>,
    /// Another thread of the process of this reader.
    pub beside: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct Spawn {
    pub child: usize,
    /// After so many bytes.
    pub after: u8,
    pub keeps: Keeps,
}

/// What the parent has after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    Nothing,
    /// Its end, as after a fork.
    ItsEnd,
    /// An end that it does without the lane.
    RetiredEnd,
}

impl Role {
    pub const fn writer(bytes: u8) -> Self {
        Self {
            side: Side::Writes,
            kind: Kind::Member,
            bytes,
            stays: false,
            is_child: false,
            spawns: None,
            beside: None,
        }
    }

    pub const fn reader() -> Self {
        Self {
            side: Side::Reads,
            ..Self::writer(TO_THE_END)
        }
    }

    pub const fn unaware(mut self) -> Self {
        self.kind = Kind::Unaware;
        self
    }

    pub const fn joining(mut self) -> Self {
        self.kind = Kind::Joins;
        self
    }

    pub const fn child(mut self) -> Self {
        self.is_child = true;
        self
    }

    pub const fn staying(mut self) -> Self {
        self.stays = true;
        self
    }

    /// Reads so many, then leaves.
    pub const fn leaving_after(mut self, bytes: u8) -> Self {
        self.bytes = bytes;
        self
    }

    /// A writer of the process of `reader`.
    pub const fn beside(mut self, reader: usize) -> Self {
        self.beside = Some(reader);
        self
    }

    pub const fn spawning(mut self, child: usize, after: u8, keeps: Keeps) -> Self {
        self.spawns = Some(Spawn {
            child,
            after,
            keeps,
        });
        self
    }
}

/// Write number `write` (from 0) of `writer` begins when `giver` has made `after` of its own.
#[derive(Clone, Copy, Debug)]
pub struct Baton {
    pub writer: usize,
    pub write: u8,
    pub giver: usize,
    pub after: u8,
    /// Or, what is more, has ended.
    pub ends: bool,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub rules: Rules,
    pub roles: Vec<Role>,
    pub batons: Vec<Baton>,
    pub deaths: u8,
    pub kernel_capacity: u8,
    pub lane_capacity: u8,
    pub stage_capacity: u8,
}

impl Scenario {
    pub fn new(roles: &[Role]) -> Self {
        assert!(roles.len() <= MAX);
        Self {
            rules: Rules::ALL,
            roles: roles.to_vec(),
            batons: Vec::new(),
            deaths: 0,
            kernel_capacity: 2,
            lane_capacity: 2,
            stage_capacity: 1,
        }
    }

    pub fn deaths(mut self, deaths: u8) -> Self {
        self.deaths = deaths;
        self
    }

    pub fn kernel_capacity(mut self, bytes: u8) -> Self {
        self.kernel_capacity = bytes;
        self
    }

    pub fn baton(mut self, writer: usize, write: u8, giver: usize, after: u8) -> Self {
        self.batons.push(Baton {
            writer,
            write,
            giver,
            after,
            ends: false,
        });
        self
    }

    /// The first write of `writer` begins when `giver` has closed its end.
    pub fn after_end(mut self, writer: usize, giver: usize) -> Self {
        let after = self.roles[giver].bytes;
        self.batons.push(Baton {
            writer,
            write: 0,
            giver,
            after,
            ends: true,
        });
        self
    }

    pub fn breaking(mut self, break_rule: impl FnOnce(&mut Rules)) -> Self {
        break_rule(&mut self.rules);
        self
    }

    pub fn start(&self) -> World {
        let party = |i: usize| {
            let Some(role) = self.roles.get(i) else {
                return Party::GONE;
            };
            Party {
                at: if role.is_child { At::Unborn } else { At::Idle },
                has_read_end: role.side == Side::Reads && !role.is_child,
                has_write_end: role.side == Side::Writes && !role.is_child,
                is_member: role.kind == Kind::Member,
                ..Party::GONE
            }
        };
        World {
            kernel: Queue::default(),
            stage: Queue::default(),
            lane: Queue::default(),
            staged_from: None,
            mark: None,
            is_serving: false,
            due: 0,
            is_inside: false,
            is_retired: false,
            has_unaware_writers: false,
            write_lock: Lock::Free,
            read_lock: Lock::Free,
            parties: std::array::from_fn(party),
            deaths_left: self.deaths,
            taken: [0; MAX],
            last_member_was_killed: false,
        }
    }

    /// The other threads of its process.
    pub fn companions(&self, i: usize) -> impl Iterator<Item = usize> {
        let ours = self.roles[i].beside;
        let of_process = move |(j, role): (usize, &Role)| {
            (role.beside == Some(i) || ours == Some(j)).then_some(j)
        };
        self.roles.iter().enumerate().filter_map(of_process)
    }

    /// What the write of this byte waits for.
    pub fn givers(&self, byte: Byte) -> impl Iterator<Item = &Baton> {
        self.batons
            .iter()
            .filter(move |b| b.writer == usize::from(byte.writer) && b.write == byte.seq)
    }
}
