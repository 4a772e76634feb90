//! Sleeping on many descriptors: ppoll(2) and pselect(2), and holding signals until then.

use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use std::time::Duration;

pub use libc::{pollfd, sigset_t};

/// ppoll(2). `None` waits for ever, and leaves the signal mask alone.
///
/// # Errors
/// As ppoll(2): `Interrupted` if a handler ran, `SA_RESTART` or not.
pub fn ppoll(
    fds: &mut [pollfd],
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    // SAFETY: pointer and length are of one slice; the others are null or point to what lives.
    let ready = unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            pointer(timeout.as_ref()),
            pointer(mask),
        )
    };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}

/// Which descriptors, for [`pselect`]. Unlike an `fd_set` it has room for any.
#[derive(Clone, Debug, Default)]
pub struct FdSet {
    words: Vec<u64>,
}

impl FdSet {
    /// Adds a descriptor. Negative ones are no members.
    pub fn insert(&mut self, fd: RawFd) {
        let Some((word, bit)) = place(fd) else { return };
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
    }
}

/// The kernel's layout: an array of `unsigned long`.
fn place(fd: RawFd) -> Option<(usize, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((fd / 64, 1 << (fd % 64)))
}

/// pselect(2) on readable, writable and exceptional descriptors. Of numbers beyond the table of
/// descriptors the kernel takes no notice.
///
/// # Errors
/// As pselect(2); `Interrupted` as for [`ppoll`].
pub fn pselect(
    sets: &mut [FdSet; 3],
    timeout: Option<Duration>,
    mask: Option<&sigset_t>,
) -> io::Result<usize> {
    let words = sets.iter().map(|set| set.words.len()).max().unwrap_or(0);
    for set in sets.iter_mut() {
        set.words.resize(words, 0);
    }
    let [read, write, except] = sets.each_mut().map(|set| set.words.as_mut_ptr().cast());
    let bits = i32::try_from(64 * words).unwrap_or(i32::MAX);
    let timeout = timeout.map(timespec);
    // SAFETY: each set has as many bits as the first argument says, rounded up to a word; the other
    // pointers are null or point to what lives.
    let ready = unsafe {
        libc::pselect(
            bits,
            read,
            write,
            except,
            pointer(timeout.as_ref()),
            pointer(mask),
        )
    };
    usize::try_from(ready).map_err(|_| io::Error::last_os_error())
}

fn pointer<T>(it: Option<&T>) -> *const T {
    it.map_or(std::ptr::null(), std::ptr::from_ref)
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Holds back this thread's signals until dropped. One that arrives between a look and the sleep
/// after it is then delivered *in* the sleep (see [`mask`](Self::mask)), which it ends; else the
/// sleep would go on as if nothing had been.
#[derive(Debug)]
pub struct HeldSignals {
    before: sigset_t,
    /// A mask belongs to its thread.
    not_send: PhantomData<*const ()>,
}

/// A thread's own faults can't wait: to block those is death.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

impl HeldSignals {
    /// Blocks them.
    ///
    /// # Errors
    /// As `pthread_sigmask(3)`.
    pub fn hold() -> io::Result<Self> {
        let mut set = empty_set();
        // SAFETY: the set is ours.
        unsafe { libc::sigfillset(&raw mut set) };
        for fault in FAULTS {
            // SAFETY: the set is ours, and the number that of a signal.
            unsafe { libc::sigdelset(&raw mut set, fault) };
        }
        let mut before = empty_set();
        // SAFETY: both sets are ours.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) } {
            0 => Ok(Self {
                before,
                not_send: PhantomData,
            }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// What was blocked before: the mask for the sleep.
    #[must_use]
    pub fn mask(&self) -> &sigset_t {
        &self.before
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the set is what pthread_sigmask(3) gave; the old one is not wanted, hence null.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            )
        };
    }
}

fn empty_set() -> sigset_t {
    // SAFETY: all bits zero are a valid signal set.
    unsafe { std::mem::zeroed() }
}
