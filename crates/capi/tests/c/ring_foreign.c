/* Descriptors that are no ends of pipes: the same operations, made by the kernel. */
#define _GNU_SOURCE
#include "ring.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static struct sp_ring *ring;

static void new_pair(int pair[2])
{
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
}

static void close_pair(int pair[2])
{
    CHECK(sp_close(pair[0]) == 0 && sp_close(pair[1]) == 0);
}

/* Nobody has the other side any more. */
static void is_at_its_end(int socket)
{
    char c;
    CHECK(recv(socket, &c, 1, MSG_DONTWAIT) == 0);
}

static void reads_and_writes(int flags)
{
    int pair[2];
    char text[6] = {0}, a[2], b[3];
    new_pair(pair);
    MUST(fcntl(pair[0], F_SETFL, flags));
    CHECK(sp_ring_read(ring, 1, pair[0], text, 5) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(pair[1], "hello", 5) == 5);
    expect(await(ring), 1, 5);
    CHECK(strcmp(text, "hello") == 0);
    CHECK(sp_ring_write(ring, 2, pair[0], "there", 5) == 0);
    expect(await(ring), 2, 5);
    CHECK(sp_read(pair[1], text, 5) == 5 && strcmp(text, "there") == 0);
    struct iovec in[] = {{a, 2}, {NULL, 0}, {b, 3}}, out[] = {{"ve", 2}, {"ctors", 5}};
    CHECK(sp_ring_readv(ring, 3, pair[0], in, 3) == 0);
    CHECK(sp_ring_writev(ring, 4, pair[1], out, 2) == 0);
    struct sp_completion first = await(ring), second = await(ring);
    expect(first.token == 3 ? first : second, 3, 5);
    expect(first.token == 3 ? second : first, 4, 7);
    CHECK(memcmp(a, "ve", 2) == 0 && memcmp(b, "cto", 3) == 0);
    /* In the order of submissions. */
    CHECK(sp_ring_read(ring, 1, pair[0], a, 2) == 0);
    CHECK(sp_ring_read(ring, 2, pair[0], b, 3) == 0);
    CHECK(sp_write(pair[1], "abc", 3) == 3);
    expect(await(ring), 1, 2);
    expect(await(ring), 2, 3);
    CHECK(memcmp(a, "rs", 2) == 0 && memcmp(b, "abc", 3) == 0);
    CHECK(sp_ring_poll(ring, 1, pair[0], POLLIN) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(pair[1], "x", 1) == 1);
    first = await(ring);
    CHECK(first.token == 1 && first.result == 0 && first.events == POLLIN);
    CHECK(sp_ring_read_multishot(ring, 1, pair[0], 2) == 0);
    CHECK(sp_write(pair[1], "yz", 2) == 2);
    CHECK(sp_close(pair[1]) == 0);
    char got[4];
    size_t n = 0;
    while ((first = await(ring)).flags == SP_RING_MORE) {
        CHECK(first.token == 1 && first.result > 0 && n + (size_t)first.result <= sizeof got);
        memcpy(got + n, first.data, (size_t)first.result);
        n += (size_t)first.result;
    }
    expect(first, 1, 0);
    CHECK(n == 3 && memcmp(got, "xyz", 3) == 0);
    CHECK(sp_close(pair[0]) == 0);
}

static void of_many_kinds(void)
{
    uint64_t count = 0;
    int events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(sp_ring_read(ring, 1, events, &count, sizeof count) == 0);
    CHECK(is_quiet(ring));
    MUST(eventfd_write(events, 7));
    expect(await(ring), 1, 8);
    CHECK(count == 7 && sp_close(events) == 0);

    char line[8] = {0};
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    MUST(master);
    MUST(unlockpt(master));
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    MUST(terminal);
    CHECK(sp_ring_read(ring, 1, terminal, line, sizeof line) == 0);
    CHECK(sp_write(master, "li", 2) == 2);
    CHECK(is_quiet(ring));
    CHECK(sp_write(master, "ne\n", 3) == 3);
    expect(await(ring), 1, 5);
    CHECK(strcmp(line, "line\n") == 0);
    CHECK(sp_close(terminal) == 0 && sp_close(master) == 0);

    /* At the position of a file, which ordinary calls move as well. */
    FILE *file = tmpfile();
    int fd = fileno(file);
    CHECK(sp_ring_write(ring, 1, fd, "0123456789", 10) == 0);
    expect(await(ring), 1, 10);
    CHECK(lseek(fd, 2, SEEK_SET) == 2);
    CHECK(sp_ring_read(ring, 1, fd, line, 3) == 0);
    expect(await(ring), 1, 3);
    CHECK(memcmp(line, "234", 3) == 0 && sp_read(fd, line, 1) == 1 && line[0] == '5');
    CHECK(lseek(fd, 0, SEEK_END) == 10);
    CHECK(sp_ring_read(ring, 1, fd, line, 3) == 0);
    expect(await(ring), 1, 0);
    CHECK(sp_ring_detach(ring, fd) == 0);
    fclose(file);

    /* A descriptor of another ring; but not its own. */
    int fds[2];
    struct sp_ring *other = new_ring(4);
    CHECK(sp_pipe(fds) == 0 && sp_ring_read(other, 9, fds[0], line, 1) == 0);
    CHECK(sp_ring_poll(ring, 1, sp_ring_fd(other), POLLIN) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(fds[1], "x", 1) == 1);
    struct sp_completion completion = await(ring);
    CHECK(completion.token == 1 && completion.events == POLLIN);
    expect(next(other), 9, 1);
    FAILS(sp_ring_poll(other, 1, sp_ring_fd(other), POLLIN), EINVAL);
    sp_ring_destroy(other);
    CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
}

