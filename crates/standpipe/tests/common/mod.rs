//! What the tests share.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use standpipe::end::End;

/// An adopted pipe, non-blocking.
pub fn ends() -> (End, End) {
    let (reader, writer) = fds();
    (End::from_fd(reader).unwrap(), End::from_fd(writer).unwrap())
}

/// The kernel's, non-blocking.
pub fn fds() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

/// Brings a pipe into its lane. What looks like sleep may be a wait for something else: until a write
/// went there.
pub fn into_the_lane(reader: &End, writer: &End) {
    let mut byte = [0];
    while writer.stats().bytes == 0 {
        once_asleep(
            || (&*reader).read_exact(&mut byte).unwrap(),
            |_| (&*writer).write_all(b"x").unwrap(),
        );
    }
}

/// Writes until there is no room.
pub fn fill(mut writer: impl Write) {
    loop {
        match writer.write(&[0; 4096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// How often the same nap must be seen: a page fault can look like one, but not for long.
const SIGHTINGS: usize = 5;

/// Waits until the thread sleeps in the kernel, and stays asleep.
pub fn wait_asleep(thread_id: i32) {
    let path = format!("/proc/self/task/{thread_id}/status");
    let (mut last, mut sightings) = (None, 0);
    while sightings < SIGHTINGS {
        let status = std::fs::read_to_string(&path).unwrap();
        let field = |name| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap()
        };
        // Every nap begins with a switch.
        let nap = (field("State:").trim_start().starts_with('S'))
            .then(|| field("voluntary_ctxt_switches:").to_owned());
        sightings = if nap.is_some() && nap == last {
            sightings + 1
        } else {
            0
        };
        last = nap;
        std::thread::yield_now();
    }
}

/// Runs `sleeper` in a thread, and `then` once it sleeps. Gives what the sleeper gave.
pub fn once_asleep<T: Send>(sleeper: impl FnOnce() -> T + Send, then: impl FnOnce(i32)) -> T {
    let (ids, id) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            ids.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            sleeper()
        });
        let id = id.recv().unwrap();
        wait_asleep(id);
        then(id);
        thread.join().unwrap()
    })
}

extern "C" fn ignore(_signal: i32) {}

/// Installs a handler that does nothing.
pub fn handle(signal: i32, flags: i32) {
    // SAFETY: all bits zero are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    action.sa_flags = flags;
    // SAFETY: the handler does nothing; the old one is not wanted.
    let status = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(status, 0);
}

/// Sends a signal to a thread of this process.
pub fn send(thread_id: i32, signal: i32) {
    let process_id = std::process::id();
    // SAFETY: the numbers of a thread that is there, and of a signal.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, process_id, thread_id, signal) };
    assert_eq!(status, 0);
}
