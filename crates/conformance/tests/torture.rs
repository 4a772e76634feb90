//! A short torture of both engines, and proof that the torturer notices what it looks for.

use std::process::{Command, Output};

fn torture(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_torture"))
        .args(arguments)
        .output()
        .expect("cannot run torture")
}

fn assert_exits(code: i32, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    text
}

#[test]
fn the_kernels_pipe_survives_which_proves_the_harness() {
    assert_exits(0, &torture(&["--engine", "kernel", "--kills", "300"]));
}

#[test]
fn standpipe_survives() {
    assert_exits(0, &torture(&["--engine", "standpipe", "--kills", "300"]));
}

#[test]
fn canaries_are_noticed() {
    for (canary, sign) in [
        ("torn", "torn:"),
        ("lost", "lost:"),
        ("dup", "came twice"),
        ("hang", "hang:"),
        ("leak", "leaked:"),
    ] {
        let arguments = ["--engine", "kernel", "--kills", "5000", "--canary", canary];
        let said = assert_exits(1, &torture(&arguments));
        assert!(said.contains(sign), "{canary}: {said}");
    }
}

#[test]
fn hostile_peers_crash_and_hang_nobody() {
    let arguments = ["--hostile", "--kills", "60", "--seconds", "20", "--json"];
    let said = assert_exits(0, &torture(&arguments));
    let summary: serde_json::Value = serde_json::from_str(&said).expect("not JSON");
    for what in ["scribbles", "calls", "corrupted"] {
        assert!(summary[what].as_u64() > Some(0), "{said}");
    }
}

#[test]
fn who_hangs_beside_a_hostile_peer_is_noticed() {
    let arguments = [
        "--hostile",
        "--kills",
        "60",
        "--hang-ms",
        "200",
        "--canary",
        "hang",
    ];
    let said = assert_exits(1, &torture(&arguments));
    assert!(said.contains("hang:"), "{said}");
}

#[test]
fn the_summary_is_json_on_demand() {
    let said = assert_exits(
        0,
        &torture(&["--engine", "kernel", "--kills", "20", "--json"]),
    );
    let summary: serde_json::Value = serde_json::from_str(&said).expect("not JSON");
    assert!(summary["kills"].as_u64() >= Some(20), "{said}");
    assert_eq!(summary["faults"], serde_json::json!([]));
}
