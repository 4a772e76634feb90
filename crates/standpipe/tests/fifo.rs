//! FIFOs: what standpipe adds to the kernel's rules is the wording, and the end.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use common::{handle, once_asleep, send};
use standpipe::fifo::{self, FifoError, Options};

fn cause(error: &std::io::Error) -> &FifoError {
    error.get_ref().unwrap().downcast_ref().unwrap()
}

fn errno(error: &std::io::Error) -> Option<i32> {
    cause(error)
        .errno
        .as_ref()
        .and_then(std::io::Error::raw_os_error)
}

#[test]
fn it_is_made_with_its_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o640).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    // The umask of whoever runs this takes bits away, adds none.
    assert_eq!(metadata.permissions().mode() & !0o010_640, 0);
    assert_eq!(metadata.permissions().mode() & 0o010_600, 0o010_600);

    let error = fifo::create(&path, 0o600).unwrap_err();
    assert_eq!(
        (error.kind(), errno(&error)),
        (ErrorKind::AlreadyExists, Some(libc::EEXIST))
    );
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    let error = fifo::create(dir.path().join("no/fifo"), 0o600).unwrap_err();
    assert_eq!(
        (error.kind(), errno(&error)),
        (ErrorKind::NotFound, Some(libc::ENOENT))
    );
    let error = fifo::create(dir.path().join("other"), 0o010_644).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("mode 10644, expected"),
        "{error}"
    );
}

#[test]
fn what_is_no_fifo_is_refused_by_its_name_and_kind() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let cases = [
        (file.as_path(), "a regular file"),
        (dir.path(), "a directory"),
        (socket.as_path(), "a socket"),
        ("/dev/null".as_ref(), "a character device"),
    ];
    for (path, kind) in cases {
        for result in [
            fifo::open_read(path),
            fifo::open_write(path),
            fifo::open_both(path),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let expected = format!("{}: it is {kind}, expected a FIFO", path.display());
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    let error = fifo::open_read(dir.path().join("none")).unwrap_err();
    assert_eq!(
        (error.kind(), errno(&error)),
        (ErrorKind::NotFound, Some(libc::ENOENT))
    );
}

#[test]
fn openers_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let mut writer = None;
    let reader = once_asleep(
        || fifo::open_read(&path).unwrap(),
        |_| writer = Some(fifo::open_write(&path).unwrap()),
    );
    assert!(reader.can_read() && !reader.can_write());
    let writer = writer.unwrap();
    assert!(writer.can_write() && !writer.can_read());
    (&writer).write_all(b"hello").unwrap();
    drop(writer);
    let mut text = String::new();
    (&reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn without_waiting_a_reader_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let options = Options::new().nonblocking(true);
    let error = options.open_write(&path).unwrap_err();
    assert_eq!(errno(&error), Some(libc::ENXIO));
    assert!(
        error.to_string().contains("nobody has it open to read"),
        "{error}"
    );
    let reader = options.open_read(&path).unwrap();
    assert_eq!((&reader).read(&mut [0; 8]).unwrap(), 0, "no writer so far");
    let writer = options.open_write(&path).unwrap();
    let error = (&reader).read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    drop(writer);
}

#[test]
fn an_end_for_both_meets_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let end = fifo::open_both(&path).unwrap();
    assert!(end.can_read() && end.can_write());
    (&end).write_all(b"x").unwrap();
    let mut byte = [0];
    (&end).read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
}

#[test]
fn descriptors_are_closed_on_exec_unless_asked_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    for (options, closes) in [
        (Options::new(), true),
        (Options::new().close_on_exec(false), false),
    ] {
        let end = options.open_both(&path).unwrap();
        let flags = rustix::io::fcntl_getfd(end.as_fd()).unwrap();
        assert_eq!(flags.contains(rustix::io::FdFlags::CLOEXEC), closes);
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_partner_and_leaves_nobody_counted() {
    handle(libc::SIGUSR1, 0);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo::create(&path, 0o600).unwrap();
    let error = once_asleep(
        || fifo::open_read(&path).unwrap_err(),
        |id| send(id, libc::SIGUSR1),
    );
    assert_eq!(
        (error.kind(), errno(&error)),
        (ErrorKind::Interrupted, Some(libc::EINTR))
    );
    let error = Options::new()
        .nonblocking(true)
        .open_write(&path)
        .unwrap_err();
    assert_eq!(errno(&error), Some(libc::ENXIO));
}
