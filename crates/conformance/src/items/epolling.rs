//! epoll, on the descriptor that every end offers for it (items 66 to 71).
//!
//! The kernel's ends are registered themselves, and then the bits are compared. standpipe's offer a
//! descriptor that becomes ready; the bits are the end's. It may report a readiness that the next
//! call answers with `EAGAIN`, once, and then not again.

use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::event::epoll::EventFlags;
use rustix::process::Signal;

use super::{CAPACITY, PAGE, fill, pattern, warm_up};
use crate::ends::{EndOf, Reader, Writer};
use crate::engine::{Engine, Options};
use crate::fail::{Fail, Outcome};
use crate::raw;
use crate::remote::Warmth;
use crate::setting::Setting;
use crate::signals;
use crate::suite::behaviours;
use crate::watch::{Epoll, FOREVER, NOW};

behaviours! {
    by_descriptor("typed ends do not poll"):
        item_66_a_handler_interrupts_epoll,
        item_67_level_triggered_shows_what_poll_shows,
        difference_67_hup_and_err_are_readable,
        item_67_one_byte_shows_in_every_epoll,
        item_68_edge_triggered_end_of_file_is_an_event,
        item_69_edge_triggered_loss_of_the_readers_is_an_event,
        item_70_what_may_be_registered,
        item_71_a_closed_end_is_not_shown;
    by_descriptor("typed ends do not poll"),
    by_calls("an end's own descriptor is quiet after its own calls; a ring has one for all its ends"):
        item_67_after_eagain_nothing_is_shown,
        item_67_a_level_loop_reads_every_byte,
        item_67_a_level_loop_writes_every_byte,
        item_67_a_poll_loop_reads_every_byte,
        item_67_a_poll_loop_writes_every_byte,
        item_68_edge_triggered_a_write_after_eagain_is_an_event,
        item_68_an_edge_loop_reads_every_byte,
        item_69_edge_triggered_room_after_eagain_is_an_event,
        item_69_an_edge_loop_writes_every_byte,
        item_70_oneshot_is_shown_once_and_again_on_demand;
    kernel("the pollable descriptor says readable, to those who go on until EAGAIN"):
        item_67_hup_and_err_come_unasked,
        item_68_edge_triggered_every_write_is_an_event,
        item_69_edge_triggered_room_is_an_event,
        item_70_oneshot_is_shown_once;
    kernel("epoll remembers the kernel's description"):
        item_71_a_registration_lives_as_long_as_the_description;
}

const NOTHING: PollFlags = PollFlags::empty();
const ALL: EventFlags = EventFlags::from_bits_retain(0xffff);
const EDGE: EventFlags = ALL.union(EventFlags::ET);
const IN: PollFlags = PollFlags::IN.union(PollFlags::RDNORM);
const OUT: PollFlags = PollFlags::OUT.union(PollFlags::WRNORM);

/// An end in an epoll instance of its own.
struct Registered<'a, K> {
    engine: Engine,
    epoll: Epoll,
    end: &'a EndOf<K>,
    fd: i32,
    is_edge: bool,
}

impl<'a, K> Registered<'a, K> {
    fn new(s: Setting, end: &'a EndOf<K>, events: EventFlags) -> Self {
        let epoll = Epoll::new();
        let fd = end.pollable();
        epoll.add(fd, events).unwrap();
        let engine = s.engine;
        let is_edge = events.contains(EventFlags::ET);
        Self {
            engine,
            epoll,
            end,
            fd,
            is_edge,
        }
    }

    /// What epoll says now. If it is the word of a descriptor that only says "ready", what the end
    /// says then; so an event that was missed is seen, and one that is no event is not.
    fn shows(&self) -> PollFlags {
        let shown = self.epoll.of(self.fd);
        match self.engine {
            _ if shown.is_empty() => NOTHING,
            Engine::Adopted | Engine::Ring => self.end.events(),
            _ => PollFlags::from_bits_retain(shown.bits() as u16),
        }
    }

    fn wait(&self) {
        self.epoll.wait(FOREVER).expect("nothing interrupts it");
    }
}

fn item_66_a_handler_interrupts_epoll(s: Setting) {
    for restart in [false, true] {
        signals::handle(Signal::USR1, restart);
        let (r, _w) = s.pipe();
        let waiting = s.spawn(r, move |r| {
            let epoll = Registered::new(s, &r, ALL).epoll;
            epoll.wait(FOREVER).map(drop)
        });
        waiting.until_asleep();
        waiting.signal(Signal::USR1);
        assert_eq!(waiting.join(), Err(Fail::INTR), "SA_RESTART: {restart}");
    }
}

