/* A select loop over several children, and what select says of a pipe in each state. */
#include "check.h"
#include <sys/select.h>

enum { CHILDREN = 3 };

static void loop(void)
{
    int readers[CHILDREN];
    size_t totals[CHILDREN] = {0};
    for (int i = 0; i < CHILDREN; i++) {
        int fds[2];
        MUST(pipe(fds));
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            close(fds[0]);
            write_stream(fds[1], 0, (size_t)(i + 1) * 100000, (size_t)500 * (i + 1));
            _exit(0);
        }
        close(fds[1]);
        readers[i] = fds[0];
    }
    for (int open = CHILDREN; open > 0;) {
        fd_set set;
        int highest = -1;
        FD_ZERO(&set);
        for (int i = 0; i < CHILDREN; i++)
            if (readers[i] >= 0) {
                FD_SET(readers[i], &set);
                highest = readers[i] > highest ? readers[i] : highest;
            }
        MUST(select(highest + 1, &set, NULL, NULL, NULL));
        for (int i = 0; i < CHILDREN; i++) {
            if (readers[i] < 0 || !FD_ISSET(readers[i], &set))
                continue;
            unsigned char buffer[3000];
            ssize_t n = read(readers[i], buffer, sizeof buffer);
            MUST(n);
            for (ssize_t at = 0; at < n; at++)
                if (buffer[at] != byte_at(totals[i] + (size_t)at))
                    exit(1);
            totals[i] += (size_t)n;
            if (n == 0) {
                close(readers[i]);
                readers[i] = -1;
                open--;
            }
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        printf("child %d: %zu bytes\n", i, totals[i]);
        MUST(wait(NULL));
    }
}

static void show_sets(const char *state, int fd)
{
    fd_set read, write, except;
    struct timeval timeout = {0, 0};
    FD_ZERO(&read);
    FD_ZERO(&write);
    FD_ZERO(&except);
    FD_SET(fd, &read);
    FD_SET(fd, &write);
    FD_SET(fd, &except);
    int ready = select(fd + 1, &read, &write, &except, &timeout);
    printf("%s: %d, read %d, write %d, except %d\n", state, ready, FD_ISSET(fd, &read),
           FD_ISSET(fd, &write), FD_ISSET(fd, &except));
}

static void states(void)
{
    int fds[2];
    char buffer[4096] = {0};
    MUST(pipe(fds));
    warm(fds);
    show_sets("reader, empty", fds[0]);
    show_sets("writer, empty", fds[1]);
    MUST(write(fds[1], "x", 1));
    show_sets("reader, a byte", fds[0]);
    MUST(read(fds[0], buffer, 1));
    for (int i = 0; i < 16; i++)
        MUST(write(fds[1], buffer, sizeof buffer));
    show_sets("reader, full", fds[0]);
    show_sets("writer, full", fds[1]);
    int reader = dup(fds[0]);
    close(fds[0]);
    show_sets("writer, full, another copy", fds[1]);
    close(reader);
    show_sets("writer, nobody reads", fds[1]);
    close(fds[1]);

    MUST(pipe(fds));
    MUST(write(fds[1], "abc", 3));
    close(fds[1]);
    show_sets("reader, data, nobody writes", fds[0]);
    MUST(read(fds[0], buffer, 3));
    show_sets("reader, nobody writes", fds[0]);
    close(fds[0]);
}

static void odd(void)
{
    int fds[2];
    fd_set set;
    struct timeval timeout = {0, 1000};
    MUST(pipe(fds));
    warm(fds);
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    SHOW(select(fds[0] + 1, &set, NULL, NULL, &timeout));
    printf("left in the set: %d, time left: %ld.%06ld\n", FD_ISSET(fds[0], &set),
           (long)timeout.tv_sec, (long)timeout.tv_usec);

    /* Together with something that is no pipe. */
    int null = open("/dev/null", O_RDWR);
    MUST(null);
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    FD_SET(null, &set);
    SHOW(select(null + 1, &set, NULL, NULL, NULL));
    printf("pipe %d, null %d\n", FD_ISSET(fds[0], &set), FD_ISSET(null, &set));

    /* A closed one is an error, and the sets stay. */
    close(null);
    FD_SET(null, &set);
    FD_SET(fds[0], &set);
    SHOW(select(null + 1, &set, NULL, NULL, NULL));
    printf("pipe %d, closed %d\n", FD_ISSET(fds[0], &set), FD_ISSET(null, &set));
    SHOW(select(-1, &set, NULL, NULL, NULL));
    timeout.tv_sec = -1;
    FD_CLR(null, &set);
    SHOW(select(fds[0] + 1, &set, NULL, NULL, &timeout));
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    BEGIN();
    loop();
    states();
    odd();
    return 0;
}
