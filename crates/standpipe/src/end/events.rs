//! What poll(2) says of an end.

use std::io;

use rustix::event::PollFlags;
use standpipe_core::size::PIPE_BUF;
use standpipe_shm::lane::{Lane, Side};

use super::{End, kernel, leave};

const READABLE: PollFlags = PollFlags::IN.union(PollFlags::RDNORM);
const WRITABLE: PollFlags = PollFlags::OUT.union(PollFlags::WRNORM);

impl End {
    /// What poll(2) would report of this end now if asked for `wanted`: readable if there are bytes
    /// anywhere, writable if any write of up to `PIPE_BUF` bytes would succeed; hang-up and error as the
    /// kernel pipe has them.
    ///
    /// # Errors
    /// As poll(2).
    pub fn events(&self, wanted: PollFlags) -> io::Result<PollFlags> {
        let mut events = kernel::events(self.borrow(), wanted)?;
        let Some(lane) = self.shared.lane() else {
            return Ok(events);
        };
        if self.can_read() && !leave::is_empty(lane) {
            events |= wanted & READABLE;
        }
        if self.can_write() && wanted.intersects(WRITABLE) {
            let has_room = if self.is_lane_way(lane)? {
                lane.is_ready(Side::Writer, PIPE_BUF)
            } else {
                events.intersects(WRITABLE) && self.has_room_outside(lane, events)?
            };
            events.set(wanted & WRITABLE, has_room);
        }
        Ok(events)
    }

    /// Outside, what is left in the lane goes first. Who polls has to move it: it waits for room before it
    /// writes, and there may be nobody else.
    fn has_room_outside(&self, lane: &Lane, events: PollFlags) -> io::Result<bool> {
        if leave::is_empty(lane) {
            return Ok(true);
        }
        let is_empty = !events.contains(PollFlags::ERR) && lane.empty_into(self.borrow())?;
        Ok(is_empty && kernel::events(self.borrow(), PollFlags::OUT)?.contains(PollFlags::OUT))
    }

    /// How many bytes are unread (`FIONREAD`), asked on either end: in the kernel pipe, in the lane, and
    /// between the two.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn unread_bytes(&self) -> io::Result<usize> {
        let in_kernel = kernel::unread_bytes(self.borrow())?;
        let in_lane = match self.shared.lane() {
            Some(lane) => lane.unread_bytes()?,
            None => 0,
        };
        Ok(in_kernel + in_lane)
    }
}
