//! What a stage is doing, from /proc.
//!
//! A stage is a process and its descendants (a shell with its commands, a parallel compressor).
//! Bytes are what the kernel accounts to them as read and written; a process that exits passes
//! its account on to the parent that waits for it, so that sums over the living are complete.

use std::os::fd::OwnedFd;

use procfs::process::{Process as Proc, Stat, Syscall};
use rustix::io::ioctl_fionread;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use serde::Serialize;
use standpipe::pipe::PIPE_BUF;

use super::launch::{Pipe, Process, is_pipe};

/// What a stage does at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for something that is none of the pipes: a clock, a child, the network.
    #[default]
    Elsewhere,
    /// Its input pipe is empty.
    WaitingToRead,
    /// Its output pipe is full.
    WaitingToWrite,
    /// Waits for storage.
    WaitingForDisk,
    /// On a processor, or ready for one.
    Running,
}

/// What /proc says of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub state: State,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub cpu_s: f64,
}

/// A pipe and how much is in it.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub pipe: Pipe,
    pub filled_bytes: usize,
}

/// The pipes at the ends of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub input: Option<Level>,
    pub output: Option<Level>,
}

impl Ends {
    fn input_is_empty(&self) -> bool {
        self.input.is_some_and(|level| level.filled_bytes == 0)
    }

    /// No room for an atomic write.
    fn output_is_full(&self) -> bool {
        self.output
            .is_some_and(|level| level.filled_bytes + PIPE_BUF > level.pipe.capacity_bytes)
    }
}

/// More processes than that in one stage are not looked at.
const MAX_FAMILY: usize = 64;

/// More threads than that of one process are not looked at.
const MAX_THREADS: usize = 16;

/// Reads what a stage and its descendants are doing. `None` if it cannot be read.
pub fn sample(process: &Process, ends: Ends) -> Option<Sample> {
    let mut sample = Sample::default();
    let mut family = vec![process.pid.as_raw_nonzero().get()];
    let mut looked_at = 0;
    while let Some(pid) = family.pop() {
        looked_at += 1;
        let Some((proc, stat)) = open(pid) else {
            if looked_at == 1 {
                return None;
            }
            continue;
        };
        if let Ok(io) = proc.io() {
            sample.read_bytes += io.rchar;
            sample.written_bytes += io.wchar;
        }
        let ticks = stat.utime + stat.stime + (stat.cutime + stat.cstime).max(0).cast_unsigned();
        sample.cpu_s += ticks as f64 / procfs::ticks_per_second() as f64;
        sample.state = sample.state.max(state_of(&proc, &stat, ends));
        if let Ok(children) = proc.task_main_thread().and_then(|thread| thread.children()) {
            let room = MAX_FAMILY.saturating_sub(looked_at + family.len());
            family.extend(children.into_iter().take(room).map(u32::cast_signed));
        }
    }
    Some(sample)
}

fn open(pid: i32) -> Option<(Proc, Stat)> {
    let proc = Proc::new(pid).ok()?;
    let stat = proc.stat().ok()?;
    Some((proc, stat))
}

fn state_of(proc: &Proc, stat: &Stat, ends: Ends) -> State {
    if stat.num_threads <= 1 {
        return thread_state(proc.pid, stat.state, || proc.syscall().ok(), ends);
    }
    let threads = proc
        .tasks()
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_THREADS);
    let states = threads.map(|thread| {
        let letter = thread.stat().map_or('?', |stat| stat.state);
        thread_state(proc.pid, letter, || thread.syscall().ok(), ends)
    });
    states.max().unwrap_or_default()
}

fn thread_state(
    pid: i32,
    letter: char,
    syscall: impl Fn() -> Option<Syscall>,
    ends: Ends,
) -> State {
    match letter {
        'R' => State::Running,
        'D' => State::WaitingForDisk,
        'S' => syscall().map_or(State::Elsewhere, |call| waits_for(pid, call, ends)),
        _ => State::Elsewhere,
    }
}

/// Which end of the stage a system call that sleeps is about. Calls on other files, and on pipes
/// within the stage, are none of ours.
fn waits_for(pid: i32, call: Syscall, ends: Ends) -> State {
    let Syscall::Blocked {
        syscall_number,
        argument_registers,
        ..
    } = call
    else {
        return State::Running;
    };
    let [first, _, third, ..] = argument_registers;
    let is_input = |fd| {
        ends.input
            .is_some_and(|level| is_pipe(pid, fd, &level.pipe))
    };
    let is_output = |fd| {
        ends.output
            .is_some_and(|level| is_pipe(pid, fd, &level.pipe))
    };
    match kind(syscall_number) {
        Kind::Write if is_output(first) => State::WaitingToWrite,
        // with a pipe at either side, the empty input is the reason or else the full output
        Kind::Splice if is_output(third) && !(is_input(first) && ends.input_is_empty()) => {
            State::WaitingToWrite
        }
        Kind::Read | Kind::Splice if is_input(first) => State::WaitingToRead,
        Kind::Poll if ends.input_is_empty() => State::WaitingToRead,
        Kind::Poll if ends.output_is_full() => State::WaitingToWrite,
        _ => State::Elsewhere,
    }
}

enum Kind {
    Read,
    Write,
    Splice,
    Poll,
    Other,
}

fn kind(number: i64) -> Kind {
    match number {
        libc::SYS_read | libc::SYS_readv => Kind::Read,
        libc::SYS_write | libc::SYS_writev | libc::SYS_vmsplice => Kind::Write,
        libc::SYS_splice | libc::SYS_tee => Kind::Splice,
        // from a file into the output
        libc::SYS_sendfile => Kind::Write,
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait => Kind::Poll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => Kind::Poll,
        _ => Kind::Other,
    }
}

/// How many bytes are in a pipe. The kernel tells only holders of a descriptor, so one is borrowed
/// from the stage for an instant: never kept, so that end of file and SIGPIPE stay exact.
pub fn filled_bytes(
    pipe: &Pipe,
    writer: Option<&Process>,
    reader: Option<&Process>,
) -> Option<usize> {
    let ends = [(reader, 0), (writer, 1)];
    let borrowed = ends
        .into_iter()
        .find_map(|(process, fd)| borrow(process?, fd, pipe))?;
    ioctl_fionread(&borrowed).ok().map(|bytes| bytes as usize)
}

fn borrow(process: &Process, fd: i32, pipe: &Pipe) -> Option<OwnedFd> {
    let borrowed = pidfd_getfd(&process.pidfd, fd, PidfdGetfdFlags::empty()).ok()?;
    let inode = rustix::fs::fstat(&borrowed).ok()?.st_ino;
    (inode == pipe.inode).then_some(borrowed)
}
