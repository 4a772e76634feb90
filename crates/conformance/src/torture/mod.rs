//! Torture: writers and readers of one pipe are killed (`kill -9`) at random instants, and what
//! comes through is checked.
//!
//! **Roles.** The parent makes the pipe, forks writers and readers, kills one after another, puts
//! new ones in their place, and in the end kills one side for good. Writers send records, numbered
//! and checksummed. In some rounds there are writers among them that know nothing of standpipe:
//! they write to the bare descriptor. Readers check each, and publish it on the `board`, which all share.
//! In some rounds the pipe is a FIFO and its peers are strangers: each opens it by itself, and some
//! readers know nothing of standpipe either. Then nobody
//! but the children has the lane, and one side is not killed before the last act: bytes of a lane that
//! nobody holds any more are gone.
//!
//! **Framing.** A read takes bytes, not records. With several readers, or readers that are
//! replaced, all records of a round have one size S <= `PIPE_BUF`, and each read asks for S bytes:
//! the pipe then holds a multiple of S at every instant (writes up to `PIPE_BUF` are atomic, a read
//! takes all or nothing of what a sleeping or killed peer leaves), so each read gets one record.
//! With one reader that is never replaced, records have random sizes and reads do as well. With
//! one writer too, records may be larger than `PIPE_BUF`, and the last may be a stump if its
//! writer was killed.
//!
//! **Accounting.** A writer publishes that it attempts record n before the write, and that n is
//! returned after it. A reader publishes each record before its next read. Then:
//!
//! 1. A record that comes is whole: magic, round, size, checksum and payload are right.
//! 2. It comes once (the bit of the record was clear), and was attempted.
//! 3. Of one writer, a reader sees increasing numbers.
//! 4. Every returned record comes, if a reader saw the end of the file. A killed reader may have
//!    consumed the one record of its last read without publishing it: as many may be missing as
//!    readers were killed, and none where a round does not kill its reader. If all readers were
//!    killed, what was still in the pipe is gone, so this holds for the records of a writer below
//!    its last that came.
//! 5. Bytes go on flowing after a kill, as long as both sides have somebody.
//! 6. When the last peer is dead, survivors are told: end of file, or `EPIPE`; never before.
//! 7. The parent has as many descriptors and as much shared memory as before.

mod audit;
mod board;
mod children;
mod common;
mod hostile;
mod plan;
mod record;
mod report;
mod residue;
mod round;
mod run;
mod worker;

pub use hostile::{HostileSummary, run_hostile};
pub use plan::{Canary, Peers};
pub use report::Summary;
pub use run::{Settings, run};
