//! No thread is ever started for what is no pipe, either. (Alone in its program: others' tests have
//! threads.)

#[cfg(feature = "file")]
#[path = "../../cache/tests/common/mod.rs"]
mod script;

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use standpipe::completion::{Operation, PollFlags, Ring};
use standpipe::fifo::{self, Access};
use standpipe::pipe::pipe;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn what_is_no_pipe_takes_no_thread() {
    others_take_none();
    #[cfg(feature = "file")]
    files_take_none();
}

/// FIFOs that are being opened, sockets, and what else may be waited for.
fn others_take_none() {
    let before = threads();
    let mut ring = Ring::new(8).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (token, access) in [(200, Access::Read), (201, Access::Write)] {
        let path = dir.path().join(token.to_string());
        fifo::create(&path, 0o600).unwrap();
        ring.submit(token, Operation::open_fifo(path, access))
            .unwrap();
    }
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let socket = ring.attach_foreign(OwnedFd::from(ours)).unwrap();
    ring.submit(202, Operation::read(socket, vec![0; 16]))
        .unwrap();
    ring.submit(203, Operation::write(socket, vec![0; 10 << 20]))
        .unwrap();
    let counter = eventfd(0, EventfdFlags::empty()).unwrap();
    let counter = ring.attach_foreign(counter).unwrap();
    ring.submit(204, Operation::read(counter, vec![0; 8]))
        .unwrap();
    let end = counter;
    let events = PollFlags::IN;
    ring.submit(205, Operation::Poll { end, events }).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    assert_eq!(threads(), before);
    theirs.write_all(b"x").unwrap();
    assert_eq!(ring.wait(None).unwrap().next().unwrap().token, 202);
    assert_eq!(threads(), before);
}

/// The store is another's affair: this one has none.
#[cfg(feature = "file")]
fn files_take_none() {
    let before = threads();
    let mut ring = Ring::new(8).unwrap();
    let store = script::Script::new("a", 1 << 20);
    store.hold();
    let cache = script::cache(64);
    let file = standpipe::file::Options::new().cache(&cache);
    let file = file.over(std::sync::Arc::clone(&store) as _).unwrap();
    let file = ring.attach_file(file).unwrap();
    let (_reader, writer) = pipe().unwrap();
    let end = ring.attach(writer);
    let read = Operation::read_at(file, 100, vec![0; 16]);
    ring.submit(300, read).unwrap();
    let splice = Operation::Splice {
        file,
        offset: None,
        end,
        bytes: 1 << 20,
    };
    ring.submit(301, splice).unwrap();
    assert!(ring.reap().unwrap().next().is_none());
    assert_eq!(threads(), before);
    store.release_all();
    assert_eq!(ring.wait(None).unwrap().next().unwrap().token, 300);
    assert_eq!(threads(), before);
}
