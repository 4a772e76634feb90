/*
 * standpipe for C: pipes over shared memory with the semantics of the kernel's, several times faster.
 *
 * Functions have the signatures, results and errno of their POSIX namesakes, and take any descriptor.
 * Include <standpipe/posix.h> to have a program's own calls come here.
 *
 * Made by cbindgen (scripts/capi.sh header). Do not edit.
 */

#ifndef STANDPIPE_H
#define STANDPIPE_H

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * [open(2)](https://man7.org/linux/man-pages/man2/open.2.html). FIFOs get the lane.
 */
int sp_open(const char *path, int flags, ...);

/**
 * [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html). FIFOs get the lane.
 */
int sp_openat(int dir, const char *path, int flags, ...);

/**
 * [fcntl(2)](https://man7.org/linux/man-pages/man2/fcntl.2.html). `O_ASYNC` and `O_DIRECT` move the
 * pipe to the kernel for good.
 */
int sp_fcntl(int fd, int command, ...);

/**
 * [ioctl(2)](https://man7.org/linux/man-pages/man2/ioctl.2.html)
 */
int sp_ioctl(int fd, unsigned long request, ...);

#ifdef __cplusplus
}
#endif


/**
 * The other side is there.
 */
#define SP_PEER_OPEN 0

/**
 * Its last process closed its end, or handed it on.
 */
#define SP_PEER_CLOSED 1

/**
 * It said that it gave up (`sp_cancel`).
 */
#define SP_PEER_CANCELLED 2

/**
 * It ended with the end open: killed, crashed, or without closing.
 */
#define SP_PEER_DIED 3

/**
 * It is gone, and nobody of it who knows standpipe was met.
 */
#define SP_PEER_UNKNOWN 4

/**
 * More completions of the same operation follow.
 */
#define SP_RING_MORE 1

/**
 * A completion ring: operations are submitted with a token, and reaped when they are complete.
 *
 * Each is tried when it is submitted, without waiting, whatever the mode of its descriptor; what would
 * have to wait is completed later, in the order of submissions on each side of a pipe. There is nothing
 * like `io_uring_submit(3)`, and no thread is ever started.
 *
 * Memory that an operation is given belongs to it until it is complete: reaped, cancelled, or the ring
 * destroyed. (One on a descriptor that is no end may have to be reaped even if it is cancelled.) A ring belongs to one thread at a time: who calls while another one is in it gets
 * `EDEADLK`. It belongs to the process that made it: a forked child gets `EPERM`, and may but destroy it.
 * No function of it may be called by a signal handler.
 *
 * Descriptors are attached to the ring when they are first used with it. Ordinary calls on them go on as
 * ever. Closing one cancels its operations, which complete with `-ECANCELED`; if another thread is in the
 * ring at that time, it is that thread that closes the end, as it leaves (asleep in `sp_ring_wait`: within a
 * tenth of a second).
 *
 * Operations on what is no end of a pipe or FIFO (sockets, eventfds, terminals, files at their position) are
 * made by the kernel, through an `io_uring(7)` that the ring has from the first one on. What that completes
 * interrupts the thread that submitted it in calls such as `epoll_wait(2)`, which then say `EINTR`;
 * `sp_ring_wait` sees to that itself. `ENOSYS` where there is no `io_uring`, or it is forbidden.
 */
struct sp_ring;

/**
 * What is known about an end, and about its side of the pipe since its lane was made.
 */
struct sp_stats {
  /**
   * How many bytes the pipe holds.
   */
  uint64_t capacity_bytes;
  /**
   * How many of them are unread.
   */
  uint64_t unread_bytes;
  /**
   * Bytes that its side moved through the lane.
   */
  uint64_t lane_bytes;
  /**
   * Bytes that this process moved through the kernel's pipe instead.
   */
  uint64_t kernel_bytes;
  /**
   * Turns at the lane that moved bytes.
   */
  uint64_t operations;
  /**
   * How often somebody of its side went to sleep.
   */
  uint64_t sleeps;
  /**
   * Sleepers of the other side that were woken.
   */
  uint64_t wakeups_sent;
  /**
   * Transfers that had nobody to wake.
   */
  uint64_t wakeups_saved;
  /**
   * How often the lane was taken over from somebody who was killed in it.
   */
  uint64_t owner_deaths;
};

