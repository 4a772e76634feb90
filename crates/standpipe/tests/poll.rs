//! poll and select: the same states, asked of standpipe and of the kernel.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use common::{ends, fds, fill, once_asleep};
use standpipe::end::End;
use standpipe::poll::{Entry, Interest, PollFlags, SelectEntry, Source, poll, select};

const NOW: Option<Duration> = Some(Duration::ZERO);

/// A number that no test opens.
const CLOSED: RawFd = 900_000;

/// What is done to a fresh pipe.
#[derive(Clone, Copy, Debug)]
struct State {
    bytes: Bytes,
    has_reader: bool,
    has_writer: bool,
}

#[derive(Clone, Copy, Debug)]
enum Bytes {
    None,
    Some,
    Full,
}

fn states() -> impl Iterator<Item = State> {
    let kinds = [Bytes::None, Bytes::Some, Bytes::Full];
    let peers = [(true, true), (true, false), (false, true)];
    kinds.into_iter().flat_map(move |bytes| {
        peers.map(|(has_reader, has_writer)| State {
            bytes,
            has_reader,
            has_writer,
        })
    })
}

/// Every set of events a caller may think of.
fn wishes() -> Vec<PollFlags> {
    let exotic = PollFlags::PRI | PollFlags::RDBAND | PollFlags::WRBAND | PollFlags::RDHUP;
    vec![
        PollFlags::empty(),
        PollFlags::IN,
        PollFlags::OUT,
        PollFlags::IN | PollFlags::OUT,
        PollFlags::RDNORM,
        PollFlags::WRNORM,
        exotic,
        exotic | PollFlags::IN | PollFlags::OUT | PollFlags::RDNORM | PollFlags::WRNORM,
    ]
}

impl State {
    fn standpipe(self) -> (Option<End>, Option<End>) {
        let (reader, writer) = ends();
        match self.bytes {
            Bytes::None => {}
            Bytes::Some => (&writer).write_all(b"some").unwrap(),
            Bytes::Full => fill(&writer),
        }
        (
            self.has_reader.then_some(reader),
            self.has_writer.then_some(writer),
        )
    }

    fn kernel(self) -> (Option<File>, Option<File>) {
        let (reader, writer) = fds();
        let (reader, mut writer) = (File::from(reader), File::from(writer));
        match self.bytes {
            Bytes::None => {}
            Bytes::Some => writer.write_all(b"some").unwrap(),
            Bytes::Full => fill(&writer),
        }
        (
            self.has_reader.then_some(reader),
            self.has_writer.then_some(writer),
        )
    }
}

/// What the kernel says. See poll(2).
fn ask_kernel(fd: &impl AsRawFd, wanted: PollFlags) -> PollFlags {
    let mut fds = [libc::pollfd {
        fd: fd.as_raw_fd(),
        events: wanted.bits().cast_signed(),
        revents: 0,
    }];
    // SAFETY: one entry, ours.
    assert!(unsafe { libc::poll(fds.as_mut_ptr(), 1, 0) } >= 0);
    PollFlags::from_bits_retain(fds[0].revents.cast_unsigned())
}

/// What the kernel says. See select(2).
fn ask_kernel_select(fd: &impl AsRawFd, wanted: Interest) -> (i32, Interest) {
    let fd = fd.as_raw_fd();
    // SAFETY: all bits zero are an empty set.
    let mut sets: [libc::fd_set; 3] = unsafe { std::mem::zeroed() };
    for (set, is_in) in sets
        .iter_mut()
        .zip([wanted.read, wanted.write, wanted.except])
    {
        if is_in {
            // SAFETY: the number is small, in a test.
            unsafe { libc::FD_SET(fd, set) };
        }
    }
    let mut now = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let [r, w, x] = &mut sets;
    // SAFETY: sets and time are ours.
    let count = unsafe { libc::select(fd + 1, r, w, x, &raw mut now) };
    // SAFETY: as above.
    let [read, write, except] = sets
        .each_ref()
        .map(|set| unsafe { libc::FD_ISSET(fd, set) });
    (
        count,
        Interest {
            read,
            write,
            except,
        },
    )
}

fn interests() -> impl Iterator<Item = Interest> {
    (0..8).map(|n| Interest {
        read: n & 1 > 0,
        write: n & 2 > 0,
        except: n & 4 > 0,
    })
}

