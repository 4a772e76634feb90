//! A lane, an honest user of it, and a peer that writes whatever it likes into the shared page.
//!
//! One program of steps drives both, so that the same exploration runs under proptest and under a
//! fuzzer. Whatever the peer does, each call of the honest one must come back: with a result that
//! makes sense, or with an error.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::{By, Gather, Lane, Parts, Scatter, Side, Turn, Wake};

/// The bytes of a step: what to do, where, and with which value.
pub const STEP_BYTES: usize = 12;

/// More than the header has: what lies behind it is never looked at.
const HEADER_BYTES: u16 = 4096;

/// Larger than the lane, so that it fills up.
const MOST_BYTES: usize = 40_000;

/// Stands around each buffer that is read into.
const CANARY: u8 = 0xc5;

const SIDES: [Side; 2] = [Side::Reader, Side::Writer];

/// The lane as its honest user has it, and as the peer has it.
pub struct Scene {
    lane: Lane,
    /// The memory, by which the peer writes: not through a mapping, so without any rules.
    peer: OwnedFd,
    /// The shared page as it was.
    header: [u8; HEADER_BYTES as usize],
    pipe: (OwnedFd, OwnedFd),
}

impl Scene {
    /// A new lane with nothing in it.
    pub fn new() -> Self {
        let size = PipeSize::new(3, 1).expect("a size");
        let lane = Lane::new(size, Wake::PerSegment).expect("a lane");
        let [
            memory,
            reader_bell,
            writer_bell,
            presence,
            from_stage,
            to_stage,
        ] = lane
            .parts()
            .fds
            .map(|fd| fd.try_clone_to_owned().expect("a copy"));
        let peer = memory.try_clone().expect("a copy");
        let mut header = [0; HEADER_BYTES as usize];
        rustix::io::pread(&peer, &mut header, 0).expect("the header is there");
        let parts = Parts {
            size,
            wake: Wake::PerSegment,
            memory,
            reader_bell,
            writer_bell,
            presence,
            stage: [from_stage, to_stage],
        };
        Self {
            lane: Lane::from_parts(parts).expect("the same lane"),
            peer,
            header,
            pipe: pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe"),
        }
    }

    /// Takes all steps that `program` has. A rest that is too short is left out.
    pub fn play(&self, program: &[u8]) {
        for step in program.chunks_exact(STEP_BYTES) {
            let at = u16::from_le_bytes([step[2], step[3]]);
            let mut value = [0; 8];
            value.copy_from_slice(&step[4..]);
            self.step(step[0], at, u64::from_le_bytes(value));
        }
    }

    fn step(&self, what: u8, at: u16, value: u64) {
        let bytes = value as usize % MOST_BYTES;
        let side = SIDES[usize::from(at) % 2];
        match what % 16 {
            what @ 0..6 => self.scribble(what, at, value),
            6..8 => self.write(bytes, (value >> 32) as u32 & 1 == 0),
            8..10 => self.read(bytes),
            10 => self.read_beside(value >> 8),
            11 => self.empty(),
            12 => self.sleep(side, bytes),
            13 => self.look(side, bytes),
            14 => self.note(at),
            15 if value.is_multiple_of(8) => self.resize(at),
            _ => self.leave_and_enter(),
        }
    }

    /// One of the peer's steps, 0 to 5.
    pub fn scribble(&self, what: u8, at: u16, value: u64) {
        match what {
            0 => self.put(at & !7, &value.to_le_bytes()),
            1 => self.put(at & !3, &(value as u32).to_le_bytes()),
            // Where positions wrap around.
            2 => self.put(at & !7, &(value % (1 << 17)).wrapping_neg().to_le_bytes()),
            // Another ring, as likely as not one that is there.
            3 => self.put(
                at & !7,
                &(((value % 24) << 8) | ((value >> 8) % 8)).to_le_bytes(),
            ),
            _ => self.nudge(at, value),
        }
    }

    /// Makes the lane as good as new.
    pub fn make_up(&self) {
        let written = rustix::io::pwrite(&self.peer, &self.header, 0);
        assert_eq!(written, Ok(self.header.len()));
    }

    /// To a value that is close to what is there: the most convincing kind.
    fn nudge(&self, at: u16, by: u64) {
        let at = at & !7;
        let mut word = [0; 8];
        let offset = (at % HEADER_BYTES).into();
        rustix::io::pread(&self.peer, &mut word, offset).expect("the header is there");
        let by = u64::from(by as u16).wrapping_sub(1 << 15);
        self.put(at, &u64::from_le_bytes(word).wrapping_add(by).to_le_bytes());
    }

