/* Blocks for good in the call that it is told, after the descriptor and its state were made. */
#include "check.h"
#include <poll.h>
#include <sys/select.h>

int main(int argc, char **argv)
{
    int fds[2];
    static char full[65536];
    fd_set set;
    MUST(pipe(fds));
    FD_ZERO(&set);
    FD_SET(fds[0], &set);
    struct pollfd entry = {.fd = fds[0], .events = POLLIN};
    MUST(write(fds[1], full, argc == 2 && *argv[1] == 'w' ? sizeof full : 1));
    if (*argv[1] != 'w')
        MUST(read(fds[0], full, 1));
    MUST(write(2, "!", 1));
    switch (*argv[1]) {
    case 'r': return (int)read(fds[0], full, 1);
    case 'w': return (int)write(fds[1], full, 1);
    case 'p': return poll(&entry, 1, -1);
    case 's': return select(fds[0] + 1, &set, NULL, NULL, NULL);
    }
    return 99;
}