fn check_like_kernel(what: &str, end: &End, oracle: &File) {
    for wanted in wishes() {
        let expected = ask_kernel(oracle, wanted);
        let mut entries = [Entry::new(end, wanted)];
        let count = poll(&mut entries, NOW, None).unwrap();
        assert_eq!(entries[0].revents, expected, "{what}, wanted {wanted:?}");
        assert_eq!(
            count,
            usize::from(!expected.is_empty()),
            "{what}, wanted {wanted:?}"
        );
    }
    for wanted in interests() {
        let (count, expected) = ask_kernel_select(oracle, wanted);
        let mut entries = [SelectEntry::new(end, wanted)];
        let ours = select(&mut entries, NOW, None).unwrap();
        assert_eq!(entries[0].ready, expected, "{what}, wanted {wanted:?}");
        assert_eq!(i32::try_from(ours), Ok(count), "{what}, wanted {wanted:?}");
    }
}

#[test]
fn events_of_each_state_are_the_kernels() {
    for state in states() {
        let (reader, writer) = state.standpipe();
        let (kernel_reader, kernel_writer) = state.kernel();
        if let (Some(end), Some(oracle)) = (&reader, &kernel_reader) {
            check_like_kernel(&format!("reader, {state:?}"), end, oracle);
        }
        if let (Some(end), Some(oracle)) = (&writer, &kernel_writer) {
            check_like_kernel(&format!("writer, {state:?}"), end, oracle);
        }
    }
}

struct Fifo {
    path: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Fifo {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        standpipe::fifo::create(&path, 0o600).unwrap();
        Self { path, _dir: dir }
    }

    fn open(&self, access: rustix::fs::OFlags) -> OwnedFd {
        let flags = access | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::open(&self.path, flags, rustix::fs::Mode::empty()).unwrap()
    }
}

#[test]
fn a_fifo_opened_for_both_reports_what_it_can_do_and_never_a_loss() {
    use rustix::fs::OFlags;
    for bytes in [Bytes::None, Bytes::Some, Bytes::Full] {
        let (ours, theirs) = (Fifo::new(), Fifo::new());
        let end = End::from_fd(ours.open(OFlags::RDWR)).unwrap();
        let mut oracle = File::from(theirs.open(OFlags::RDWR));
        match bytes {
            Bytes::None => {}
            Bytes::Some => {
                (&end).write_all(b"x").unwrap();
                oracle.write_all(b"x").unwrap();
            }
            Bytes::Full => {
                fill(&end);
                fill(&oracle);
            }
        }
        check_like_kernel(&format!("O_RDWR, {bytes:?}"), &end, &oracle);
    }
}

#[test]
fn the_hang_up_of_a_fifo_comes_and_goes_with_its_writers() {
    use rustix::fs::OFlags;
    let (ours, theirs) = (Fifo::new(), Fifo::new());
    let end = End::from_fd(ours.open(OFlags::RDONLY)).unwrap();
    let oracle = File::from(theirs.open(OFlags::RDONLY));
    let check = |what| check_like_kernel(what, &end, &oracle);
    check("no writer so far");
    let writers = [ours.open(OFlags::WRONLY), theirs.open(OFlags::WRONLY)];
    check("a writer is there");
    drop(writers);
    check("it has left");
    let second = End::from_fd(ours.open(OFlags::RDONLY)).unwrap();
    let second_oracle = File::from(theirs.open(OFlags::RDONLY));
    check_like_kernel("a second reader", &second, &second_oracle);
    let writers = [ours.open(OFlags::WRONLY), theirs.open(OFlags::WRONLY)];
    check("the next writer");
    check_like_kernel("the next writer, second reader", &second, &second_oracle);
    drop(writers);
    check("it has left, too");
    check_like_kernel("it has left, too, second reader", &second, &second_oracle);
}

