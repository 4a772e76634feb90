//! What is special about standpipe's descriptors: when they have the lane, and what happens when
//! something is done to them behind its back.

mod common;

use std::ffi::{c_int, c_void};
use std::io::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use standpipe_capi::{
    SP_PEER_CANCELLED, SP_PEER_CLOSED, SP_PEER_DIED, SP_PEER_OPEN, sp_adopt, sp_cancel, sp_close,
    sp_close_reason, sp_dup, sp_dup2, sp_fcntl, sp_forget, sp_open, sp_pipe, sp_read, sp_stats,
    sp_use_kernel, sp_write,
};

/// Tests of this file know which numbers are free: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pipe() -> [c_int; 2] {
    let mut fds = [-1; 2];
    // SAFETY: there is room for two numbers.
    assert_eq!(unsafe { sp_pipe(fds.as_mut_ptr()) }, 0);
    fds
}

fn read(fd: c_int, bytes: usize) -> Result<Vec<u8>, i32> {
    let mut buffer = vec![0_u8; bytes];
    // SAFETY: the buffer has that room.
    let n = unsafe { sp_read(fd, buffer.as_mut_ptr().cast(), bytes) };
    buffer.truncate(usize::try_from(n).map_err(|_| errno())?);
    Ok(buffer)
}

fn write(fd: c_int, bytes: &[u8]) -> Result<usize, i32> {
    // SAFETY: the bytes are there.
    let n = unsafe { sp_write(fd, bytes.as_ptr().cast::<c_void>(), bytes.len()) };
    usize::try_from(n).map_err(|_| errno())
}

fn stats(fd: c_int) -> Result<sp_stats, i32> {
    let mut stats = sp_stats::default();
    // SAFETY: the struct has its size.
    match unsafe { sp_stats(fd, &raw mut stats, size_of::<sp_stats>()) } {
        0 => Ok(stats),
        _ => Err(errno()),
    }
}

fn errno() -> i32 {
    Error::last_os_error().raw_os_error().unwrap()
}

fn null() -> c_int {
    // SAFETY: a path.
    let fd = unsafe { sp_open(c"/dev/null".as_ptr(), libc::O_RDONLY, 0) };
    assert!(fd >= 0);
    fd
}

fn close_all(fds: &[c_int]) {
    for fd in fds {
        assert_eq!(sp_close(*fd), 0);
    }
}

/// Closes a number as code does that does not know standpipe.
fn close_behind_its_back(fd: c_int) {
    // SAFETY: ours to close.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

fn flow(reader: c_int, writer: c_int, bytes: usize) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let piece = [7; 8192];
            for _ in 0..bytes / piece.len() {
                assert_eq!(write(writer, &piece), Ok(piece.len()));
            }
        });
        let mut left = bytes;
        while left > 0 {
            left -= read(reader, left.min(65536)).unwrap().len();
        }
    });
}

const FLOW_BYTES: usize = 4 << 20;

#[test]
fn bytes_between_ends_take_the_lane() {
    let _alone = alone();
    let [reader, writer] = pipe();
    flow(reader, writer, FLOW_BYTES);
    let stats = stats(reader).unwrap();
    assert!(stats.lane_bytes > FLOW_BYTES as u64 / 2, "{stats:?}");
    let copy = sp_dup(reader);
    flow(copy, writer, FLOW_BYTES);
    let both = crate::stats(copy).unwrap();
    assert!(
        both.lane_bytes > stats.lane_bytes + FLOW_BYTES as u64 / 2,
        "{both:?}"
    );
    close_all(&[reader, writer, copy]);
}

#[test]
fn a_pipe_given_to_the_kernel_has_no_lane_any_more() {
    let _alone = alone();
    let [reader, writer] = pipe();
    assert_eq!(write(writer, b"in order"), Ok(8));
    assert_eq!(sp_use_kernel(writer), 0);
    let mut fds = [libc::pollfd {
        fd: reader,
        events: libc::POLLIN,
        revents: 0,
    }];
    // SAFETY: one entry.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), 1, 0) };
    assert_eq!(ready, 1, "the kernel's pipe has it");
    assert_eq!(read(reader, 100), Ok(b"in order".to_vec()));
    flow(reader, writer, 1 << 20);
    assert_eq!(stats(reader).unwrap().lane_bytes, 0);
    close_all(&[reader, writer]);
}

