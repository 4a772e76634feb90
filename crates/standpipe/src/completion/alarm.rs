//! What makes the ring's descriptor ready from within: completions that wait to be reaped, and time.
//!
//! One timerfd is both: for what is due already it is set to the shortest time there is.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use standpipe_shm::private_fd::PrivateFd;

use crate::end::registry;

/// When it goes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Never,
    Now,
    At(Instant),
}

pub struct Alarm {
    timer: PrivateFd,
    set_to: When,
}

impl Alarm {
    /// As an event of `set` that carries `data`.
    pub fn new(set: impl AsFd, data: u64) -> io::Result<Self> {
        let _no_fork = registry::hold_forks();
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = PrivateFd::from(timerfd_create(TimerfdClockId::Monotonic, flags)?);
        epoll::add(set, &timer, EventData::new_u64(data), EventFlags::IN)?;
        Ok(Self {
            timer,
            set_to: When::Never,
        })
    }

    /// Has it go off then, and not before.
    pub fn set(&mut self, when: When) -> io::Result<()> {
        if self.set_to == when {
            return Ok(());
        }
        let after = match when {
            When::Never => Duration::ZERO,
            When::Now => SHORTEST,
            When::At(at) => at.saturating_duration_since(Instant::now()).max(SHORTEST),
        };
        let spec = Itimerspec {
            it_interval: timespec(Duration::ZERO),
            it_value: timespec(after),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec)?;
        self.set_to = when;
        Ok(())
    }
}

/// Zero would switch it off.
const SHORTEST: Duration = Duration::from_nanos(1);

pub fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
