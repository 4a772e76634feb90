/* Descriptors that a ring uses are closed, replaced, inherited; peers die. */
#define _GNU_SOURCE
#include "ring.h"
#include <pthread.h>
#include <sys/stat.h>

static struct sp_ring *ring;

static void new_pipe(int fds[2])
{
    CHECK(sp_pipe(fds) == 0);
}

/* Operations under way are cancelled, and the other side knows at once. */
static void closed_while_armed(void)
{
    int fds[2], again[2];
    char c = 'c';
    new_pipe(fds);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_close(fds[0]) == 0);
    CHECK(sp_write(fds[1], "x", 1) == -1 && errno == EPIPE);
    expect(next(ring), 1, -ECANCELED);
    FAILS(sp_ring_read(ring, 1, fds[0], &c, 1), EBADF);
    FAILS(sp_ring_detach(ring, fds[0]), ENOENT);
    /* The number is another pipe's now. */
    new_pipe(again);
    CHECK(again[0] == fds[0]);
    CHECK(sp_ring_read(ring, 1, again[0], &c, 1) == 0);
    CHECK(sp_write(again[1], "n", 1) == 1);
    expect(next(ring), 1, 1);
    CHECK(c == 'n');
    CHECK(sp_close(fds[1]) == 0 && sp_close(again[0]) == 0 && sp_close(again[1]) == 0);
}

static volatile sig_atomic_t broken;

static void note_broken(int signal)
{
    (void)signal;
    broken++;
}

/* As write(2) has it: an error, and a signal. */
static void nobody_reads(void)
{
    int fds[2];
    new_pipe(fds);
    CHECK(sp_close(fds[0]) == 0);
    signal(SIGPIPE, note_broken);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    signal(SIGPIPE, SIG_IGN);
    expect(next(ring), 1, -EPIPE);
    CHECK(broken == 1);
    CHECK(sp_close(fds[1]) == 0);
}

static void closed_while_idle(void)
{
    int fds[2];
    char c;
    new_pipe(fds);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    expect(next(ring), 1, 1);
    CHECK(sp_close(fds[1]) == 0);
    CHECK(sp_read(fds[0], &c, 1) == 1 && sp_read(fds[0], &c, 1) == 0);
    CHECK(sp_close(fds[0]) == 0);
}

static void a_chain_with_a_closed_end(void)
{
    int fds[2];
    new_pipe(fds);
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    CHECK(sp_close(fds[1]) == 0);
    FAILS(sp_ring_link_end(ring), EBADF);
    CHECK(sp_close(fds[0]) == 0);
}

static void replaced(void)
{
    int fds[2], other[2];
    char c;
    new_pipe(fds);
    new_pipe(other);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    CHECK(sp_dup2(other[0], fds[0]) == fds[0]);
    expect(next(ring), 1, -ECANCELED);
    CHECK(sp_write(fds[1], "x", 1) == -1 && errno == EPIPE);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    CHECK(sp_write(other[1], "o", 1) == 1);
    expect(next(ring), 1, 1);
    CHECK(c == 'o');
    /* Another number of the same end stays what it is. */
    CHECK(sp_ring_read(ring, 1, other[0], &c, 1) == 0);
    CHECK(sp_close(fds[0]) == 0);
    CHECK(sp_write(other[1], "p", 1) == 1);
    expect(next(ring), 1, 1);
    CHECK(c == 'p');
    CHECK(sp_close(fds[1]) == 0 && sp_close(other[0]) == 0 && sp_close(other[1]) == 0);
}

/* What the ring has for itself is not there for a program that closes what it does not know. */
static void all_numbers_closed(void)
{
    int fds[2];
    char c;
    new_pipe(fds);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    int first = (fds[0] > fds[1] ? fds[0] : fds[1]) + 1;
    for (int fd = first; fd < 2048; fd++)
        FAILS(sp_close(fd), EBADF);
    CHECK(sp_close_range((unsigned)first, ~0u, 0) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(fds[1], "x", 1) == 1);
    expect(next(ring), 1, 1);
    sp_closefrom(fds[0] < fds[1] ? fds[0] : fds[1]);
    FAILS(sp_ring_read(ring, 1, fds[0], &c, 1), EBADF);
}

/* What it had is there again. */
static void numbers_come_back(void)
{
    int fds[2], copies[32];
    char c;
    new_pipe(fds);
    struct sp_ring *other = new_ring(4);
    int polled = sp_ring_fd(other);
    CHECK(polled >= 0);
    CHECK(sp_ring_attach(ring, fds[0]) == 0 && sp_ring_attach(other, fds[1]) == 0);
    /* Low ones were never taken: they are the program's to choose. */
    for (int fd = 0; fd < 256; fd++)
        CHECK((fcntl(fd, F_GETFD) >= 0) == (fd <= 2 || fd == fds[0] || fd == fds[1]));
    CHECK(sp_ring_detach(ring, fds[0]) == 0);
    sp_ring_destroy(other);
    for (int i = 0; i < 32; i++)
        MUST(copies[i] = fcntl(fds[0], F_DUPFD, 256));
    for (int i = 0; i < 32; i++)
        CHECK(sp_close(copies[i]) == 0);
    CHECK(fcntl(fds[0], F_DUPFD, polled) == polled);
    CHECK(sp_ring_read(ring, 1, polled, &c, 1) == 0);
    CHECK(sp_close(polled) == 0);
    expect(next(ring), 1, -ECANCELED);
    CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
}

