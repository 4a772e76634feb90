//! poll and select (items 53 to 66).
//!
//! The combinations are exact: all bits are asked for, and what comes back is compared.

use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::process::Signal;

use super::{CAPACITY, PAGE, fill, pattern, warm_up};
use crate::ends::{Both, Reader, Writer, kind};
use crate::fail::Fail;
use crate::remote::{Remote, Warmth};
use crate::setting::Setting;
use crate::suite::behaviours;
use crate::watch::{FOREVER, NOW};
use crate::{raw, signals};

behaviours! {
    by_descriptor("typed ends do not poll"):
        item_53_read_end_shows_data_and_nothing_else,
        item_54_read_end_with_data_and_no_writer,
        item_55_read_end_without_data_and_writer_is_hup_alone,
        item_56_write_end_shows_room_and_nothing_else,
        item_57_write_end_without_readers_is_err,
        item_58_hup_and_err_come_unasked,
        item_58_negative_descriptors_are_skipped_closed_ones_are_nval,
        item_59_the_wrong_direction_is_0,
        item_60_a_fifo_open_for_both_never_hangs_up,
        item_61_a_reader_that_never_met_a_writer_shows_nothing,
        item_62_hup_goes_with_the_next_writer_and_comes_back,
        item_63_a_reader_that_came_after_the_writer_shows_nothing,
        item_64_select_asks_three_questions,
        item_65_pollers_wake_on_data,
        item_65_pollers_wake_on_room,
        item_65_pollers_wake_when_the_peer_is_gone,
        item_65_pollers_wake_on_capacity,
        item_65_one_byte_wakes_every_poller,
        item_65_a_timeout_ends_the_wait;
    by_descriptor("typed ends do not poll"),
    by_calls("a wait for completions goes on where handlers ask for that"):
        item_66_a_handler_interrupts_poll_and_select;
    kernel("splice and tee move bytes of the kernel's pipe"):
        item_65_pollers_wake_on_splice_and_tee;
}

const NOTHING: PollFlags = PollFlags::empty();
const IN: PollFlags = PollFlags::IN.union(PollFlags::RDNORM);
const OUT: PollFlags = PollFlags::OUT.union(PollFlags::WRNORM);
const HUP: PollFlags = PollFlags::HUP;
const ERR: PollFlags = PollFlags::ERR;

/// With the read end here, in a new pipe and in one that was used.
fn with_reader_here(s: Setting, check: impl Fn(Reader, Remote<kind::Write>)) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.reader_here(warmth);
        check(r, w);
    }
}

/// With the write end here, in a new pipe and in one that was used.
fn with_writer_here(s: Setting, check: impl Fn(Remote<kind::Read>, Writer)) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.writer_here(warmth);
        check(r, w);
    }
}

fn item_53_read_end_shows_data_and_nothing_else(s: Setting) {
    with_reader_here(s, |r, w| {
        assert_eq!(r.events(), NOTHING);
        assert_eq!(w.write(b"two"), Ok(3));
        assert_eq!(r.events(), IN);
        assert_eq!(r.read(1), Ok(b"t".to_vec()));
        assert_eq!(r.events(), IN, "something is left");
        assert_eq!(r.events(), IN, "asking changes nothing");
        assert_eq!(r.read(9), Ok(b"wo".to_vec()));
        assert_eq!(r.events(), NOTHING);
    });
}

fn item_54_read_end_with_data_and_no_writer(s: Setting) {
    with_reader_here(s, |r, w| {
        assert_eq!(w.write(b"left"), Ok(4));
        w.close();
        assert_eq!(r.events(), IN | HUP);
        assert_eq!(r.read(3), Ok(b"lef".to_vec()));
        assert_eq!(r.events(), IN | HUP);
    });
}

fn item_55_read_end_without_data_and_writer_is_hup_alone(s: Setting) {
    with_reader_here(s, |r, w| {
        assert_eq!(w.write(b"left"), Ok(4));
        w.close();
        assert_eq!(r.read(9), Ok(b"left".to_vec()));
        assert_eq!(r.events(), HUP);
        assert_eq!(r.read(9), Ok(vec![]));
        assert_eq!(r.events(), HUP);
    });
}

