//! What `make install` leaves works: headers in C and C++, pkg-config, both libraries.

mod common;

use std::path::Path;
use std::process::Command;

use common::{check, compiler, manifest_dir};

/// A program of strangers, with pkg-config's flags.
const PROGRAM: &str = r#"
#include <standpipe.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int main(int count, char **arguments)
{
    int fds[2], sockets[2];
    char text[6] = {0};
    struct sp_stats stats;
    struct sp_close_reason reason;
    struct sp_ring *ring;
    struct sp_completion done;
    if (sp_pipe(fds) != 0 || sp_write(fds[1], "hello", 5) != 5)
        return 1;
    if (sp_stats(fds[0], &stats, sizeof stats) != 0 || stats.unread_bytes != 5)
        return 2;
    if (sp_read(fds[0], text, 5) != 5 || strcmp(text, "hello") != 0)
        return 3;
    if (sp_close_reason(fds[0], &reason, sizeof reason) != 0 || reason.kind != SP_PEER_OPEN)
        return 4;
    if (sp_ring_create(4, &ring) != 0 || sp_ring_read(ring, 7, fds[0], text, 5) != 0)
        return 5;
    if (sp_write(fds[1], "there", 5) != 5 || sp_ring_wait(ring, &done, 1, NULL) != 1)
        return 6;
    if (done.token != 7 || done.result != 5 || strcmp(text, "there") != 0)
        return 7;
    if (count != 2 || mkfifo(arguments[1], 0600) != 0)
        return 9;
    if (sp_ring_open(ring, 8, arguments[1], O_RDWR | O_CLOEXEC) != 0 || sp_ring_reap(ring, &done, 1) != 1)
        return 10;
    if (done.token != 8 || sp_stats((int)done.result, &stats, sizeof stats) != 0 || sp_close((int)done.result) != 0)
        return 11;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || sp_ring_read(ring, 9, sockets[0], text, 5) != 0)
        return 12;
    if (sp_write(sockets[1], "again", 5) != 5 || sp_ring_wait(ring, &done, 1, NULL) != 1)
        return 13;
    if (done.token != 9 || done.result != 5 || strcmp(text, "again") != 0)
        return 14;
    if (sp_close(sockets[0]) != 0 || sp_close(sockets[1]) != 0)
        return 15;
    sp_ring_destroy(ring);
    if (sp_close(fds[1]) != 0 || sp_read(fds[0], text, 5) != 0)
        return 8;
    return sp_close(fds[0]);
}
"#;

#[test]
fn an_installed_tree_works() {
    let root = tempfile::tempdir().unwrap();
    let prefix = root.path();
    install(prefix, "");
    let source = prefix.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();

    let flags = pkg_config(prefix, &["--cflags", "--libs"]);
    assert!(flags.contains(&"-lstandpipe".to_owned()), "{flags:?}");
    let shared = prefix.join("shared");
    let rpath = format!("-Wl,-rpath,{}", prefix.join("lib").display());
    check(
        compiler("cc")
            .arg(&source)
            .args(&flags)
            .arg(rpath)
            .arg("-o")
            .arg(&shared),
    );
    check(Command::new(&shared).arg(prefix.join("fifo-of-shared")));
    let needed = check(Command::new("readelf").arg("-d").arg(&shared));
    assert!(needed.contains("[libstandpipe.so.0.1]"), "{needed}");

    // Without the shared library only the static one can be meant.
    for entry in std::fs::read_dir(prefix.join("lib")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().contains(".so") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let fixed = prefix.join("static");
    let flags = pkg_config(prefix, &["--static", "--cflags", "--libs"]);
    check(
        compiler("cc")
            .arg(&source)
            .args(&flags)
            .arg("-o")
            .arg(&fixed),
    );
    check(Command::new(&fixed).arg(prefix.join("fifo-of-static")));
}

/// What is packaged elsewhere than where it will be used knows where it will be used.
#[test]
fn destdir_is_not_part_of_the_prefix() {
    let root = tempfile::tempdir().unwrap();
    install(Path::new("/opt/standpipe"), root.path().to_str().unwrap());
    let file = root.path().join("opt/standpipe/lib/pkgconfig/standpipe.pc");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with("prefix=/opt/standpipe\n"), "{text}");
    assert!(
        root.path()
            .join("opt/standpipe/include/standpipe/posix.h")
            .exists()
    );
}

#[test]
fn a_relative_prefix_is_refused() {
    let output = Command::new(manifest_dir().join("../../scripts/capi.sh"))
        .args(["install", "here"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("'here', expected an absolute path"),
        "{errors}"
    );
}

fn install(prefix: &Path, destdir: &str) {
    check(
        Command::new("make")
            .current_dir(manifest_dir().join("../.."))
            .env("STANDPIPE_PROFILE", common::profile().0)
            .arg("install")
            .arg(format!("PREFIX={}", prefix.display()))
            .arg(format!("DESTDIR={destdir}")),
    );
}

fn pkg_config(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = check(command.args(arguments).arg("standpipe"));
    flags.split_whitespace().map(str::to_owned).collect()
}