#[test]
fn ends_and_others_are_asked_together() {
    let (reader, writer) = ends();
    let (kernel_reader, kernel_writer) = fds();
    (&writer).write_all(b"x").unwrap();
    let mut entries = [
        Entry::new(Source::Foreign(-1), PollFlags::IN),
        Entry::new(&reader, PollFlags::IN),
        Entry::new(kernel_reader.as_fd(), PollFlags::IN),
        Entry::new(Source::Foreign(CLOSED), PollFlags::empty()),
        Entry::new(kernel_writer.as_fd(), PollFlags::OUT | PollFlags::WRNORM),
        Entry::new(&writer, PollFlags::empty()),
    ];
    // Left over from a call before: to be overwritten.
    entries[0].revents = PollFlags::IN;
    assert_eq!(poll(&mut entries, None, None).unwrap(), 3);
    assert_eq!(
        entries.map(|entry| entry.revents),
        [
            PollFlags::empty(),
            PollFlags::IN,
            PollFlags::empty(),
            PollFlags::NVAL,
            PollFlags::OUT | PollFlags::WRNORM,
            PollFlags::empty(),
        ]
    );
}

#[test]
fn select_counts_members_of_all_sets_and_refuses_a_closed_one() {
    let all = Interest {
        read: true,
        write: true,
        except: true,
    };
    let (reader, writer) = ends();
    drop(reader);
    let (_kernel_reader, kernel_writer) = fds();
    let mut entries = [
        SelectEntry::new(&writer, all),
        SelectEntry::new(kernel_writer.as_fd(), all),
    ];
    assert_eq!(select(&mut entries, None, None).unwrap(), 3);
    assert_eq!(
        entries[0].ready,
        Interest {
            except: false,
            ..all
        }
    );
    assert_eq!(
        entries[1].ready,
        Interest {
            write: true,
            ..Interest::default()
        }
    );

    let mut entries = [
        SelectEntry::new(&writer, all),
        SelectEntry::new(Source::Foreign(CLOSED), all),
    ];
    let error = select(&mut entries, None, None).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}

#[test]
fn nothing_in_time_is_none_ready() {
    let short = Some(Duration::from_millis(5));
    let (reader, writer) = ends();
    let (kernel_reader, _kernel_writer) = fds();
    let mut entries = [
        Entry::new(&reader, PollFlags::IN),
        Entry::new(kernel_reader.as_fd(), PollFlags::IN),
    ];
    assert_eq!(poll(&mut entries, short, None).unwrap(), 0);
    assert_eq!(poll(&mut [], short, None).unwrap(), 0);
    // The wrong way round, nothing ever comes while the peer lives.
    let mut entries = [
        Entry::new(&reader, PollFlags::OUT),
        Entry::new(&writer, PollFlags::IN),
    ];
    assert_eq!(poll(&mut entries, short, None).unwrap(), 0);
    // And for the write set of select not even with the peer gone: a hang-up does not count.
    drop(writer);
    let wanted = Interest {
        write: true,
        ..Interest::default()
    };
    assert_eq!(
        select(&mut [SelectEntry::new(&reader, wanted)], short, None).unwrap(),
        0
    );
}

fn poll_one(end: &End, wanted: PollFlags) -> PollFlags {
    let mut entries = [Entry::new(end, wanted)];
    assert_eq!(poll(&mut entries, None, None).unwrap(), 1);
    entries[0].revents
}

#[test]
fn a_sleeper_wakes_for_bytes_room_and_loss() {
    let (reader, writer) = ends();
    let sleeper = || poll_one(&reader, PollFlags::IN);
    let events = once_asleep(sleeper, |_| (&writer).write_all(b"x").unwrap());
    assert_eq!(events, PollFlags::IN);

    fill(&writer);
    let drain = |_| while (&reader).read(&mut [0; 4096]).is_ok() {};
    let events = once_asleep(|| poll_one(&writer, PollFlags::OUT), drain);
    assert_eq!(events, PollFlags::OUT);

    let sleeper = || poll_one(&reader, PollFlags::IN);
    assert_eq!(once_asleep(sleeper, |_| drop(writer)), PollFlags::HUP);
    let (reader, writer) = ends();
    fill(&writer);
    let sleeper = || poll_one(&writer, PollFlags::OUT);
    assert!(once_asleep(sleeper, |_| drop(reader)).contains(PollFlags::ERR));
}

