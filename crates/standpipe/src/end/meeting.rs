//! Meeting strangers: processes that hold the same pipe and know the lane.
//!
//! Nobody waits for a meeting, and no thread serves it. Whoever uses the pipe looks now and then, when
//! it would ask the kernel anyway, and when it sleeps. Until it comes about, and if it never does, the
//! kernel pipe carries the bytes.
//!
//! The lock is only ever tried: a thread that finds it taken has better things to do, and so does a
//! forked child that inherits it taken (it then never meets anybody, which is never wrong).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use standpipe_shm::lane::Lane;
use standpipe_shm::rendezvous::{self, Answer, Meeting, Refusal};

use super::Role;
use super::shared::Shared;

/// The meetings of one pipe.
#[derive(Default)]
pub struct Meetings(Mutex<Place>);

/// This process's place.
#[derive(Default)]
struct Place {
    meeting: Option<Meeting>,
    /// What to wait for: a copy, which lives as long as somebody sleeps on it.
    fd: Option<Arc<OwnedFd>>,
    /// How many looks to let go by before trying again.
    rest: u32,
    /// How many the next time.
    next_rest: u32,
}

/// Longest rest: with a look each 60 microseconds, a quarter of a second.
const LONGEST_REST: u32 = 4096;

/// How long who yielded stays away.
const YIELD_REST: u32 = 16;

impl Meetings {
    /// What to wait for, beside the pipe.
    pub fn fd(&self) -> Option<Arc<OwnedFd>> {
        self.0.try_lock().ok()?.fd.clone()
    }

    /// Arranges a meeting, serves whoever wants to join, or looks for an answer.
    pub fn look(&self, shared: &Shared, pipe: BorrowedFd<'_>, role: Role) {
        let Ok(mut place) = self.0.try_lock() else {
            return;
        };
        if shared.is_retired() {
            // There is nothing to arrange any more, and nothing to be woken by.
            *place = Place::default();
        } else {
            place.look(shared, pipe, role);
        }
    }

    /// In a forked child: meetings are the parent's.
    pub fn begin_anew(&self) {
        if let Ok(mut place) = self.0.try_lock() {
            *place = Place::default();
        }
    }
}

impl Place {
    fn look(&mut self, shared: &Shared, pipe: BorrowedFd<'_>, role: Role) {
        match &mut self.meeting {
            None => self.arrange(shared, pipe, role),
            Some(Meeting::Host(host)) => {
                host.note_lane(shared.lane().is_some());
                if host.serve(|| shared.lane_or_make().map(Lane::parts)) > 0 {
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
                        shared.join(lane);
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
        let arranged = Meeting::arrange(pipe, role)
            .and_then(|meeting| Ok((Arc::new(meeting.as_fd().try_clone_to_owned()?), meeting)));
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
