//! The completion ring: programs that call everything by name, as they are and with their other calls
//! remapped. They check for themselves.

mod common;

fn succeeds(source: &str) {
    for program in [common::by_name(source), common::for_standpipe(source)] {
        let output = common::run(&program);
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(
            output.status.success(),
            "{}: {}\n{}",
            program.display(),
            output.status,
            said.concat()
        );
        let _ = std::fs::remove_file(program);
    }
}

#[test]
fn operations() {
    succeeds("ring.c");
}

#[test]
fn waiting() {
    succeeds("ring_wait.c");
}

#[test]
fn closed_and_inherited_descriptors() {
    succeeds("ring_close.c");
}

#[test]
fn closes_and_forks_by_other_threads() {
    succeeds("ring_churn.c");
}

#[test]
fn opening() {
    succeeds("ring_open.c");
}

#[test]
fn descriptors_that_are_no_ends() {
    succeeds("ring_foreign.c");
}

/// Around the example: what is written into one pipe comes out of the other, and the end is the end.
const MAIN: &str = r#"
int main(void)
{
    int from[2], to[2];
    char text[6] = {0};
    if (sp_pipe(from) != 0 || sp_pipe(to) != 0 || sp_write(from[1], "hello", 5) != 5)
        return 1;
    if (copy_greeting(from[0], to[1]) != 0 || sp_read(to[0], text, 5) != 5 || text[4] != 'o')
        return 2;
    if (sp_close(from[1]) != 0 || copy_greeting(from[0], to[1]) != 0)
        return 3;
    return sp_close(from[0]) | sp_close(to[0]) | sp_close(to[1]);
}
"#;

#[test]
fn the_example_of_the_readme_works() {
    let readme = std::fs::read_to_string(common::manifest_dir().join("README.md")).unwrap();
    let (_, code) = readme.split_once("```c\n").expect("there is an example");
    let (code, _) = code.split_once("```").expect("it ends");
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("example.c");
    std::fs::write(&source, format!("{code}{MAIN}")).unwrap();
    let program = common::by_name(source.to_str().unwrap());
    common::check(&mut std::process::Command::new(&program));
    let _ = std::fs::remove_file(program);
}
