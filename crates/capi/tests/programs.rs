//! Programs written for the kernel's pipes do the same on standpipe's: each is compiled twice, and
//! prints the same and exits in the same way.

mod common;

fn does_the_same(source: &str) {
    let programs = [common::for_kernel(source), common::for_standpipe(source)];
    let [kernel, standpipe] = programs.each_ref().map(|program| common::run(program));
    let [ours, theirs] =
        [&standpipe, &kernel].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(
        kernel.status.success(),
        "on the kernel: {}\n{theirs}",
        kernel.status
    );
    assert_eq!(ours, theirs);
    let [ours, theirs] =
        [&standpipe, &kernel].map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(ours, theirs);
    assert_eq!(standpipe.status, kernel.status);
    // Not part of the test: what a failed one leaves may be looked at.
    for program in &programs {
        let _ = std::fs::remove_file(program);
    }
}

macro_rules! programs {
    ($($name:ident: $source:literal,)*) => {
        $(#[test]
        fn $name() {
            does_the_same($source);
        })*

        /// None is forgotten.
        #[test]
        fn all_programs_are_listed() {
            let mut listed = vec![$($source),*];
            let mut there: Vec<_> = std::fs::read_dir(common::manifest_dir().join("tests/c"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| !name.ends_with(".h") && !UNPAIRED.contains(&name.as_str()))
                .collect();
            listed.sort_unstable();
            there.sort_unstable();
            assert_eq!(there, listed);
        }
    };
}

/// Run by tests of their own.
const UNPAIRED: [&str; 8] = [
    "asleep.c",
    "lane_over_exec.c",
    "ring.c",
    "ring_churn.c",
    "ring_close.c",
    "ring_foreign.c",
    "ring_open.c",
    "ring_wait.c",
];

programs! {
    parent_and_child: "parent_child.c",
    interruption_by_signals: "signals.c",
    select_loop: "select_loop.c",
    shuffled_descriptors: "dup_shuffle.c",
    fifo_client_and_server: "fifo.c",
    killed_child: "killed_child.c",
    ends_inherited_over_exec: "exec_self.c",
    forks_of_many_threads: "thread_fork.c",
    bits_of_poll: "poll_bits.c",
    fcntl_ioctl_and_refusals: "control.c",
    descriptors_handed_on: "handed_on.c",
    calls_in_signal_handlers: "self_pipe.c",
    all_descriptors_closed: "close_all.c",
    cplusplus: "cxx.cpp",
}

/// Two processes that share no memory from the start meet, and use the lane.
#[test]
fn a_remapped_program_gets_the_lane_over_exec() {
    let program = common::for_standpipe("lane_over_exec.c");
    let output = common::run(&program);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(said, "exec: 8388608 bytes, by the lane: most\n");
    let _ = std::fs::remove_file(program);
}
