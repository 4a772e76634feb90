//! Compiling and running C programs against the library as it was just built.
#![allow(dead_code, reason = "not every test needs everything")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use standpipe_shm::sync::{AtomicUsize, Ordering};

/// The C compiler's flags for all programs. They pass wrong arguments on purpose.
pub const FLAGS: [&str; 7] = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-nonnull",
    "-Wno-stringop-overflow",
    "-Wno-unused-result",
    "-pthread",
];

/// Seconds that a program may take: only one that hangs takes so many.
const LIMIT_SECONDS: &str = "120";

pub fn manifest_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where this test puts what it makes.
pub fn scratch() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// The profile of this build, as Cargo is told it, and the folder that it has.
pub fn profile() -> (String, String) {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test
        .parent()
        .and_then(Path::parent)
        .and_then(Path::file_name);
    let folder = folder
        .expect("it lies in the profile's folder")
        .to_string_lossy()
        .into_owned();
    let profile = if folder == "debug" { "dev" } else { &folder };
    (profile.to_owned(), folder)
}

/// The static library. Cargo puts it to where it can be found only when it is asked for it.
fn static_library() -> PathBuf {
    let (profile, folder) = profile();
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--package=standpipe-capi",
        "--profile",
        &profile,
    ]);
    check(build.current_dir(manifest_dir()));
    let target = scratch();
    let target = target.parent().expect("it is a folder of the target's");
    target.join(folder).join("libstandpipe_capi.a")
}

/// The folder of the shared library, linked once.
pub fn shared_library() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = scratch().join(format!("lib-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the folder can be made");
        let mut link = Command::new(manifest_dir().join("../../scripts/capi.sh"));
        link.arg("link").arg(static_library()).arg(&dir);
        check(&mut link);
        dir
    })
}

/// Runs something that has to succeed; returns what it printed.
pub fn check(command: &mut Command) -> String {
    let program = command.get_program().to_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}. These tests need a C and a C++ compiler, make and pkg-config: \
             apt-get install gcc g++ make pkg-config",
            program.display()
        )
    });
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    String::from_utf8(output.stdout).expect("it prints text")
}

/// A compiler.
pub fn compiler(name: &str) -> Command {
    let mut compiler = Command::new(name);
    compiler.args(FLAGS);
    compiler
}

/// Compiles a program of `tests/c` as it is, for the kernel.
pub fn for_kernel(source: &str) -> PathBuf {
    let program = program_path(source, "kernel");
    check(started(source).arg("-o").arg(&program));
    program
}

/// Compiles a program of `tests/c` with all its calls remapped.
pub fn for_standpipe(source: &str) -> PathBuf {
    with_library(source, "standpipe", &["-include", "standpipe/posix.h"])
}

/// Compiles a program of `tests/c`, or one elsewhere, that calls standpipe by name.
pub fn by_name(source: &str) -> PathBuf {
    with_library(source, "by-name", &[])
}

fn with_library(source: &str, kind: &str, flags: &[&str]) -> PathBuf {
    let program = program_path(source, kind);
    let lib = shared_library();
    let mut compiler = started(source);
    compiler.arg("-I").arg(manifest_dir().join("include"));
    compiler.args(flags);
    compiler.arg("-L").arg(lib).arg("-lstandpipe");
    compiler.arg(format!("-Wl,-rpath,{}", lib.display()));
    check(compiler.arg("-o").arg(&program));
    program
}

fn started(source: &str) -> Command {
    let mut compiler = if Path::new(source).extension().is_some_and(|it| it == "cpp") {
        compiler("c++")
    } else {
        compiler("cc")
    };
    compiler
        .arg("-O1")
        .arg(manifest_dir().join("tests/c").join(source));
    compiler
}

/// Tests may compile the same program at the same time.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn program_path(source: &str, kind: &str) -> PathBuf {
    let name = Path::new(source).file_name().expect("it is a file");
    let name = name.to_string_lossy().replace('.', "-");
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    scratch().join(format!("{name}-{kind}-{}-{n}", std::process::id()))
}

/// Runs a program, with all that it started: what outlives its time is killed.
pub fn run(program: &Path) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", LIMIT_SECONDS])
        .arg(program)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("timeout(1) is there")
}
