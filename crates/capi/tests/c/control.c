/* fcntl, ioctl, vectors, and what calls refuse. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

static void sizes(void)
{
    int fds[2];
    static char bytes[200000];
    MUST(pipe2(fds, O_NONBLOCK));
    SHOW(fcntl(fds[0], F_GETPIPE_SZ));
    SHOW(write(fds[1], bytes, sizeof bytes));
    SHOW(fcntl(fds[1], F_SETPIPE_SZ, 131072));
    SHOW(fcntl(fds[0], F_GETPIPE_SZ));
    SHOW(write(fds[1], bytes, sizeof bytes));
    SHOW(fcntl(fds[1], F_SETPIPE_SZ, 4096));
    SHOW(fcntl(fds[1], F_SETPIPE_SZ, -1));
    SHOW(read(fds[0], bytes, sizeof bytes));
    SHOW(fcntl(fds[1], F_SETPIPE_SZ, 5000));
    SHOW(fcntl(fds[1], F_SETPIPE_SZ, 1));
    SHOW(fcntl(0, F_GETPIPE_SZ) >= 0 || errno == EBADF);
    close(fds[0]);
    close(fds[1]);
}

static void unread(void)
{
    int fds[2], n = -1, yes = 1, no = 0;
    char c;
    MUST(pipe(fds));
    warm(fds);
    MUST(write(fds[1], "abcdef", 6));
    SHOW(ioctl(fds[0], FIONREAD, &n));
    printf("%d\n", n);
    MUST(read(fds[0], &c, 1));
    SHOW(ioctl(fds[1], FIONREAD, &n));
    printf("%d\n", n);
    SHOW(ioctl(fds[0], FIONREAD, NULL));
    SHOW(ioctl(fds[0], TIOCOUTQ, &n));
    SHOW(ioctl(fds[0], FIONBIO, &yes));
    SHOW(fcntl(fds[0], F_GETFL) == (O_RDONLY | O_NONBLOCK));
    while (read(fds[0], &c, 1) == 1)
        continue;
    SHOW(read(fds[0], &c, 1));
    SHOW(ioctl(fds[0], FIONBIO, &no));
    SHOW(fcntl(fds[0], F_GETFL) == O_RDONLY);
    close(fds[0]);
    close(fds[1]);
}

static void vectors(void)
{
    int fds[2];
    char a[2], b[3], c[4] = "....";
    struct iovec out[] = {{"ab", 2}, {NULL, 0}, {"cdefg", 5}};
    struct iovec in[] = {{a, 2}, {NULL, 0}, {b, 3}, {c, 4}};
    struct iovec none[] = {{NULL, 0}, {NULL, 0}};
    static struct iovec many[1025];
    MUST(pipe2(fds, O_NONBLOCK));
    SHOW(writev(fds[1], out, 3));
    SHOW(readv(fds[0], in, 4));
    printf("%.2s %.3s %.4s\n", a, b, c);
    SHOW(readv(fds[0], in, 4));
    SHOW(readv(fds[0], none, 2));
    SHOW(readv(fds[0], in, 0));
    SHOW(readv(fds[0], in, -1));
    SHOW(readv(fds[0], many, 1025));
    SHOW(writev(fds[1], many, 1024));
    SHOW(writev(fds[1], many, 1025));
    in[0].iov_len = (size_t)-1;
    SHOW(readv(fds[0], in, 2));
    SHOW(preadv2(fds[0], out, 1, 0, 0));
    SHOW(preadv2(fds[0], in + 2, 1, -1, 0));
    close(fds[0]);
    close(fds[1]);
}

static void refused(void)
{
    int fds[2];
    char c = 0;
    MUST(pipe(fds));
    SHOW(read(fds[1], &c, 1));
    SHOW(read(fds[1], &c, 0));
    SHOW(write(fds[0], &c, 1));
    SHOW(write(fds[0], &c, 0));
    SHOW(read(fds[0], &c, 0));
    SHOW(read(fds[0], (void *)1, 0));
    SHOW(write(fds[1], (void *)1, 0));
    SHOW(write(fds[1], (void *)-1, 1));
    SHOW(write(fds[1], NULL, 1));
    SHOW(write(fds[1], &c, (size_t)-1));
    MUST(write(fds[1], "x", 1));
    SHOW(read(fds[0], NULL, 1));
    SHOW(read(fds[0], (void *)-1, 1));
    SHOW(read(fds[0], &c, 1));
    SHOW(lseek(fds[0], 0, SEEK_CUR));
    SHOW(pread(fds[0], &c, 1, 0));
    SHOW(pwrite(fds[1], &c, 1, 0));
    SHOW(fsync(fds[1]));
    SHOW(isatty(fds[0]));
    SHOW(pipe(NULL));
    SHOW(pipe2(fds, O_APPEND));
    close(fds[0]);
    close(fds[1]);
    SHOW(read(fds[0], &c, 1));
    SHOW(write(fds[1], &c, 1));
    SHOW(close(fds[0]));
    SHOW(fcntl(fds[0], F_GETFL));
    SHOW(read(-1, &c, 1));
    SHOW(close(-1));
    SHOW(close(2000000));
}

static void room(void)
{
    int fds[2];
    static char bytes[100000];
    MUST(pipe2(fds, O_NONBLOCK | O_CLOEXEC));
    SHOW(fcntl(fds[0], F_GETFD));
    SHOW(write(fds[1], bytes, 65536));
    SHOW(write(fds[1], bytes, 1));
    SHOW(read(fds[0], bytes, 4096));
    SHOW(write(fds[1], bytes, 4096));
    SHOW(write(fds[1], bytes, 5000));
    SHOW(read(fds[0], bytes, sizeof bytes));
    SHOW(read(fds[0], bytes, sizeof bytes));
    SHOW(write(fds[1], bytes, sizeof bytes));
    close(fds[0]);
    close(fds[1]);
}

/* Packet mode, and signal-driven input. */
static void modes(void)
{
    int fds[2];
    char bytes[16];
    MUST(pipe2(fds, O_DIRECT));
    MUST(write(fds[1], "abc", 3));
    MUST(write(fds[1], "de", 2));
    SHOW(read(fds[0], bytes, sizeof bytes));
    SHOW(read(fds[0], bytes, sizeof bytes));
    close(fds[0]);
    close(fds[1]);

    MUST(pipe(fds));
    warm(fds);
    MUST(write(fds[1], "stream", 6));
    MUST(fcntl(fds[1], F_SETFL, O_DIRECT));
    MUST(write(fds[1], "packet", 6));
    MUST(write(fds[1], "another", 7));
    SHOW(read(fds[0], bytes, 6));
    SHOW(read(fds[0], bytes, sizeof bytes));
    close(fds[0]);
    close(fds[1]);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    MUST(pipe(fds));
    warm(fds);
    MUST(fcntl(fds[0], F_SETOWN, getpid()));
    MUST(fcntl(fds[0], F_SETFL, O_ASYNC));
    MUST(write(fds[1], "x", 1));
    struct timespec limit = {10, 0};
    SHOW(sigtimedwait(&set, NULL, &limit) == SIGIO);
    close(fds[0]);
    close(fds[1]);
}

/* Descriptors are real ones. */
static void real(void)
{
    int fds[2], low;
    struct stat info, other;
    char path[64], c;
    MUST(low = dup(0));
    close(low);
    MUST(pipe(fds));
    SHOW(fds[0] == low && fds[1] == low + 1);
    MUST(fstat(fds[0], &info));
    MUST(fstat(fds[1], &other));
    SHOW(S_ISFIFO(info.st_mode) && info.st_ino == other.st_ino);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
    int again = open(path, O_RDONLY | O_NONBLOCK);
    MUST(again);
    SHOW(read(again, &c, 1));
    MUST(write(fds[1], "x", 1));
    SHOW(read(again, &c, 1));
    close(again);
    MUST(close_range((unsigned)fds[0], (unsigned)fds[1], 0));
    SHOW(read(fds[0], &c, 1));
    SHOW(close(fds[1]));
}

int main(void)
{
    BEGIN();
    sizes();
    unread();
    vectors();
    refused();
    room();
    modes();
    real();
    return 0;
}
