//! select.

use std::ffi::{c_int, c_long, c_ulong};
use std::time::{Duration, Instant};

use libc::{fd_set, sigset_t, timespec, timeval};
use rustix::io::Errno;
use standpipe::poll::{Interest, SelectEntry, select};

use crate::border::{Answer, Refusal, answer, check_address};
use crate::wait::{Visited, duration};

/// [select(2)](https://man7.org/linux/man-pages/man2/select.2.html). The time that is left is stored,
/// as on Linux.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    answer(
        || {
            // SAFETY: by the caller.
            let mut sets = unsafe { Sets::new(count, [read, write, except]) }?;
            // SAFETY: by the caller.
            let timeout = unsafe { timeout.as_mut() };
            let begin = Instant::now();
            let limit = timeout.as_deref().map(whole).transpose()?;
            let result = sets.wait(limit, None);
            if let (Some(place), Some(limit)) = (timeout, limit) {
                *place = split(limit.saturating_sub(begin.elapsed()));
            }
            result
        },
        // SAFETY: what C asks for.
        || unsafe { libc::select(count, read, write, except, timeout) },
    )
}

/// [pselect(2)](https://man7.org/linux/man-pages/man2/select.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    answer(
        || {
            // SAFETY: by the caller.
            let mut sets = unsafe { Sets::new(count, [read, write, except]) }?;
            // SAFETY: by the caller.
            let limit = unsafe { duration(timeout) }?;
            // SAFETY: by the caller.
            sets.wait(limit, unsafe { mask.as_ref() })
        },
        // SAFETY: what C asks for.
        || unsafe { libc::pselect(count, read, write, except, timeout, mask) },
    )
}

/// The kernel takes more than a second of microseconds, too.
fn whole(time: &timeval) -> Answer<Duration> {
    match (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)) {
        (Ok(seconds), Ok(micros)) => {
            Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
        }
        _ => Err(Errno::INVAL.into()),
    }
}

fn split(time: Duration) -> timeval {
    timeval {
        tv_sec: c_long::try_from(time.as_secs()).unwrap_or(c_long::MAX),
        tv_usec: c_long::from(time.subsec_micros().cast_signed()),
    }
}

/// A word of a set: the type that `FD_SET` of the C library works with.
type Word = c_ulong;
const WORD_BITS: usize = Word::BITS as usize;

/// The three sets of C, in the order read, write, except; a null one has no members.
struct Sets<'a> {
    words: [&'a mut [Word]; 3],
    fds: Vec<(c_int, Interest)>,
    visited: Visited,
}

impl Sets<'_> {
    /// # Errors
    /// [`Refusal::Kernel`] if no member is ours, or something is wrong with the arguments.
    ///
    /// # Safety
    /// The sets are null or there, for `count` members.
    unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Answer<Self> {
        let count = usize::try_from(count).map_err(|_| Refusal::Kernel)?;
        let n = count.div_ceil(WORD_BITS);
        for set in sets.iter().filter(|set| !set.is_null()) {
            check_address(*set, n * size_of::<Word>()).map_err(|_| Refusal::Kernel)?;
        }
        let words = sets.map(|set| {
            if set.is_null() {
                return &mut [][..];
            }
            // SAFETY: by the caller. C may not name one set twice.
            unsafe { std::slice::from_raw_parts_mut(set.cast::<Word>(), n) }
        });
        let fds = members(count, &words);
        let visited = Visited::new(fds.iter().map(|(fd, _)| *fd))?;
        Ok(Self {
            words,
            fds,
            visited,
        })
    }

    /// Waits; the sets change only if that succeeds.
    fn wait(&mut self, limit: Option<Duration>, mask: Option<&sigset_t>) -> Answer<c_int> {
        let mut entries: Vec<_> = (self.fds.iter().enumerate())
            .map(|(i, (_, wanted))| SelectEntry::new(self.visited.source(i), *wanted))
            .collect();
        let ready = select(&mut entries, limit, mask)?;
        self.words.iter_mut().for_each(|words| words.fill(0));
        for ((fd, _), entry) in self.fds.iter().zip(&entries) {
            let is_ready = [entry.ready.read, entry.ready.write, entry.ready.except];
            for (words, is_ready) in self.words.iter_mut().zip(is_ready) {
                if is_ready {
                    insert(words, *fd);
                }
            }
        }
        c_int::try_from(ready).map_err(|_| Errno::OVERFLOW.into())
    }
}

fn members(count: usize, words: &[&mut [Word]; 3]) -> Vec<(c_int, Interest)> {
    let is_member = |set: usize, fd: usize| {
        (words[set].get(fd / WORD_BITS)).is_some_and(|word| word >> (fd % WORD_BITS) & 1 != 0)
    };
    (0..count)
        .zip(0..)
        .map(|(fd, number)| {
            let interest = Interest {
                read: is_member(0, fd),
                write: is_member(1, fd),
                except: is_member(2, fd),
            };
            (number, interest)
        })
        .filter(|(_, interest)| *interest != Interest::default())
        .collect()
}

fn insert(words: &mut [Word], fd: c_int) {
    let fd = fd.cast_unsigned() as usize;
    words[fd / WORD_BITS] |= 1 << (fd % WORD_BITS);
}
