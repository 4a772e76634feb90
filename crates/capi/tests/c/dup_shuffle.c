/* Copies of descriptors: dup2 onto 0 to 2, swaps, the end of file when the last one is gone. */
#define _GNU_SOURCE
#include "check.h"

static void onto_standard(void)
{
    int fds[2];
    char text[64] = {0};
    MUST(pipe(fds));
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        MUST(dup2(fds[1], 1));
        close(fds[0]);
        close(fds[1]);
        MUST(write(1, "by number, ", 11));
        printf("by stream, ");
        fflush(stdout);
        MUST(write(1, "and again", 9));
        exit(0);
    }
    close(fds[1]);
    for (size_t n = 0, got; (got = (size_t)read(fds[0], text + n, sizeof text - 1 - n)) > 0;)
        n += got;
    printf("child says: %s\n", text);
    show_child("child", child);

    int saved = dup(0);
    MUST(saved);
    MUST(dup2(fds[0], 0));
    close(fds[0]);
    SHOW(read(0, text, sizeof text));
    MUST(dup2(saved, 0));
    close(saved);
}

static void last_copy(void)
{
    int fds[2], copies[3];
    char c;
    MUST(pipe(fds));
    MUST(fcntl(fds[0], F_SETFL, O_NONBLOCK));
    for (int i = 0; i < 3; i++)
        MUST(copies[i] = dup(fds[1]));
    close(fds[1]);
    for (int i = 0; i < 3; i++) {
        SHOW(read(fds[0], &c, 1));
        MUST(write(copies[i], "x", 1));
        SHOW(read(fds[0], &c, 1));
        close(copies[i]);
    }
    SHOW(read(fds[0], &c, 1));
    close(fds[0]);

    /* dup2 onto the last copy closes it. */
    int other[2];
    MUST(pipe(fds));
    MUST(pipe(other));
    warm(fds);
    warm(other);
    MUST(write(fds[1], "last words", 10));
    MUST(dup2(other[1], fds[1]));
    char text[16];
    SHOW(read(fds[0], text, sizeof text));
    SHOW(read(fds[0], text, sizeof text));
    MUST(write(fds[1], "hello", 5));
    SHOW(read(other[0], text, sizeof text));
    close(fds[0]);
    close(fds[1]);
    close(other[0]);
    close(other[1]);
}

static void swap(void)
{
    int a[2], b[2];
    char text[8] = {0};
    MUST(pipe(a));
    MUST(pipe(b));
    warm(a);
    warm(b);
    MUST(write(a[1], "aaa", 3));
    MUST(write(b[1], "bbb", 3));
    int spare = dup(a[0]);
    MUST(spare);
    MUST(dup2(b[0], a[0]));
    MUST(dup2(spare, b[0]));
    close(spare);
    MUST(read(a[0], text, 3));
    printf("a reads %s\n", text);
    MUST(read(b[0], text, 3));
    printf("b reads %s\n", text);
    MUST(write(a[1], "AAA", 3));
    MUST(read(b[0], text, 3));
    printf("b reads %s\n", text);
    close(a[0]);
    close(a[1]);
    close(b[0]);
    close(b[1]);
}

static void rules(void)
{
    int fds[2];
    char c;
    MUST(pipe(fds));
    SHOW(dup2(fds[0], fds[0]) == fds[0]);
    SHOW(dup3(fds[0], fds[0], 0));
    SHOW(dup3(fds[0], 100, O_NONBLOCK));
    SHOW(dup2(99, fds[0]));
    SHOW(dup2(fds[0], -1));
    SHOW(dup(-1));
    SHOW(fcntl(fds[0], F_DUPFD, 50));
    SHOW(fcntl(50, F_GETFD));
    SHOW(fcntl(fds[0], F_DUPFD_CLOEXEC, 50));
    SHOW(fcntl(51, F_GETFD));
    SHOW(dup3(fds[0], 52, O_CLOEXEC));
    SHOW(fcntl(52, F_GETFD));
    SHOW(dup2(52, 53));
    SHOW(fcntl(53, F_GETFD));

    /* The mode belongs to the description: one for all copies. */
    MUST(fcntl(53, F_SETFL, O_NONBLOCK));
    SHOW(read(fds[0], &c, 1));
    SHOW(read(50, &c, 1));
    MUST(fcntl(fds[0], F_SETFL, 0));
    SHOW(fcntl(50, F_GETFL) & O_NONBLOCK);

    /* Closed numbers are closed, and given out again. */
    SHOW(close(50));
    SHOW(close(50));
    SHOW(read(50, &c, 1));
    SHOW(write(50, &c, 1));
    SHOW(fcntl(fds[1], F_DUPFD, 50));
    MUST(write(50, "z", 1));
    SHOW(read(51, &c, 1));
    printf("%c\n", c);
    SHOW(read(50, &c, 1));
    SHOW(write(51, &c, 1));
    for (int fd = 50; fd < 54; fd++)
        close(fd);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    BEGIN();
    onto_standard();
    last_copy();
    swap();
    rules();
    return 0;
}