fn item_56_write_end_shows_room_and_nothing_else(s: Setting) {
    with_writer_here(s, |r, w| {
        assert_eq!(w.events(), OUT);
        assert_eq!(w.write(&[b'x'; PAGE]), Ok(PAGE));
        assert_eq!(w.events(), OUT);
        assert_eq!(w.write(&pattern(CAPACITY - PAGE)), Ok(CAPACITY - PAGE));
        assert_eq!(w.events(), NOTHING, "full");
        drop(r.read_exactly(PAGE));
        assert_eq!(w.events(), OUT);
    });
}

fn item_57_write_end_without_readers_is_err(s: Setting) {
    with_writer_here(s, |r, w| {
        r.close();
        assert_eq!(w.events(), OUT | ERR);
    });
    with_writer_here(s, |r, w| {
        fill(&w);
        r.close();
        assert_eq!(w.events(), ERR, "full");
    });
}

fn item_58_hup_and_err_come_unasked(s: Setting) {
    with_reader_here(s, |r, w| {
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(r.events_of(NOTHING), NOTHING);
        w.close();
        assert_eq!(r.events_of(NOTHING), HUP);
        assert_eq!(r.events_of(PollFlags::IN), PollFlags::IN | HUP);
        assert_eq!(r.events_of(PollFlags::RDNORM), PollFlags::RDNORM | HUP);
    });
    with_writer_here(s, |r, w| {
        assert_eq!(w.events_of(NOTHING), NOTHING);
        assert_eq!(w.events_of(PollFlags::WRNORM), PollFlags::WRNORM);
        r.close();
        assert_eq!(w.events_of(NOTHING), ERR);
    });
}

fn item_58_negative_descriptors_are_skipped_closed_ones_are_nval(s: Setting) {
    with_reader_here(s, |r, w| {
        let closed = raw::dup(r.fd()).unwrap();
        raw::close(closed).unwrap();
        let ask = || {
            let watched = [(&r).into(), (-1).into(), closed.into()];
            s.poll(watched.map(|watched| (watched, PollFlags::all())), FOREVER)
        };
        assert_eq!(ask(), Ok((1, [NOTHING, NOTHING, PollFlags::NVAL])));
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(ask(), Ok((2, [IN, NOTHING, PollFlags::NVAL])));
        let nobody = [((-1).into(), PollFlags::all())];
        assert_eq!(s.poll(nobody, NOW), Ok((0, [NOTHING])));
    });
}

fn item_59_the_wrong_direction_is_0(s: Setting) {
    with_reader_here(s, |r, w| {
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(r.events_of(OUT), NOTHING);
        w.close();
        assert_eq!(r.events_of(OUT), HUP);
    });
    with_writer_here(s, |r, w| {
        assert_eq!(w.events_of(IN), NOTHING);
        r.close();
        assert_eq!(w.events_of(IN), ERR);
    });
}

fn item_60_a_fifo_open_for_both_never_hangs_up(s: Setting) {
    let path = s.fifo();
    let both: Both = s.open(&path, OFlags::RDWR).unwrap();
    assert_eq!(both.events(), OUT, "empty");
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    assert_eq!(w.write(b"x"), Ok(1));
    assert_eq!(both.events(), IN | OUT);
    assert_eq!(w.write(&pattern(CAPACITY - 1)), Ok(CAPACITY - 1));
    assert_eq!(both.events(), IN, "full");
    w.close();
    assert_eq!(both.events(), IN);
    drop(both.read_exactly(CAPACITY));
    assert_eq!(both.events(), OUT, "and nobody else");
}

const READ_NOW: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

fn item_61_a_reader_that_never_met_a_writer_shows_nothing(s: Setting) {
    let path = s.fifo();
    let check = move |()| {
        let r: Reader = s.open(&path, READ_NOW).unwrap();
        assert_eq!(r.events(), NOTHING);
        let selected = s.select([((&r).into(), [true; 3])], NOW);
        assert_eq!(selected, Ok((0, [[false; 3]])));
        assert_eq!(r.read(1), Ok(vec![]), "although it would not wait");
        assert_eq!(r.events(), NOTHING);
    };
    check.clone()(());
    s.spawn((), check).join();
}