fn item_67_level_triggered_shows_what_poll_shows(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let registered = Registered::new(s, &r, ALL);
        assert_eq!(registered.shows(), NOTHING);
        for _ in 0..3 {
            assert_eq!(w.write(b"two"), Ok(3));
            assert_eq!((registered.shows(), registered.shows()), (IN, IN));
            assert_eq!(r.read(2), Ok(b"tw".to_vec()));
            assert_eq!(registered.shows(), IN);
            assert_eq!(r.read(2), Ok(b"o".to_vec()));
            assert_eq!(registered.shows(), NOTHING);
        }
        assert_eq!(w.write(b"left"), Ok(4));
        w.close();
        assert_eq!(registered.shows(), IN | PollFlags::HUP);
        assert_eq!(r.read(9), Ok(b"left".to_vec()));
        assert_eq!(registered.shows(), PollFlags::HUP);

        let (r, w) = s.writer_here(warmth);
        let registered = Registered::new(s, &w, ALL);
        for _ in 0..3 {
            assert_eq!((registered.shows(), registered.shows()), (OUT, OUT));
            fill(&w);
            assert_eq!(registered.shows(), NOTHING);
            drop(r.read_exactly(PAGE));
            assert_eq!(registered.shows(), OUT);
            drop(r.read_exactly(CAPACITY - PAGE));
        }
        r.close();
        assert_eq!(registered.shows(), OUT | PollFlags::ERR);
    }
}

fn item_67_hup_and_err_come_unasked(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let registered = Registered::new(s, &r, EventFlags::empty());
        assert_eq!(registered.shows(), NOTHING);
        w.close();
        assert_eq!(registered.shows(), PollFlags::HUP);

        let (r, w) = s.writer_here(warmth);
        fill(&w);
        let registered = Registered::new(s, &w, EventFlags::empty());
        assert_eq!(registered.shows(), NOTHING);
        r.close();
        assert_eq!(registered.shows(), PollFlags::ERR);
    }
}

/// Whoever asks for nothing hears of hang-up and error from the kernel's end; standpipe's pollable
/// descriptor has to be asked whether it is readable.
fn difference_67_hup_and_err_are_readable(s: Setting) {
    let events = match s.engine {
        Engine::Adopted | Engine::Ring => EventFlags::IN,
        _ => EventFlags::empty(),
    };
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let registered = Registered::new(s, &r, events);
        w.close();
        assert_eq!(registered.shows(), PollFlags::HUP);

        let (r, w) = s.writer_here(warmth);
        fill(&w);
        let registered = Registered::new(s, &w, events);
        r.close();
        assert_eq!(registered.shows(), PollFlags::ERR);
    }
}

/// The bound of the readiness that is none: who acted on it and was told `EAGAIN` is not told again.
fn item_67_after_eagain_nothing_is_shown(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        r.set_nonblocking(true);
        let epolls = [Registered::new(s, &r, ALL), Registered::new(s, &r, EDGE)];
        for _ in 0..5 {
            assert_quiet_after_eagain(s, &epolls, || r.read(9).map(drop));
            assert_eq!(w.write(b"x"), Ok(1));
            assert_eq!(r.read(9), Ok(b"x".to_vec()));
        }

        let (r, w) = s.writer_here(warmth);
        w.set_nonblocking(true);
        let epolls = [Registered::new(s, &w, ALL), Registered::new(s, &w, EDGE)];
        for _ in 0..5 {
            fill(&w);
            assert_quiet_after_eagain(s, &epolls, || w.write(b"x").map(drop));
            drop(r.read_exactly(CAPACITY));
        }
    }
}

fn assert_quiet_after_eagain<K>(
    s: Setting,
    epolls: &[Registered<'_, K>],
    act: impl Fn() -> Result<(), Fail>,
) {
    // standpipe's end may report it once; the kernel's edges were there before.
    assert_eq!(act(), Err(Fail::AGAIN));
    for registered in epolls {
        let shown = registered.epoll.now();
        assert!(shown.is_empty() || s.engine.is_standpipe() || registered.is_edge);
    }
    assert_eq!(act(), Err(Fail::AGAIN));
    for registered in epolls {
        assert!(registered.epoll.now().is_empty(), "told again");
    }
}

fn item_67_one_byte_shows_in_every_epoll(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let copy = r.try_clone();
        let peers = s.spawn(r.try_clone(), move |r| {
            Registered::new(s, &r, EDGE).wait();
            r.events().bits()
        });
        peers.until_asleep();
        let all = [
            Registered::new(s, &r, ALL),
            Registered::new(s, &copy, ALL),
            Registered::new(s, &copy, EDGE),
        ];
        assert_eq!(w.write(b"x"), Ok(1));
        for registered in all {
            assert_eq!(registered.shows(), IN);
        }
        assert_eq!(peers.join(), IN.bits());
    }
}

