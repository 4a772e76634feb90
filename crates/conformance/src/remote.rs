//! A peer that holds the other end and does what the test says, step by step.

use std::cell::RefCell;
use std::ffi::CStr;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::ends::{EndOf, Ends, Reader, Writer, kind};
use crate::fail::{Fail, Outcome};
use crate::peer::Peer;
use crate::setting::Setting;

/// What a remote peer is told: a line of JSON, and behind it as many bytes as it says.
#[derive(Serialize, Deserialize)]
enum Order {
    Read(usize),
    Write(usize),
    SetNonblocking(bool),
    Events,
    Unread,
    Capacity,
    SetCapacity(usize),
    Close,
}

/// What it answers, in the same form.
#[derive(Serialize, Deserialize)]
enum Answer {
    Done,
    Count(Outcome),
    Bytes(Outcome),
    Bits(u16),
}

/// What a remote peer can do with its end.
pub trait Remotely: Sized + 'static {
    /// Reads, if it can.
    #[doc(hidden)]
    fn read(_: &EndOf<Self>, _: usize) -> Result<Vec<u8>, Fail> {
        Err(Fail::BADF)
    }
    /// Writes, if it can.
    #[doc(hidden)]
    fn write(_: &EndOf<Self>, _: &[u8]) -> Outcome {
        Err(Fail::BADF)
    }
}

impl Remotely for kind::Read {
    fn read(end: &Reader, bytes: usize) -> Result<Vec<u8>, Fail> {
        end.read(bytes)
    }
}

impl Remotely for kind::Write {
    fn write(end: &Writer, bytes: &[u8]) -> Outcome {
        end.write(bytes)
    }
}

/// A socket with messages.
struct Line(BufReader<UnixStream>);

impl Line {
    fn say(&mut self, message: &impl Serialize, bytes: &[u8]) {
        let mut frame = serde_json::to_vec(message).expect("plain data");
        frame.push(b'\n');
        frame.extend_from_slice(bytes);
        let said = self.0.get_ref().write_all(&frame);
        said.expect("the other side listens");
    }

    fn hear<M: for<'de> Deserialize<'de>>(&mut self) -> M {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the other side talks");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the other side failed: {line:?}"))
    }

    fn hear_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("the bytes follow");
        bytes
    }
}

/// A peer that holds an end.
pub struct Remote<K> {
    peer: Option<Peer<()>>,
    line: RefCell<Line>,
    kind: PhantomData<fn() -> K>,
}

impl Setting {
    /// Gives the end to a peer that does what it is told.
    #[must_use]
    pub fn remote<K: Remotely>(self, end: EndOf<K>) -> Remote<K> {
        self.remote_by(end, |end| end)
    }

    /// A peer that opens a FIFO and does what it is told. Returns when it is open.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[must_use]
    pub fn remote_open<K: Remotely>(self, path: &Arc<CStr>, flags: OFlags) -> Remote<K> {
        let path = path.clone();
        let open = move |()| self.open(&path, flags).expect("cannot open the FIFO");
        let remote = self.remote_by((), open);
        remote.set_nonblocking(flags.contains(OFlags::NONBLOCK));
        remote
    }

    fn remote_by<E: Ends, K: Remotely>(
        self,
        ends: E,
        come_by: impl FnOnce(E) -> EndOf<K> + Send + 'static,
    ) -> Remote<K> {
        let (mine, its) = UnixStream::pair().expect("no sockets");
        let its = Line(BufReader::new(its));
        let peer = self.spawn(ends, move |ends| serve(come_by(ends), its));
        Remote {
            peer: Some(peer),
            line: RefCell::new(Line(BufReader::new(mine))),
            kind: PhantomData,
        }
    }
}

/// Obeys until told to close.
fn serve<K: Remotely>(end: EndOf<K>, mut line: Line) {
    loop {
        let order = line.hear();
        if let Order::Close = order {
            break;
        }
        let mut read = Vec::new();
        let answer = match order {
            Order::Read(bytes) => Answer::Bytes(K::read(&end, bytes).map(|bytes| {
                read = bytes;
                read.len()
            })),
            Order::Write(bytes) => Answer::Count(K::write(&end, &line.hear_bytes(bytes))),
            Order::Events => Answer::Bits(end.events().bits()),
            Order::Unread => Answer::Count(end.unread_bytes()),
            Order::Capacity => Answer::Count(end.capacity_bytes()),
            Order::SetCapacity(bytes) => Answer::Count(end.set_capacity_bytes(bytes)),
            Order::SetNonblocking(yes) => {
                end.set_nonblocking(yes);
                Answer::Done
            }
            Order::Close => unreachable!("see above"),
        };
        line.say(&answer, &read);
    }
    drop(end);
    line.say(&Answer::Done, &[]);
}

impl<K: Remotely> Remote<K> {
    fn ask(&self, order: &Order) -> Answer {
        let mut line = self.line.borrow_mut();
        line.say(order, &[]);
        line.hear()
    }

