//! What a round is like: chosen at random from the seed and the number of the round.

use fastrand::Rng;
use standpipe::pipe::{PIPE_BUF, Wake};

use super::board::{IDS, Side};
use super::record::HEADER_BYTES;
use crate::engine::Options;

/// A defect put into the harness on purpose, to see that it is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Canary {
    /// A byte of a record is flipped.
    Torn,
    /// A record is dropped.
    Lost,
    /// A record comes twice.
    Dup,
    /// A reader looks away at the end of the file.
    Hang,
    /// The parent forgets to close a descriptor.
    Leak,
}

/// How those who share a pipe come by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Peers {
    /// By inheritance: the parent makes a pipe, and forks.
    Fork,
    /// By the path of a FIFO: they know nothing of each other.
    Strangers,
    /// Either, from round to round.
    Both,
}

/// How records are told apart in the stream: see the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// All records and reads have this size.
    Fixed(usize),
    /// Records of any size up to this one.
    Varied(usize),
}

/// A round.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) number: u64,
    pub(super) options: Options,
    pub(super) framing: Framing,
    pub(super) writers: usize,
    pub(super) readers: usize,
    /// They come by a FIFO's path.
    pub(super) strangers: bool,
    /// Some of the writers (and of strangers, the readers as well) know nothing of standpipe.
    pub(super) mixed: bool,
    /// Kills before the last act.
    pub(super) kills: usize,
    /// Whose killed children are replaced, or may be killed before the last act at all.
    pub(super) mortal: &'static [Side],
    /// The side that is killed for good in the last act.
    pub(super) doomed: Side,
}

impl Plan {
    pub(super) fn new(rng: &mut Rng, number: u64, peers: Peers) -> Self {
        let strangers = match peers {
            Peers::Fork => false,
            Peers::Strangers => true,
            Peers::Both => rng.u32(..3) == 0,
        };
        let Company {
            framing,
            writers,
            readers,
            mortal,
        } = if strangers {
            Company::of_strangers(rng)
        } else {
            Company::of_a_family(rng)
        };
        // A round uses up to 3 + kills ids of a side.
        let kills = if mortal.is_empty() {
            0
        } else {
            rng.usize(1..IDS / 2)
        };
        let mixed = rng.u32(..4) == 0;
        let doomed = match mortal {
            &[side] if strangers => side,
            _ if rng.bool() => Side::Writer,
            _ => Side::Reader,
        };
        Self {
            number,
            options: options(rng),
            framing,
            writers,
            readers,
            strangers,
            mixed,
            kills,
            mortal,
            doomed,
        }
    }

    /// Whether the last record of a killed writer may be a stump.
    pub(super) fn allows_stump(&self) -> bool {
        matches!(self.framing, Framing::Varied(bytes) if bytes > PIPE_BUF)
    }
}

/// Who takes part, and who of them may be killed before the last act.
struct Company {
    framing: Framing,
    writers: usize,
    readers: usize,
    mortal: &'static [Side],
}

impl Company {
    fn of_a_family(rng: &mut Rng) -> Self {
        match rng.u32(..8) {
            // The most kills per round, and the most contention.
            0..5 => Self {
                framing: Framing::Fixed(rng.usize(HEADER_BYTES..=PIPE_BUF)),
                writers: rng.usize(1..=3),
                readers: rng.usize(1..=3),
                mortal: &[Side::Writer, Side::Reader],
            },
            5..7 => Self::of_one_reader(rng),
            _ => Self {
                framing: Framing::Varied(rng.usize(PIPE_BUF..1 << 18)),
                writers: 1,
                readers: 1,
                mortal: &[],
            },
        }
    }

    /// The side that is not mortal keeps the lane.
    fn of_strangers(rng: &mut Rng) -> Self {
        if rng.bool() {
            return Self::of_one_reader(rng);
        }
        Self {
            framing: Framing::Fixed(rng.usize(HEADER_BYTES..=PIPE_BUF)),
            writers: rng.usize(1..=2),
            readers: rng.usize(1..=3),
            mortal: &[Side::Reader],
        }
    }

    fn of_one_reader(rng: &mut Rng) -> Self {
        Self {
            framing: Framing::Varied(PIPE_BUF),
            writers: rng.usize(1..=3),
            readers: 1,
            mortal: &[Side::Writer],
        }
    }
}

/// A pipe of 4 KiB to 1 MiB, more often small: there peers sleep most, and a wake-up that dies with
/// its sender is not made up for by the next.
fn options(rng: &mut Rng) -> Options {
    let most = if rng.bool() { 1 } else { 8 };
    let order = rng.u32(..=most);
    Options {
        capacity_bytes: Some(4096 << order),
        segment_bytes: rng.bool().then(|| 4096 << rng.u32(..=order)),
        wake: if rng.bool() {
            Wake::PerSegment
        } else {
            Wake::PerTransfer
        },
        nonblocking: false,
        close_on_exec: true,
    }
}
