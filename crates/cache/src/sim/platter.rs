//! Where the head of a disk is, and when a byte comes by.

use super::device::transfer_ns;

/// A disk of turning platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// One turn of the platters.
    pub turn_ns: u64,
    /// What passes under the head.
    pub bytes_per_s: u64,
    /// The shortest seek, to the next track.
    pub near_seek_ns: u64,
    /// What a seek over the whole disk takes more than that.
    pub far_seek_ns: u64,
    /// Of the whole disk.
    pub capacity_bytes: u64,
    /// Of the controller, for each read that is not one with the last.
    pub overhead_ns: u64,
    /// How far the drive reads on by itself.
    pub buffer_bytes: u64,
    /// From the drive's buffer to memory.
    pub bus_bytes_per_s: u64,
}

/// The head: it was at `at_byte` at `at_ns`, and goes on reading from there into the drive's buffer,
/// until that holds all it can behind `wanted_to`, the end of the last read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    geometry: Geometry,
    at_byte: u64,
    at_ns: u64,
    wanted_to: u64,
}

impl Head {
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            at_byte: 0,
            at_ns: 0,
            wanted_to: 0,
        }
    }

    /// When a read would be done that is started now.
    pub fn done_ns(&self, start: u64, bytes: u64, now_ns: u64) -> u64 {
        self.streamed_ns(start, bytes, now_ns)
            .unwrap_or_else(|| self.sought_ns(start, now_ns) + self.passing_ns(bytes))
    }

    /// Does a read, and returns when it is done.
    pub fn read(&mut self, start: u64, bytes: u64, now_ns: u64) -> u64 {
        let done_ns = self.done_ns(start, bytes, now_ns);
        let end = start + bytes;
        let is_streamed = self.streamed_ns(start, bytes, now_ns).is_some();
        if !is_streamed {
            (self.at_byte, self.at_ns, self.wanted_to) = (end, done_ns, end);
            return done_ns;
        }
        if self.buffered_to(now_ns) == self.wanted_to + self.geometry.buffer_bytes {
            // it stopped, and goes on when the place comes by again
            let full = self.wanted_to + self.geometry.buffer_bytes;
            (self.at_byte, self.at_ns) = (full, self.sought_ns(full, now_ns));
        }
        self.wanted_to = self.wanted_to.max(end);
        done_ns
    }

    fn passing_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.geometry.bytes_per_s)
    }

    /// How far the drive has read.
    fn buffered_to(&self, now_ns: u64) -> u64 {
        let since_ns = u128::from(now_ns.saturating_sub(self.at_ns));
        let passed = since_ns * u128::from(self.geometry.bytes_per_s) / 1_000_000_000;
        let full = self.wanted_to + self.geometry.buffer_bytes;
        // what was wanted is there when it was said to be, however that was rounded
        (self.at_byte + passed as u64).clamp(self.wanted_to, full)
    }

    /// When a read is done that goes on where the last one ended, in what the drive reads anyhow.
    fn streamed_ns(&self, start: u64, bytes: u64, now_ns: u64) -> Option<u64> {
        let buffered_to = self.buffered_to(now_ns);
        if start < self.wanted_to || start > buffered_to {
            return None;
        }
        let end = start + bytes;
        let over_bus_ns = now_ns + transfer_ns(bytes, self.geometry.bus_bytes_per_s);
        if end <= buffered_to {
            return Some(over_bus_ns);
        }
        let has_stopped = buffered_to == self.wanted_to + self.geometry.buffer_bytes;
        let passed_ns = self.at_ns + self.passing_ns(end.saturating_sub(self.at_byte));
        (!has_stopped).then(|| passed_ns.max(over_bus_ns))
    }

    /// When the first byte comes by after a seek.
    fn sought_ns(&self, start: u64, now_ns: u64) -> u64 {
        let there_ns = now_ns + self.geometry.overhead_ns + self.seek_ns(start);
        let turn_ns = self.geometry.turn_ns;
        let angle_ns = self.passing_ns(start) % turn_ns;
        there_ns + (angle_ns + turn_ns - there_ns % turn_ns) % turn_ns
    }

    fn seek_ns(&self, to: u64) -> u64 {
        let geometry = &self.geometry;
        let distance = to.abs_diff(self.at_byte);
        let track = u128::from(geometry.bytes_per_s) * u128::from(geometry.turn_ns) / 1_000_000_000;
        if u128::from(distance) < track {
            return 0;
        }
        // the square root of the part of the disk, in whole numbers
        let part = u128::from(distance.min(geometry.capacity_bytes));
        let square = u128::from(geometry.far_seek_ns).pow(2) * part;
        geometry.near_seek_ns + (square / u128::from(geometry.capacity_bytes)).isqrt() as u64
    }
}
