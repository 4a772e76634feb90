use std::time::Duration;

/// How stores are opened, and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Files: whether to go around the kernel's page cache where that can be done.
    pub may_be_direct: bool,
    /// Files: whether to use `io_uring` where the kernel lets us.
    pub may_ring: bool,
    /// Objects: how many requests are under way to one server at once, at most.
    pub parallelism: usize,
    /// Objects: what one request asks for, at most. A larger read is several requests.
    pub part_bytes: usize,
    /// Objects: how often a request is tried before the read is an error.
    pub tries: u32,
    /// Objects: how long to wait before the second try; twice as long before each further one, up to 5 s,
    /// and less by chance.
    pub delay: Duration,
    /// Objects: how long nothing may come before a try is given up.
    pub stall: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            may_be_direct: true,
            may_ring: true,
            // Servers give one connection some 90 MB/s, after some 20 ms: these are 1.5 GB/s, with 64 MiB
            // under way.
            parallelism: 32,
            part_bytes: 2 << 20,
            tries: 8,
            delay: Duration::from_millis(50),
            stall: Duration::from_secs(20),
        }
    }
}
