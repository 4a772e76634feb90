//! Which processors the processes of a benchmark run on.

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The numbers of the processors that this process may use.
///
/// # Errors
/// When the kernel does not say.
pub fn allowed() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot ask for the processors to run on")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Confines this process, and those it forks from now on, to the first `count` of the processors
/// that it may use.
///
/// # Errors
/// When there are not as many.
pub fn confine(count: usize) -> anyhow::Result<()> {
    let cpus = allowed()?;
    ensure!(
        (1..=cpus.len()).contains(&count),
        "--cpus {count}: expected 1 to {}, the processors this process may use",
        cpus.len()
    );
    confine_to(&cpus[..count])
}

/// Confines this process to the processor at `index` among those that it may use.
///
/// # Errors
/// When there are not as many.
pub fn take(index: usize) -> anyhow::Result<()> {
    let cpus = allowed()?;
    let cpu = cpus.get(index).with_context(|| {
        format!(
            "processor {index} of {}: this case needs one for each process",
            cpus.len()
        )
    })?;
    confine_to(&[*cpu])
}

fn confine_to(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).context("cannot choose the processors to run on")
}
