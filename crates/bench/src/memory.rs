//! How much memory something takes: of the process, and of the kernel as far as it says.

use anyhow::{Context, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Of this process: its own pages, and its share of those that it shares (`Pss`).
    pub process_bytes: u64,
    /// Of the kernel's structures, of all processes together.
    pub kernel_bytes: u64,
}

/// What of `/proc/meminfo` grows with descriptors: slabs, counters of each processor, large tables,
/// page tables.
const KERNEL_FIELDS: [&str; 5] = [
    "Slab:",
    "Percpu:",
    "VmallocUsed:",
    "PageTables:",
    "KernelStack:",
];

impl Memory {
    /// As of now.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn now() -> anyhow::Result<Self> {
        let read =
            |path| std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
        let process = sum(&read("/proc/self/smaps_rollup")?, &["Pss:"]);
        let kernel = sum(&read("/proc/meminfo")?, &KERNEL_FIELDS);
        ensure!(
            process > 0 && kernel > 0,
            "unknown form of smaps_rollup or meminfo"
        );
        Ok(Self {
            process_bytes: process,
            kernel_bytes: kernel,
        })
    }

    /// What came on top since; nothing where something was freed meanwhile.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            process_bytes: self.process_bytes.saturating_sub(before.process_bytes),
            kernel_bytes: self.kernel_bytes.saturating_sub(before.kernel_bytes),
        }
    }
}

/// The most memory that this process ever had in use at once, in bytes; what it shares counted whole.
///
/// # Errors
/// When the kernel does not say.
pub fn peak_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read it")?;
    let peak = sum(&status, &["VmHWM:"]);
    ensure!(peak > 0, "unknown form of /proc/self/status");
    Ok(peak)
}

/// The fields of these names, given in KiB, together.
fn sum(text: &str, names: &[&str]) -> u64 {
    let kib = |line: &str| {
        let mut words = line.split_whitespace();
        let is_meant = words.next().is_some_and(|name| names.contains(&name));
        is_meant
            .then(|| words.next()?.parse::<u64>().ok())
            .flatten()
    };
    text.lines().filter_map(kib).sum::<u64>() << 10
}

/// Lets this process open `wanted` descriptors, if it may; says how many it may open.
///
/// # Errors
/// When even the usual few are not allowed.
pub fn raise_descriptors(wanted: u64) -> anyhow::Result<u64> {
    let had = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if !enough(had.current) {
        let own = Rlimit {
            current: had.maximum.map(|most| most.min(wanted)),
            ..had
        };
        let more = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        // a larger limit than the given one is for the privileged
        if enough(had.maximum) || setrlimit(Resource::Nofile, more).is_err() {
            setrlimit(Resource::Nofile, own).context("cannot raise the limit on descriptors")?;
        }
    }
    Ok(getrlimit(Resource::Nofile).current.unwrap_or(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_added_up() {
        let text = "Slab:   12 kB\nSlabby:   5 kB\nPercpu:  3 kB\nrubbish\n";
        assert_eq!(sum(text, &["Slab:", "Percpu:"]), 15 << 10);
        assert_eq!(sum("", &["Slab:"]), 0);
    }

    #[test]
    fn memory_that_is_taken_shows() {
        let before = Memory::now().unwrap();
        let taken = std::hint::black_box(vec![1_u8; 8 << 20]);
        let grown = Memory::now().unwrap().since(before);
        assert!(grown.process_bytes >= taken.len() as u64 / 2, "{grown:?}");
    }
}