    fn put(&self, at: u16, bytes: &[u8]) {
        let offset = (at % HEADER_BYTES).into();
        rustix::io::pwrite(&self.peer, bytes, offset).expect("the header is there");
    }

    fn write(&self, bytes: usize, kernel_has_bytes: bool) {
        let source = vec![7; bytes];
        let (front, back) = source.split_at(bytes / 3);
        let slices = [IoSlice::new(front), IoSlice::new(back)];
        let mut gather = Gather::new(&slices);
        let departures = self.lane.departures_seen_by(Side::Writer);
        let written = self
            .lane
            .try_write(&mut gather, departures, || usize::from(kernel_has_bytes));
        self.judge(written.map_err(io::Error::from));
        assert!(gather.done_bytes() <= bytes);
    }

    fn read(&self, bytes: usize) {
        fill_buffer(bytes, |slices| {
            let taken = self.lane.try_read_by(By::Waker, &mut Scatter::new(slices));
            self.judge(taken.map_err(io::Error::from)).unwrap_or(0)
        });
    }

    fn read_beside(&self, kernel_bytes: u64) {
        fill_buffer(kernel_bytes as usize % MOST_BYTES, |slices| {
            let taken = self.lane.as_only_reader(|only| {
                let unread = || Ok::<_, io::Error>(kernel_bytes as usize);
                match only.turn(unread)? {
                    Turn::Stage => only.take_staged(slices),
                    Turn::Kernel(due_bytes) => {
                        only.set_kernel_due(due_bytes.saturating_sub(1));
                        Ok(0)
                    }
                    Turn::Lane => Ok(usize::from(only.has_bytes()).min(slices[0].len())),
                }
            });
            let taken = taken.map_err(io::Error::from);
            self.judge(taken.and_then(|taken| taken)).unwrap_or(0)
        });
    }

    fn empty(&self) {
        let (reader, writer) = &self.pipe;
        self.judge(self.lane.empty_into(writer.as_fd()));
        // Room for the next time.
        while rustix::io::read(reader, &mut [0_u8; 4096]).is_ok() {}
    }

    fn sleep(&self, side: Side, wanted_bytes: usize) {
        let seat = self.lane.take_seat(side, wanted_bytes, true);
        if let Some(seat) = self.judge(seat).flatten() {
            let _ = seat.arm(wanted_bytes);
            seat.bell().silence();
        }
    }

    fn look(&self, side: Side, wanted_bytes: usize) {
        let _ = self.lane.is_ready(side, wanted_bytes);
        let _ = self.lane.quieten(side, wanted_bytes);
        let waker = std::task::Waker::noop();
        let _ = self.lane.await_in_task(side, wanted_bytes, 0, waker);
        let _ = self.lane.stats(side);
        let _ = self.lane.mode(side);
        let _ = self.lane.peer_runs_elsewhere(side);
        let _ = self.lane.has_writers_inside();
        let _ = self.judge(self.lane.unread_bytes());
    }

    fn note(&self, what: u16) {
        match what % 3 {
            0 => self.lane.note_kernel_bytes(),
            1 => self.lane.note_unaware_bytes(),
            _ => self.lane.begin_anew(),
        }
    }

    fn resize(&self, order: u16) {
        let size = PipeSize::new(order as u8 % 5, 0).expect("a size");
        self.judge(self.lane.resize(size).map_err(io::Error::from));
    }

    fn leave_and_enter(&self) {
        self.judge(self.lane.leave());
        self.judge(self.lane.enter());
        assert!(self.lane.has_readers());
    }

    /// An error is as good as a result, and says something. After it, the peer makes up: what is stuck
    /// (a lock) need not be tried again.
    fn judge<T>(&self, outcome: io::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::WouldBlock
                ) {
                    self.make_up();
                }
                None
            }
        }
    }
}

/// A read into the middle of a buffer, whose ends must stay as they are.
fn fill_buffer(bytes: usize, read: impl FnOnce(&mut [IoSliceMut<'_>]) -> usize) {
    let mut buffer = vec![CANARY; bytes + 64];
    let taken = read(&mut [IoSliceMut::new(&mut buffer[32..32 + bytes])]);
    assert!(taken <= bytes, "{taken} of {bytes}");
    let (front, back) = (&buffer[..32], &buffer[32 + bytes..]);
    assert!(front.iter().chain(back).all(|&byte| byte == CANARY));
}
