/* Programs that close all descriptors they can think of, as daemons do, and go on. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/resource.h>

enum { MOST = 300 };

static void stream(const char *name)
{
    int fds[2];
    MUST(pipe(fds));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(fds[0]);
        write_stream(fds[1], 0, 500000, 4096);
        _exit(0);
    }
    close(fds[1]);
    printf("%s: %zu bytes\n", name, read_stream(fds[0], 0, 4096));
    close(fds[0]);
    show_child("writer", child);
}

/* A pipe that has been busy, then a child that closes all but that. */
static void child_closes_all(int by_range)
{
    int fds[2];
    char byte = 'x';
    MUST(pipe(fds));
    for (int i = 0; i < 100; i++) {
        static char large[4096];
        MUST(write(fds[1], large, sizeof large));
        MUST(read(fds[0], large, sizeof large));
    }
    MUST(write(fds[1], "before,", 7));
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        MUST(dup2(fds[1], 3));
        if (by_range)
            MUST(close_range(4, ~0U, 0));
        else
            for (int fd = 4; fd < MOST; fd++)
                close(fd);
        for (int i = 0; i < 50000; i++)
            MUST(write(3, &byte, 1));
        _exit(0);
    }
    close(fds[1]);
    char buffer[1000];
    size_t total = 0;
    for (ssize_t n; (n = read(fds[0], buffer, sizeof buffer)) > 0;)
        total += (size_t)n;
    printf("after the child closed all: %zu bytes\n", total);
    close(fds[0]);
    show_child("child", child);
}

static void closing_nothing(void)
{
    int fds[2], closed = 0;
    char buffer[4096];
    MUST(pipe(fds));
    MUST(write(fds[1], buffer, sizeof buffer));
    MUST(read(fds[0], buffer, sizeof buffer));
    for (int fd = 3; fd < MOST; fd++)
        closed += close(fd) == 0;
    printf("at least the two: %d\n", closed >= 2);
}

/* As many pipes as there may be descriptors. */
static void until_full(void)
{
    struct rlimit limit = {64, 64};
    int fds[2] = {-7, -7}, pipes = 0;
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    while (pipe(fds) == 0)
        pipes++;
    SHOW(pipe(fds));
    printf("more than ten: %d\n", pipes > 10);
    SHOW(write(fds[1], "x", 1));
}

int main(void)
{
    BEGIN();
    stream("first");
    closing_nothing();
    stream("after all was closed");
    child_closes_all(0);
    child_closes_all(1);
    stream("at last");
    until_full();
    return 0;
}
