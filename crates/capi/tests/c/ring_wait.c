/* Waiting for a ring: in it, and by its descriptor. */
#define _GNU_SOURCE
#include "ring.h"
#include <sys/epoll.h>

enum { PIPES = 128, ROUNDS = 50 };

static int fds[2];

/* Beside an end: remapped, those are no business of the kernel's. */
static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd list[] = {{.fd = fd, .events = POLLIN}, {.fd = fds[0]}};
    int ready = poll(list, 2, timeout_ms);
    MUST(ready);
    CHECK(list[0].revents == (ready == 1 ? POLLIN : 0) && list[1].revents == 0);
    return ready == 1;
}

static void by_its_descriptor(void)
{
    char c = 0;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    struct sp_ring *ring = new_ring(8);
    CHECK(sp_pipe(fds) == 0);
    int fd = sp_ring_fd(ring);
    CHECK(fd >= 0 && sp_ring_fd(ring) == fd);
    int set = epoll_create1(EPOLL_CLOEXEC);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    CHECK(!is_readable(fd, 0) && epoll_wait(set, &event, 1, 0) == 0);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    CHECK(!is_readable(fd, 0));
    /* From elsewhere. */
    pid_t parent = getpid(), child = fork();
    MUST(child);
    if (child == 0) {
        BEGIN();
        until_asleep(parent);
        _exit(sp_write(fds[1], "x", 1) == 1 ? 0 : 1);
    }
    CHECK(is_readable(fd, -1));
    CHECK(epoll_wait(set, &event, 1, -1) == 1);
    expect(await(ring), 1, 1);
    CHECK(c == 'x' && is_quiet(ring) && !is_readable(fd, 0));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* What is complete at once, and time. */
    CHECK(sp_ring_write(ring, 1, fds[1], "y", 1) == 0);
    CHECK(is_readable(fd, 0));
    expect(next(ring), 1, 1);
    CHECK(is_quiet(ring) && !is_readable(fd, 0));
    const struct timespec soon = {0, 1000000};
    CHECK(sp_ring_timeout(ring, 1, &soon) == 0);
    CHECK(is_readable(fd, -1));
    expect(await(ring), 1, 0);
    /* It is the ring's. */
    FAILS(sp_close(fd), EBADF);
    close(set);
    CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
    sp_ring_destroy(ring);
    FAILS(fcntl(fd, F_GETFD), EBADF);
}

/* Many pipes, each a mirror of what a child has: one ring on each side. */
static void many_pipes(void)
{
    static int there[PIPES][2], back[PIPES][2];
    static char out[PIPES], in[PIPES];
    struct sp_completion completions[32];
    for (int i = 0; i < PIPES; i++)
        CHECK(sp_pipe(there[i]) == 0 && sp_pipe(back[i]) == 0);
    pid_t child = fork();
    MUST(child);
    BEGIN();
    struct sp_ring *ring = new_ring(2 * PIPES);
    int (*reads)[2] = child == 0 ? there : back, (*writes)[2] = child == 0 ? back : there;
    for (int i = 0; i < PIPES; i++) {
        CHECK(sp_close(reads[i][1]) == 0 && sp_close(writes[i][0]) == 0);
        CHECK(sp_ring_read(ring, i, reads[i][0], &in[i], 1) == 0);
        out[i] = (char)i;
        if (child > 0)
            CHECK(sp_ring_write(ring, PIPES + i, writes[i][1], &out[i], 1) == 0);
    }
    int turns[PIPES] = {0}, open = PIPES;
    while (open > 0) {
        int n = sp_ring_wait(ring, completions, 32, NULL);
        MUST(n);
        for (int j = 0; j < n; j++) {
            int i = (int)completions[j].token % PIPES;
            if (completions[j].token >= PIPES) {
                CHECK(completions[j].result == 1);
                continue;
            }
            if (completions[j].result == 0) {
                open--;
                continue;
            }
            CHECK(completions[j].result == 1 && in[i] == (char)(i + turns[i]));
            turns[i]++;
            if (child > 0 && turns[i] == ROUNDS) {
                CHECK(sp_close(writes[i][1]) == 0);
                open--;
                continue;
            }
            out[i] = (char)(i + turns[i] - (child == 0));
            CHECK(sp_ring_write(ring, PIPES + i, writes[i][1], &out[i], 1) == 0);
            CHECK(sp_ring_read(ring, i, reads[i][0], &in[i], 1) == 0);
        }
    }
    CHECK(entries("/proc/self/task") == 1 + 2);
    sp_ring_destroy(ring);
    for (int i = 0; i < PIPES; i++) {
        CHECK(turns[i] == ROUNDS);
        sp_close(reads[i][0]);
        sp_close(writes[i][1]);
    }
    if (child == 0)
        _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void ignore(int signal)
{
    (void)signal;
}

static void interruption(void)
{
    char c;
    struct sp_completion completion;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ignore;
    MUST(sigaction(SIGUSR1, &action, NULL));
    struct sp_ring *ring = new_ring(8);
    CHECK(sp_pipe(fds) == 0);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    pid_t parent = getpid(), child = fork();
    MUST(child);
    if (child == 0) {
        BEGIN();
        until_asleep(parent);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    FAILS(sp_ring_wait(ring, &completion, 1, NULL), EINTR);
    MUST(waitpid(child, NULL, 0));
    CHECK(sp_write(fds[1], "x", 1) == 1);
    expect(await(ring), 1, 1);
    sp_ring_destroy(ring);
    CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
}

int main(void)
{
    BEGIN();
    by_its_descriptor();
    many_pipes();
    interruption();
    return 0;
}
