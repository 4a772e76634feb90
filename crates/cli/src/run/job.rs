//! Waits for a launched pipeline: reaps its stages, looks at them now and then, keeps the view
//! alive, passes signals on.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;

use super::launch::{Launched, Process, ServedBy};
use super::signals::{self, Event, Signals};
use super::tally::{Ended, Exit, Tally};
use super::view::View;

/// The first look comes soon, for pipelines that are over soon; then the pace slackens until it
/// is that of the view. A look costs some ten microseconds per process.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const SLACKENING: f64 = 1.25;
const LAST_PACE: Duration = Duration::from_millis(125);

/// What became of a pipeline.
pub struct Outcome {
    pub tally: Tally,
    pub wall_s: f64,
    /// Ctrl-C ended it.
    pub interrupted_by: Option<i32>,
}

/// Whether and how to watch.
pub struct Watch {
    /// Sample the stages, for the view or for the report.
    pub sampling: bool,
    pub view: Option<View>,
}

pub fn wait(
    launched: &Launched,
    started: Instant,
    mut watch: Watch,
    mut signals: Signals,
) -> anyhow::Result<Outcome> {
    let stages = launched.processes.len();
    let mut tally = Tally::new(started, stages, &launched.pipes);
    let mut interrupted_by = None;
    mark(&mut tally, launched);
    let mut pace = FIRST_LOOK;
    let mut next_look = started + pace;
    while tally.stages.iter().any(|stage| stage.ended.is_none()) {
        let exited = wait_for_something(
            launched,
            &tally,
            &signals,
            watch.sampling.then_some(next_look),
        )?;
        for index in exited {
            reap(&mut tally, index, launched.processes[index].as_ref())?;
        }
        for event in signals.drain() {
            match event {
                Event::Interrupt(signal) => interrupted_by = Some(signal),
                Event::Forward(signal) => forward(launched, &tally, signal),
                Event::Stop => pause(&mut watch),
                Event::Resize => {}
            }
        }
        if watch.sampling && Instant::now() >= next_look {
            tally.look(&launched.processes);
            if let Some(view) = &mut watch.view {
                view.draw(&tally);
            }
            pace = pace.mul_f64(SLACKENING).min(LAST_PACE);
            next_look = Instant::now() + pace;
        }
    }
    if let Some(view) = &mut watch.view {
        view.clear();
    }
    let wall_s = started.elapsed().as_secs_f64();
    let interrupted_by = interrupted_by.filter(|signal| {
        let died_of_it = Exit::Signal(*signal);
        tally
            .stages
            .iter()
            .any(|stage| stage.ended.is_some_and(|ended| ended.exit == died_of_it))
    });
    Ok(Outcome {
        tally,
        wall_s,
        interrupted_by,
    })
}

/// A stage that could not be started counts as a command that was not found.
fn mark(tally: &mut Tally, launched: &Launched) {
    for (index, process) in launched.processes.iter().enumerate() {
        match process {
            None => {
                let exit = Exit::Status(127);
                let ended = Ended {
                    after_s: 0.0,
                    user_s: 0.0,
                    system_s: 0.0,
                    exit,
                };
                tally.stages[index].ended = Some(ended);
            }
            Some(process) if process.served_by == ServedBy::Splice => tally.splices(index),
            Some(_) => {}
        }
    }
}

/// The stages that exited; none when a signal came or the time for a look.
fn wait_for_something(
    launched: &Launched,
    tally: &Tally,
    signals: &Signals,
    until: Option<Instant>,
) -> io::Result<Vec<usize>> {
    let alive: Vec<usize> = (0..tally.stages.len())
        .filter(|index| tally.stages[*index].ended.is_none())
        .collect();
    let pidfds = alive
        .iter()
        .filter_map(|index| launched.processes[*index].as_ref());
    let mut fds: Vec<PollFd<'_>> = pidfds
        .map(|process| PollFd::new(&process.pidfd, PollFlags::IN))
        .collect();
    let signal_fds: Vec<_> = signals.fds().collect();
    fds.extend(signal_fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let timeout = until.map(|instant| {
        let rest = instant.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: rest.as_secs().cast_signed(),
            tv_nsec: rest.subsec_nanos().into(),
        }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = |(fd, index): (&PollFd<'_>, usize)| (!fd.revents().is_empty()).then_some(index);
    Ok(fds.iter().zip(alive).filter_map(ready).collect())
}

fn reap(tally: &mut Tally, index: usize, process: Option<&Process>) -> io::Result<()> {
    let Some(process) = process else {
        return Ok(());
    };
    tally.look_at(index, process);
    let (exit, user_s, system_s) = wait4(process.pid)?;
    let after_s = tally.started.elapsed().as_secs_f64();
    tally.stages[index].ended = Some(Ended {
        after_s,
        user_s,
        system_s,
        exit,
    });
    Ok(())
}

fn forward(launched: &Launched, tally: &Tally, signal: i32) {
    for (process, stage) in launched.processes.iter().zip(&tally.stages) {
        if let (Some(process), None) = (process, stage.ended) {
            signals::forward(process, signal);
        }
    }
}

/// The terminal is handed back as it was, and taken again after `fg`.
fn pause(watch: &mut Watch) {
    if let Some(view) = &mut watch.view {
        view.clear();
    }
    signals::stop();
}

/// Reaps a child: its exit, and the processor time of it and of all that it waited for
/// ([wait4](https://man7.org/linux/man-pages/man2/wait4.2.html), which rustix lacks).
fn wait4(pid: Pid) -> io::Result<(Exit, f64, f64)> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writes of their types for the whole call.
    let reaped = unsafe { libc::wait4(pid.as_raw_pid(), &raw mut status, 0, usage.as_mut_ptr()) };
    if reaped < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an rusage is plain integers, zeroed before and filled by the successful call.
    let usage = unsafe { usage.assume_init() };
    let exit = if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Status(libc::WEXITSTATUS(status))
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((exit, seconds(usage.ru_utime), seconds(usage.ru_stime)))
}
