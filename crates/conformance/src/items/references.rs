//! References: fork, dup, exec, death, passing (items 52, 95 to 99).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::{fill, pattern};
use crate::ends::{Reader, Writer};
use crate::engine::Options;
use crate::fail::Fail;
use crate::peer::{fork, wait};
use crate::setting::{PeerKind, Setting};
use crate::suite::behaviours;
use crate::{raw, signals};

behaviours! {
    everywhere():
        item_52_unread_bytes_outlive_their_writer,
        item_52_unread_bytes_outlive_one_of_two_readers,
        item_95_eof_only_when_every_copy_is_gone,
        item_95_a_reader_with_its_own_copy_waits_forever,
        item_95_bytes_and_end_of_file_come_from_a_peers_peer,
        item_95_forks_while_bytes_flow_change_nothing,
        item_97_exec_closes_close_on_exec_ends,
        item_97_exec_keeps_the_other_ends,
        item_98_dup2_onto_the_last_write_descriptor_closes_it,
        item_99_a_write_end_in_a_message_is_open,
        item_99_dropping_the_message_closes_it;
    processes("threads die together"):
        item_96_killed_writer_is_end_of_file,
        item_96_killed_reader_is_epipe;
}

fn item_52_unread_bytes_outlive_their_writer(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(s.spawn(w, |w| w.write(&pattern(60_000))).join(), Ok(60_000));
    assert!(s.spawn(r, |r| r.read_to_end()).join() == pattern(60_000));
}

fn item_52_unread_bytes_outlive_one_of_two_readers(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(s.spawn(w, |w| w.write(&pattern(60_000))).join(), Ok(60_000));
    assert_eq!(
        s.spawn(r.try_clone(), |r| r.read_exactly(1000)).join(),
        pattern(60_000)[..1000]
    );
    assert!(r.read_to_end() == pattern(60_000)[1000..]);
}

/// A peer that keeps an end until its own stdin-like pipe ends.
fn hold_until_end(s: Setting, end: impl crate::ends::Ends) -> (crate::peer::Peer<()>, Writer) {
    let (until, release) = s.pipe();
    let holder = s.spawn((end, until), |(end, until): (_, Reader)| {
        assert_eq!(until.read(1), Ok(vec![]));
        drop(end);
    });
    (holder, release)
}

fn item_95_eof_only_when_every_copy_is_gone(s: Setting) {
    let (r, w) = s.pipe();
    let (holder, release) = hold_until_end(s, w.try_clone());
    let copy = w.try_clone();
    let reader = s.spawn(r, |r| r.read(1));
    for copy in [w, copy] {
        reader.until_asleep();
        drop(copy);
    }
    reader.until_asleep();
    holder.until_asleep();
    drop(release);
    holder.join();
    assert_eq!(reader.join(), Ok(vec![]));
}

fn item_95_a_reader_with_its_own_copy_waits_forever(s: Setting) {
    signals::handle(Signal::USR1, false);
    let (r, w) = s.pipe();
    let reader = s.spawn((r, w.try_clone()), |(r, w)| {
        let forever = r.read(1);
        drop(w);
        (forever, r.read(1))
    });
    reader.until_asleep();
    drop(w);
    reader.until_asleep();
    reader.signal(Signal::USR1);
    assert_eq!(reader.join(), (Err(Fail::INTR), Ok(vec![])));
}

fn item_95_bytes_and_end_of_file_come_from_a_peers_peer(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(b"parent,"), Ok(7));
    let child = s.spawn(w, move |w| {
        assert_eq!(w.write(b"child,"), Ok(6));
        s.spawn(w, |w| w.write(b"grandchild")).join()
    });
    assert_eq!(child.join(), Ok(10));
    assert_eq!(r.read_to_end(), b"parent,child,grandchild");
}

/// Children that inherit copies of both ends and exit, while threads write and read.
fn item_95_forks_while_bytes_flow_change_nothing(s: Setting) {
    const BYTES: usize = 4 << 20;
    let s = Setting {
        peers: PeerKind::Thread,
        ..s
    };
    let (r, w) = s.pipe();
    let reader = s.spawn(r, |r| r.read_to_end());
    let writer = s.spawn(w, |w| {
        pattern(BYTES)
            .chunks(3000)
            .for_each(|piece| assert_eq!(w.write(piece), Ok(piece.len())));
    });
    for _ in 0..50 {
        let child = fork(|| ());
        assert_eq!(wait(child).exit_status(), Some(0));
    }
    writer.join();
    assert!(
        reader.join() == pattern(BYTES),
        "not the bytes that were written"
    );
}

