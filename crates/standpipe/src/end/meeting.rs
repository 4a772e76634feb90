//! Meeting strangers: processes that hold the same pipe and know the lane.
//!
//! Nobody waits for a meeting, and no thread serves it. Whoever uses the pipe looks now and then, when
//! it would ask the kernel anyway, and when it sleeps. Until it comes about, and if it never does, the
//! kernel pipe carries the bytes.
//!
//! The lock is only ever tried: a thread that finds it taken has better things to do, and so does a
//! forked child that inherits it taken (it then never meets anybody, which is never wrong).

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use standpipe_shm::lane::Lane;
use standpipe_shm::patience::AT_ONCE;
use standpipe_shm::private_fd::PrivateFd;
use standpipe_shm::rendezvous::{self, Answer, Meeting, Refusal};
use standpipe_shm::sync::{AtomicBool, AtomicUsize, Ordering, full_fence};

use super::shared::Shared;
use super::{Role, registry};

/// The meetings of one pipe.
#[derive(Default)]
pub struct Meetings {
    place: Mutex<Place>,
    /// There is one.
    is_arranged: AtomicBool,
    /// How many threads are in calls that would not notice one.
    away: AtomicUsize,
}

/// No meeting is arranged until it is dropped.
pub struct Away<'a>(&'a Meetings);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.away.fetch_sub(1, Ordering::Relaxed);
    }
}

/// This process's place.
struct Place {
    meeting: Option<Meeting>,
    /// What to wait for: a copy, which lives as long as somebody sleeps on it.
    fd: Option<Arc<PrivateFd>>,
    /// How many looks to let go by before trying again.
    rest: u32,
    /// How many the next time.
    next_rest: u32,
}

/// How many looks at a pipe without a meeting before one is arranged: half a millisecond of traffic. A
/// meeting costs a good part of that.
const FIRST_REST: u32 = 6;

impl Default for Place {
    fn default() -> Self {
        Self {
            meeting: None,
            fd: None,
            rest: FIRST_REST,
            next_rest: 0,
        }
    }
}

/// Longest rest: with a look each 60 microseconds, a quarter of a second.
const LONGEST_REST: u32 = 4096;

/// How long who yielded stays away.
const YIELD_REST: u32 = 3;

impl Meetings {
    /// What to wait for, beside the pipe.
    pub fn fd(&self) -> Option<Arc<PrivateFd>> {
        if !self.is_arranged.load(Ordering::Relaxed) {
            return None;
        }
        self.place.try_lock().ok()?.fd.clone()
    }

    /// For a call that would not notice a meeting: none is arranged until the result is dropped. `None` if
    /// there is one.
    pub fn keep_away(&self) -> Option<Away<'_>> {
        self.away.fetch_add(1, Ordering::Relaxed);
        let away = Away(self);
        // Pairs with the fence in `look`: either we see the meeting, or it is called off for us.
        full_fence();
        (!self.is_arranged.load(Ordering::Relaxed)).then_some(away)
    }

    /// Arranges a meeting, serves whoever wants to join, or looks for an answer.
    pub fn look(&self, shared: &Shared, pipe: BorrowedFd<'_>, role: Role) {
        let Ok(mut place) = self.place.try_lock() else {
            return;
        };
        if shared.is_retired() {
            // There is nothing to arrange any more, and nothing to be woken by.
            *place = Place::default();
            self.is_arranged.store(false, Ordering::Relaxed);
            return;
        }
        if !place.has_news() {
            return;
        }
        // A forked child must find a meeting, or a lane, with all its descriptors or not at all.
        let Some(no_fork) = registry::try_hold_forks() else {
            return;
        };
        if place.meeting.is_none() {
            self.is_arranged.store(true, Ordering::Relaxed);
            // Pairs with the fence in `keep_away`.
            full_fence();
            if self.away.load(Ordering::Relaxed) == 0 {
                place.arrange(shared, pipe, role);
            }
        } else {
            place.look(shared, &no_fork);
        }
        let is_arranged = place.meeting.is_some();
        self.is_arranged.store(is_arranged, Ordering::Relaxed);
    }

    /// In a forked child: meetings are the parent's.
    pub fn begin_anew(&self) {
        if let Ok(mut place) = self.place.try_lock() {
            *place = Place::default();
            self.is_arranged.store(false, Ordering::Relaxed);
        }
        // Threads that were in a call are the parent's.
        self.away.store(0, Ordering::Relaxed);
    }
}

impl Place {
    /// Whether there is something to do: without a meeting, arranging one.
    fn has_news(&self) -> bool {
        let Some(fd) = &self.fd else {
            return true;
        };
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut fds, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
    }

    fn look(&mut self, shared: &Shared, no_fork: &registry::Live) {
        match &mut self.meeting {
            None => {}
            Some(Meeting::Host(host)) => {
                host.note_lane(shared.lane().is_some());
                if host.serve(|| shared.make_lane_held(no_fork).map(Lane::parts)) > 0 {
                    shared.note_met();
                }
                if host.has_yielded() {
                    // Time for the other to take the name.
                    self.leave(YIELD_REST);
                }
            }
            Some(Meeting::Guest(guest)) => match guest.look() {
                Answer::NotYet => {}
                Answer::Welcome(parts) => {
                    // What can't be mapped is as good as a refusal.
                    if shared.lane().is_none()
                        && let Ok(lane) = Lane::from_parts(parts)
                    {
                        shared.join(lane, no_fork);
                    }
                }
                // The name is free, or about to be: the next look takes it.
                Answer::HostGone | Answer::Refused(Refusal::NoLane) => self.leave(0),
                Answer::Refused(_) | Answer::Malformed(_) => self.leave(LONGEST_REST),
            },
        }
    }

    fn arrange(&mut self, shared: &Shared, pipe: BorrowedFd<'_>, role: Role) {
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        let role = rendezvous::Role {
            reads: role.reads,
            writes: role.writes,
            has_lane: shared.lane().is_some(),
        };
        let arranged = Meeting::arrange(pipe, role).and_then(|meeting| {
            Ok((
                Arc::new(meeting.as_fd().try_clone_to_owned()?.into()),
                meeting,
            ))
        });
        if let Ok((fd, meeting)) = arranged {
            self.fd = Some(fd);
            self.meeting = Some(meeting);
            self.next_rest = 0;
        } else {
            self.next_rest = (self.next_rest * 2).clamp(16, LONGEST_REST);
            self.rest = self.next_rest;
        }
    }

    fn leave(&mut self, rest: u32) {
        *self = Self {
            rest,
            ..Self::default()
        };
    }
}