#[test]
fn a_sleeper_that_asks_for_nothing_wakes_for_the_loss_alone() {
    for wanted in [PollFlags::empty(), PollFlags::OUT] {
        let (reader, writer) = ends();
        let events = once_asleep(
            || poll_one(&reader, wanted),
            |id| {
                (&writer).write_all(b"x").unwrap();
                common::wait_asleep(id);
                drop(writer);
            },
        );
        assert_eq!(events, PollFlags::HUP);
    }
    for wanted in [PollFlags::empty(), PollFlags::IN] {
        let (reader, writer) = ends();
        let events = once_asleep(|| poll_one(&writer, wanted), |_| drop(reader));
        assert_eq!(events, PollFlags::ERR);
    }
}

#[test]
fn a_sleeper_on_many_wakes_for_a_foreign_one_and_for_any_end() {
    let (first, _first_writer) = ends();
    let (second, second_writer) = ends();
    let (foreign, foreign_writer) = fds();
    let wait = || {
        let mut entries = [
            Entry::new(&first, PollFlags::IN),
            Entry::new(&second, PollFlags::IN),
            Entry::new(foreign.as_fd(), PollFlags::IN),
        ];
        assert_eq!(poll(&mut entries, None, None).unwrap(), 1);
        entries.map(|entry| !entry.revents.is_empty())
    };
    let events = once_asleep(wait, |_| {
        rustix::io::write(&foreign_writer, b"x").unwrap();
    });
    assert_eq!(events, [false, false, true]);
    rustix::io::read(&foreign, &mut [0; 1]).unwrap();
    let events = once_asleep(wait, |_| (&second_writer).write_all(b"x").unwrap());
    assert_eq!(events, [false, true, false]);
}

#[test]
fn a_sleeper_in_select_wakes_for_bytes_of_either_kind_and_for_loss() {
    let read = Interest {
        read: true,
        ..Interest::default()
    };
    let (reader, writer) = ends();
    let (foreign, foreign_writer) = fds();
    let wait = || {
        let mut entries = [
            SelectEntry::new(&reader, read),
            SelectEntry::new(foreign.as_fd(), read),
        ];
        assert_eq!(select(&mut entries, None, None).unwrap(), 1);
        entries.map(|entry| entry.ready.read)
    };
    let events = once_asleep(wait, |_| {
        rustix::io::write(&foreign_writer, b"x").unwrap();
    });
    assert_eq!(events, [false, true]);
    rustix::io::read(&foreign, &mut [0; 1]).unwrap();
    assert_eq!(
        once_asleep(wait, |_| (&writer).write_all(b"x").unwrap()),
        [true, false]
    );
    (&reader).read_exact(&mut [0; 1]).unwrap();
    assert_eq!(once_asleep(wait, |_| drop(writer)), [true, false]);

    // The read set of a write end: the loss of the readers.
    let (reader, writer) = ends();
    let wait = || {
        let mut entries = [SelectEntry::new(&writer, read)];
        select(&mut entries, None, None).unwrap()
    };
    assert_eq!(once_asleep(wait, |_| drop(reader)), 1);
}

/// An end for both that may write into a lane, which somebody else reads.
fn end_for_both(fifo: &Fifo, has_lane: bool) -> (End, End) {
    use rustix::fs::OFlags;
    let end = End::from_fd(fifo.open(OFlags::RDWR)).unwrap();
    let reader = End::from_fd(fifo.open(OFlags::RDONLY)).unwrap();
    if has_lane {
        reader.set_nonblocking(false).unwrap();
        once_asleep(
            || (&reader).read_exact(&mut [0]).unwrap(),
            |_| (&end).write_all(b"x").unwrap(),
        );
        reader.set_nonblocking(true).unwrap();
    }
    (end, reader)
}

#[test]
fn a_sleeper_on_an_end_for_both_wakes_for_room() {
    for has_lane in [false, true] {
        let fifo = Fifo::new();
        let (end, reader) = end_for_both(&fifo, has_lane);
        let drain = |_| while (&reader).read(&mut [0; 4096]).is_ok() {};
        fill(&end);
        let events = once_asleep(|| poll_one(&end, PollFlags::OUT), drain);
        assert_eq!(events, PollFlags::OUT);
        fill(&end);
        let wanted = Interest {
            write: true,
            ..Interest::default()
        };
        let wait = || select(&mut [SelectEntry::new(&end, wanted)], None, None).unwrap();
        assert_eq!(once_asleep(wait, drain), 1);
    }
}
