//! A pipe that does without its lane meets nobody any more.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use standpipe::end::End;

/// Somebody who looks for others that hold the pipe.
fn caller() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

#[test]
fn a_reader_that_sleeps_hangs_up_on_callers_and_sleeps_on() {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let stat = rustix::fs::fstat(&writer).unwrap();
    let name = format!("standpipe/1/{}/{}", stat.st_dev, stat.st_ino);
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let mut writer = std::fs::File::from(writer);
    let reader = End::from_fd(reader).unwrap();
    let caller = caller();
    // It takes the name when it has read some bytes.
    while connect(&caller, &address).is_err() {
        writer.write_all(&[0; 4096]).unwrap();
        (&reader).read_exact(&mut [0; 4096]).unwrap();
    }
    reader.use_kernel().unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| (&reader).read_exact(&mut [0]).unwrap());
        let mut fds = [PollFd::new(&caller, PollFlags::IN)];
        let long = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let heard = poll(&mut fds, Some(&long)).unwrap();
        writer.write_all(b"x").unwrap();
        sleeper.join().unwrap();
        assert_eq!(
            heard, 1,
            "the caller was left waiting, and the reader woken without end"
        );
    });
}
