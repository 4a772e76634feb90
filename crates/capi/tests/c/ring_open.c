/* FIFOs are opened by a ring. */
#define _GNU_SOURCE
#include "ring.h"
#include <sys/stat.h>

static char dir[] = "/tmp/standpipe-ring-open-XXXXXX";
static char path[64];
static struct sp_ring *ring;

static int opened(struct sp_completion completion, uint64_t token)
{
    if (completion.result < 0)
        fprintf(stderr, "token %llu: %s\n", (unsigned long long)completion.token,
                strerrorname((int)-completion.result));
    CHECK(completion.token == token && completion.result > 2 && completion.flags == 0);
    return (int)completion.result;
}

/* What is written to one comes out of the other, by ordinary calls and by operations. */
static void works(int reader, int writer)
{
    char text[6] = {0};
    struct sp_stats stats;
    CHECK(sp_write(writer, "hello", 5) == 5 && sp_read(reader, text, 5) == 5);
    CHECK(strcmp(text, "hello") == 0);
    CHECK(sp_ring_read(ring, 11, reader, text, 5) == 0);
    CHECK(sp_ring_write(ring, 12, writer, "there", 5) == 0);
    expect(await(ring), 12, 5);
    expect(await(ring), 11, 5);
    CHECK(strcmp(text, "there") == 0);
    CHECK(sp_stats(reader, &stats, sizeof stats) == 0 && sp_stats(writer, &stats, sizeof stats) == 0);
}

/* As ever: who writes has it open no more. */
static void ends(int reader, int writer)
{
    char c;
    CHECK(sp_close(writer) == 0 && sp_read(reader, &c, 1) == 0 && sp_close(reader) == 0);
}