fn item_62_hup_goes_with_the_next_writer_and_comes_back(s: Setting) {
    let path = s.fifo();
    let r: Reader = s.open(&path, READ_NOW).unwrap();
    for round in 0..3 {
        let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
        assert_eq!(r.events(), NOTHING, "a writer, round {round}");
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(r.events(), IN);
        assert_eq!(r.read(1), Ok(b"x".to_vec()));
        w.close();
        assert_eq!(r.events(), HUP, "no writer, round {round}");
    }
}

fn item_63_a_reader_that_came_after_the_writer_shows_nothing(s: Setting) {
    let path = s.fifo();
    let old: Reader = s.open(&path, READ_NOW).unwrap();
    s.remote_open::<kind::Write>(&path, OFlags::WRONLY).close();
    let new: Remote<kind::Read> = s.remote_open(&path, READ_NOW);
    assert_eq!(old.events(), HUP);
    assert_eq!(new.events(), NOTHING);
    let w: Remote<kind::Write> = s.remote_open(&path, OFlags::WRONLY);
    w.close();
    assert_eq!((old.events(), new.events()), (HUP, HUP));
}

fn item_64_select_asks_three_questions(s: Setting) {
    let of_reader = |r: &Reader| s.select([(r.into(), [true; 3])], NOW).unwrap();
    with_reader_here(s, |r, w| {
        assert_eq!(of_reader(&r), (0, [[false, false, false]]));
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(of_reader(&r), (1, [[true, false, false]]));
        assert_eq!(r.read(1), Ok(b"x".to_vec()));
        assert_eq!(of_reader(&r), (0, [[false, false, false]]));
        w.close();
        assert_eq!(of_reader(&r), (1, [[true, false, false]]), "end of file");
    });
    let of_writer = |w: &Writer| s.select([(w.into(), [true; 3])], NOW).unwrap();
    with_writer_here(s, |r, w| {
        assert_eq!(of_writer(&w), (1, [[false, true, false]]));
        fill(&w);
        assert_eq!(of_writer(&w), (0, [[false, false, false]]));
        r.close();
        assert_eq!(of_writer(&w), (2, [[true, true, false]]), "no reader");
    });
    with_reader_here(s, |r, w| {
        w.close();
        let waited = s.spawn(r, move |r| s.select([((&r).into(), [true; 3])], FOREVER));
        assert_eq!(waited.join(), Ok((1, [[true, false, false]])));
    });
}

/// A poller is asleep; it reports the bits that woke it.
type Poller = crate::peer::Peer<(Result<u16, Fail>, usize)>;

/// Waits for `wanted`, then reads a byte or writes one if that is what it waited for.
fn poller<K: crate::remote::Remotely>(
    s: Setting,
    end: crate::ends::EndOf<K>,
    wanted: PollFlags,
) -> Poller {
    let poller = s.spawn(end, move |end| {
        let came = s.wait_for(&end, wanted).map(|came| came.bits());
        let moved =
            K::read(&end, 1).map_or(0, |bytes| bytes.len()) + K::write(&end, b"x").unwrap_or(0);
        (came, moved)
    });
    poller.until_asleep();
    poller
}

fn item_65_pollers_wake_on_data(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.pipe();
        warm_up(s, &r, &w, warmth);
        let waiting = poller(s, r, PollFlags::IN);
        assert_eq!(w.write(b"x"), Ok(1));
        assert_eq!(waiting.join(), (Ok(PollFlags::IN.bits()), 1));
    }
}

fn item_65_pollers_wake_on_room(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.pipe();
        warm_up(s, &r, &w, warmth);
        fill(&w);
        let waiting = poller(s, w, PollFlags::OUT);
        drop(r.read_exactly(PAGE));
        assert_eq!(waiting.join(), (Ok(PollFlags::OUT.bits()), 1));
    }
}