fn item_68_edge_triggered_every_write_is_an_event(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let registered = Registered::new(s, &r, EDGE);
        assert_eq!(registered.shows(), NOTHING);
        for round in 0..3 {
            assert_eq!(w.write(b"one"), Ok(3));
            assert_eq!(registered.shows(), IN, "round {round}");
            assert_eq!(registered.shows(), NOTHING, "once");
            assert_eq!(w.write(b"two"), Ok(3));
            assert_eq!(registered.shows(), IN, "although something was there");
            assert_eq!(r.read(2), Ok(b"on".to_vec()));
            assert_eq!(registered.shows(), NOTHING, "a read is none");
            assert_eq!(r.read(9), Ok(b"etwo".to_vec()));
            assert_eq!(registered.shows(), NOTHING);
        }
    }
}

/// As by mio and tokio: whoever was told `EAGAIN` hears of the next write.
fn item_68_edge_triggered_a_write_after_eagain_is_an_event(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        r.set_nonblocking(true);
        let registered = Registered::new(s, &r, EDGE);
        for round in 0..5 {
            assert_eq!(r.read(9), Err(Fail::AGAIN));
            assert_eq!(registered.shows(), NOTHING);
            assert_eq!(w.write(b"one"), Ok(3));
            assert_eq!(registered.shows(), IN, "round {round}");
            assert_eq!(registered.shows(), NOTHING, "once");
            assert_eq!(w.write(b"two"), Ok(3));
            assert_eq!(r.read(9), Ok(b"onetwo".to_vec()));
        }
    }
}

fn item_68_edge_triggered_end_of_file_is_an_event(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let registered = Registered::new(s, &r, EDGE);
        assert_eq!(w.write(b"left"), Ok(4));
        assert_eq!(registered.shows(), IN);
        w.close();
        assert_eq!(registered.shows(), IN | PollFlags::HUP);
        assert_eq!(registered.shows(), NOTHING, "once");
    }
}

fn item_69_edge_triggered_room_is_an_event(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        let registered = Registered::new(s, &w, EDGE);
        assert_eq!(registered.shows(), OUT, "at first");
        assert_eq!(registered.shows(), NOTHING, "once");
        for round in 0..3 {
            assert_eq!(w.write(&pattern(CAPACITY - PAGE)), Ok(CAPACITY - PAGE));
            drop(r.read_exactly(PAGE));
            assert_eq!(registered.shows(), NOTHING, "there was room before");
            assert_eq!(w.write(&[b'x'; 2 * PAGE]), Ok(2 * PAGE));
            assert_eq!(registered.shows(), NOTHING, "full");
            drop(r.read_exactly(PAGE));
            assert_eq!(registered.shows(), OUT, "room, round {round}");
            assert_eq!(registered.shows(), NOTHING, "once");
            drop(r.read_exactly(CAPACITY - PAGE));
            assert_eq!(registered.shows(), NOTHING, "there was room before");
        }
    }
}

/// As by mio and tokio: whoever was told `EAGAIN` hears of room.
fn item_69_edge_triggered_room_after_eagain_is_an_event(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        w.set_nonblocking(true);
        let registered = Registered::new(s, &w, EDGE);
        assert_eq!(registered.shows(), OUT, "at first");
        for round in 0..5 {
            while w.write(&[b'x'; PAGE]).is_ok() {}
            assert_eq!(registered.shows(), NOTHING, "full");
            drop(r.read_exactly(PAGE));
            assert_eq!(registered.shows(), OUT, "room, round {round}");
            assert_eq!(registered.shows(), NOTHING, "once");
        }
    }
}

fn item_69_edge_triggered_loss_of_the_readers_is_an_event(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        let registered = Registered::new(s, &w, EDGE);
        assert_eq!(registered.shows(), OUT);
        r.close();
        assert_eq!(registered.shows(), OUT | PollFlags::ERR);
        assert_eq!(registered.shows(), NOTHING, "once");
    }
}