#[test]
fn descriptors_of_others_are_refused_by_name() {
    let _alone = alone();
    let fd = null();
    assert_eq!(stats(fd).unwrap_err(), libc::EINVAL);
    assert_eq!((sp_adopt(fd), errno()), (-1, libc::EINVAL));
    assert_eq!(sp_close(fd), 0);
    assert_eq!(stats(fd).unwrap_err(), libc::EBADF);
    assert_eq!((sp_adopt(fd), errno()), (-1, libc::EBADF));
    assert_eq!((sp_adopt(-1), errno()), (-1, libc::EBADF));
}

#[test]
fn ends_made_by_others_are_adopted_when_first_used() {
    let _alone = alone();
    let mut fds = [-1; 2];
    // SAFETY: there is room for two numbers.
    assert_eq!(unsafe { libc::pipe(fds.as_mut_ptr()) }, 0);
    assert_eq!(write(fds[1], b"x"), Ok(1));
    assert_eq!(stats(fds[0]).unwrap().unread_bytes, 1);
    flow(fds[0], fds[1], FLOW_BYTES);
    let stats = stats(fds[1]).unwrap();
    assert!(stats.lane_bytes > 0, "{stats:?}");
    assert_eq!(
        read(fds[0], 1),
        Ok(vec![7]),
        "in order: what was first is long gone"
    );
    close_all(&fds);
}

/// What was a file may be a pipe when its number is given out by others: adopt says so.
#[test]
fn a_number_that_was_foreign_can_be_adopted() {
    let _alone = alone();
    let fd = null();
    assert_eq!(read(fd, 1), Ok(vec![]));
    close_behind_its_back(fd);
    let mut fds = [-1; 2];
    // SAFETY: there is room for two numbers.
    assert_eq!(unsafe { libc::pipe(fds.as_mut_ptr()) }, 0);
    assert_eq!(fds[0], fd, "the lowest free number");
    assert_eq!(stats(fd).unwrap_err(), libc::EINVAL, "nobody told");
    assert_eq!(write(fds[1], b"still right"), Ok(11));
    assert_eq!(read(fd, 100), Ok(b"still right".to_vec()));
    assert_eq!(sp_adopt(fd), 0);
    assert_eq!(stats(fd).unwrap().unread_bytes, 0);
    close_all(&fds);
}

#[test]
fn a_number_closed_behind_our_back_is_what_it_is_given_out_for() {
    let _alone = alone();
    let [reader, writer] = pipe();
    assert_eq!(write(writer, b"old"), Ok(3));
    close_behind_its_back(reader);
    let file = null();
    assert_eq!(file, reader, "the lowest free number");
    assert_eq!(read(file, 10), Ok(vec![]), "a file, not the old pipe");
    close_behind_its_back(file);
    let mut again = pipe();
    assert_eq!(again[0], reader);
    assert_eq!(write(again[1], b"new"), Ok(3));
    assert_eq!(read(again[0], 10), Ok(b"new".to_vec()));

    // Given out by others: they tell.
    close_behind_its_back(again[0]);
    // SAFETY: a path.
    let raw = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) };
    assert_eq!(raw, again[0]);
    assert_eq!(sp_forget(raw), raw);
    assert_eq!(read(raw, 10), Ok(vec![]));
    again[0] = raw;
    close_all(&[again[0], again[1], writer]);
}

/// Waits until a thread of this process sleeps in a system call. See `/proc/pid/task` in proc(5).
fn until_asleep(thread: rustix::process::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_pid());
    let state = || std::fs::read_to_string(&path).unwrap();
    while !state().rsplit_once(") ").unwrap().1.starts_with('S') {
        std::thread::yield_now();
    }
}

/// The number can't become another file while somebody is asleep in a call on it; nothing is lost.
#[test]
fn dup2_onto_a_sleeper_is_refused() {
    let _alone = alone();
    let [reader, writer] = pipe();
    let file = null();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            send.send(rustix::thread::gettid()).unwrap();
            read(reader, 10)
        });
        until_asleep(receive.recv().unwrap());
        assert_eq!((sp_dup2(file, reader), errno()), (-1, libc::EBUSY));
        assert_eq!(write(writer, b"served"), Ok(6));
        assert_eq!(sleeper.join().unwrap(), Ok(b"served".to_vec()));
    });
    assert_eq!(sp_dup2(file, reader), reader);
    assert_eq!(read(reader, 10), Ok(vec![]));
    close_all(&[reader, writer, file]);
}