fn item_65_pollers_wake_when_the_peer_is_gone(s: Setting) {
    signals::ignore(Signal::PIPE);
    for warmth in Warmth::BOTH {
        for wanted in [PollFlags::IN, NOTHING] {
            let (r, w) = s.pipe();
            warm_up(s, &r, &w, warmth);
            let waiting = poller(s, r, wanted);
            drop(w);
            assert_eq!(waiting.join(), (Ok(HUP.bits()), 0));
        }
        for wanted in [PollFlags::OUT, NOTHING] {
            let (r, w) = s.pipe();
            warm_up(s, &r, &w, warmth);
            fill(&w);
            let waiting = poller(s, w, wanted);
            drop(r);
            assert_eq!(waiting.join(), (Ok(ERR.bits()), 0));
        }
    }
}

fn item_65_pollers_wake_on_capacity(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.pipe();
        warm_up(s, &r, &w, warmth);
        fill(&w);
        let waiting = poller(s, w, PollFlags::OUT);
        assert_eq!(r.set_capacity_bytes(2 * CAPACITY), Ok(2 * CAPACITY));
        assert_eq!(waiting.join(), (Ok(PollFlags::OUT.bits()), 1));
    }
}

fn item_65_one_byte_wakes_every_poller(s: Setting) {
    for warmth in Warmth::BOTH {
        let (r, w) = s.pipe();
        warm_up(s, &r, &w, warmth);
        let wait = |r| {
            s.spawn(r, move |r: Reader| {
                s.wait_for(&r, IN).map(|came| came.bits())
            })
        };
        let pollers = [wait(r.try_clone()), wait(r)];
        pollers.iter().for_each(crate::peer::Peer::until_asleep);
        assert_eq!(w.write(b"x"), Ok(1));
        for poller in pollers {
            assert_eq!(poller.join(), Ok(IN.bits()));
        }
    }
}

fn item_65_a_timeout_ends_the_wait(s: Setting) {
    with_reader_here(s, |r, _w| {
        let soon = Some(std::time::Duration::from_millis(1));
        let polled = s.poll([((&r).into(), PollFlags::all())], soon);
        assert_eq!(polled, Ok((0, [NOTHING])));
        let selected = s.select([((&r).into(), [true; 3])], soon);
        assert_eq!(selected, Ok((0, [[false; 3]])));
    });
}

fn item_65_pollers_wake_on_splice_and_tee(s: Setting) {
    use rustix::pipe::{SpliceFlags, splice, tee};
    let fd = |end: i32| raw::borrow(end);
    let (source, feed) = s.pipe();
    assert_eq!(feed.write(b"ab"), Ok(2));
    for teed in [true, false] {
        let (r, w) = s.pipe();
        let waiting = poller(s, r, PollFlags::IN);
        let (from, to) = (fd(source.fd()), fd(w.fd()));
        let moved = if teed {
            tee(from, to, 1, SpliceFlags::empty())
        } else {
            splice(from, None, to, None, 1, SpliceFlags::empty())
        };
        assert_eq!(moved, Ok(1));
        assert_eq!(waiting.join(), (Ok(PollFlags::IN.bits()), 1));
    }
    let (r, w) = s.pipe();
    fill(&w);
    let waiting = poller(s, w, PollFlags::OUT);
    let sink = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let moved = splice(fd(r.fd()), None, &sink, None, PAGE, SpliceFlags::empty());
    assert_eq!(moved, Ok(PAGE));
    assert_eq!(waiting.join(), (Ok(PollFlags::OUT.bits()), 1));
}

fn item_66_a_handler_interrupts_poll_and_select(s: Setting) {
    for restart in [false, true] {
        signals::handle(Signal::USR1, restart);
        for warmth in Warmth::BOTH {
            let (r, w) = s.pipe();
            warm_up(s, &r, &w, warmth);
            let polls = s.spawn(r.try_clone(), move |r| s.wait_for(&r, IN).map(drop));
            let selects = s.spawn(r, move |r| {
                s.select([((&r).into(), [true; 3])], FOREVER).map(drop)
            });
            for waiting in [polls, selects] {
                waiting.until_asleep();
                waiting.signal(Signal::USR1);
                assert_eq!(waiting.join(), Err(Fail::INTR), "SA_RESTART: {restart}");
            }
        }
    }
}