static void both_by_the_ring(void)
{
    CHECK(sp_ring_open(ring, 1, path, O_RDONLY) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_ring_open(ring, 2, path, O_WRONLY | O_CLOEXEC) == 0);
    struct sp_completion first = await(ring), second = await(ring);
    bool is_reader = first.token == 1;
    int reader = opened(is_reader ? first : second, 1), writer = opened(is_reader ? second : first, 2);
    CHECK((fcntl(reader, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_RDONLY);
    CHECK((fcntl(writer, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_WRONLY);
    CHECK(fcntl(reader, F_GETFD) == 0 && fcntl(writer, F_GETFD) == FD_CLOEXEC);
    works(reader, writer);
    ends(reader, writer);
}

/* The partner waits in open(2); and an ordinary read of what was opened waits. */
static void with_another_process(int flags)
{
    pid_t parent = getpid(), child = fork();
    MUST(child);
    if (child == 0) {
        char c = 0;
        BEGIN();
        int fd = sp_open(path, flags == O_RDONLY ? O_WRONLY : O_RDONLY);
        MUST(fd);
        if (flags == O_WRONLY)
            _exit(sp_read(fd, &c, 1) == 1 && c == 'y' ? 0 : 1);
        until_asleep(parent);
        _exit(sp_write(fd, "x", 1) == 1 ? 0 : 1);
    }
    char c = 0;
    until_asleep(child);
    CHECK(sp_ring_open(ring, 1, path, flags) == 0);
    int fd = opened(await(ring), 1), status;
    if (flags == O_RDONLY)
        CHECK(sp_read(fd, &c, 1) == 1 && c == 'x');
    else
        CHECK(sp_write(fd, "y", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(sp_close(fd) == 0);
}

static void without_waiting(void)
{
    CHECK(sp_ring_open(ring, 1, path, O_WRONLY | O_NONBLOCK) == 0);
    expect(next(ring), 1, -ENXIO);
    CHECK(sp_ring_open(ring, 1, path, O_RDONLY | O_NONBLOCK) == 0);
    int reader = opened(next(ring), 1);
    CHECK(fcntl(reader, F_GETFL) & O_NONBLOCK);
    CHECK(sp_ring_open(ring, 1, path, O_WRONLY | O_NONBLOCK) == 0);
    int writer = opened(next(ring), 1);
    char c;
    FAILS(sp_read(reader, &c, 1), EAGAIN);
    works(reader, writer);
    ends(reader, writer);
    CHECK(sp_ring_open(ring, 1, path, O_RDWR) == 0);
    int both = opened(next(ring), 1);
    works(both, both);
    CHECK(sp_close(both) == 0);
}

/* Nobody has it open. */
static void is_not_open(void)
{
    FAILS(sp_open(path, O_WRONLY | O_NONBLOCK), ENXIO);
}

static void cancelled(void)
{
    CHECK(sp_ring_open(ring, 1, path, O_RDONLY) == 0);
    CHECK(sp_ring_open(ring, 2, dir, O_RDONLY) == 0);
    expect(next(ring), 2, -EINVAL);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    expect(next(ring), 1, -ECANCELED);
    is_not_open();
    CHECK(sp_ring_open(ring, 1, path, O_WRONLY) == 0);
    CHECK(sp_ring_cancel(ring, 2, 1) == 0);
    expect(next(ring), 1, -ECANCELED);
    expect(next(ring), 2, 0);
    /* A limit of time, and what begins only when it is open. */
    struct timespec soon = {0, 2000000};
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_open(ring, 1, path, O_RDONLY) == 0);
    CHECK(sp_ring_timeout(ring, 2, &AT_ONCE) == 0);
    CHECK(sp_ring_link_end(ring) == 0);
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_timeout(ring, 3, &soon) == 0);
    CHECK(sp_ring_cancel(ring, 4, 1) == 0);
    CHECK(sp_ring_link_end(ring) == 0);
    expect(await(ring), 3, 0);
    expect(next(ring), 1, -ECANCELED);
    expect(next(ring), 2, -ECANCELED);
    expect(next(ring), 4, 0);
    is_not_open();
}

static void refused(void)
{
    char missing[80];
    snprintf(missing, sizeof missing, "%s.missing", path);
    CHECK(sp_ring_open(ring, 1, missing, O_RDONLY) == 0);
    expect(next(ring), 1, -ENOENT);
    CHECK(sp_ring_open(ring, 1, "", O_RDONLY) == 0);
    expect(next(ring), 1, -ENOENT);
    snprintf(missing, sizeof missing, "%s/below", path);
    CHECK(sp_ring_open(ring, 1, missing, O_RDONLY) == 0);
    expect(next(ring), 1, -ENOTDIR);
    CHECK(sp_ring_open(ring, 1, "/dev/null", O_RDWR) == 0);
    expect(next(ring), 1, -EINVAL);
    FAILS(sp_ring_open(ring, 1, NULL, O_RDONLY), EFAULT);
    FAILS(sp_ring_open(ring, 1, path, O_RDONLY | O_CREAT), EINVAL);
    FAILS(sp_ring_open(ring, 1, path, O_ACCMODE), EINVAL);
    CHECK(is_quiet(ring));
}

/* Open, though nobody was told of it: closed with the ring. */
static void not_reaped(void)
{
    struct sp_ring *mine = ring;
    ring = new_ring(4);
    CHECK(sp_ring_open(ring, 1, path, O_RDONLY | O_NONBLOCK) == 0);
    int writer = sp_open(path, O_WRONLY | O_NONBLOCK);
    MUST(writer);
    sp_ring_destroy(ring);
    FAILS(sp_write(writer, "x", 1), EPIPE);
    CHECK(sp_close(writer) == 0);
    ring = mine;
}

/* Two of one reap, and one that stays for the next. */
static void several_at_once(void)
{
    struct sp_completion completions[2];
    for (int i = 0; i < 3; i++)
        CHECK(sp_ring_open(ring, i, path, O_RDWR) == 0);
    CHECK(sp_ring_reap(ring, completions, 2) == 2);
    int first = opened(completions[0], 0), second = opened(completions[1], 1);
    int third = opened(next(ring), 2);
    works(first, second);
    works(third, first);
    CHECK(sp_close(first) == 0 && sp_close(second) == 0 && sp_close(third) == 0);
}

/* A child does not have it open. */
static void forked(void)
{
    int begun[2], ready[2];
    char c;
    CHECK(sp_pipe(begun) == 0 && sp_pipe(ready) == 0);
    CHECK(sp_ring_open(ring, 1, path, O_RDONLY) == 0);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        BEGIN();
        CHECK(sp_close(ready[1]) == 0 && sp_write(begun[1], "b", 1) == 1);
        _exit(sp_read(ready[0], &c, 1) == 0 ? 0 : 1);
    }
    CHECK(sp_read(begun[0], &c, 1) == 1);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    expect(next(ring), 1, -ECANCELED);
    is_not_open();
    CHECK(sp_close(begun[0]) == 0 && sp_close(begun[1]) == 0);
    CHECK(sp_close(ready[0]) == 0 && sp_close(ready[1]) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void everything(void)
{
    ring = new_ring(16);
    both_by_the_ring();
    with_another_process(O_RDONLY);
    with_another_process(O_WRONLY);
    without_waiting();
    cancelled();
    refused();
    not_reaped();
    several_at_once();
    forked();
    CHECK(is_quiet(ring));
    CHECK(entries("/proc/self/task") == 1 + 2);
    sp_ring_destroy(ring);
}

int main(void)
{
    BEGIN();
    signal(SIGPIPE, SIG_IGN);
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/fifo", dir);
    MUST(mkfifo(path, 0600));
    everything();
    int after_once = entries("/proc/self/fd");
    everything();
    CHECK(entries("/proc/self/fd") == after_once);
    unlink(path);
    rmdir(dir);
    return 0;
}
