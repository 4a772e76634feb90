//! Threads that read and wait, where there is no ring to do so.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::io::Errno;

use super::job::{Job, Next};

/// As many reads are under way at once: what it takes to keep a disk busy.
const MOST_THREADS: usize = 8;

/// Lives as long as the process, as its threads do, which are started when there is work for them.
#[derive(Default)]
pub struct Pool {
    state: Mutex<State>,
    has_work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Pool {
    /// Has a job done. It fails if there is no thread, and none can be made.
    pub fn push(&'static self, job: Job) {
        let mut state = self.lock();
        if state.queue.len() >= state.idle && state.threads < MOST_THREADS {
            let thread = thread::Builder::new().name("standpipe-pread".into());
            match thread.spawn(|| self.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    drop(state);
                    return job.fail(error);
                }
                // The others will come to it.
                Err(_) => (),
            }
        }
        state.queue.push_back(job);
        drop(state);
        self.has_work.notify_one();
    }

    fn work(&self) {
        loop {
            let mut state = self.lock();
            state.idle += 1;
            while state.queue.is_empty() {
                state = self
                    .has_work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            state.idle -= 1;
            let job = state.queue.pop_front().expect("not empty");
            drop(state);
            super::engine::guard(|| read(job));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The whole job, call by call.
fn read(mut job: Job) {
    let source = Arc::clone(job.source());
    loop {
        // Another thread may be told the same at the same time, and end it first.
        let was_direct = source.is_direct();
        let (offset_bytes, mut buffers) = job.call();
        let got = rustix::io::preadv(&source, &mut buffers, offset_bytes);
        job = match got {
            Ok(bytes) => match job.note(offset_bytes, bytes) {
                Next::Over => return,
                Next::Again(job) => job,
            },
            Err(Errno::INTR | Errno::AGAIN) => job,
            Err(Errno::INVAL) if was_direct => match source.stop_direct() {
                Ok(()) => job,
                Err(error) => return job.fail(error),
            },
            Err(error) => return job.fail(io::Error::from(error)),
        };
    }
}
