//! The settings, the manual and the completions.

mod support;

use std::fs;
use std::path::Path;

use support::{standpipe, text};

fn ctl(config: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = standpipe();
    let output = command
        .arg("ctl")
        .args(arguments)
        .env("XDG_CONFIG_HOME", config)
        .output();
    let output = output.expect("standpipe starts");
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn get(config: &Path) -> String {
    let (status, value, _) = ctl(config, &["get", "pipe-sz"]);
    assert_eq!(status, Some(0));
    value
}

#[test]
fn a_setting_makes_the_round_trip() {
    let config = tempfile::tempdir().expect("a folder");
    let file = config.path().join("standpipe/pipe_sz");
    assert_eq!(get(config.path()), "4 2\n");
    for (given, kept) in [
        ("8 3", "8 3\n"),
        ("1M", "8 2\n"),
        ("64K", "4 2\n"),
        ("0 0", "0 0\n"),
    ] {
        assert_eq!(
            ctl(config.path(), &["set", "pipe-sz", given]).0,
            Some(0),
            "{given}"
        );
        assert_eq!(get(config.path()), kept, "{given}");
        assert_eq!(fs::read_to_string(&file).expect("the file"), kept);
    }
    let left = fs::read_dir(config.path().join("standpipe"))
        .expect("the folder")
        .count();
    assert_eq!(left, 1, "temporary files are left behind");
    assert_eq!(ctl(config.path(), &["unset", "pipe-sz"]).0, Some(0));
    assert!(!file.exists());
    assert_eq!(get(config.path()), "4 2\n");
    assert_eq!(ctl(config.path(), &["unset", "pipe-sz"]).0, Some(0));
}

#[test]
fn the_origin_is_told() {
    let config = tempfile::tempdir().expect("a folder");
    assert!(
        ctl(config.path(), &["get", "-v", "pipe-sz"])
            .1
            .contains("built in")
    );
    ctl(config.path(), &["set", "pipe-sz", "6 1"]);
    let (_, listed, _) = ctl(config.path(), &["list"]);
    let file = config
        .path()
        .join("standpipe/pipe_sz")
        .display()
        .to_string();
    assert!(
        listed.starts_with("pipe-sz = 6 1") && listed.contains(&file),
        "{listed}"
    );
    let mut command = standpipe();
    command
        .args(["ctl", "get", "-v", "pipe-sz"])
        .env("STANDPIPE_PIPE_SZ", "2 1");
    let output = command
        .env("XDG_CONFIG_HOME", config.path())
        .output()
        .expect("starts");
    assert!(text(&output.stdout).contains("16 KiB"), "{output:?}");
    assert!(
        text(&output.stdout).contains("STANDPIPE_PIPE_SZ"),
        "{output:?}"
    );
}

#[test]
fn without_xdg_the_settings_are_under_home() {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = standpipe();
    command
        .args(["ctl", "set", "pipe-sz", "5 1"])
        .env("HOME", home.path());
    let output = command
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .expect("starts");
    assert!(output.status.success(), "{output:?}");
    let kept = fs::read_to_string(home.path().join(".config/standpipe/pipe_sz"));
    assert_eq!(kept.expect("the file"), "5 1\n");
}

#[test]
fn what_is_wrong_is_named() {
    let config = tempfile::tempdir().expect("a folder");
    for value in ["99 2", "3 4", "huge", "8 2 1", "-1"] {
        let (status, _, message) = ctl(config.path(), &["set", "pipe-sz", value]);
        assert_eq!(status, Some(2), "{value}");
        assert!(
            message.contains(value.split(' ').next().unwrap_or(value)),
            "{message}"
        );
    }
    assert!(!config.path().join("standpipe").exists());
    ctl(config.path(), &["set", "pipe-sz", "4 2"]);
    fs::write(config.path().join("standpipe/pipe_sz"), "rubbish\n").expect("written");
    let (status, _, message) = ctl(config.path(), &["get", "pipe-sz"]);
    assert_ne!(status, Some(0));
    assert!(
        message.contains("rubbish") && message.contains("pipe_sz"),
        "{message}"
    );
}

#[test]
fn the_manual_and_the_completions_know_every_command() {
    for arguments in [
        &["man"][..],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
    ] {
        let output = standpipe().args(arguments).output().expect("starts");
        assert!(output.status.success());
        for command in [
            "run",
            "fifo",
            "cat",
            "buffer",
            "ctl",
            "bench",
            "completions",
            "man",
        ] {
            assert!(
                text(&output.stdout).contains(command),
                "{arguments:?} lacks {command}"
            );
        }
        // not one of them: how `run` starts itself
        assert!(!text(&output.stdout).contains(" __cat"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = standpipe()
        .args(["man", "--dir"])
        .arg(folder.path())
        .output()
        .expect("starts");
    assert!(output.status.success());
    let page = fs::read_to_string(folder.path().join("standpipe-run.1")).expect("a page");
    assert!(
        page.contains("\\-\\-compare") && page.contains("Exit status"),
        "{page}"
    );
}
