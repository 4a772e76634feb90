//! An end that belongs to a ring, and what waits on it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use slotmap::Key;
use smallvec::SmallVec;
use standpipe_shm::lane::Side;
use standpipe_shm::private_fd::PrivateFd;

use super::EndId;
use super::flight::FlightId;
use crate::end::End;

/// How closely to look at an end in its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// It has no turn coming.
    #[default]
    None,
    /// At the lane alone, which costs no system call. What is found not to be ready is not armed.
    Lane,
    /// At everything.
    Full,
}

pub struct Attached {
    pub end: End,
    /// The other ends of its pipe that the ring has.
    pub peers: SmallVec<[EndId; 1]>,
    /// How many ends of the pipe read, and how many write, that the ring has.
    pub members: [usize; 2],
    /// Oldest first: only the first is ever tried, so bytes keep the order of submissions.
    pub reads: VecDeque<FlightId>,
    pub writes: VecDeque<FlightId>,
    pub polls: Vec<FlightId>,
    /// Its coming turn.
    pub turn: Look,
    /// It is on the list of those that are to be armed.
    pub is_unarmed: bool,
    /// How the ring's descriptor tells of it.
    pub watch: Watch,
    /// A read that looked everywhere found nothing, and its kernel pipe told of nothing since.
    pub is_quiet: bool,
    /// The ring looks at it again at some time, whatever happens.
    pub looks_up: bool,
}

impl Attached {
    pub fn new(end: End) -> Self {
        end.set_never_waits(true);
        end.set_makes_lane_late(true);
        Self {
            end,
            peers: SmallVec::new(),
            members: [0; 2],
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            polls: Vec::new(),
            turn: Look::None,
            is_unarmed: false,
            watch: Watch::None,
            is_quiet: false,
            looks_up: false,
        }
    }

    pub fn queue(&mut self, side: Side) -> &mut VecDeque<FlightId> {
        match side {
            Side::Reader => &mut self.reads,
            Side::Writer => &mut self.writes,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.polls.is_empty()
    }

    /// Whoever waits for `set` hears of it from now on. By edges: an end that is ready while nobody wants
    /// anything of it keeps nobody awake, and one that does not change costs nothing.
    pub fn watch(&mut self, id: EndId, set: impl AsFd, news: &Arc<PrivateFd>) -> io::Result<()> {
        if self.is_watched() {
            return Ok(());
        }
        let data = EventData::new_u64(id.data().as_ffi());
        let [readers, writers] = self.members;
        if let Some((pipe, events)) = self.end.await_bare(news, readers, writers) {
            epoll::add(set, pipe, data, events | EventFlags::ET)?;
            self.watch = Watch::Pipe;
        } else {
            let events = EventFlags::IN | EventFlags::ET;
            epoll::add(set, self.end.pollable()?, data, events)?;
            self.watch = Watch::Pollable;
        }
        Ok(())
    }

    /// Whether whoever waits for the ring hears of all that the end waits for.
    pub fn is_watched(&self) -> bool {
        match self.watch {
            Watch::None => false,
            Watch::Pipe => {
                let [readers, writers] = self.members;
                self.end.is_bare(readers, writers)
            }
            Watch::Pollable => true,
        }
    }

    /// Whether there is nothing to arm: what comes into the lane the ring knows, and that there is nothing
    /// beside it.
    pub fn is_armed(&self) -> bool {
        self.watch == Watch::Pipe && self.is_quiet && self.end.has_lane() && self.is_watched()
    }

    /// Stops watching what does not tell everything.
    pub fn unwatch(&mut self, set: impl AsFd) {
        self.is_quiet = false;
        // Fails for none of ours: each was there.
        let _ = match std::mem::take(&mut self.watch) {
            Watch::None => Ok(()),
            Watch::Pipe => {
                self.end.forget_news();
                epoll::delete(set, self.end.borrow())
            }
            Watch::Pollable => {
                (self.end.pollable().ok()).map_or(Ok(()), |pollable| epoll::delete(set, pollable))
            }
        };
    }

    /// The end, as it was before it was attached.
    pub fn into_end(mut self, set: impl AsFd) -> End {
        self.unwatch(set);
        self.end.set_never_waits(false);
        self.end.set_makes_lane_late(false);
        self.end
    }
}

/// What of an end belongs to the ring's set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    #[default]
    None,
    /// Its kernel pipe: as long as it has no lane, or the ring has all of its ends. What those bring into the
    /// lane the ring knows without being told; others, without the lane, may still use the kernel pipe.
    Pipe,
    /// Its pollable descriptor.
    Pollable,
}