fn item_96_killed_writer_is_end_of_file(s: Setting) {
    let (r, w) = s.pipe();
    let (holder, _release) = hold_until_end(s, w);
    let reader = s.spawn(r.try_clone(), |r| r.read(1));
    reader.until_asleep();
    holder.until_asleep();
    holder.kill();
    assert_eq!(reader.join(), Ok(vec![]), "asleep when it happened");
    assert_eq!(r.read(1), Ok(vec![]), "reads after it happened");

    // Killed while it sleeps in a write that had queued part of its bytes.
    let (r, w) = s.pipe();
    let writer = s.spawn(w, |w| w.write(&pattern(100_000)));
    writer.until_asleep();
    writer.kill();
    assert!(
        r.read_to_end() == pattern(super::CAPACITY),
        "not what was queued"
    );
}

fn item_96_killed_reader_is_epipe(s: Setting) {
    signals::ignore(Signal::PIPE);
    let (r, w) = s.pipe();
    let reader = s.spawn(r, |r| r.read(1));
    reader.until_asleep();
    reader.kill();
    assert_eq!(w.write(b"x"), Err(Fail::PIPE), "writes after it happened");

    let (r, w) = s.pipe();
    let (holder, _release) = hold_until_end(s, r);
    fill(&w);
    let writer = s.spawn(w, |w| w.write(b"x"));
    writer.until_asleep();
    holder.until_asleep();
    holder.kill();
    assert_eq!(writer.join(), Err(Fail::PIPE), "asleep when it happened");
}

fn item_97_exec_closes_close_on_exec_ends(s: Setting) {
    let (r, w) = s.pipe_with(&Options {
        close_on_exec: true,
        ..Options::default()
    });
    // `spawn` returns after the exec.
    let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    drop(w);
    assert_eq!(r.read(1), Ok(vec![]));
    drop(cat.stdin.take());
    assert!(cat.wait().unwrap().success());
}

fn item_97_exec_keeps_the_other_ends(s: Setting) {
    let (r, w) = s.pipe();
    let reader = s.spawn(r, |r| r.read(1));
    let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    drop(w);
    reader.until_asleep();
    drop(cat.stdin.take());
    assert!(cat.wait().unwrap().success());
    assert_eq!(reader.join(), Ok(vec![]));
}

fn item_98_dup2_onto_the_last_write_descriptor_closes_it(s: Setting) {
    let (r, w) = s.pipe();
    assert_eq!(w.write(b"last"), Ok(4));
    let reader = s.spawn(r, |r| (r.read(10), r.read(10)));
    reader.until_asleep();
    let null = File::open("/dev/null").unwrap();
    assert_eq!(raw::dup2(null.as_raw_fd(), w.fd()), Ok(w.fd()));
    assert_eq!(reader.join(), (Ok(b"last".to_vec()), Ok(vec![])));
}

fn item_99_a_write_end_in_a_message_is_open(s: Setting) {
    let (r, w) = s.pipe();
    let (mine, its) = UnixStream::pair().unwrap();
    assert_eq!(w.write(b"before,"), Ok(7));
    let w = w.into_fd();
    raw::send_rights(&mine, &[w.as_raw_fd()]);
    drop(w);
    assert_eq!(r.read_exactly(7), b"before,");
    let reader = s.spawn(r, |r| (r.read(9), r.read(9)));
    reader.until_asleep();
    let received = raw::receive_rights(&its).remove(0);
    reader.until_asleep();
    assert_eq!(rustix::io::write(&received, b"after"), Ok(5));
    drop(received);
    assert_eq!(reader.join(), (Ok(b"after".to_vec()), Ok(vec![])));
}

fn item_99_dropping_the_message_closes_it(s: Setting) {
    let (r, w) = s.pipe();
    let (mine, its) = UnixStream::pair().unwrap();
    let w = w.into_fd();
    raw::send_rights(&mine, &[w.as_raw_fd()]);
    drop(w);
    // Before the reader forks off with copies of the sockets.
    r.set_nonblocking(true);
    assert_eq!(r.read(1), Err(Fail::AGAIN));
    drop((mine, its));
    let reader = s.spawn(r, |r| r.read(1));
    assert_eq!(reader.join(), Ok(vec![]));
}
