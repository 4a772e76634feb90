//! The pipes of this process, by identity; and what has to be done for all of them around a fork.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, TryLockError, Weak};

use rustix::io::Errno;
use standpipe_core::size::PipeSize;
use standpipe_shm::lane::Wake;
use standpipe_shm::private_fd::PrivateFd;
pub use standpipe_shm::rendezvous::PipeId;
use standpipe_shm::{fork, patience, pool};

use super::capacity::Capacity;
use super::leave;
use super::shared::Shared;

/// What has to be known at a fork. Whatever is done under its lock, a forked child finds done or not
/// begun.
#[derive(Default)]
pub struct Live {
    pipes: HashMap<PipeId, Known>,
    /// Descriptors of this process alone.
    own_fds: Vec<RawFd>,
}

struct Known {
    shared: Weak<Shared>,
    /// Descriptors of its ends here.
    fds: Vec<RawFd>,
}

impl From<&Arc<Shared>> for Known {
    fn from(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            fds: Vec::with_capacity(2),
        }
    }
}

fn live_list() -> &'static Mutex<Live> {
    static LIVE: OnceLock<Mutex<Live>> = OnceLock::new();
    LIVE.get_or_init(Mutex::default)
}

fn live() -> MutexGuard<'static, Live> {
    live_list().lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pipe that was just made.
pub fn add(id: PipeId, capacity: Capacity, wake: Wake, is_open_to_strangers: bool) -> Arc<Shared> {
    watch_forks();
    let shared = Arc::new(Shared::new(id, capacity, wake, is_open_to_strangers));
    live().pipes.insert(id, Known::from(&shared));
    shared
}

/// The pipe of this identity, or one that is new to this process, of `size`.
pub fn find_or_add(id: PipeId, size: impl FnOnce() -> PipeSize) -> Arc<Shared> {
    watch_forks();
    let mut live = live();
    if let Some(shared) = live.pipes.get(&id).and_then(|known| known.shared.upgrade()) {
        shared.open_to_strangers();
        return shared;
    }
    // What others made is as large as they want it.
    let capacity = Capacity::new(size(), false);
    let shared = Arc::new(Shared::new(id, capacity, Wake::default(), true));
    live.pipes.insert(id, Known::from(&shared));
    shared
}

/// The pipe of this identity, of which `fd` is an end here.
pub fn find(id: PipeId, fd: RawFd) -> Option<Arc<Shared>> {
    let live = live();
    let known = live.pipes.get(&id)?;
    known.fds.contains(&fd).then(|| known.shared.upgrade())?
}

/// A pipe whose last end here is gone.
pub fn remove(shared: &Shared) {
    let mut live = live();
    // Another pipe may have come to this identity since.
    let is_ours = live
        .pipes
        .get(&shared.id)
        .is_some_and(|known| std::ptr::eq(known.shared.as_ptr(), shared));
    if is_ours {
        live.pipes.remove(&shared.id);
    }
}

/// Every pipe of this process.
pub fn all() -> Vec<Arc<Shared>> {
    upgraded(&live())
}

fn upgraded(live: &Live) -> Vec<Arc<Shared>> {
    let known = live.pipes.values();
    known.filter_map(|known| known.shared.upgrade()).collect()
}

/// An end of `shared` has this descriptor from now on.
pub fn add_fd(shared: &Shared, fd: RawFd) {
    if let Some(known) = live().pipes.get_mut(&shared.id) {
        known.fds.push(fd);
    }
}

/// It is about to be closed, or given away.
pub fn remove_fd(shared: &Shared, fd: RawFd) {
    let mut live = live();
    shared.forget_news(fd, &live);
    if let Some(known) = live.pipes.get_mut(&shared.id)
        && let Some(index) = known.fds.iter().position(|one| *one == fd)
    {
        known.fds.swap_remove(index);
    }
}

