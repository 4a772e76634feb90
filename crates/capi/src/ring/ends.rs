//! What a ring has, by the program's descriptors: ends, and what is none.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use rustix::io::Errno;
use standpipe::completion::{EndId, Refusal as Unfit, Ring};
use standpipe_shm::private_fd::copy_out_of_the_way;

use crate::border::{Answer, Refusal, errno_of};
use crate::report::no_end;
use crate::slot::{Kind, Life};
use crate::{gate, table};

/// A descriptor that is attached.
struct Attachment {
    id: EndId,
    /// Of what the program's number is.
    life: Life,
    /// The ring's own descriptor.
    held: c_int,
}

/// All of them.
#[derive(Default)]
pub struct Ends {
    attached: FxHashMap<c_int, Attachment>,
    /// Foreign ones that are attached no more, though the kernel has not given back all operations on them.
    leaving: Vec<Arc<OwnedFd>>,
}

impl Ends {
    /// What `fd` is to the ring, attached if need be.
    ///
    /// # Errors
    /// `EBADF` (not open), `EINVAL` (a pipe that is left to the kernel), `ENOSYS` (no `io_uring` for what is no
    /// end); as dup(2).
    #[inline]
    pub fn find(&mut self, ring: &mut Ring, fd: c_int) -> Answer<EndId> {
        match self.attached.get(&fd) {
            Some(known) if known.life.goes_on() => Ok(known.id),
            _ => self.attach(ring, fd),
        }
    }

    #[cold]
    fn attach(&mut self, ring: &mut Ring, fd: c_int) -> Answer<EndId> {
        self.let_go(ring, fd);
        // A forked child must know of the new descriptor.
        let _inside = gate::enter();
        let attachment = match attach_end(ring, fd) {
            Err(Refusal::Kernel) => attach_foreign(ring, fd),
            attached => attached,
        };
        let attachment = attachment.map_err(|refusal| no_end(fd, refusal))?;
        let id = attachment.id;
        self.attached.insert(fd, attachment);
        Ok(id)
    }

    /// If what `fd` was is gone, it is closed here, too.
    pub fn let_go(&mut self, ring: &mut Ring, fd: c_int) {
        let is_gone = |known: &Attachment| !known.life.goes_on();
        if self.attached.get(&fd).is_some_and(is_gone) {
            self.remove(ring, fd);
        }
    }

    /// Its operations are cancelled. Says whether it was there.
    pub fn remove(&mut self, ring: &mut Ring, fd: c_int) -> bool {
        let Some(known) = self.attached.remove(&fd) else {
            return false;
        };
        if let Some(end) = ring.detach(known.id) {
            table::release(known.held);
            drop(end);
        } else {
            self.leaving.extend(ring.detach_foreign(known.id));
            self.close_left();
        }
        true
    }

    /// Closes what the kernel has given back.
    #[inline]
    pub fn close_left(&mut self) {
        self.leaving.retain(|copy| {
            // Others are with the operations, inside the ring, where nobody is but us.
            let is_last = Arc::strong_count(copy) == 1;
            if is_last {
                table::release(copy.as_raw_fd());
            }
            !is_last
        });
    }

    /// The ring is about to be dropped, and all that it has is closed.
    pub fn release_all(&mut self) {
        for (_, known) in self.attached.drain() {
            table::release(known.held);
        }
        for copy in self.leaving.drain(..) {
            table::release(copy.as_raw_fd());
        }
    }
}

/// # Errors
/// [`Refusal::Kernel`] if it is no end; as dup(2).
fn attach_end(ring: &mut Ring, fd: c_int) -> Answer<Attachment> {
    let (copy, life) = table::with_slot(fd, |slot, end| {
        let copy = end.try_clone_out_of_the_way()?;
        Ok((copy, slot.note_ring(Kind::Ours)))
    })?;
    let held = copy.as_raw_fd();
    table::hold(held);
    let id = ring.attach(copy);
    Ok(Attachment { id, life, held })
}

/// # Errors
/// [`Refusal::Kernel`] if it is not known to be foreign, or a pipe; as dup(2).
fn attach_foreign(ring: &mut Ring, fd: c_int) -> Answer<Attachment> {
    let (copy, life) = table::with_foreign(fd, |slot, number| {
        let copy = copy_out_of_the_way(number)?;
        Ok((copy, slot.note_ring(Kind::Foreign)))
    })?;
    let held = copy.as_raw_fd();
    table::hold(held);
    match ring.attach_foreign(copy) {
        Ok(id) => Ok(Attachment { id, life, held }),
        Err(refused) => {
            table::release(held);
            Err(refusal_of(&refused.refusal))
        }
    }
}

fn refusal_of(unfit: &Unfit) -> Refusal {
    let errno = match unfit {
        Unfit::PathOnly => Errno::BADF,
        Unfit::Io(error) => errno_of(error),
        Unfit::NoIoUring(error) => match errno_of(error) {
            scarce @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM) => scarce,
            // Forbidden is as good as not there; `EPERM` would be said of the ring.
            _ => Errno::NOSYS,
        },
        _ => return Refusal::Kernel,
    };
    errno.into()
}
