//! standpipe for C.
//!
//! The functions here have the signatures, results and errno of their POSIX namesakes, and take any
//! descriptor: ends of pipes and FIFOs get the lane, everything else goes to the kernel. The
//! descriptors are the kernel's own.
//!
//! # Which descriptors are ours
//! Those that `sp_pipe`, `sp_open` and the like return, if they are ends of pipes or FIFOs; their
//! copies; and any other that is an end of a pipe or FIFO when it is first seen by one of these
//! functions, such as an inherited standard input. That a number is something else is remembered
//! until it is closed here, or given out again here; `sp_adopt` looks again.
//!
//! A number of ours that is closed behind our back (by `close` of the C library itself) is noticed
//! when the kernel gives it out again through one of these functions. `standpipe/posix.h` makes sure
//! that a program's own calls come here; `sp_forget` tells of others.
//!
//! What the library holds for itself is not there for a program that closes all numbers it can think of:
//! `EBADF`.
//!
//! # Threads, forks, signals
//! Any thread may use any descriptor. Closing one that another thread is using takes effect when that
//! call returns, and its number stays taken for as long; `dup2` onto such a one fails with `EBUSY`.
//! Forks of a process with several threads are safe. Calls on ends are no cancellation points.
//!
//! # Addresses
//! Addresses at which no process has memory (the first page, the kernel's half) give `EFAULT`. Other
//! bad addresses are a fault of the program, as in `memcpy`: `SIGSEGV`.
//!
//! # Bugs
//! A panic, which would be a bug, ends in `EIO` and a message on standard error.
#![allow(
    clippy::missing_safety_doc,
    reason = "as their POSIX namesakes, each of which is linked"
)]

mod border;
mod control;
mod gate;
mod give;
mod make;
mod number;
mod report;
mod ring;
mod select;
mod slot;
mod start;
mod table;
mod transfer;
mod vectors;
mod wait;

pub use control::{sp_fcntl, sp_ioctl};
pub use give::{
    sp_epoll_ctl, sp_fdopen, sp_give_up, sp_recvmsg, sp_sendfile, sp_sendmsg, sp_splice, sp_stream,
    sp_tee, sp_use_kernel, sp_vmsplice,
};
pub use make::{sp_adopt, sp_creat, sp_forget, sp_open, sp_openat, sp_pipe, sp_pipe2};
pub use number::{sp_cancel, sp_close, sp_close_range, sp_closefrom, sp_dup, sp_dup2, sp_dup3};
pub use report::{
    SP_PEER_CANCELLED, SP_PEER_CLOSED, SP_PEER_DIED, SP_PEER_OPEN, SP_PEER_UNKNOWN,
    sp_close_reason, sp_stats,
};
pub use ring::{
    SP_RING_MORE, sp_completion, sp_ring, sp_ring_attach, sp_ring_cancel, sp_ring_cancel_now,
    sp_ring_create, sp_ring_destroy, sp_ring_detach, sp_ring_fd, sp_ring_link_begin,
    sp_ring_link_end, sp_ring_open, sp_ring_poll, sp_ring_read, sp_ring_read_multishot,
    sp_ring_readv, sp_ring_reap, sp_ring_timeout, sp_ring_wait, sp_ring_write, sp_ring_writev,
};
pub use select::{sp_pselect, sp_select};
pub use start::{
    sp__exit, sp_daemon, sp_execv, sp_execve, sp_execvp, sp_execvpe, sp_fexecve, sp_popen,
    sp_posix_spawn, sp_posix_spawnp, sp_prepare_for_exec, sp_system,
};
pub use transfer::{sp_preadv2, sp_pwritev2, sp_read, sp_readv, sp_write, sp_writev};
pub use wait::{sp_poll, sp_ppoll};
