//! The table of behaviours, and how they run: each test is a process of its own, so that signal
//! handlers, descriptor numbers and forks meet nothing of another test, with a watchdog.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::engine::Engine;
use crate::flaw::Flaw;
use crate::items;
use crate::paths::DIRECTORY_VARIABLE;
use crate::peer::ends_before;
use crate::program::{self, PROGRAM_VARIABLE};
use crate::setting::{PeerKind, Setting};

/// A behaviour, as a test that is generic over the setting.
pub struct Behaviour {
    /// The name, with the number of the item of `semantics.md` that it shows.
    pub name: &'static str,
    /// Where it can be shown: all of these hold.
    pub runs: &'static [Runs],
    /// Panics where it does not hold.
    pub body: fn(Setting),
}

/// Where a behaviour can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// In every setting.
    Everywhere,
    /// With peers that are threads only, for this reason.
    Threads(&'static str),
    /// With peers that are processes, for this reason.
    Processes(&'static str),
    /// With strangers as peers, for this reason.
    Strangers(&'static str),
    /// Where peers share the open file description, for this reason: not between those that open
    /// a FIFO's path.
    Inherited(&'static str),
    /// By descriptor: typed ends offer less, for this reason.
    ByDescriptor(&'static str),
    /// Where calls are calls and no operations of a ring, for this reason.
    ByCalls(&'static str),
    /// On the kernel's pipe only, for this reason.
    KernelOnly(&'static str),
    /// By root, who was told that it changes the whole machine for a moment (`SYSCTL_VARIABLE`).
    ChangesLimits,
}

impl Runs {
    /// Why the behaviour cannot be shown in a setting.
    fn skip_reason(self, setting: Setting) -> Option<&'static str> {
        match self {
            Self::Threads(why) if setting.peers != PeerKind::Thread => Some(why),
            Self::Processes(why) if setting.peers == PeerKind::Thread => Some(why),
            Self::Strangers(why) if !setting.peers.are_strangers() => Some(why),
            Self::Inherited(why) if setting.peers == PeerKind::Fifo => Some(why),
            Self::ByDescriptor(why) if setting.engine == Engine::Standpipe => Some(why),
            Self::ByCalls(why) if setting.engine == Engine::Ring => Some(why),
            Self::ChangesLimits if !may_change_limits() => {
                Some("changes /proc/sys/fs/pipe-*: as root, with STANDPIPE_CONFORMANCE_SYSCTL=1")
            }
            Self::KernelOnly(why) if setting.engine.is_standpipe() => Some(why),
            _ => None,
        }
    }
}

/// Set, it allows tests to write to `/proc/sys/fs/pipe-*` and back.
const SYSCTL_VARIABLE: &str = "STANDPIPE_CONFORMANCE_SYSCTL";

fn may_change_limits() -> bool {
    rustix::process::geteuid().is_root() && std::env::var_os(SYSCTL_VARIABLE).is_some()
}

/// Lists the behaviours of a file, by where they run: `everywhere(): a, b; processes("why"): c;`.
macro_rules! behaviours {
    ($($($runs:ident $why:tt),+: $($name:ident),+ ;)+) => {
        /// The behaviours of this file.
        pub(crate) const BEHAVIOURS: &[&[$crate::suite::Behaviour]] = &[$({
            const RUNS: &[$crate::suite::Runs] = &[$($crate::suite::behaviours!(@$runs $why)),+];
            &[$($crate::suite::Behaviour {
                name: stringify!($name),
                runs: RUNS,
                body: $name,
            }),+]
        }),+];
    };
    (@everywhere ()) => { $crate::suite::Runs::Everywhere };
    (@threads ($why:literal)) => { $crate::suite::Runs::Threads($why) };
    (@processes ($why:literal)) => { $crate::suite::Runs::Processes($why) };
    (@strangers ($why:literal)) => { $crate::suite::Runs::Strangers($why) };
    (@inherited ($why:literal)) => { $crate::suite::Runs::Inherited($why) };
    (@by_descriptor ($why:literal)) => { $crate::suite::Runs::ByDescriptor($why) };
    (@by_calls ($why:literal)) => { $crate::suite::Runs::ByCalls($why) };
    (@changes_limits ()) => { $crate::suite::Runs::ChangesLimits };
    (@kernel ($why:literal)) => { $crate::suite::Runs::KernelOnly($why) };
}
pub(crate) use behaviours;

/// Where behaviours are shown: typed ends are made, so strangers have none.
fn settings() -> impl Iterator<Item = Setting> {
    let of = |engine, peers: &'static [PeerKind]| {
        let setting = move |peers: &PeerKind| Setting {
            engine,
            peers: *peers,
        };
        peers.iter().map(setting)
    };
    of(Engine::Kernel, &PeerKind::ALL)
        .chain(of(Engine::Standpipe, &[PeerKind::Thread, PeerKind::Fork]))
        .chain(of(Engine::Adopted, &PeerKind::ALL))
        .chain(of(Engine::Ring, &PeerKind::ALL))
}

/// The test that a process was started to run.
const CASE_VARIABLE: &str = "STANDPIPE_CONFORMANCE_CASE";

/// A test that has not ended after this long hangs. They take milliseconds; the machine may be
/// busy with everything else.
const WATCHDOG: Duration = Duration::from_secs(20);

/// One behaviour in one setting.
struct Case {
    behaviour: &'static Behaviour,
    setting: Setting,
}

impl Case {
    fn name(&self) -> String {
        format!("{}/{}", self.setting, self.behaviour.name)
    }

    /// The case as a test that must pass, or is skipped with a reason.
    fn into_trial(self) -> Trial {
        let name = self.name();
        let mut runs = self.behaviour.runs.iter();
        match runs.find_map(|runs| runs.skip_reason(self.setting)) {
            None => Trial::test(name.clone(), move || run_in_a_process(&name)),
            Some(why) => Trial::test(name, || Ok(()))
                .with_kind(format!("skipped: {why}"))
                .with_ignored_flag(true),
        }
    }

    /// The case as a test that passes if the behaviour fails.
    fn into_canary(self) -> Trial {
        let name = self.name();
        Trial::test(format!("canary/{name}"), move || {
            match run_in_a_process(&name) {
                Err(_) => Ok(()),
                Ok(()) => Err("passed on a pipe with this flaw: it detects nothing".into()),
            }
        })
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let of = |setting| items::all().map(move |behaviour| Case { behaviour, setting });
    settings().flat_map(of)
}

fn canaries() -> impl Iterator<Item = Case> {
    let caught = |flaw: Flaw| {
        let catches = move |b: &&Behaviour| flaw.caught_by().contains(&b.name);
        let setting = Setting {
            engine: Engine::Flawed(flaw),
            peers: PeerKind::Fork,
        };
        items::all()
            .filter(catches)
            .map(move |behaviour| Case { behaviour, setting })
    };
    Flaw::ALL.into_iter().flat_map(caught)
}

/// Runs the suite: the whole of it, or in a child, one case.
///
/// # Panics
/// In a child, if the case fails.
pub fn main() -> Conclusion {
    if let Ok(orders) = std::env::var(PROGRAM_VARIABLE) {
        program::run(&orders);
        std::process::exit(0);
    }
    if let Ok(name) = std::env::var(CASE_VARIABLE) {
        let case = cases().chain(canaries()).find(|case| case.name() == name);
        let Case { behaviour, setting } = case.expect("a case of this suite");
        (behaviour.body)(setting);
        std::process::exit(0);
    }
    let trials = cases()
        .map(Case::into_trial)
        .chain(canaries().map(Case::into_canary));
    libtest_mimic::run(&Arguments::from_args(), trials.collect())
}

fn run_in_a_process(name: &str) -> Result<(), Failed> {
    use std::os::unix::process::CommandExt;
    let (mut output, stderr) = std::io::pipe()?;
    let mut command = Command::new(std::env::current_exe()?);
    let directory = tempfile::tempdir()?;
    command
        .env(CASE_VARIABLE, name)
        .env(DIRECTORY_VARIABLE, directory.path())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .process_group(0);
    command.stdout(stderr.try_clone()?).stderr(stderr);
    let mut child = command.spawn()?;
    drop(command);
    let group = Pid::from_child(&child);
    let in_time = ends_before(group, Instant::now() + WATCHDOG)?;
    // Also ends what a failed test left behind. No such group: nothing was left.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    let mut said = String::new();
    output.read_to_string(&mut said)?;
    verdict(in_time, status, &said)
}

fn verdict(in_time: bool, status: ExitStatus, said: &str) -> Result<(), Failed> {
    match (in_time, status.success()) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("{status}\n{said}").into()),
        (false, _) => Err(format!("hangs: killed after {WATCHDOG:?}\n{said}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of `semantics.md` that are not shown, and why.
    const NOT_SHOWN: &[(u32, &str)] = &[
        (5, "FreeBSD's pipe2"),
        (11, "FreeBSD's fstat"),
        (73, "FreeBSD's FIONREAD"),
    ];

    /// Those that must hold: sections A to I and K.
    fn required() -> impl Iterator<Item = u32> {
        let shown = |number: &u32| NOT_SHOWN.iter().all(|(not, _)| not != number);
        (1..=113).chain([132, 133]).filter(shown)
    }

    #[test]
    fn every_required_item_has_a_test_by_its_number() {
        for number in required() {
            // A difference shows the kernel's behaviour beside standpipe's.
            let prefixes = [format!("item_{number}_"), format!("difference_{number}_")];
            let shows = |b: &Behaviour| prefixes.iter().any(|prefix| b.name.starts_with(prefix));
            assert!(items::all().any(shows), "none for item {number}");
        }
    }

    #[test]
    fn every_flaw_is_to_be_caught_by_tests_that_exist() {
        for flaw in Flaw::ALL {
            assert!(!flaw.caught_by().is_empty(), "{flaw:?}");
            for name in flaw.caught_by() {
                assert!(
                    items::all().any(|b| b.name == *name),
                    "{flaw:?}: no test {name}"
                );
            }
        }
    }
}