/// A descriptor to write to the pipe by, non-blocking, whatever ends are here.
///
/// # Errors
/// `EBADF` without an end; else as open(2) of `/proc/self/fd`.
pub fn reopen_for_writing(live: &Live, shared: &Shared) -> io::Result<PrivateFd> {
    let fds = live.pipes.get(&shared.id).map(|known| &known.fds);
    let fd = fds.and_then(|fds| fds.first()).ok_or(Errno::BADF)?;
    // SAFETY: an end owns it, and takes it off the list, which is locked, before it closes it.
    let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
    super::kernel::reopen_for_writing(fd)
}

/// No fork happens until the result is dropped.
pub fn hold_forks() -> MutexGuard<'static, Live> {
    live()
}

/// The same if it can be had at once: for reads and writes, which a signal handler may be in while its own
/// thread holds it. Who does not get it does without what it wanted, this time.
pub fn try_hold_forks() -> Option<MutexGuard<'static, Live>> {
    match live_list().try_lock() {
        Ok(live) => Some(live),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Children of this process close `fd`. Called while forks are held.
pub fn close_in_children(live: &mut Live, fd: &impl AsRawFd) {
    live.own_fds.push(fd.as_raw_fd());
}

/// `fd` is about to be closed here. Called while forks are held.
pub fn closes(live: &mut Live, fd: &impl AsRawFd) {
    live.own_fds.retain(|own| *own != fd.as_raw_fd());
}

/// What the forking thread holds from before a fork until after, so that the child finds it whole.
struct Held {
    live: MutexGuard<'static, Live>,
    pool: pool::Pause,
    /// Pipes must not be dropped while their list is held.
    pipes: Vec<Arc<Shared>>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        fork::watch(fork::Hooks {
            prepare,
            parent: release,
            child: begin_anew,
        });
    });
}

/// Before a fork: each pipe gets its lane, since one made later would be on one side only. Read ends
/// that a program would inherit leave their lanes: the child may turn into one.
fn prepare() {
    for pipe in all() {
        if pipe.has_members_here() {
            pipe.make_lane_held(&hold_forks());
        }
        pipe.note_met();
        pipe.tell_news();
        if pipe.is_open_to_strangers() {
            // What can't be moved stays in the lane, for those who know it.
            let _ = leave::before_fork(&pipe);
        }
    }
    let live = live();
    let pipes = upgraded(&live);
    let held = Held {
        live,
        pool: pool::pause(),
        pipes,
    };
    HELD.with(|place| *place.borrow_mut() = Some(held));
}

fn release() {
    let held = HELD.with(|place| place.borrow_mut().take());
    if let Some(Held { live, pool, pipes }) = held {
        drop((live, pool));
        // The last ends of some may have gone meanwhile; dropping those takes the list.
        drop(pipes);
    }
}

/// In a forked child: page tables are empty, the pool's lanes are the parent's, and so are its
/// meetings.
fn begin_anew() {
    let is_elsewhere = fork::is_in_other_pid_namespace();
    let mut pipes = Vec::new();
    HELD.with(|place| {
        if let Some(held) = place.borrow_mut().as_mut() {
            held.pool.clear();
            held.live.own_fds.drain(..).for_each(fork::close);
            for pipe in &held.pipes {
                if let Some(lane) = pipe.lane() {
                    lane.begin_anew();
                    pipe.sign_in();
                }
                pipe.meetings.begin_anew();
                pipe.leave_news_to_parent();
            }
            if is_elsewhere {
                pipes.clone_from(&held.pipes);
            }
        }
    });
    patience::recount_processors();
    release();
    // Locks hold thread ids, which mean others here. (After the release: to leave, the list is taken.)
    for pipe in pipes {
        pipe.retire();
    }
}

/// As in a process that was just started by exec: nothing is known of any pipe, and of the pipes'
/// descriptors only the ends themselves are left. For tests of that very situation, which otherwise
/// would need a program for each.
pub fn forget() {
    let mut live = live();
    let pipes = std::mem::take(&mut live.pipes);
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<RawFd> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open {
        // SAFETY: looked at only, and an answer about a descriptor that is gone is an error.
        let id = PipeId::of(unsafe { BorrowedFd::borrow_raw(fd) });
        if let Ok(known) = id.map(|id| pipes.get(&id))
            && known.is_some_and(|known| !known.fds.contains(&fd))
        {
            fork::close(fd);
        }
    }
}