const STREAM: usize = 1 << 20;

/// Pieces of many sizes, small and large, in an order that is always the same.
fn pieces(of: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rng = fastrand::Rng::with_seed(67);
    let mut rest = of;
    std::iter::from_fn(move || {
        let most = [1, 100, PAGE, 40_000][rng.usize(..4)];
        let (piece, others) = rest.split_at(rng.usize(1..=most).min(rest.len()));
        rest = others;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Reads until `EAGAIN`, waits, and so on, while a peer writes. Every byte comes; and a wait that
/// ends without a byte is never followed by another (on the kernel's pipe there is none).
fn read_in_a_loop<W: Fn(&Reader)>(s: Setting, wait: impl Fn() -> W) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.pipe();
        warm_up(s, &r, &w, warmth);
        read_pipe_in_a_loop(s, &r, w, wait());
    }
}

fn read_pipe_in_a_loop(s: Setting, r: &Reader, w: Writer, wait: impl Fn(&Reader)) {
    let writer = s.spawn(w, |w| {
        for (i, piece) in pieces(&pattern(STREAM)).enumerate() {
            assert_eq!(w.write(piece), Ok(piece.len()));
            if i % 5 == 0 {
                std::thread::yield_now();
            }
        }
    });
    r.set_nonblocking(true);
    let mut got = Vec::new();
    let mut idle = Idle::new(s);
    loop {
        wait(r);
        let before = got.len();
        let stopped_by = loop {
            match r.read(20_000) {
                Ok(some) if !some.is_empty() => got.extend(some),
                other => break other,
            }
        };
        match stopped_by {
            Ok(_) => break,
            Err(fail) => assert_eq!(fail, Fail::AGAIN),
        }
        idle.after_a_wait(got.len() > before);
    }
    assert!(got == pattern(STREAM), "{} of {STREAM} bytes", got.len());
    writer.join();
}

/// The other way round: writes until `EAGAIN`, waits, and so on, while a peer reads.
fn write_in_a_loop<W: Fn(&Writer)>(s: Setting, wait: impl Fn() -> W) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.pipe();
        warm_up(s, &r, &w, warmth);
        write_pipe_in_a_loop(s, r, w, wait());
    }
}

fn write_pipe_in_a_loop(s: Setting, r: Reader, w: Writer, wait: impl Fn(&Writer)) {
    let reader = s.spawn(r, |r| r.read_to_end() == pattern(STREAM));
    w.set_nonblocking(true);
    let mut idle = Idle::new(s);
    let stream = pattern(STREAM);
    for mut piece in pieces(&stream) {
        let mut waited = false;
        while !piece.is_empty() {
            let written: Outcome = w.write(piece);
            if waited {
                idle.after_a_wait(written.is_ok());
            }
            match written {
                Ok(count) => piece = &piece[count..],
                Err(fail) => assert_eq!(fail, Fail::AGAIN),
            }
            waited = written.is_err();
            if waited {
                wait(&w);
            }
        }
    }
    drop(w);
    assert!(reader.join(), "not the bytes that were written");
}

/// Counts waits that ended for nothing.
struct Idle {
    engine: Engine,
    in_a_row: u32,
}

impl Idle {
    fn new(s: Setting) -> Self {
        let engine = s.engine;
        Self {
            engine,
            in_a_row: 0,
        }
    }

    fn after_a_wait(&mut self, moved: bool) {
        self.in_a_row = if moved { 0 } else { self.in_a_row + 1 };
        let bound = u32::from(self.engine.is_standpipe());
        assert!(
            self.in_a_row <= bound,
            "woken for nothing, {} times in a row",
            self.in_a_row
        );
    }
}

/// Waits by an epoll instance in which the end is from the first wait on.
fn by_epoll<K>(events: EventFlags) -> impl Fn(&EndOf<K>) {
    let epoll = std::cell::OnceCell::new();
    move |end| {
        let register = || {
            let epoll = Epoll::new();
            epoll.add(end.pollable(), events).unwrap();
            epoll
        };
        epoll.get_or_init(register).wait(FOREVER).unwrap();
    }
}

fn by_poll<K>(end: &EndOf<K>) {
    use rustix::event::{PollFd, poll};
    let fd = raw::borrow(end.pollable());
    let mut fds = [PollFd::new(&fd, PollFlags::IN | PollFlags::OUT)];
    assert_eq!(poll(&mut fds, None), Ok(1));
}

