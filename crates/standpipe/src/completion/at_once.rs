//! Reads and writes that complete as they are submitted: the usual case, and the quick one. They are never
//! under way, so that nothing but their bytes is moved.

use std::io::{self, Read, Write};

use standpipe_shm::lane::Side;

use super::attempt::outcome_of;
use super::buffer::{Buffer, Buffers};
use super::flight::{Flight, FlightId};
use super::operation::{Operation, SubmitError};
use super::outcome::Outcome;
use super::{EndId, Ring};

impl Ring {
    /// Submits a read or write of one buffer, which comes back if it is refused.
    pub(super) fn submit_transfer(
        &mut self,
        token: u64,
        end: EndId,
        side: Side,
        mut buffer: Buffer,
    ) -> Result<(), (SubmitError, Buffer)> {
        if let Err(reason) = self.check_transfer(token, end, side, &buffer) {
            return Err((reason, buffer));
        }
        let attached = &mut self.ends[end];
        let is_first = attached.queue(side).is_empty();
        let moved = match side {
            _ if !is_first => None,
            Side::Reader if !attached.end.may_have_bytes() => None,
            Side::Reader => Some((&attached.end).read(&mut buffer)),
            Side::Writer => Some((&attached.end).write(&buffer)),
        };
        match moved {
            Some(Ok(bytes)) if side == Side::Reader || bytes == buffer.len() => {
                let moved = Ok(Outcome::Bytes(bytes));
                self.done.push(token, moved, Buffers::One(buffer), true);
                self.give_turn_to_peers(end);
            }
            moved => self.have_wait(token, end, side, buffer, moved),
        }
        self.note_work();
        Ok(())
    }

    /// Of one that is not complete after the first try, if it had one.
    fn have_wait(
        &mut self,
        token: u64,
        end: EndId,
        side: Side,
        buffer: Buffer,
        moved: Option<io::Result<usize>>,
    ) {
        let mut flight = Flight::new(token, Operation::transfer(end, side, buffer));
        let tried = moved.map(|moved| outcome_of(&mut flight, moved));
        let id = self.insert(flight);
        let queue = self.ends[end].queue(side);
        queue.push_back(id);
        let is_first = queue.len() == 1;
        match tried {
            Some(tried) => self.settle(end, side, id, tried),
            None if is_first => self.leave_unarmed(end),
            None => {}
        }
    }

    #[inline]
    fn check_transfer(
        &mut self,
        token: u64,
        end: EndId,
        side: Side,
        buffer: &Buffer,
    ) -> Result<(), SubmitError> {
        if self.free_places() == 0 {
            return Err(SubmitError::Full(self.capacity));
        }
        let attached = self.ends.get(end).ok_or(SubmitError::NoSuchEnd)?;
        if !attached.end.role().has(side) {
            return Err(SubmitError::WrongDirection);
        }
        if buffer.is_empty() {
            return Err(SubmitError::ZeroLength);
        }
        self.take_token(token, FlightId::default())
    }
}
