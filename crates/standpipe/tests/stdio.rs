//! Standard input and output. One process has one of each: one test.

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use standpipe::{Input, Output};

/// Puts `fd` in the place of standard descriptor `number` while `body` runs.
fn with_standard(number: i32, fd: &impl AsRawFd, body: impl FnOnce()) {
    // SAFETY: dup(2) and dup2(2) touch no memory; nobody else uses the number meanwhile.
    let saved = unsafe { libc::dup(number) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(fd.as_raw_fd(), number) }, number);
    body();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(saved, number) }, number);
    // SAFETY: the copy is ours.
    unsafe { libc::close(saved) };
}

fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

fn is_private(fd: &impl AsFd) -> bool {
    let flags = rustix::io::fcntl_getfd(fd).unwrap();
    fd.as_fd().as_raw_fd() > 2 && flags.contains(rustix::io::FdFlags::CLOEXEC)
}

fn a_pipe_is_adopted() {
    let (reader, writer) = pipe();
    File::from(writer).write_all(b"to read").unwrap();
    with_standard(0, &reader, || {
        let mut input = standpipe::stdin().unwrap();
        assert!(is_private(&input));
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        assert_eq!(text, "to read");
        // The same description: the mode is shared.
        let end = input.into_pipe().unwrap();
        end.set_nonblocking(true).unwrap();
        let flags = rustix::fs::fcntl_getfl(std::io::stdin()).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    });

    let (reader, writer) = pipe();
    with_standard(1, &writer, || {
        let mut output = standpipe::stdout().unwrap();
        assert!(is_private(&output));
        assert!(matches!(output, Output::Pipe(_)));
        output.write_all(b"written").unwrap();
    });
    drop(writer);
    let mut text = String::new();
    File::from(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "written");
}

fn a_file_is_used_as_it_is() {
    let mut file = tempfile::tempfile().unwrap();
    with_standard(1, &file, || {
        let mut output = standpipe::stdout().unwrap();
        assert!(matches!(output, Output::Other(_)));
        output.write_all(b"text").unwrap();
        let error = output.into_pipe().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error
                .to_string()
                .starts_with("standard output (descriptor 1)"),
            "{error}"
        );
    });
    std::io::Seek::rewind(&mut file).unwrap();
    with_standard(0, &file, || {
        let mut input = standpipe::stdin().unwrap();
        assert!(matches!(input, Input::Other(_)));
        let mut text = String::new();
        input.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(
            input.into_pipe().unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

fn a_closed_one_is_named() {
    let (reader, _writer) = pipe();
    with_standard(0, &reader, || {
        // SAFETY: put there by us, put back by the caller.
        unsafe { libc::close(0) };
        let error = standpipe::stdin().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("standard input (descriptor 0) is closed"),
            "{error}"
        );
    });
}

#[test]
fn standard_descriptors_are_adopted() {
    a_pipe_is_adopted();
    a_file_is_used_as_it_is();
    a_closed_one_is_named();
}
