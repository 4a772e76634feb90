/* What the programs share. They print what they saw, and are run on the kernel's pipes and on
 * standpipe's: both must print the same. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A hang ends with a signal instead of never. */
#define BEGIN() alarm(60)

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, strerror(errno));        \
            exit(99);                                                                              \
        }                                                                                          \
    } while (0)

/* What a call returned, and why. */
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long show_result = (long)(call);                                                           \
        printf("%s = %ld%s%s\n", #call, show_result, show_result < 0 ? " " : "",                   \
               show_result < 0 ? strerrorname(errno) : "");                                        \
        fflush(stdout);                                                                            \
    } while (0)

static inline const char *strerrorname(int error)
{
    switch (error) {
    case EAGAIN: return "EAGAIN";
    case EBADF: return "EBADF";
    case EBUSY: return "EBUSY";
    case EFAULT: return "EFAULT";
    case EINTR: return "EINTR";
    case EINVAL: return "EINVAL";
    case EMFILE: return "EMFILE";
    case ENXIO: return "ENXIO";
    case EPERM: return "EPERM";
    case EPIPE: return "EPIPE";
    case ESPIPE: return "ESPIPE";
    case ENOTTY: return "ENOTTY";
    default: return strerror(error);
    }
}

/* Waits for a child and prints how it went. */
static inline void show_child(const char *name, pid_t pid)
{
    int status;
    MUST(waitpid(pid, &status, 0));
    if (WIFSIGNALED(status))
        printf("%s was killed by signal %d\n", name, WTERMSIG(status));
    else
        printf("%s exited with %d\n", name, WEXITSTATUS(status));
    fflush(stdout);
}

/* The state of a thread of a process as in /proc: 'S' is asleep. */
static inline char state_of(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return '?';
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] != 0 ? name_end[2] : '?';
}

static inline void until_asleep(pid_t pid)
{
    while (state_of(pid) != 'S')
        sched_yield();
}

/* Byte `i` of a stream that tells lost, torn and doubled bytes apart. */
static inline unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 2654435761u >> 13 ^ i);
}

static inline void write_stream(int fd, size_t from, size_t bytes, size_t piece)
{
    unsigned char buffer[65536];
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < piece ? bytes - done : piece;
        for (size_t i = 0; i < n; i++)
            buffer[i] = byte_at(from + done + i);
        ssize_t written = write(fd, buffer, n);
        MUST(written);
        done += (size_t)written;
    }
}

/* Traffic, so that a pipe with a lane uses it. */
static inline void warm(const int fds[2])
{
    static char piece[4096];
    for (int i = 0; i < 2000; i++) {
        MUST(write(fds[1], piece, sizeof piece));
        for (size_t n = 0; n < sizeof piece;) {
            ssize_t got = read(fds[0], piece, sizeof piece - n);
            MUST(got);
            n += (size_t)got;
        }
    }
}

/* Reads to the end, checks each byte, returns how many there were. */
static inline size_t read_stream(int fd, size_t from, size_t piece)
{
    unsigned char buffer[65536];
    size_t done = 0;
    for (;;) {
        ssize_t n = read(fd, buffer, piece);
        MUST(n);
        if (n == 0)
            return done;
        for (ssize_t i = 0; i < n; i++, done++)
            if (buffer[i] != byte_at(from + done)) {
                printf("byte %zu is wrong\n", done);
                exit(1);
            }
    }
}

#endif