const READY: EventFlags = EventFlags::IN.union(EventFlags::OUT);

fn item_67_a_level_loop_reads_every_byte(s: Setting) {
    read_in_a_loop(s, || by_epoll(READY));
}

fn item_67_a_level_loop_writes_every_byte(s: Setting) {
    write_in_a_loop(s, || by_epoll(READY));
}

fn item_67_a_poll_loop_reads_every_byte(s: Setting) {
    read_in_a_loop(s, || by_poll);
}

fn item_67_a_poll_loop_writes_every_byte(s: Setting) {
    write_in_a_loop(s, || by_poll);
}

fn item_68_an_edge_loop_reads_every_byte(s: Setting) {
    read_in_a_loop(s, || by_epoll(READY | EventFlags::ET));
}

fn item_69_an_edge_loop_writes_every_byte(s: Setting) {
    write_in_a_loop(s, || by_epoll(READY | EventFlags::ET));
}

fn item_70_oneshot_is_shown_once(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let registered = Registered::new(s, &r, ALL | EventFlags::ONESHOT);
        for _ in 0..2 {
            assert_eq!(w.write(b"x"), Ok(1));
            assert_eq!(registered.shows(), IN);
            assert_eq!(registered.shows(), NOTHING);
            assert_eq!(w.write(b"x"), Ok(1));
            assert_eq!(registered.shows(), NOTHING);
            let again = ALL | EventFlags::ONESHOT;
            registered.epoll.modify(registered.fd, again).unwrap();
            assert_eq!(registered.shows(), IN);
            drop(r.read_exactly(2));
            registered.epoll.modify(registered.fd, again).unwrap();
            assert_eq!(registered.shows(), NOTHING);
        }
    }
}

/// As by mio and tokio: armed anew after `EAGAIN`.
fn item_70_oneshot_is_shown_once_and_again_on_demand(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        r.set_nonblocking(true);
        let registered = Registered::new(s, &r, ALL | EventFlags::ONESHOT);
        for round in 0..5 {
            assert_eq!(r.read(9), Err(Fail::AGAIN));
            let again = ALL | EventFlags::ONESHOT;
            registered.epoll.modify(registered.fd, again).unwrap();
            assert_eq!(registered.shows(), NOTHING);
            assert_eq!(w.write(b"x"), Ok(1));
            assert_eq!(registered.shows(), IN, "round {round}");
            assert_eq!(w.write(b"x"), Ok(1));
            assert_eq!(registered.shows(), NOTHING, "once");
            registered.epoll.modify(registered.fd, again).unwrap();
            assert_eq!(registered.shows(), IN, "something is left");
            drop(r.read_exactly(2));
        }
    }
}

fn item_70_what_may_be_registered(s: Setting) {
    let (r, w) = s.pipe();
    let check = |fd: i32| {
        let epoll = Epoll::new();
        assert_eq!(epoll.modify(fd, ALL), Err(Fail::NOENT));
        assert_eq!(epoll.add(fd, ALL), Ok(()));
        assert_eq!(epoll.add(fd, ALL), Err(Fail::EXIST));
        let copy = raw::dup(fd).unwrap();
        assert_eq!(epoll.add(copy, ALL), Ok(()));
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(epoll.add(file.as_raw_fd(), ALL), Err(Fail::PERM));
        raw::close(copy).unwrap();
    };
    check(r.pollable());
    s.spawn(w, move |w| check(w.pollable())).join();
}

/// Whoever closes an end hears nothing more of it.
fn item_71_a_closed_end_is_not_shown(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        let epoll = Epoll::new();
        epoll.add(r.pollable(), ALL).unwrap();
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(epoll.now().len(), 1);
        drop(r);
        assert_eq!(epoll.now(), []);
        w.close();
        assert_eq!(epoll.now(), []);
    }
}

fn item_71_a_registration_lives_as_long_as_the_description(s: Setting) {
    let (r, w) = s.pipe_with(&Options::default());
    let copy = r.try_clone();
    let epoll = Epoll::new();
    epoll.add(r.fd(), ALL).unwrap();
    assert_eq!(w.write(b"x"), Ok(1));
    let registered = r.fd();
    drop(r);
    let now = epoll.wait(NOW).unwrap();
    assert_eq!(now.len(), 1, "the copy keeps it");
    assert_eq!(now[0].0, registered);
    drop(copy);
    assert_eq!(epoll.wait(Some(Duration::ZERO)), Ok(vec![]));
}
