//! What a cache tells other processes of itself, and how they read it.
//!
//! Every cache keeps its figures on a [`board`] named [`BOARD`]. They are written under
//! the cache's lock: when a read is done, and now and then while pages are found. So they are up to 10 ms of
//! activity behind.

use std::io;

use standpipe_shm::board::{self, Board};

use super::{Stat, State};
use crate::book::{Accounts, Room};

/// The name of the boards of caches.
pub const BOARD: &str = "standpipe-cache-stat";

/// The first number of a board; its last letter is the version of the layout.
const MAGIC: u64 = u64::from_be_bytes(*b"spcache1");

/// Figures that follow, behind the number of the process and how many figures there are.
const FIGURES: usize = 20;
const COUNT: u64 = FIGURES as u64;

/// Finding pages is no reason to tell more often.
pub(super) const RARELY_NS: u64 = 10_000_000;

/// Adding up what readers have takes some 10 ns for each: telling that takes a hundredth of the time at
/// most.
const PER_READER_NS: u64 = 1000;

/// What a cache told of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The process, as it knows itself.
    pub pid: u32,
    /// Its figures.
    pub stat: Stat,
}

impl Notice {
    /// Of what was read of a board's file.
    ///
    /// # Errors
    /// `InvalidData` if that is no board, or one of another version.
    pub fn read(bytes: &[u8]) -> io::Result<Self> {
        let numbers = board::numbers(bytes)?;
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let parts = numbers.split_first_chunk();
        let parts = parts.and_then(|(head, rest)| Some((*head, *rest.first_chunk()?)));
        let Some(([MAGIC, pid, COUNT], figures)) = parts else {
            let (magic, count) = (numbers[0], numbers[2]);
            let text =
                format!("{count} figures of layout {magic:x}: expected {COUNT} of {MAGIC:x}");
            return Err(invalid(text));
        };
        let pid = u32::try_from(pid).map_err(|_| invalid(format!("figures of process {pid}")))?;
        Ok(Self {
            pid,
            stat: stat_of(figures),
        })
    }
}

/// Tells. Behind the cache's lock.
#[derive(Default)]
pub(super) struct Teller {
    /// None if there was none to be had: a cache works without.
    board: Option<Board>,
    told_ns: u64,
}

impl Teller {
    pub fn new() -> Self {
        let board = Board::new(BOARD).ok();
        if let Some(board) = &board {
            let pid = u64::from(std::process::id());
            board.write([MAGIC, pid, COUNT]);
        }
        Self { board, told_ns: 0 }
    }
}

impl State {
    /// Tells how the cache does, unless that was `rest_ns` ago or less.
    #[inline]
    pub(super) fn tell(&mut self, now_ns: u64, rest_ns: u64) {
        let since_ns = now_ns.saturating_sub(self.teller.told_ns);
        if since_ns >= rest_ns && since_ns >= self.book.readers() as u64 * PER_READER_NS {
            self.teller.told_ns = now_ns;
            self.tell_now();
        }
    }

    #[cold]
    pub(super) fn tell_now(&self) {
        let Some(board) = &self.teller.board else {
            return;
        };
        let accounts = self.book.accounts();
        let stat = Stat {
            accounts,
            room: self.book.room_by(&accounts),
            objects: self.objects.len(),
        };
        let head = [MAGIC, u64::from(std::process::id()), COUNT];
        board.write(head.into_iter().chain(figures_of(&stat)));
    }
}

/// In the order of the layout. A change of it is a new [`MAGIC`].
fn figures_of(stat: &Stat) -> [u64; FIGURES] {
    let (room, accounts) = (&stat.room, &stat.accounts);
    [
        room.budget_pages,
        room.present_pages,
        room.unread_pages,
        room.in_flight_pages,
        room.held_pages,
        room.streams,
        stat.objects as u64,
        accounts.hits,
        accounts.misses,
        accounts.waits,
        accounts.refaults,
        accounts.readahead_calls,
        accounts.reads,
        accounts.read_pages,
        accounts.prefetched,
        accounts.used,
        accounts.late,
        accounts.wasted,
        accounts.evicted_unread,
        accounts.failed,
    ]
}

fn stat_of(figures: [u64; FIGURES]) -> Stat {
    let [
        budget_pages,
        present_pages,
        unread_pages,
        in_flight_pages,
        held_pages,
        streams,
        objects,
        hits,
        misses,
        waits,
        refaults,
        readahead_calls,
        reads,
        read_pages,
        prefetched,
        used,
        late,
        wasted,
        evicted_unread,
        failed,
    ] = figures;
    Stat {
        room: Room {
            budget_pages,
            present_pages,
            unread_pages,
            in_flight_pages,
            held_pages,
            streams,
        },
        objects: objects as usize,
        accounts: Accounts {
            hits,
            misses,
            waits,
            refaults,
            readahead_calls,
            reads,
            read_pages,
            prefetched,
            used,
            late,
            wasted,
            evicted_unread,
            failed,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(numbers: &[u64]) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        bytes.resize(4096, 0);
        bytes
    }

    #[test]
    fn figures_come_back_in_their_places() {
        let figures: Vec<u64> = (100..100 + COUNT).collect();
        let stat = stat_of(figures.clone().try_into().unwrap());
        assert_eq!(figures_of(&stat).to_vec(), figures);
        let numbers = [&[MAGIC, 42, COUNT], &figures[..]].concat();
        let notice = Notice::read(&page(&numbers)).unwrap();
        assert_eq!((notice.pid, notice.stat), (42, stat));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let good = [MAGIC, 42, COUNT];
        Notice::read(&page(&good)).unwrap();
        for bytes in [
            Vec::new(),
            page(&[MAGIC + 1, 42, COUNT]),
            page(&[MAGIC, 42, COUNT + 1]),
            page(&[MAGIC, u64::MAX, COUNT]),
            page(&good)[..4000].to_vec(),
        ] {
            let error = Notice::read(&bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
