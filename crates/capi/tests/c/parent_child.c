/* A parent and its children: streams, the end of file, atomic writes of several writers. */
#include "check.h"

static void one_stream(size_t bytes, size_t write_piece, size_t read_piece)
{
    int fds[2];
    MUST(pipe(fds));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(fds[0]);
        write_stream(fds[1], 0, bytes, write_piece);
        _exit(0);
    }
    close(fds[1]);
    printf("%zu bytes in pieces of %zu and %zu\n", read_stream(fds[0], 0, read_piece), write_piece,
           read_piece);
    close(fds[0]);
    show_child("writer", child);
}

static void reading_child(size_t bytes)
{
    int there[2], back[2];
    MUST(pipe(there));
    MUST(pipe(back));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        size_t n = read_stream(there[0], 7, 3000);
        MUST(write(back[1], &n, sizeof n));
        exit(3);
    }
    close(there[0]);
    close(back[1]);
    write_stream(there[1], 7, bytes, 5000);
    close(there[1]);
    size_t n = 0;
    MUST(read(back[0], &n, sizeof n));
    printf("the child read %zu bytes\n", n);
    printf("then %zd\n", read(back[0], &n, sizeof n));
    close(back[0]);
    show_child("reader", child);
}

/* Writes of PIPE_BUF bytes are never torn. */
static void many_writers(void)
{
    enum { WRITERS = 4, EACH = 200, BYTES = 4096 };
    int fds[2];
    MUST(pipe(fds));
    for (int writer = 0; writer < WRITERS; writer++) {
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            char piece[BYTES];
            memset(piece, 'a' + writer, sizeof piece);
            for (int i = 0; i < EACH; i++)
                if (write(fds[1], piece, sizeof piece) != BYTES)
                    _exit(1);
            _exit(0);
        }
    }
    close(fds[1]);
    int counts[WRITERS] = {0}, torn = 0;
    char piece[BYTES];
    for (;;) {
        size_t filled = 0;
        ssize_t n = 1;
        while (filled < BYTES && (n = read(fds[0], piece + filled, BYTES - filled)) > 0)
            filled += (size_t)n;
        MUST(n);
        if (n == 0)
            break;
        for (size_t i = 1; i < BYTES; i++)
            torn += piece[i] != piece[0];
        counts[piece[0] - 'a']++;
    }
    for (int writer = 0; writer < WRITERS; writer++) {
        printf("writer %d: %d pieces\n", writer, counts[writer]);
        MUST(wait(NULL));
    }
    printf("torn: %d\n", torn);
    close(fds[0]);
}

int main(void)
{
    BEGIN();
    one_stream(1 << 20, 65536, 65536);
    one_stream(300000, 1000, 77);
    one_stream(50000, 64, 64);
    one_stream(0, 1, 1);
    reading_child(400000);
    many_writers();
    return 0;
}
