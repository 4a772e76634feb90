//! The header is what the code says, and compiles; symbols have versions.

mod common;

use std::process::Command;

use common::{check, compiler, manifest_dir, shared_library};

/// With cbindgen, which the script installs where it is missing.
#[test]
fn the_committed_header_is_what_the_code_says() {
    let mut script = Command::new(manifest_dir().join("../../scripts/capi.sh"));
    check(script.args(["header", "--check"]));
}

#[test]
fn the_headers_compile_as_c11_and_cplusplus17() {
    let dir = tempfile::tempdir().unwrap();
    for header in ["standpipe.h", "standpipe/posix.h"] {
        let text =
            format!("#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n");
        for (name, language, standard) in [("cc", "c", "c11"), ("c++", "c++", "c++17")] {
            let source = dir.path().join(format!("program.{language}"));
            std::fs::write(&source, &text).unwrap();
            let mut compiler = compiler(name);
            compiler.arg("-I").arg(manifest_dir().join("include"));
            compiler.args([
                "-x",
                language,
                &format!("-std={standard}"),
                "-pedantic",
                "-fsyntax-only",
            ]);
            check(compiler.arg(&source));
        }
    }
}

/// Declared and exported are the same functions, each with the version of the library.
#[test]
fn every_declared_function_is_exported_with_a_version() {
    let library = shared_library().join("libstandpipe.so");
    let symbols = check(Command::new("objdump").arg("-T").arg(&library));
    let mut exported: Vec<_> = symbols
        .lines()
        .filter(|line| line.contains(" DF .text"))
        .map(|line| line.split_whitespace().rev().take(2).collect::<Vec<_>>())
        .map(|words| format!("{} {}", words[0], words[1]))
        .collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(manifest_dir().join("include/standpipe.h")).unwrap();
    let mut declared: Vec<_> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("sp_"))
        .map(|name| format!("{name} STANDPIPE_0.1"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(exported, declared);
}
