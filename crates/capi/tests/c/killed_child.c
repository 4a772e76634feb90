/* A child that is killed has closed its ends: what it wrote is read, then comes the end. */
#include "check.h"

static void killed_writer(size_t bytes)
{
    int fds[2], ready[2];
    char c;
    MUST(pipe(fds));
    warm(fds);
    MUST(pipe(ready));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        write_stream(fds[1], 0, bytes, 1000);
        MUST(write(ready[1], "r", 1));
        for (;;)
            pause();
    }
    close(fds[1]);
    close(ready[1]);
    MUST(read(ready[0], &c, 1));
    MUST(kill(child, SIGKILL));
    show_child("writer", child);
    printf("%zu bytes were left\n", read_stream(fds[0], 0, 999));
    close(fds[0]);
    close(ready[0]);
}

/* A reader that sleeps when the last writer is killed. */
static void killed_while_we_sleep(void)
{
    int fds[2];
    char c;
    MUST(pipe(fds));
    warm(fds);
    pid_t parent = getpid();
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(fds[0]);
        until_asleep(parent);
        raise(SIGKILL);
    }
    close(fds[1]);
    SHOW(read(fds[0], &c, 1));
    show_child("writer", child);
    close(fds[0]);
}

static void killed_reader(void)
{
    int fds[2];
    static char large[1 << 20];
    MUST(pipe(fds));
    warm(fds);
    signal(SIGPIPE, SIG_IGN);
    pid_t parent = getpid();
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(fds[1]);
        until_asleep(parent);
        raise(SIGKILL);
    }
    close(fds[0]);
    /* Fills the pipe, sleeps, and is told of the death: the count, then the error. */
    SHOW(write(fds[1], large, sizeof large));
    SHOW(write(fds[1], large, 1));
    show_child("reader", child);
    close(fds[1]);
}

int main(void)
{
    BEGIN();
    killed_writer(0);
    killed_writer(10000);
    killed_writer(60000);
    killed_while_we_sleep();
    killed_reader();
    return 0;
}