static void given_up(void)
{
    int fds[2];
    char c;
    struct sp_close_reason reason;
    new_pipe(fds);
    CHECK(sp_ring_attach(ring, fds[1]) == 0);
    /* Enough for a lane, which knows how its members leave. */
    for (int i = 0; i < 100000; i++)
        CHECK(sp_write(fds[1], "x", 1) == 1 && sp_read(fds[0], &c, 1) == 1);
    CHECK(sp_cancel(fds[1]) == 0);
    CHECK(sp_read(fds[0], &c, 1) == 0);
    CHECK(sp_close_reason(fds[0], &reason, sizeof reason) == 0);
    CHECK(reason.kind == SP_PEER_CANCELLED);
    CHECK(sp_close(fds[0]) == 0);
}

static pid_t waiter;
static int wake[2];

static void *wait_in_ring(void *sees_a_close)
{
    char c;
    CHECK(sp_ring_read(ring, 1, wake[0], &c, 1) == 0);
    __atomic_store_n(&waiter, gettid(), __ATOMIC_RELEASE);
    if (sees_a_close != NULL)
        expect(await(ring), 2, -ECANCELED);
    expect(await(ring), 1, 1);
    return NULL;
}

static pthread_t start_waiter(bool sees_a_close)
{
    pthread_t thread;
    waiter = 0;
    new_pipe(wake);
    CHECK(pthread_create(&thread, NULL, wait_in_ring, sees_a_close ? &waiter : NULL) == 0);
    while (__atomic_load_n(&waiter, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    until_asleep(waiter);
    return thread;
}

static void end_waiter(pthread_t thread)
{
    CHECK(sp_write(wake[1], "x", 1) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void close_wake(void)
{
    CHECK(sp_close(wake[0]) == 0 && sp_close(wake[1]) == 0);
}

/* By another thread than the one in the ring. */
static void closed_by_another_thread(void)
{
    int fds[2], idle[2];
    char c;
    new_pipe(fds);
    new_pipe(idle);
    CHECK(sp_ring_read(ring, 2, fds[0], &c, 1) == 0);
    CHECK(sp_ring_attach(ring, idle[1]) == 0);
    pthread_t thread = start_waiter(true);
    /* Although it sleeps on, and nothing is complete, readers of another pipe see the end. */
    CHECK(sp_close(idle[1]) == 0);
    CHECK(sp_read(idle[0], &c, 1) == 0);
    CHECK(sp_close(idle[0]) == 0);
    FAILS(sp_ring_read(ring, 3, fds[0], &c, 1), EDEADLK);
    CHECK(sp_close(fds[0]) == 0);
    struct pollfd entry = {.fd = fds[1]};
    CHECK(sp_poll(&entry, 1, -1) == 1 && entry.revents == POLLERR);
    end_waiter(thread);
    CHECK(sp_close(fds[1]) == 0);
    close_wake();
}

/* Or it leaves. */
static void closed_as_another_thread_leaves(void)
{
    int fds[2];
    char c;
    new_pipe(fds);
    CHECK(sp_ring_attach(ring, fds[1]) == 0);
    pthread_t thread = start_waiter(false);
    CHECK(sp_close(fds[1]) == 0);
    end_waiter(thread);
    CHECK(sp_read(fds[0], &c, 1) == 0);
    CHECK(sp_close(fds[0]) == 0);
    close_wake();
}

/* The child may not use the ring, keeps none of its descriptors, and has all ends for itself. */
static void forked(bool while_another_thread_waits)
{
    int fds[2], ready[2];
    char c;
    pthread_t thread;
    new_pipe(fds);
    new_pipe(ready);
    CHECK(sp_ring_read(ring, 2, fds[0], &c, 1) == 0);
    CHECK(sp_ring_attach(ring, fds[1]) == 0);
    if (while_another_thread_waits)
        thread = start_waiter(false);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        struct sp_completion completion;
        BEGIN();
        FAILS(sp_ring_read(ring, 3, fds[0], &c, 1), EPERM);
        FAILS(sp_ring_reap(ring, &completion, 1), EPERM);
        FAILS(sp_ring_wait(ring, &completion, 1, NULL), EPERM);
        FAILS(sp_ring_fd(ring), EPERM);
        CHECK(sp_close(fds[0]) == 0);
        CHECK(sp_read(ready[0], &c, 1) == 1);
        CHECK(sp_write(fds[1], "c", 1) == 1);
        CHECK(sp_close(fds[1]) == 0);
        sp_ring_destroy(ring);
        /* A ring of its own. */
        ring = new_ring(4);
        CHECK(sp_ring_read(ring, 1, ready[0], &c, 1) == 0);
        expect(await(ring), 1, 1);
        _exit(0);
    }
    if (while_another_thread_waits) {
        end_waiter(thread);
        close_wake();
    }
    CHECK(sp_write(ready[1], "g", 1) == 1);
    expect(await(ring), 2, 1);
    CHECK(c == 'c');
    CHECK(sp_close(fds[1]) == 0);
    /* The child lives, and nobody writes any more. */
    CHECK(sp_ring_read(ring, 2, fds[0], &c, 1) == 0);
    expect(await(ring), 2, 0);
    CHECK(sp_write(ready[1], "r", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sp_close(fds[0]) == 0 && sp_close(ready[0]) == 0 && sp_close(ready[1]) == 0);
}

/* As the kernel has it, whoever holds the number. */
static bool is_open(int fd)
{
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, target, sizeof target) > 0;
}

/* Where the ring's descriptors were, a child that did not have them to close has other files: what is in the
 * pipe does not get there. */
static void forked_while_another_thread_waits(void)
{
    int fds[2], ready[2];
    char c, text[6] = {0};
    new_pipe(fds);
    new_pipe(ready);
    static bool was_open[4096];
    for (int fd = 0; fd < 4096; fd++)
        was_open[fd] = is_open(fd);
    CHECK(sp_ring_attach(ring, fds[1]) == 0);
    int number = 0;
    while (was_open[number] || !is_open(number))
        CHECK(++number < 4096);
    pthread_t thread = start_waiter(false);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        struct stat found;
        CHECK(!is_open(number));
        /* Before the library has it again. */
        FILE *file = tmpfile();
        CHECK(file != NULL);
        CHECK(sp_dup2(fileno(file), number) == number);
        CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
        CHECK(sp_read(ready[0], &c, 1) == 1);
        pid_t grandchild = fork();
        MUST(grandchild);
        if (grandchild == 0)
            _exit(0);
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        CHECK(fstat(number, &found) == 0 && found.st_size == 0);
        _exit(0);
    }
    end_waiter(thread);
    close_wake();
    /* Into the lane. */
    for (int i = 0; i < 100000; i++)
        CHECK(sp_write(fds[1], "x", 1) == 1 && sp_read(fds[0], &c, 1) == 1);
    CHECK(sp_write(fds[1], "hello", 5) == 5);
    CHECK(sp_write(ready[1], "g", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sp_close(fds[1]) == 0);
    CHECK(sp_read(fds[0], text, 6) == 5 && strcmp(text, "hello") == 0);
    CHECK(sp_close(fds[0]) == 0 && sp_close(ready[0]) == 0 && sp_close(ready[1]) == 0);
}

static void killed_peers(void)
{
    int in[2], out[2];
    static char c, large[200000];
    new_pipe(in);
    new_pipe(out);
    pid_t parent = getpid(), child = fork();
    MUST(child);
    if (child == 0) {
        CHECK(sp_close(in[0]) == 0 && sp_close(out[1]) == 0);
        until_asleep(parent);
        raise(SIGKILL);
    }
    CHECK(sp_close(in[1]) == 0 && sp_close(out[0]) == 0);
    CHECK(sp_ring_read(ring, 1, in[0], &c, 1) == 0);
    CHECK(sp_ring_write(ring, 2, out[1], large, sizeof large) == 0);
    struct sp_completion first = await(ring), second = await(ring);
    CHECK(first.token != second.token);
    struct sp_completion read = first.token == 1 ? first : second;
    struct sp_completion write = first.token == 1 ? second : first;
    expect(read, 1, 0);
    CHECK(write.result > 0 && write.result < (int64_t)sizeof large);
    CHECK(sp_ring_write(ring, 2, out[1], "x", 1) == 0);
    expect(await(ring), 2, -EPIPE);
    MUST(waitpid(child, NULL, 0));
    CHECK(sp_close(in[0]) == 0 && sp_close(out[1]) == 0);
}

int main(void)
{
    BEGIN();
    signal(SIGPIPE, SIG_IGN);
    /* What we were started with is nobody's. */
    sp_closefrom(3);
    ring = new_ring(64);
    closed_while_armed();
    nobody_reads();
    closed_while_idle();
    a_chain_with_a_closed_end();
    replaced();
    all_numbers_closed();
    numbers_come_back();
    given_up();
    closed_by_another_thread();
    closed_as_another_thread_leaves();
    forked(false);
    forked(true);
    forked_while_another_thread_waits();
    killed_peers();
    CHECK(is_quiet(ring));
    sp_ring_destroy(ring);
    return 0;
}
