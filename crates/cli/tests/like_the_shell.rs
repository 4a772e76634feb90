//! A pipeline under `standpipe run` does what it does in the shell: same output, same messages,
//! same exit status, same files left behind.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use support::{run, shell, text};

/// Each row runs in a folder with `words.txt`, `big.txt` (3 MiB), `a b.txt` and `script`.
const PIPELINES: &[&str] = &[
    // quoting
    "echo 'a | b' | cat",
    r#"echo "a | b" | cat"#,
    r"echo a\|b | cat",
    r#"printf '%s\n' "it's" | cat"#,
    r#"printf '%s\n' 'say "hi"' a\ b "" '' | cat"#,
    r#"awk '{print $1 "|" NR}' words.txt | cat"#,
    r"tr '\n' ' ' <words.txt | cat",
    r"echo 'a\nb' | cat",
    r"sed -n 's/\(a\)/<\1>/p' words.txt | sort -r",
    "cat 'a b.txt' | wc -c",
    r"cat a\ b.txt | wc -c",
    "grep -c \"\" words.txt | cat",
    "printf 'tab\\there\\n' | od -c",
    "echo trailing\\  | od -c",
    "echo a#b '# no' | cat # a comment | with a bar",
    "echo é ü 日本 | cat | wc -c",
    // expansions
    "x=1; echo $x | cat",
    "X=env sh -c 'echo $X' | cat",
    "echo *.txt | tr ' ' '\\n'",
    "echo ~root | cat",
    "echo $(echo a | tr a b) `echo c | tr c d` | cat",
    "echo $((1 + 2)) ${HOME:+set} ${nope:-no} | cat",
    "echo {a,b} | cat",
    "grep -h a *.txt | wc -l",
    "set -- a b; echo $# | cat",
    "echo $# \"$@\" $0 | cat",
    // redirections
    "cat <words.txt | sort >sorted.txt",
    "sort words.txt | tee copy.txt | wc -l",
    "ls nothere 2>&1 | sed 's/^/got: /'",
    "{ echo out; echo err >&2; } 2>/dev/null | cat",
    "echo a >|new.txt | cat",
    "cat big.txt >>words.txt | wc -c",
    "cat words.txt 3<big.txt | wc -l",
    "echo lost >/dev/null | wc -c",
    "<words.txt wc -l | cat",
    "cat words.txt >&- | wc -c",
    "exec 3>three.txt | echo no >&1 | cat",
    "sort <nothere | cat",
    "sort <words.txt >no/such/folder | cat",
    "<nothere sort | cat",
    "LC_ALL=C sort words.txt | cat",
    "A='b c' sh -c 'echo $A' | cat",
    "PATH=/nothere sort words.txt | cat",
    "A=1 B=$A sh -c 'echo $B' | cat",
    // compound commands
    "(exit 3) | (exit 4)",
    "(trap 'echo bye' EXIT; echo hi) | cat",
    "(echo a; echo b >&2) 2>&1 | sort",
    "(echo a # )\n) | cat",
    "( (echo a) ) | (cat) # )",
    "(echo a &) | cat",
    "(echo a; echo b) | sort -r",
    "{ echo a; echo b; } | (read x; echo got $x; cat)",
    "seq 3 | while read n; do echo \"n=$n\"; done | tail -1",
    "for i in 1 2 3; do echo $i | tr 1 x; done | cat",
    "case a in a|b) echo yes;; esac | cat",
    "if true | false; then echo t; else echo e; fi | cat",
    "(cd / | pwd) | wc -l",
    "cat words.txt | { head -1; } | cat",
    "echo a |\n  cat |\n\n  tr a b",
    "((echo nested)) | cat",
    "( (echo nested | cat) | cat ) | cat",
    // exit statuses and messages
    "nosuchcommand | cat",
    "echo a | nosuchcommand",
    "./notexecutable | cat",
    "echo a | ./notexecutable",
    "echo a | .",
    "./script | cat",
    "echo a | ./noshebang",
    "true | exit 7",
    "false | true",
    "true | false",
    "cat nothere | wc -c",
    "cat nothere big.txt | wc -c",
    "cat big.txt nothere | wc -c",
    "cat . | wc -c",
    "cat -n words.txt | tail -1",
    "cat -- words.txt | wc",
    "cat words.txt - | wc",
    "cat /proc/self/comm | wc -c",
    "yes | head -1",
    "cat big.txt | head -c 5",
    "cat big.txt big.txt | head -c 5000000 | cksum",
    "cat big.txt words.txt | cksum",
    "cat big.txt | cat | cat | cat | cksum",
    "seq 100000 | sort -n | uniq | tail -n +99999",
    // left to the shell as it is
    "",
    "   ",
    "# only a comment",
    "echo a; echo b | cat",
    "true && echo a | cat",
    "false || echo b | cat",
    "! true | false",
    "cat <<E | tr a b\naaa\nE",
    "f() { echo f; }; f | cat",
    "f() { cat; } | cat",
    "echo a & wait",
    "echo $$ | grep -c .",
    "cat words.txt |",
    "| cat",
    "echo 'unclosed | cat",
    "echo a | | cat",
    "echo a | cat <(echo b)",
    "[[ a == a ]] | cat",
    "echo a |& cat",
    "(echo a | cat",
    "fi | cat",
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, content: &str| fs::write(folder.path().join(name), content).expect(name);
    put("words.txt", "banana\napple\ncherry\napple\n");
    put("a b.txt", "a name with a blank\n");
    put(
        "big.txt",
        &"all work and no play makes a dull day\n".repeat(3 * (1 << 20) / 38),
    );
    put("script", "#!/bin/sh\necho from the script; exit 3\n");
    put("noshebang", "echo no shebang; exit 4\n");
    put("notexecutable", "echo no\n");
    for name in ["script", "noshebang"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path().join(name), mode).expect(name);
    }
    folder
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            (
                text(entry.file_name().as_encoded_bytes()),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

fn compare_with(shell_path: &str) {
    let mut failures = Vec::new();
    for pipeline in PIPELINES {
        let (theirs, ours) = (folder(), folder());
        let expected = shell(theirs.path(), shell_path, pipeline);
        let got = run(
            ours.path(),
            &["--last-status", "--shell", shell_path],
            pipeline,
        );
        let same = expected.status.code() == got.status.code()
            && expected.stdout == got.stdout
            && sorted(&expected.stderr) == sorted(&got.stderr)
            && files(theirs.path()) == files(ours.path());
        if !same {
            failures.push(format!(
                "{pipeline:?}\n  shell: {:?} {:?} {:?}\n  ours:  {:?} {:?} {:?}",
                expected.status.code(),
                text(&expected.stdout),
                text(&expected.stderr),
                got.status.code(),
                text(&got.stdout),
                text(&got.stderr),
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{shell_path}:\n{}",
        failures.join("\n")
    );
}

/// Stages write their messages in any order.
fn sorted(messages: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = text(messages).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn pipelines_do_what_they_do_in_sh() {
    compare_with("/bin/sh");
}

#[test]
fn pipelines_do_what_they_do_in_bash() {
    if Path::new("/bin/bash").exists() {
        compare_with("/bin/bash");
    }
}
