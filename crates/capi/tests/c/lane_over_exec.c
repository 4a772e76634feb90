/* Does what the program that started it inherits have the lane? Its parent writes; started again, it
 * reads standard input and tells how many bytes came by the lane. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { BYTES = 8 << 20 };
    int fds[2];
    struct sp_stats stats;
    BEGIN();
    if (argc == 2) {
        size_t n = read_stream(0, 0, 65536);
        MUST(sp_stats(0, &stats, sizeof stats));
        dprintf(2, "%s: %zu bytes, by the lane: %s\n", argv[1], n, stats.lane_bytes > BYTES / 2 ? "most" : "few");
        return n == BYTES ? 0 : 1;
    }
    MUST(pipe(fds));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        MUST(dup2(fds[0], 0));
        close(fds[0]);
        close(fds[1]);
        execl("/proc/self/exe", "again", "exec", (char *)NULL);
        _exit(98);
    }
    close(fds[0]);
    write_stream(fds[1], 0, BYTES, 65536);
    close(fds[1]);
    int status;
    MUST(waitpid(child, &status, 0));
    return status;
}
