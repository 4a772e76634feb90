//! Guests that are none, or not for this host.

use std::io;
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::pipe::pipe;
use standpipe_shm::rendezvous::message::{Bytes, Hello, Reply, VERSION};
use standpipe_shm::rendezvous::{Answer, Refusal};

use super::support::{
    NOW, alone, answer, arrange, borrow, events, guest, heard, hello, host, parts, raw, refuse, say,
};

#[test]
fn another_version_and_another_pid_namespace_are_told_so() {
    let _alone = alone();
    let (reader, _writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut later: Bytes = hello().encode();
    later[4] += 1;
    let elsewhere = Hello {
        pid_namespace: hello().pid_namespace + 1,
        ..hello()
    };
    for (bytes, refusal) in [
        (later, Refusal::Version { host: VERSION }),
        (elsewhere.encode(), Refusal::Namespace),
    ] {
        let stranger = raw(&reader).unwrap();
        say(&stranger, &bytes, &[]);
        assert_eq!(host.serve(|| panic!("nobody to let in")), 0);
        assert_eq!(heard(&stranger), Some(Reply::Refusal(refusal)));
        assert_eq!(heard(&stranger), None);
    }
}

#[test]
fn nonsense_is_hung_up_on_and_descriptors_with_it_are_closed() {
    let _alone = alone();
    let (reader, _writer) = pipe().unwrap();
    let mut host = host(&reader);
    let good = hello().encode();
    let too_long = [&good[..], &[0]].concat();
    let huge = vec![0x53; 100_000];
    for bytes in [&good[..15], &too_long, &huge, b"GET / HTTP/1.1\r\n", &[0]] {
        let stranger = raw(&reader).unwrap();
        send(&stranger, bytes, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(host.serve(|| panic!("nobody to let in")), 0);
        assert_eq!(heard(&stranger), None, "{bytes:?}");
    }
    // even with a good hello, descriptors are not received
    let (watched, sent) = pipe().unwrap();
    let stranger = raw(&reader).unwrap();
    say(&stranger, &good, &[sent.as_fd()]);
    drop(sent);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert_eq!(events(watched.as_fd(), &NOW), PollFlags::HUP);
}

#[test]
fn silent_strangers_cost_a_bounded_number_of_descriptors() {
    let _alone = alone();
    let (reader, writer) = pipe().unwrap();
    let mut host = host(&reader);
    let mut flood = Vec::new();
    for _ in 0..4 {
        // nobody looks: after a while nobody gets in, and nobody else takes the name
        let busy = loop {
            match raw(&reader) {
                Ok(stranger) => flood.push(stranger),
                Err(error) => break error,
            }
        };
        assert_eq!(busy, Errno::AGAIN);
        let error = arrange(&writer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(host.serve(refuse), 0);
    }
    assert!(flood.len() > 200);
    let connected = flood
        .iter()
        .filter(|stranger| !events(stranger.as_fd(), &NOW).contains(PollFlags::HUP))
        .count();
    assert_eq!(connected, 16);
    let mut guest = guest(&writer);
    let offered = parts();
    assert_eq!(host.serve(|| Some(borrow(&offered))), 1);
    assert!(matches!(answer(&mut guest), Answer::Welcome(_)));
}