static void refused(void)
{
    char c;
    int null = open("/dev/null", O_RDONLY), path = open("/dev/null", O_PATH), dir = open("/", O_RDONLY);
    FAILS(sp_ring_write(ring, 1, null, "x", 1), EBADF);
    FAILS(sp_ring_read(ring, 1, path, &c, 1), EBADF);
    FAILS(sp_ring_read(ring, 1, null, &c, 0), EINVAL);
    CHECK(sp_ring_read(ring, 1, dir, &c, 1) == 0);
    expect(await(ring), 1, -EISDIR);
    CHECK(sp_close(null) == 0 && sp_close(path) == 0 && sp_close(dir) == 0);
    FAILS(sp_ring_read(ring, 1, null, &c, 1), EBADF);
    FAILS(sp_ring_detach(ring, null), ENOENT);
}

static void cancelled(void)
{
    int pair[2];
    char text[4] = "old";
    new_pair(pair);
    CHECK(sp_ring_read(ring, 1, pair[0], text, 3) == 0);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    expect(await(ring), 1, -ECANCELED);
    CHECK(sp_ring_read(ring, 1, pair[0], text, 3) == 0);
    CHECK(sp_ring_cancel(ring, 2, 1) == 0);
    struct sp_completion first = await(ring), second = await(ring);
    expect(first.token == 1 ? first : second, 1, -ECANCELED);
    expect(first.token == 1 ? second : first, 2, 0);
    /* Nothing is lost to who was cancelled. */
    CHECK(sp_write(pair[1], "new", 3) == 3 && strcmp(text, "old") == 0);
    CHECK(sp_read(pair[0], text, 3) == 3 && strcmp(text, "new") == 0);
    /* Behind a pipe, in a chain. */
    int fds[2];
    CHECK(sp_pipe(fds) == 0);
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_read(ring, 1, pair[0], text, 3) == 0);
    CHECK(sp_ring_write(ring, 2, fds[1], text, 3) == 0);
    CHECK(sp_ring_link_end(ring) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(pair[1], "abc", 3) == 3);
    expect(await(ring), 1, 3);
    expect(await(ring), 2, 3);
    CHECK(sp_read(fds[0], text, 3) == 3 && strcmp(text, "abc") == 0);
    CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
    close_pair(pair);
}

static void closed(void)
{
    int pair[2], again[2];
    char c = 'c';
    new_pair(pair);
    /* While it is armed: the other side knows at once. */
    CHECK(sp_ring_read(ring, 1, pair[0], &c, 1) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_close(pair[0]) == 0);
    is_at_its_end(pair[1]);
    expect(await(ring), 1, -ECANCELED);
    FAILS(sp_ring_read(ring, 1, pair[0], &c, 1), EBADF);
    FAILS(sp_ring_detach(ring, pair[0]), ENOENT);
    /* The number is another socket's now, or a pipe's. */
    new_pair(again);
    CHECK(again[0] == pair[0]);
    CHECK(sp_ring_read(ring, 1, again[0], &c, 1) == 0);
    CHECK(sp_write(again[1], "n", 1) == 1);
    expect(await(ring), 1, 1);
    CHECK(c == 'n');
    close_pair(again);
    CHECK(sp_pipe(again) == 0 && again[0] == pair[0]);
    CHECK(sp_ring_read(ring, 1, again[0], &c, 1) == 0);
    CHECK(sp_write(again[1], "p", 1) == 1);
    expect(await(ring), 1, 1);
    CHECK(c == 'p');
    close_pair(again);
    CHECK(sp_close(pair[1]) == 0);
    /* While it is idle; by two rings. */
    struct sp_ring *other = new_ring(4);
    new_pair(pair);
    CHECK(sp_ring_attach(ring, pair[0]) == 0 && sp_ring_attach(other, pair[0]) == 0);
    CHECK(sp_close(pair[0]) == 0);
    is_at_its_end(pair[1]);
    CHECK(sp_close(pair[1]) == 0);
    /* With the ring. */
    new_pair(pair);
    CHECK(sp_ring_read(other, 1, pair[0], &c, 1) == 0);
    CHECK(sp_close_range((unsigned)pair[1] + 1, ~0u, 0) == 0);
    CHECK(is_quiet(other));
    sp_ring_destroy(other);
    CHECK(sp_write(pair[1], "k", 1) == 1);
    CHECK(c == 'p' && sp_read(pair[0], &c, 1) == 1 && c == 'k');
    close_pair(pair);
}

