//! The suites, one a file.
//!
//! Each has a plan, a value that says what to run and how long, and makes of it rounds for
//! [`crate::measure`].

pub mod asynchronous;
pub mod bw;
pub mod create;
pub mod fifo;
pub mod grep;
pub mod latency;
pub mod object;
pub mod pipe;
pub mod pipeflex;
pub mod readahead;
pub mod real_file;
pub mod ring;
pub mod ring_scale;
pub mod run;
pub mod small;
pub mod stage;
pub mod thrash;

/// How much time to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At most 40 seconds a suite.
    Quick,
    /// Long enough for figures to publish.
    Full,
}

/// Suites of whole programs, of files, of simulations, of completions and of tasks: there is no C face to
/// measure.
pub const OF_PROGRAMS: [&str; 9] = [
    "grep",
    "stage",
    "run",
    "readahead",
    "thrash",
    "object",
    "ring",
    "ring-scale",
    "async",
];

/// The suite in virtual time, which other work on the machine does not disturb.
pub const SIMULATED: &str = "thrash";

/// What the name of a suite ends with where ours was used through the C ABI.
pub const C_ABI: &str = "-c-abi";

/// The name of the suite, from whichever face ours was used.
#[must_use]
pub fn without_face(name: &str) -> &str {
    name.strip_suffix(C_ABI).unwrap_or(name)
}

/// Name and description of each suite, in the order in which they are listed and reported.
pub const ALL: [(&str, &str); 17] = [
    (
        "pipe",
        "writers x readers, {1,2,5} x {1,5,10} processes, 64 KiB writes, a pipe of 1 MiB",
    ),
    (
        "pipe-memory-pressure",
        "the same while half of the machine's memory is kept busy",
    ),
    (
        "bw",
        "one writer, one reader; transfers of 2 to 32 KiB through pipes of 4 to 32 KiB",
    ),
    (
        "pipeflex",
        "a writer that never pauses, a reader that computes after each transfer",
    ),
    (
        "grep",
        "cat of 50 MB into a grep that finds nothing: sh, standpipe run, an aware cat",
    ),
    (
        "small",
        "messages of 16 to 4096 bytes from one writer to one reader",
    ),
    (
        "latency",
        "ping-pong of one byte: processors free, and both processes on one",
    ),
    (
        "create",
        "making and closing pipes and FIFOs, with 1 KiB carried and idle; memory of 10,000",
    ),
    (
        "fifo",
        "1000 chunks of 64 bytes to 64 KiB through a FIFO between strangers; opening and closing",
    ),
    (
        "stage",
        "cat | X | cat: standpipe buffer against pv and mbuffer",
    ),
    (
        "readahead",
        "readahead policies on a simulated disk, beside the published figures; a file on the real disk",
    ),
    (
        "thrash",
        "200 streams of 100 KB/s, one more each second, on a simulated machine of 128 MB",
    ),
    (
        "run",
        "ten pipelines of ordinary programs: sh -c against standpipe run",
    ),
    (
        "object",
        "256 MB of a server far away, in reads of 64 KiB and 1 MiB: GET, buffered reader, curl",
    ),
    (
        "ring",
        "128 pipes, 256 rounds of a read and a write on each: completions, io_uring, epoll",
    ),
    (
        "ring-scale",
        "1 to 10,000 pipes armed at once, the cost of an event: completions, io_uring, epoll",
    ),
    (
        "async",
        "tasks of tokio, 1 and 128 pairs, 64 B and 64 KiB: tokio's unix pipe, io::simplex",
    ),
];
