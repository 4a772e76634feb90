/* Signals: interrupted and restarted calls, SIGPIPE. */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <sys/mman.h>
#include <sys/select.h>

static volatile int *handled;

static void count(int signal)
{
    (void)signal;
    ++*handled;
}

static void install(int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    action.sa_flags = flags;
    MUST(sigaction(SIGUSR1, &action, NULL));
    *handled = 0;
}

/* A child that sends one signal once this process sleeps, and then, when it was handled, does `then` on
 * `fd`: 'w' writes a byte, 'r' drains 64 KiB. */
static pid_t disturber(int fd, char then)
{
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child > 0)
        return child;
    pid_t parent = getppid();
    static char drain[65536];
    until_asleep(parent);
    kill(parent, SIGUSR1);
    while (*handled == 0)
        sched_yield();
    if (then == 'w')
        _exit(write(fd, "x", 1) != 1);
    if (then == 'r')
        _exit(read(fd, drain, sizeof drain) < 1);
    _exit(0);
}

static void reading(void)
{
    int fds[2];
    char c = 0;
    MUST(pipe(fds));
    warm(fds);
    install(0);
    pid_t child = disturber(-1, 0);
    SHOW(read(fds[0], &c, 1));
    show_child("disturber", child);

    install(SA_RESTART);
    child = disturber(fds[1], 'w');
    SHOW(read(fds[0], &c, 1));
    printf("read %c, handled %d\n", c, *handled);
    show_child("disturber", child);

    install(SA_RESTART);
    struct pollfd entry = {.fd = fds[0], .events = POLLIN};
    child = disturber(-1, 0);
    SHOW(poll(&entry, 1, -1));
    show_child("disturber", child);

    install(SA_RESTART);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    child = disturber(-1, 0);
    SHOW(select(fds[0] + 1, &set, NULL, NULL, NULL));
    printf("still in the set: %d\n", FD_ISSET(fds[0], &set));
    show_child("disturber", child);
    close(fds[0]);
    close(fds[1]);
}

static void writing(void)
{
    int fds[2];
    static char full[65536];
    MUST(pipe(fds));
    warm(fds);
    MUST(write(fds[1], full, sizeof full));

    install(0);
    pid_t child = disturber(-1, 0);
    SHOW(write(fds[1], "y", 1));
    show_child("disturber", child);

    install(SA_RESTART);
    child = disturber(fds[0], 'r');
    SHOW(write(fds[1], "y", 1));
    show_child("disturber", child);
    SHOW(read(fds[0], full, 1) == 1);

    /* Something was written already: that counts, restart or not. */
    int other[2];
    static char large[65536 * 2];
    MUST(pipe(other));
    warm(other);
    install(SA_RESTART);
    child = disturber(-1, 0);
    SHOW(write(other[1], large, sizeof large));
    show_child("disturber", child);
    close(fds[0]);
    close(fds[1]);
    close(other[0]);
    close(other[1]);
}

static void broken(void)
{
    int fds[2];
    MUST(pipe(fds));
    warm(fds);
    close(fds[0]);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        MUST(write(fds[1], "x", 1));
        _exit(0);
    }
    show_child("writer to nobody", child);

    signal(SIGPIPE, SIG_IGN);
    SHOW(write(fds[1], "x", 1));
    SHOW(write(fds[1], NULL, 1));
    SHOW(write(fds[1], "x", 0));
    signal(SIGPIPE, SIG_DFL);

    sigset_t mask, pending;
    sigemptyset(&mask);
    sigaddset(&mask, SIGPIPE);
    MUST(sigprocmask(SIG_BLOCK, &mask, NULL));
    SHOW(write(fds[1], "x", 1));
    MUST(sigpending(&pending));
    printf("pending: %d\n", sigismember(&pending, SIGPIPE));
    signal(SIGPIPE, SIG_IGN);
    MUST(sigprocmask(SIG_UNBLOCK, &mask, NULL));
    close(fds[1]);
}

/* A mask that holds only while ppoll waits. */
static void masked(void)
{
    int fds[2];
    MUST(pipe(fds));
    install(0);
    sigset_t block, none;
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    MUST(sigprocmask(SIG_BLOCK, &block, NULL));
    MUST(raise(SIGUSR1));
    struct pollfd entry = {.fd = fds[0], .events = POLLIN};
    struct timespec at_once = {0, 0};
    SHOW(ppoll(&entry, 1, &at_once, &block));
    printf("handled %d\n", *handled);
    SHOW(ppoll(&entry, 1, NULL, &none));
    printf("handled %d\n", *handled);
    MUST(raise(SIGUSR1));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    SHOW(pselect(fds[0] + 1, &set, NULL, NULL, NULL, &none));
    printf("handled %d\n", *handled);
    MUST(sigprocmask(SIG_UNBLOCK, &block, NULL));
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    BEGIN();
    handled = mmap(NULL, sizeof *handled, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    reading();
    writing();
    broken();
    masked();
    return 0;
}