/// Closed under a sleeper, a number is closed for everybody else, and taken until the sleeper leaves.
#[test]
fn a_number_closed_under_a_sleeper_stays_taken() {
    let _alone = alone();
    let [reader, writer] = pipe();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            send.send(rustix::thread::gettid()).unwrap();
            read(reader, 10)
        });
        until_asleep(receive.recv().unwrap());
        assert_eq!(sp_close(reader), 0);
        assert_eq!(read(reader, 1), Err(libc::EBADF));
        assert_eq!((sp_close(reader), errno()), (-1, libc::EBADF));
        let file = null();
        assert_ne!(file, reader);
        assert_eq!(sp_close(file), 0);
        assert_eq!(write(writer, b"served"), Ok(6));
        assert_eq!(sleeper.join().unwrap(), Ok(b"served".to_vec()));
    });
    let file = null();
    assert_eq!(file, reader, "free again");
    close_all(&[file, writer]);
}

fn reason(fd: c_int) -> sp_close_reason {
    let mut reason = sp_close_reason::default();
    // SAFETY: the struct has its size.
    let status = unsafe { sp_close_reason(fd, &raw mut reason, size_of_val(&reason)) };
    assert_eq!(status, 0);
    reason
}

/// What is said of a writer in another process that leaves in this way, after many bytes.
fn reason_after(leave: fn(c_int)) -> (sp_close_reason, c_int) {
    let _alone = alone();
    let [reader, writer] = pipe();
    // SAFETY: the child calls what it may call after a fork, and ends with _exit or a signal.
    let child = unsafe { libc::fork() };
    if child == 0 {
        sp_close(reader);
        for _ in 0..FLOW_BYTES / 8192 {
            let _ = write(writer, &[7; 8192]);
        }
        leave(writer);
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    assert_eq!(sp_close(writer), 0);
    while read(reader, 65536) != Ok(vec![]) {}
    let reason = reason(reader);
    assert_eq!(sp_close(reader), 0);
    // SAFETY: our child; the status is not wanted.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    (reason, child)
}

#[test]
fn the_close_reason_tells_how_the_last_peer_left() {
    let (closed, child) = reason_after(|fd| _ = sp_close(fd));
    assert_eq!((closed.kind, closed.pid), (SP_PEER_CLOSED, child));
    assert_eq!(closed.committed_bytes, FLOW_BYTES as u64);
    let (cancelled, child) = reason_after(|fd| _ = sp_cancel(fd));
    assert_eq!((cancelled.kind, cancelled.pid), (SP_PEER_CANCELLED, child));
    let (died, child) = reason_after(|_| {
        // SAFETY: no memory is involved.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    assert_eq!((died.kind, died.pid), (SP_PEER_DIED, child));
    // The end of the stream may be seen before there is a status to be asked for.
    assert!([0, libc::SIGKILL].contains(&died.signal), "{died:?}");
}

#[test]
fn the_close_reason_of_a_pipe_that_is_open() {
    let _alone = alone();
    let [reader, writer] = pipe();
    assert_eq!(
        (reason(reader).kind, reason(writer).kind),
        (SP_PEER_OPEN, SP_PEER_OPEN)
    );
    close_all(&[reader, writer]);
}

/// A struct of another version: the end that we don't know is zero, the end that it hasn't is not
/// written.
#[test]
fn stats_fill_structs_of_other_sizes() {
    let _alone = alone();
    let [reader, writer] = pipe();
    assert_eq!(write(writer, b"abc"), Ok(3));
    let mut words = [u64::MAX; 64];
    // SAFETY: the words have that room.
    let status = unsafe { sp_stats(reader, words.as_mut_ptr().cast(), 16) };
    assert_eq!((status, &words[..3]), (0, &[65536, 3, u64::MAX][..]));
    // SAFETY: the words have that room.
    let status = unsafe { sp_stats(reader, words.as_mut_ptr().cast(), 504) };
    assert_eq!(
        (status, words[1], words[62], words[63]),
        (0, 3, 0, u64::MAX)
    );
    close_all(&[reader, writer]);
}

/// Numbers far beyond any table are the kernel's.
#[test]
fn numbers_out_of_range_are_closed_ones() {
    for fd in [-1, i32::MIN, i32::MAX, 1 << 20] {
        assert_eq!(read(fd, 1), Err(libc::EBADF), "{fd}");
        // SAFETY: nothing is there.
        let status = unsafe { sp_fcntl(fd, libc::F_GETPIPE_SZ, 0) };
        assert_eq!((status, errno()), (-1, libc::EBADF), "{fd}");
        assert_eq!((sp_close(fd), errno()), (-1, libc::EBADF), "{fd}");
    }
}
