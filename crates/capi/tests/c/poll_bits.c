/* What poll says of a pipe in each state, to the bit. */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND | POLLRDHUP)

static void show_bits(const char *state, int fd, int events)
{
    static const struct {
        short bit;
        const char *name;
    } NAMES[] = {
        {POLLIN, "IN"},         {POLLOUT, "OUT"},       {POLLPRI, "PRI"},       {POLLERR, "ERR"},
        {POLLHUP, "HUP"},       {POLLNVAL, "NVAL"},     {POLLRDNORM, "RDNORM"}, {POLLWRNORM, "WRNORM"},
        {POLLRDBAND, "RDBAND"}, {POLLWRBAND, "WRBAND"}, {POLLRDHUP, "RDHUP"},
    };
    struct pollfd entry = {.fd = fd, .events = (short)events, .revents = -1};
    int ready = poll(&entry, 1, 0);
    printf("%s: %d", state, ready);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (entry.revents & NAMES[i].bit)
            printf(" %s", NAMES[i].name);
    printf("\n");
}

static void pipe_states(void)
{
    int fds[2];
    static char page[4096];
    MUST(pipe(fds));
    warm(fds);
    show_bits("reader, empty", fds[0], ALL);
    show_bits("writer, empty", fds[1], ALL);
    show_bits("writer asked for input", fds[1], POLLIN);
    MUST(write(fds[1], "x", 1));
    show_bits("reader, a byte", fds[0], ALL);
    show_bits("reader asked for output", fds[0], POLLOUT);
    show_bits("reader asked for nothing", fds[0], 0);
    show_bits("reader asked for RDNORM", fds[0], POLLRDNORM);
    MUST(read(fds[0], page, 1));
    for (int i = 0; i < 16; i++)
        MUST(write(fds[1], page, sizeof page));
    show_bits("reader, full", fds[0], ALL);
    show_bits("writer, full", fds[1], ALL);
    MUST(read(fds[0], page, sizeof page));
    show_bits("writer, a page of room", fds[1], ALL);
    close(fds[0]);
    show_bits("writer, nobody reads", fds[1], ALL);
    show_bits("writer asked for nothing", fds[1], 0);
    close(fds[1]);
    show_bits("closed", fds[1], ALL);
    show_bits("negative", -1, ALL);

    MUST(pipe(fds));
    for (int i = 0; i < 16; i++)
        MUST(write(fds[1], page, sizeof page));
    close(fds[0]);
    show_bits("writer, full, nobody reads", fds[1], ALL);
    close(fds[1]);

    MUST(pipe(fds));
    MUST(write(fds[1], "x", 1));
    close(fds[1]);
    show_bits("reader, a byte, nobody writes", fds[0], ALL);
    MUST(read(fds[0], page, 1));
    show_bits("reader, nobody writes", fds[0], ALL);
    show_bits("the same, asked for nothing", fds[0], 0);
    close(fds[0]);
}

/* Several at once, with one that is no pipe. */
static void several(void)
{
    int fds[2], null;
    MUST(pipe(fds));
    MUST(null = open("/dev/null", O_RDONLY));
    struct pollfd entries[] = {
        {.fd = fds[0], .events = POLLIN}, {.fd = -5, .events = POLLIN}, {.fd = null, .events = POLLIN},
        {.fd = fds[1], .events = POLLOUT}, {.fd = 400, .events = POLLIN},
    };
    SHOW(poll(entries, 5, -1));
    for (int i = 0; i < 5; i++)
        printf("%#x ", (unsigned)entries[i].revents);
    printf("\n");
    SHOW(poll(entries, 1, 1));
    SHOW(poll(NULL, 0, 0));
    close(fds[0]);
    close(fds[1]);
    close(null);
}

/* Sleeps until another process does something. */
static void sleeping(const char *name, short events, char action)
{
    int fds[2];
    static char page[65536];
    MUST(pipe(fds));
    warm(fds);
    if (action == 'r')
        MUST(write(fds[1], page, sizeof page));
    pid_t parent = getpid();
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        int mine = events == POLLIN ? fds[1] : fds[0];
        close(events == POLLIN ? fds[0] : fds[1]);
        until_asleep(parent);
        if (action == 'w')
            MUST(write(mine, "x", 1));
        if (action == 'r')
            MUST(read(mine, page, sizeof page));
        /* and 'c' closes, as all do in the end */
        _exit(0);
    }
    int mine = events == POLLIN ? fds[0] : fds[1];
    close(events == POLLIN ? fds[1] : fds[0]);
    struct pollfd entry = {.fd = mine, .events = action == 'c' ? 0 : events};
    int ready = poll(&entry, 1, -1);
    printf("%s: %d, wanted %d\n", name, ready, (entry.revents & (events | POLLHUP | POLLERR)) != 0);
    show_child("child", child);
    close(mine);
}

int main(void)
{
    BEGIN();
    pipe_states();
    several();
    sleeping("a byte comes", POLLIN, 'w');
    sleeping("the writer goes", POLLIN, 'c');
    sleeping("room comes", POLLOUT, 'r');
    sleeping("the reader goes", POLLOUT, 'c');
    return 0;
}
