//! How much of the processors others took meanwhile. Rivals that run in turn share the noise, but
//! where others keep a processor busy, "two processors" are not what was measured.

use anyhow::Context;

/// Below this share of a processor, nobody will see it in the figures.
const AUDIBLE: f64 = 0.15;

/// Ticks of the processors since the machine started (`proc_stat(5)`, `proc_pid_stat(5)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// That the processors worked, or were taken by the host of a virtual machine.
    busy: u64,
    /// That they existed.
    total: u64,
    /// That they worked for this process and its children, of those that ended.
    own: u64,
    /// How many processors the machine has.
    processors: u64,
}

impl Ticks {
    /// As of now.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn now() -> anyhow::Result<Self> {
        let read =
            |path| std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
        Self::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
            .context("unknown form of /proc/stat or /proc/self/stat")
    }

    fn parse(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        // user, nice, system, idle, iowait, irq, softirq, steal; the rest is part of these
        let ticks = line
            .split_whitespace()
            .take(8)
            .map(str::parse)
            .collect::<Result<Vec<u64>, _>>();
        let ticks = ticks.ok().filter(|ticks| ticks.len() == 8)?;
        let total = ticks.iter().sum::<u64>();
        // the command's name, in parentheses, may hold anything; utime is the 12th field after it,
        // then come stime, cutime and cstime
        let after_name = process.rsplit_once(')')?.1.split_whitespace();
        let own = after_name
            .skip(11)
            .take(4)
            .map(str::parse::<u64>)
            .sum::<Result<u64, _>>()
            .ok()?;
        let one = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let processors = machine.lines().filter(one).count() as u64;
        Some(Self {
            busy: total - ticks[3] - ticks[4],
            total,
            own,
            processors,
        })
    }

    /// How many processors others kept busy on average since `self`.
    #[must_use]
    pub fn others_until(self, later: Self) -> f64 {
        // counters of single processors are not read at the same instant, and may seem to go back
        let busy = later.busy.saturating_sub(self.busy);
        let others = busy.saturating_sub(later.own.saturating_sub(self.own));
        let total = later.total.saturating_sub(self.total).max(1);
        others as f64 * later.processors as f64 / total as f64
    }

    /// What to tell people of it, if there is anything to tell.
    #[must_use]
    pub fn remark_until(self, later: Self) -> Option<String> {
        let (others, processors) = (self.others_until(later), later.processors);
        (others >= AUDIBLE).then(|| {
            format!(
                "note: others kept {others:.1} of {processors} processors busy meanwhile; \
                 figures taken on a quiet machine are steadier"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: &str = "42 (a ) b) R 1 1 1 0 -1 0 5 6 7 8 100 20 30 4 20 0 1 0";

    #[test]
    fn ticks_are_read_whatever_the_name_of_the_process() {
        let machine = "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2\ncpu1 3 4\nintr 1\n";
        let ticks = Ticks::parse(machine, PROCESS);
        assert_eq!(
            ticks,
            Some(Ticks {
                busy: 81,
                total: 531,
                own: 154,
                processors: 2
            })
        );
        assert_eq!(Ticks::parse("cpu 1 2", PROCESS), None);
        assert!(Ticks::now().is_ok());
    }

    #[test]
    fn what_this_process_used_is_not_noise() {
        let start = Ticks {
            busy: 1000,
            total: 9000,
            own: 100,
            processors: 2,
        };
        // 100 ticks on two processors: 150 of 200 were busy, 100 for us
        let end = Ticks {
            busy: 1150,
            total: 9200,
            own: 200,
            processors: 2,
        };
        assert!((start.others_until(end) - 0.5).abs() < 1e-9);
        assert!(start.remark_until(end).unwrap().contains("0.5 of 2"));
        assert_eq!(start.remark_until(Ticks { own: 245, ..end }), None);
    }
}