static void replaced(void)
{
    int pair[2], other[2];
    char c;
    new_pair(pair);
    new_pair(other);
    CHECK(sp_ring_read(ring, 1, pair[0], &c, 1) == 0);
    CHECK(sp_dup2(other[0], pair[0]) == pair[0]);
    is_at_its_end(pair[1]);
    expect(await(ring), 1, -ECANCELED);
    CHECK(sp_ring_read(ring, 1, pair[0], &c, 1) == 0);
    CHECK(sp_write(other[1], "o", 1) == 1);
    expect(await(ring), 1, 1);
    CHECK(c == 'o');
    /* By code that does not know the library, which is told of it. */
    CHECK(sp_ring_read(ring, 1, pair[0], &c, 1) == 0);
    CHECK(sp_forget(pair[0]) == pair[0]);
    expect(await(ring), 1, -ECANCELED);
    close_pair(pair);
    close_pair(other);
}

static pid_t waiter;

static void *wait_in_ring(void *unused)
{
    (void)unused;
    __atomic_store_n(&waiter, gettid(), __ATOMIC_RELEASE);
    expect(await(ring), 1, 1);
    return NULL;
}

/* Another thread is asleep in the ring, and sleeps on. */
static void closed_by_another_thread(void)
{
    int pair[2], idle[2];
    char c;
    pthread_t thread;
    new_pair(pair);
    new_pair(idle);
    CHECK(sp_ring_attach(ring, idle[0]) == 0);
    CHECK(sp_ring_read(ring, 1, pair[0], &c, 1) == 0);
    waiter = 0;
    CHECK(pthread_create(&thread, NULL, wait_in_ring, NULL) == 0);
    while (__atomic_load_n(&waiter, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    until_asleep(waiter);
    CHECK(sp_close(idle[0]) == 0);
    CHECK(sp_read(idle[1], &c, 1) == 0);
    CHECK(sp_write(pair[1], "x", 1) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sp_close(idle[1]) == 0);
    close_pair(pair);
}

/* The child has none of them, and the parent's operations go on. */
static void forked(void)
{
    int pair[2], idle[2], begun[2], ready[2];
    char c;
    new_pair(pair);
    new_pair(idle);
    CHECK(sp_pipe(begun) == 0 && sp_pipe(ready) == 0);
    CHECK(sp_ring_read(ring, 1, pair[0], &c, 1) == 0 && sp_ring_attach(ring, idle[0]) == 0);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        BEGIN();
        FAILS(sp_ring_read(ring, 2, pair[0], &c, 1), EPERM);
        sp_ring_destroy(ring);
        CHECK(sp_close(idle[0]) == 0);
        ring = new_ring(4);
        CHECK(sp_ring_read(ring, 1, pair[1], &c, 1) == 0);
        CHECK(sp_close(ready[1]) == 0 && sp_write(begun[1], "b", 1) == 1);
        CHECK(sp_read(ready[0], &c, 1) == 0);
        CHECK(is_quiet(ring));
        _exit(0);
    }
    CHECK(sp_read(begun[0], &c, 1) == 1);
    CHECK(sp_close(idle[0]) == 0);
    is_at_its_end(idle[1]);
    CHECK(sp_close(idle[1]) == 0);
    CHECK(sp_write(pair[1], "x", 1) == 1);
    expect(await(ring), 1, 1);
    CHECK(c == 'x');
    int status;
    CHECK(sp_close(ready[0]) == 0 && sp_close(ready[1]) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sp_close(begun[0]) == 0 && sp_close(begun[1]) == 0);
    close_pair(pair);
}

/* From now on io_uring_setup(2) fails, as where an administrator forbids it. See seccomp(2). */
static void forbid_io_uring(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Pipes need none. */
static void without_io_uring(void)
{
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        int pair[2], fds[2];
        char c;
        BEGIN();
        forbid_io_uring();
        ring = new_ring(4);
        new_pair(pair);
        CHECK(sp_pipe(fds) == 0);
        CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0 && is_quiet(ring));
        int before = entries("/proc/self/fd");
        FAILS(sp_ring_read(ring, 2, pair[0], &c, 1), ENOSYS);
        FAILS(sp_ring_attach(ring, pair[0]), ENOSYS);
        CHECK(entries("/proc/self/fd") == before);
        CHECK(sp_write(fds[1], "x", 1) == 1);
        expect(await(ring), 1, 1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void everything(void)
{
    ring = new_ring(16);
    reads_and_writes(0);
    reads_and_writes(O_NONBLOCK);
    of_many_kinds();
    refused();
    cancelled();
    closed();
    replaced();
    closed_by_another_thread();
    forked();
    without_io_uring();
    CHECK(is_quiet(ring));
    sp_ring_destroy(ring);
}

int main(void)
{
    BEGIN();
    everything();
    int after_once = entries("/proc/self/fd");
    everything();
    CHECK(entries("/proc/self/fd") == after_once);
    return 0;
}