/**
 * How the last process at the other side of an end left.
 */
struct sp_close_reason {
  /**
   * One of `SP_PEER_...`.
   */
  int kind;
  /**
   * Which process, if it was met; else 0.
   */
  int pid;
  /**
   * The signal that killed it, as far as its parent may know it; else 0.
   */
  int signal;
  /**
   * Room for more.
   */
  int reserved;
  /**
   * How many bytes those at the other side who know standpipe, and met somebody, wrote (seen by a
   * reader) or read (seen by a writer).
   */
  uint64_t committed_bytes;
};

/**
 * What came of an operation.
 */
struct sp_completion {
  /**
   * As submitted.
   */
  uint64_t token;
  /**
   * How many bytes were moved, 0 being the end of the stream for a read; the descriptor of what was
   * opened; 0 for what else went well; or the negated errno of the blocking call. `-ECANCELED`: cancelled before anything was moved, or
   * linked behind something that did not succeed. `-ENOENT`: nothing to cancel.
   */
  int64_t result;
  /**
   * Of a multishot read: the bytes that arrived. They are the library's, and there until the next call
   * of `sp_ring_reap` or `sp_ring_wait`. Else null.
   */
  const void *data;
  /**
   * `SP_RING_MORE`, or 0: then this is the last completion of its operation, and the token is free.
   */
  uint32_t flags;
  /**
   * Of a poll: which events are there, as in `revents` of poll(2).
   */
  uint32_t events;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * From now on, and for good, all bytes of `fd`'s pipe that this process moves go through the kernel's:
 * for code that looks at the descriptor without standpipe. Returns 0 or -1. Other descriptors are
 * left alone.
 */
int sp_use_kernel(int fd);

/**
 * The program's streams use descriptors 0, 1 and 2 without standpipe (as in C++): whatever these
 * numbers are given to from now on uses the kernel's pipe. Returns 0.
 */
int sp_streams_use_kernel(void);

/**
 * Gives `fd` up for good: to code that reads, writes and closes it without standpipe. Returns `fd`.
 */
int sp_give_up(int fd);

/**
 * Gives the descriptor of a stream up, so that what the stream does and what is done by number stay
 * in order. Returns the stream.
 */
FILE *sp_stream(FILE *stream);

/**
 * [fdopen(3)](https://man7.org/linux/man-pages/man3/fdopen.3.html). Streams use the kernel's pipe.
 */
FILE *sp_fdopen(int fd, const char *mode);

/**
 * [epoll_ctl(2)](https://man7.org/linux/man-pages/man2/epoll_ctl.2.html). The pipe of an end that is
 * watched uses the kernel's from then on.
 */
int sp_epoll_ctl(int epoll,
                 int operation,
                 int fd,
                 struct epoll_event *event);

/**
 * [splice(2)](https://man7.org/linux/man-pages/man2/splice.2.html), between the kernel's pipes.
 */
ssize_t sp_splice(int fd_in,
                  int64_t *off_in,
                  int fd_out,
                  int64_t *off_out,
                  size_t len,
                  unsigned int flags);

/**
 * [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html), between the kernel's pipes.
 */
ssize_t sp_tee(int fd_in, int fd_out, size_t len, unsigned int flags);

/**
 * [vmsplice(2)](https://man7.org/linux/man-pages/man2/vmsplice.2.html), with the kernel's pipe.
 */
ssize_t sp_vmsplice(int fd, const struct iovec *iov, size_t count, unsigned int flags);

/**
 * [sendfile(2)](https://man7.org/linux/man-pages/man2/sendfile.2.html), into the kernel's pipe.
 */
ssize_t sp_sendfile(int out_fd, int in_fd, off_t *offset, size_t count);

/**
 * [sendmsg(2)](https://man7.org/linux/man-pages/man2/sendmsg.2.html). The pipes of ends that are sent
 * use the kernel's from then on.
 */
ssize_t sp_sendmsg(int socket,
                   const struct msghdr *message,
                   int flags);

/**
 * [recvmsg(2)](https://man7.org/linux/man-pages/man2/recvmsg.2.html). Received ends get the lane if
 * those who have the other one speak standpipe.
 */
ssize_t sp_recvmsg(int socket, struct msghdr *message, int flags);

/**
 * [pipe(2)](https://man7.org/linux/man-pages/man2/pipe.2.html)
 */
int sp_pipe(int *fds);

/**
 * [pipe2(2)](https://man7.org/linux/man-pages/man2/pipe2.2.html). In packet mode (`O_DIRECT`) all
 * bytes go through the kernel's pipe. Its size is that of pipes that nobody sized (`standpipe ctl`), by
 * default the kernel's, and grows while writers wait for room again and again; `F_SETPIPE_SZ` fixes
 * it.
 */
int sp_pipe2(int *fds,
             int flags);

/**
 * [creat(2)](https://man7.org/linux/man-pages/man2/creat.2.html). FIFOs get the lane.
 */
int sp_creat(const char *path, mode_t mode);

/**
 * Gives `fd` the lane if it is an end of a pipe or FIFO, whatever it was before: for descriptors
 * received from other processes, or made by code that does not know standpipe.
 *
 * Returns 0, or -1 with errno `EBADF` (not open) or `EINVAL` (no end of a pipe or FIFO).
 */
int sp_adopt(int fd);

/**
 * Forgets what `fd` was, without closing it: for numbers that were closed, and perhaps given out
 * again, by code that does not know standpipe. Returns `fd`.
 */
int sp_forget(int fd);

/**
 * [close(2)](https://man7.org/linux/man-pages/man2/close.2.html). While another thread is in a call
 * on `fd`, the number stays taken until that call returns.
 */
int sp_close(int fd);

/**
 * Closes an end, and tells the other side (`sp_close_reason`) that its owner gave up. Other descriptors
 * are just closed. `EBUSY` if another thread is asleep in a call on `fd`.
 */
int sp_cancel(int fd);

/**
 * [dup(2)](https://man7.org/linux/man-pages/man2/dup.2.html)
 */
int sp_dup(int fd);

/**
 * [dup2(2)](https://man7.org/linux/man-pages/man2/dup.2.html). `EBUSY` if another thread is asleep
 * in a call on `new_fd`.
 */
int sp_dup2(int fd, int new_fd);

/**
 * [dup3(2)](https://man7.org/linux/man-pages/man2/dup.2.html). `EBUSY` if another thread is asleep
 * in a call on `new_fd`.
 */
int sp_dup3(int fd, int new_fd, int flags);

/**
 * [close_range(2)](https://man7.org/linux/man-pages/man2/close_range.2.html). What the library holds for
 * itself stays.
 */
int sp_close_range(unsigned int first,
                   unsigned int last,
                   int flags);

/**
 * closefrom(3)
 */
void sp_closefrom(int first);

/**
 * Tells about the end `fd`. `size` is that of the caller's struct: fields beyond what this library
 * knows are zero, and it writes no more than there is room for. Returns 0, or -1 with errno `EINVAL`
 * for a descriptor that is no end, else as fcntl(2).
 */
int sp_stats(int fd,
             struct sp_stats *stats,
             size_t size);

/**
 * Tells how the last process at the other side of the end `fd` left. `size` and errors as in [`sp_stats()`].
 */
int sp_close_reason(int fd,
                    struct sp_close_reason *reason,
                    size_t size);

/**
 * Makes a ring with places for `capacity` operations. Each holds one from its submission until its last
 * completion is reaped.
 *
 * Returns 0, or -1 with errno `EINVAL` (a capacity of 0), `EMFILE`, `ENFILE`, `ENOMEM`.
 */
int sp_ring_create(size_t capacity,
                   struct sp_ring **ring);

/**
 * Cancels everything, waits for nothing, and frees the ring; completions that were not reaped are
 * gone. Does nothing for null.
 */
void sp_ring_destroy(struct sp_ring *ring);

/**
 * A descriptor that is readable when `sp_ring_reap` would give something: for poll, epoll and the like,
 * however many pipes the ring has. It may be readable once more than that; a reap that gives nothing makes
 * it quiet. It is the ring's, and always the same: don't close it.
 *
 * From the first call on, operations that have to wait are armed as they are submitted, which takes system
 * calls: programs that only ever wait in `sp_ring_wait` do without.
 *
 * Returns the descriptor, or -1 with errno `EMFILE`, `ENFILE`, `ENOMEM`.
 */
int sp_ring_fd(struct sp_ring *ring);

/**
 * Attaches `fd` ahead of its first use.
 *
 * Returns 0, or -1 with errno `EBADF` (not open, or by `O_PATH`), `EINVAL` (a pipe that is left to the kernel,
 * as by `sp_give_up`; the ring's own descriptor), `ENOSYS` (no end, and no `io_uring` for it), `EMFILE`.
 */
int sp_ring_attach(struct sp_ring *ring,
                   int fd);

/**
 * Has the ring let go of `fd`, as closing it does: its operations are cancelled.
 *
 * Returns 0, or -1 with errno `ENOENT` if the ring does not have it.
 */
int sp_ring_detach(struct sp_ring *ring, int fd);

/**
 * Submits the opening of a FIFO: as open(2), which waits until somebody opens it for the other direction
 * (unless `flags` have `O_RDWR` or `O_NONBLOCK`), though nothing waits here. `result` is the new descriptor,
 * which takes the lane as one of `sp_open` does, and has to be closed; or the negated errno of open(2), or
 * `-EINVAL` for something that is no FIFO. Cancelled, or not reaped before the ring is destroyed, it is not
 * open.
 *
 * Of `flags`, `O_RDONLY`, `O_WRONLY`, `O_RDWR`, `O_NONBLOCK`, `O_CLOEXEC` and `O_NOCTTY` are known, others are
 * refused (`EINVAL`). `path` is not looked at after the call; a relative one is of the directory that the
 * program is in when the operation begins.
 */
int sp_ring_open(struct sp_ring *ring,
                 uint64_t token,
                 const char *path,
                 int flags);

/**
 * Stores up to `max` completions, oldest first, without waiting; others stay for the next call.
 *
 * Returns their number, or -1 with errno `EINVAL` (`max` is not positive), `EFAULT`.
 */
int sp_ring_reap(struct sp_ring *ring, struct sp_completion *completions, int max);

/**
 * Waits until something is complete, and stores up to `max` completions. A null `timeout` is none.
 *
 * Returns their number; 0 when the time has passed, and where there is nothing under way to wait for. Or -1
 * with errno `EINTR` (a signal handler ran), `EINVAL` (`max` is not positive, or no such time), `EFAULT`.
 */
int sp_ring_wait(struct sp_ring *ring,
                 struct sp_completion *completions,
                 int max,
                 const struct timespec *timeout);

/**
 * Submits a read of up to `count` bytes into `buf`: as read(2), but it completes when there is something,
 * whatever the mode of `fd`.
 *
 * All functions that submit something return 0, or -1 with errno and nothing is done: `EBUSY` (all places are
 * taken: reap first), `EEXIST` (the token is in use until its last completion is reaped), `EBADF` (`fd` is
 * not open, or of the other direction), `EINVAL` (0 bytes to move; a pipe that is left to the kernel, as by
 * `sp_give_up`; the ring's own descriptor), `EFAULT`, `ENOSYS` (it is no end of a pipe or FIFO, and there is no
 * `io_uring` for it), `EMFILE` (no descriptor left to attach it by).
 */
int sp_ring_read(struct sp_ring *ring,
                 uint64_t token,
                 int fd,
                 void *buf,
                 size_t count);

/**
 * Submits a write of all of `count` bytes, as a blocking write(2) does it: up to `PIPE_BUF` bytes go in
 * as a whole. A pipe without readers gives `-EPIPE`, and the signal `SIGPIPE`, as ever.
 */
int sp_ring_write(struct sp_ring *ring,
                  uint64_t token,
                  int fd,
                  const void *buf,
                  size_t count);

/**
 * Submits a read into several pieces of memory, in order. `iov` itself is not looked at after the call.
 */
int sp_ring_readv(struct sp_ring *ring,
                  uint64_t token,
                  int fd,
                  const struct iovec *iov,
                  int iovcnt);

/**
 * Submits a write of several pieces of memory, in order. `iov` itself is not looked at after the call.
 */
int sp_ring_writev(struct sp_ring *ring,
                   uint64_t token,
                   int fd,
                   const struct iovec *iov,
                   int iovcnt);

/**
 * Submits reads until the end of the stream, or until cancelled: a completion (with `SP_RING_MORE`) per
 * arrival, of at most `chunk_bytes`, in memory of the library's, see `data`. The last completion has 0 for
 * the end of the stream, or an error. While all places are taken, bytes stay in the pipe.
 */
int sp_ring_read_multishot(struct sp_ring *ring,
                           uint64_t token,
                           int fd,
                           size_t chunk_bytes);

/**
 * Submits a question of poll(2): completes when one of `events` is there, or what comes unasked.
 */
int sp_ring_poll(struct sp_ring *ring, uint64_t token, int fd, short events);

/**
 * Submits a time-out, which completes with 0 when so much time has passed since it began. Linked before a
 * cancel, it limits the time of an operation. `EINVAL` for what is no time.
 */
int sp_ring_timeout(struct sp_ring *ring,
                    uint64_t token,
                    const struct timespec *after);

/**
 * Submits the cancelling of the operation `target`, which completes with what it moved so far, if
 * anything, or with `-ECANCELED`. Completes itself with 0, or `-ENOENT` if there is none under way.
 */
int sp_ring_cancel(struct sp_ring *ring, uint64_t token, uint64_t target);

/**
 * Cancels the operation `target` without a completion of its own, and needs no place. When it returns, the
 * memory of that operation is the program's again; its completion is still to be reaped. On what is no end of
 * a pipe or FIFO, the kernel may be in the midst of it: then its memory comes back with the completion, which
 * says what was moved.
 *
 * Returns 0, or -1 with errno `ENOENT` if there is none under way.
 */
int sp_ring_cancel_now(struct sp_ring *ring,
                       uint64_t target);

/**
 * What is submitted from now on, up to `sp_ring_link_end`, is one chain: each operation begins when that
 * before it has succeeded. After one that failed, was cancelled, or is a read that found the end of the
 * stream, the rest completes with `-ECANCELED`.
 *
 * Returns 0, or -1 with errno `EALREADY` if a chain is open.
 */
int sp_ring_link_begin(struct sp_ring *ring);

/**
 * Submits the chain, all of it or nothing.
 *
 * Returns 0, or -1 with errno `EINVAL` if none is open; or that of the first operation in it that was or
 * is refused. In any case no chain is open afterwards.
 */
int sp_ring_link_end(struct sp_ring *ring);

/**
 * [select(2)](https://man7.org/linux/man-pages/man2/select.2.html). The time that is left is stored,
 * as on Linux.
 */
int sp_select(int count,
              fd_set *read,
              fd_set *write,
              fd_set *except,
              struct timeval *timeout);

/**
 * [pselect(2)](https://man7.org/linux/man-pages/man2/select.2.html)
 */
int sp_pselect(int count,
               fd_set *read,
               fd_set *write,
               fd_set *except,
               const struct timespec *timeout,
               const sigset_t *mask);

/**
 * To be called before this process starts a program other than by fork and the functions here, and
 * before it ends without `exit`: what is queued in its lanes moves into the kernel's pipes. Returns
 * 0 or -1.
 */
int sp_prepare_for_exec(void);

/**
 * [_exit(2)](https://man7.org/linux/man-pages/man2/_exit.2.html). From a signal handler that interrupted
 * a call of ours it leaves lanes as they are, as a kill does.
 */
void sp__exit(int status) __attribute__((noreturn));

/**
 * [execv(3)](https://man7.org/linux/man-pages/man3/exec.3.html)
 */
int sp_execv(const char *path, char *const *argv);

/**
 * [execve(2)](https://man7.org/linux/man-pages/man2/execve.2.html)
 */
int sp_execve(const char *path, char *const *argv, char *const *envp);

/**
 * [execvp(3)](https://man7.org/linux/man-pages/man3/exec.3.html)
 */
int sp_execvp(const char *file, char *const *argv);

/**
 * [execvpe(3)](https://man7.org/linux/man-pages/man3/exec.3.html)
 */
int sp_execvpe(const char *file, char *const *argv, char *const *envp);

/**
 * [fexecve(3)](https://man7.org/linux/man-pages/man3/fexecve.3.html)
 */
int sp_fexecve(int fd, char *const *argv, char *const *envp);

/**
 * [posix_spawn(3)](https://man7.org/linux/man-pages/man3/posix_spawn.3.html)
 */
int sp_posix_spawn(pid_t *pid,
                   const char *path,
                   const posix_spawn_file_actions_t *actions,
                   const posix_spawnattr_t *attributes,
                   char *const *argv,
                   char *const *envp);

/**
 * [posix_spawnp(3)](https://man7.org/linux/man-pages/man3/posix_spawn.3.html)
 */
int sp_posix_spawnp(pid_t *pid,
                    const char *file,
                    const posix_spawn_file_actions_t *actions,
                    const posix_spawnattr_t *attributes,
                    char *const *argv,
                    char *const *envp);

/**
 * [system(3)](https://man7.org/linux/man-pages/man3/system.3.html)
 */
int sp_system(const char *command);

/**
 * [popen(3)](https://man7.org/linux/man-pages/man3/popen.3.html)
 */
FILE *sp_popen(const char *command, const char *mode);

/**
 * [daemon(3)](https://man7.org/linux/man-pages/man3/daemon.3.html)
 */
int sp_daemon(int nochdir, int noclose);

/**
 * [read(2)](https://man7.org/linux/man-pages/man2/read.2.html)
 */
ssize_t sp_read(int fd, void *buf, size_t count);

/**
 * [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
 */
ssize_t sp_write(int fd, const void *buf, size_t count);

/**
 * [readv(2)](https://man7.org/linux/man-pages/man2/readv.2.html)
 */
ssize_t sp_readv(int fd, const struct iovec *iov, int iovcnt);

/**
 * [writev(2)](https://man7.org/linux/man-pages/man2/writev.2.html)
 */
ssize_t sp_writev(int fd, const struct iovec *iov, int iovcnt);

/**
 * [preadv2(2)](https://man7.org/linux/man-pages/man2/preadv2.2.html). An end is read at offset -1
 * only; with flags its pipe uses the kernel from then on.
 */
ssize_t sp_preadv2(int fd, const struct iovec *iov, int iovcnt, off_t offset, int flags);

/**
 * [pwritev2(2)](https://man7.org/linux/man-pages/man2/pwritev2.2.html), in the same way.
 */
ssize_t sp_pwritev2(int fd, const struct iovec *iov, int iovcnt, off_t offset, int flags);

/**
 * [poll(2)](https://man7.org/linux/man-pages/man2/poll.2.html)
 */
int sp_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/**
 * [ppoll(2)](https://man7.org/linux/man-pages/man2/ppoll.2.html)
 */
int sp_ppoll(struct pollfd *fds,
             nfds_t count,
             const struct timespec *timeout,
             const sigset_t *mask);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* STANDPIPE_H */