    fn count(&self, order: &Order) -> Outcome {
        match self.ask(order) {
            Answer::Count(outcome) => outcome,
            _ => unreachable!("a count was asked for"),
        }
    }

    /// What poll reports to the peer now, all bits wanted.
    #[must_use]
    pub fn events(&self) -> PollFlags {
        match self.ask(&Order::Events) {
            Answer::Bits(bits) => PollFlags::from_bits_retain(bits),
            _ => unreachable!("bits were asked for"),
        }
    }

    /// How many bytes are unread, the peer says.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn unread_bytes(&self) -> Outcome {
        self.count(&Order::Unread)
    }

    /// The capacity, the peer says.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn capacity_bytes(&self) -> Outcome {
        self.count(&Order::Capacity)
    }

    /// Has the peer set the capacity.
    ///
    /// # Errors
    /// What the engine fails with.
    pub fn set_capacity_bytes(&self, bytes: usize) -> Outcome {
        self.count(&Order::SetCapacity(bytes))
    }

    /// Has the peer set or clear `O_NONBLOCK`.
    pub fn set_nonblocking(&self, yes: bool) {
        self.ask(&Order::SetNonblocking(yes));
    }

    /// Has the peer close its end; it is gone then.
    ///
    /// # Panics
    /// If the peer did.
    pub fn close(mut self) {
        self.ask(&Order::Close);
        self.peer.take().expect("closed once").join();
    }
}

impl Remote<kind::Read> {
    /// One read by the peer.
    ///
    /// # Errors
    /// What the engine's read fails with.
    pub fn read(&self, bytes: usize) -> Result<Vec<u8>, Fail> {
        match self.ask(&Order::Read(bytes)) {
            Answer::Bytes(count) => Ok(self.line.borrow_mut().hear_bytes(count?)),
            _ => unreachable!("bytes were asked for"),
        }
    }

    /// Exactly `bytes` bytes, read by the peer.
    ///
    /// # Panics
    /// If they do not come.
    #[must_use]
    pub fn read_exactly(&self, bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < bytes {
            let some = self.read(bytes - all.len()).expect("a read failed");
            assert!(
                !some.is_empty(),
                "end of file after {} of {bytes}",
                all.len()
            );
            all.extend(some);
        }
        all
    }
}

impl Remote<kind::Write> {
    /// One write by the peer.
    ///
    /// # Errors
    /// What the engine's write fails with.
    pub fn write(&self, bytes: &[u8]) -> Outcome {
        let mut line = self.line.borrow_mut();
        line.say(&Order::Write(bytes.len()), bytes);
        match line.hear() {
            Answer::Count(outcome) => outcome,
            _ => unreachable!("a count was asked for"),
        }
    }
}

/// Whether the ends have met before a behaviour is looked at. A pipe that is new is another thing
/// to standpipe than one through which bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// A new pipe.
    Cold,
    /// Empty again after some traffic.
    Warm,
}

impl Warmth {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Cold, Self::Warm];

    /// Pieces that go through first; strangers need some to find each other.
    pub(crate) fn pieces(self) -> usize {
        match self {
            Self::Cold => 0,
            Self::Warm => 40,
        }
    }
}

/// What goes through at once, to get warm.
const PIECE: usize = 32768;

impl Setting {
    /// A pipe with the read end here and the write end at a peer.
    ///
    /// # Panics
    /// If the traffic to get warm fails.
    #[must_use]
    pub fn reader_here(self, warmth: Warmth) -> (Reader, Remote<kind::Write>) {
        let (r, w) = self.pipe();
        let w = self.remote(w);
        for _ in 0..warmth.pieces() {
            let piece = vec![b'w'; PIECE];
            assert_eq!(w.write(&piece), Ok(PIECE));
            assert_eq!(r.read_exactly(PIECE), piece);
        }
        if warmth == Warmth::Warm {
            self.assert_in_lane(r.lane_bytes());
        }
        (r, w)
    }

    /// A pipe with the write end here and the read end at a peer.
    ///
    /// # Panics
    /// If the traffic to get warm fails.
    #[must_use]
    pub fn writer_here(self, warmth: Warmth) -> (Remote<kind::Read>, Writer) {
        let (r, w) = self.pipe();
        let r = self.remote(r);
        for _ in 0..warmth.pieces() {
            let piece = vec![b'w'; PIECE];
            assert_eq!(w.write(&piece), Ok(PIECE));
            assert_eq!(r.read_exactly(PIECE), piece);
        }
        if warmth == Warmth::Warm {
            self.assert_in_lane(w.lane_bytes());
        }
        (r, w)
    }

    /// Otherwise what is shown of a pipe that was used is what is shown of a new one.
    pub(crate) fn assert_in_lane(self, lane_bytes: u64) {
        let met = !self.engine.is_standpipe() || lane_bytes > 0;
        assert!(met, "the ends did not meet in a lane");
    }
}
