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
