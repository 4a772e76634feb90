//! What the children do until they are killed or told that their peers are gone.

use std::time::Duration;

use fastrand::Rng;

use super::board::{Board, Field, IDS, RECORDS, Side, now_ns};
use super::plan::{Canary, Framing, Plan};
use super::record::{HEADER_BYTES, Record};
use crate::ends::{Reader, Writer};
use crate::fail::Fail;

/// One in so many records meets the canary: more records than readers are ever killed in a round.
const CANARY_PERIOD: u32 = 20;

/// A child of a round.
pub(super) struct Worker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) board: &'a Board,
    pub(super) id: usize,
    pub(super) rng: Rng,
    pub(super) canary: Option<Canary>,
}

impl Worker<'_> {
    /// Some children never rest, some rest now and then: so pipes run full, or empty, or neither.
    fn rest(&mut self, lazy: bool) {
        if lazy && self.rng.u32(..16) == 0 {
            std::thread::sleep(Duration::from_nanos(self.rng.u64(..200_000)));
        }
    }

    fn tell(&self, side: Side, field: Field, value: u64) {
        self.board.set(side, self.id, field, value);
    }

    /// Writes records until nobody reads.
    pub(super) fn write(mut self, writer: &Writer) -> Result<(), String> {
        let lazy = self.rng.u32(..3) == 0;
        let mut buf = Vec::new();
        for number in 0..RECORDS {
            let bytes = match self.plan.framing {
                Framing::Fixed(bytes) => bytes,
                Framing::Varied(max) => self.rng.usize(HEADER_BYTES..=max),
            };
            buf.resize(bytes, 0);
            let writer_id = self.id as u32;
            let round = self.plan.number;
            Record {
                round,
                writer: writer_id,
                number,
                bytes: bytes as u32,
            }
            .encode(&mut buf);
            self.rest(lazy);
            self.tell(Side::Writer, Field::Attempted, number + 1);
            self.tell(Side::Writer, Field::CalledNs, now_ns());
            match write_whole(writer, &buf)? {
                Told::PeersLive => self.tell(Side::Writer, Field::Done, number + 1),
                Told::PeersGone => {
                    self.tell(Side::Writer, Field::ToldNs, now_ns());
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads records until nobody writes.
    pub(super) fn read(mut self, reader: &Reader) -> Result<(), String> {
        let lazy = self.rng.u32(..3) == 0;
        let mut inbox = Inbox {
            next: [0; IDS],
            done: 0,
        };
        let mut stream = Vec::new();
        let mut buf = vec![0; 1 << 17];
        loop {
            self.rest(lazy);
            let asked = match self.plan.framing {
                Framing::Fixed(bytes) => bytes,
                Framing::Varied(_) => self.rng.usize(1..=buf.len()),
            };
            self.tell(Side::Reader, Field::CalledNs, now_ns());
            let got = reader
                .read_into(&mut buf[..asked])
                .map_err(|e| format!("read: {e:?}"))?;
            if got == 0 {
                break;
            }
            stream.extend_from_slice(&buf[..got]);
            self.take_records(&mut stream, &mut inbox)?;
            if matches!(self.plan.framing, Framing::Fixed(_)) && !stream.is_empty() {
                return Err(format!(
                    "torn: a read of {asked} bytes took {got}, not one record"
                ));
            }
        }
        if self.canary == Some(Canary::Hang) {
            std::thread::sleep(Duration::MAX);
        }
        self.tell(Side::Reader, Field::ToldNs, now_ns());
        if stream.is_empty() || self.plan.allows_stump() {
            return Ok(());
        }
        Err(format!(
            "torn: the stream ends in {} bytes of a record",
            stream.len()
        ))
    }

    /// Takes all whole records off the stream's front.
    fn take_records(&mut self, stream: &mut Vec<u8>, inbox: &mut Inbox) -> Result<(), String> {
        let mut taken = 0;
        while stream.len() - taken >= HEADER_BYTES {
            let rest = &mut stream[taken..];
            let bytes = Record::claimed_bytes(rest, self.plan.number)?;
            if rest.len() < bytes {
                break;
            }
            let canary = self.canary.filter(|_| self.rng.u32(..CANARY_PERIOD) == 0);
            if canary == Some(Canary::Torn) {
                rest[self.rng.usize(..bytes)] ^= 0x10;
            }
            let record = Record::decode(&rest[..bytes], self.plan.number)?;
            taken += bytes;
            match canary {
                Some(Canary::Lost) => {}
                Some(Canary::Dup) => {
                    inbox.accept(self.board, self.id, record)?;
                    inbox.accept(self.board, self.id, record)?;
                }
                _ => inbox.accept(self.board, self.id, record)?,
            }
        }
        stream.drain(..taken);
        Ok(())
    }
}

/// What a write tells about the readers.
enum Told {
    PeersLive,
    PeersGone,
}

/// One record, in one write. A blocking write returns less only when the readers vanish, and
/// then the next one fails.
fn write_whole(writer: &Writer, record: &[u8]) -> Result<Told, String> {
    match writer.write(record) {
        Ok(bytes) if bytes == record.len() => Ok(Told::PeersLive),
        Ok(bytes) => match writer.write(&record[bytes..]) {
            Err(Fail::PIPE) => Ok(Told::PeersGone),
            next => Err(format!(
                "a write of {} returned {bytes}, then {next:?}",
                record.len()
            )),
        },
        Err(Fail::PIPE) => Ok(Told::PeersGone),
        Err(fail) => Err(format!("write: {fail:?}")),
    }
}

/// What one reader got.
struct Inbox {
    /// The least number that may come next from each writer.
    next: [u64; IDS],
    done: u64,
}

impl Inbox {
    fn accept(&mut self, board: &Board, reader: usize, record: Record) -> Result<(), String> {
        let writer = record.writer as usize;
        if writer >= IDS || record.number >= board.get(Side::Writer, writer, Field::Attempted) {
            return Err(format!("a record that nobody wrote: {record:?}"));
        }
        if !board.record_came(writer, record.number) {
            return Err(format!("came twice: {record:?}"));
        }
        if record.number < self.next[writer] {
            let next = self.next[writer];
            return Err(format!(
                "out of order: {record:?}, number {next} or later expected"
            ));
        }
        self.next[writer] = record.number + 1;
        self.done += 1;
        board.set(Side::Reader, reader, Field::Done, self.done);
        Ok(())
    }
}
