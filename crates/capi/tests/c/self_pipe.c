/* A signal handler that writes to the pipe that its own thread reads and writes: read and write are
 * safe in handlers, whatever they interrupt. */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <sys/mman.h>

enum { SIGNALS = 5000 };

static int fds[2];
static volatile int *entered;
static volatile int handled;

static void note(int signal)
{
    int saved = errno;
    (void)signal;
    /* A full pipe has enough to read. */
    if (write(fds[1], "s", 1) == 1)
        handled++;
    ++*entered;
    errno = saved;
}

int main(void)
{
    BEGIN();
    char buffer[4096];
    struct sigaction action;
    entered = mmap(NULL, sizeof *entered, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(pipe2(fds, O_NONBLOCK));
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    MUST(sigaction(SIGUSR1, &action, NULL));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        for (int i = 0; i < SIGNALS; i++) {
            int before = *entered;
            MUST(kill(getppid(), SIGUSR1));
            while (*entered == before)
                continue;
            /* Whatever the parent does next, some signal meets it there. */
            for (volatile int spin = i % 997; spin > 0; spin--)
                continue;
        }
        _exit(0);
    }
    int ours = 0, theirs = 0, written = 0;
    do {
        ssize_t n = write(fds[1], "mmmm", 4);
        written += n > 0 ? (int)n : 0;
        struct pollfd entry = {.fd = fds[0], .events = POLLIN};
        poll(&entry, 1, -1);
        n = read(fds[0], buffer, written % 3 ? sizeof buffer : 3);
        for (ssize_t i = 0; i < n; i++) {
            ours += buffer[i] == 'm';
            theirs += buffer[i] == 's';
        }
    } while (*entered < SIGNALS);
    show_child("child", child);
    for (ssize_t n; (n = read(fds[0], buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < n; i++) {
            ours += buffer[i] == 'm';
            theirs += buffer[i] == 's';
        }
    printf("missing of the handler's %d, of ours %d\n", handled - theirs, written - ours);
    return 0;
}
