/* What each operation of a ring does. */
#include "ring.h"
#include <sys/resource.h>

static int fds[2];

static void read_and_write(struct sp_ring *ring)
{
    char text[6] = {0};
    CHECK(sp_ring_read(ring, 1, fds[0], text, 5) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_ring_write(ring, 2, fds[1], "hello", 5) == 0);
    expect(next(ring), 2, 5);
    expect(next(ring), 1, 5);
    CHECK(strcmp(text, "hello") == 0);
    /* Bytes that are there already; and those of ordinary calls. */
    CHECK(sp_write(fds[1], "there", 5) == 5);
    CHECK(sp_ring_read(ring, 1, fds[0], text, 3) == 0);
    expect(next(ring), 1, 3);
    CHECK(memcmp(text, "the", 3) == 0);
    CHECK(sp_read(fds[0], text, 5) == 2);
    CHECK(memcmp(text, "re", 2) == 0);
}

static void bytes_keep_the_order_of_submissions(struct sp_ring *ring)
{
    char pieces[4][2];
    struct sp_completion completions[8];
    for (int i = 0; i < 4; i++)
        CHECK(sp_ring_read(ring, i, fds[0], pieces[i], 2) == 0);
    CHECK(sp_ring_write(ring, 9, fds[1], "aabbccdd", 8) == 0);
    CHECK(sp_ring_reap(ring, completions, 8) == 5);
    for (int i = 0; i < 4; i++)
        CHECK(pieces[i][0] == 'a' + i && pieces[i][1] == 'a' + i);
}

static void vectors(struct sp_ring *ring)
{
    char a[2], b[3];
    struct iovec in[] = {{a, 2}, {NULL, 0}, {b, 3}};
    struct iovec out[] = {{"ve", 2}, {"ctors", 5}};
    CHECK(sp_ring_readv(ring, 1, fds[0], in, 3) == 0);
    /* The list is not looked at any more. */
    memset(in, 0, sizeof in);
    CHECK(sp_ring_writev(ring, 2, fds[1], out, 2) == 0);
    expect(next(ring), 2, 7);
    expect(next(ring), 1, 5);
    CHECK(memcmp(a, "ve", 2) == 0 && memcmp(b, "cto", 3) == 0);
    CHECK(sp_read(fds[0], a, 2) == 2);
    CHECK(memcmp(a, "rs", 2) == 0);
    struct iovec none[] = {{NULL, 0}, {a, 0}};
    FAILS(sp_ring_readv(ring, 1, fds[0], none, 2), EINVAL);
    FAILS(sp_ring_readv(ring, 1, fds[0], none, -1), EINVAL);
    FAILS(sp_ring_writev(ring, 1, fds[1], out, 1025), EINVAL);
    FAILS(sp_ring_writev(ring, 1, fds[1], NULL, 1), EFAULT);
}

/* More than the pipe holds: complete when all is in. */
static void a_large_write(struct sp_ring *ring)
{
    static unsigned char out[300000], in[300000];
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = byte_at(i);
    CHECK(sp_ring_write(ring, 1, fds[1], out, sizeof out) == 0);
    CHECK(is_quiet(ring));
    for (size_t at = 0; at < sizeof in;) {
        ssize_t n = sp_read(fds[0], in + at, sizeof in - at);
        MUST(n);
        at += (size_t)n;
        struct sp_completion completion;
        int done = sp_ring_reap(ring, &completion, 1);
        if (done == 1) {
            expect(completion, 1, sizeof out);
            CHECK(at + 65536 >= sizeof in);
        }
    }
    CHECK(memcmp(in, out, sizeof in) == 0);
}

static void links(struct sp_ring *ring)
{
    char a[1], b[1];
    CHECK(sp_ring_link_begin(ring) == 0);
    FAILS(sp_ring_link_begin(ring), EALREADY);
    CHECK(sp_ring_read(ring, 1, fds[0], a, 1) == 0);
    CHECK(sp_ring_write(ring, 2, fds[1], "2", 1) == 0);
    CHECK(sp_ring_read(ring, 3, fds[0], b, 1) == 0);
    CHECK(sp_ring_link_end(ring) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(fds[1], "1", 1) == 1);
    expect(next(ring), 1, 1);
    expect(next(ring), 2, 1);
    expect(next(ring), 3, 1);
    CHECK(a[0] == '1' && b[0] == '2');
    /* What is linked to a cancelled one is not begun. */
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_read(ring, 1, fds[0], a, 1) == 0);
    CHECK(sp_ring_write(ring, 2, fds[1], "x", 1) == 0);
    CHECK(sp_ring_link_end(ring) == 0);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    expect(next(ring), 1, -ECANCELED);
    expect(next(ring), 2, -ECANCELED);
    /* All or nothing. */
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    FAILS(sp_ring_write(ring, 2, fds[0], NULL, 0), EINVAL);
    CHECK(sp_ring_write(ring, 3, fds[1], "x", 1) == 0);
    FAILS(sp_ring_link_end(ring), EINVAL);
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    FAILS(sp_ring_link_end(ring), EEXIST);
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_write(ring, 1, fds[1], "x", 1) == 0);
    CHECK(sp_ring_write(ring, 2, fds[0], "x", 1) == 0);
    FAILS(sp_ring_link_end(ring), EBADF);
    FAILS(sp_ring_link_end(ring), EINVAL);
    CHECK(is_quiet(ring));
    int unread = -1;
    CHECK(sp_ioctl(fds[0], FIONREAD, &unread) == 0 && unread == 0);
}

/* The memory of a cancelled read is the program's at once. */
static void cancel(struct sp_ring *ring)
{
    char first[4] = "old", second[4] = "old";
    CHECK(sp_ring_read(ring, 1, fds[0], first, 3) == 0);
    CHECK(sp_ring_read(ring, 2, fds[0], second, 3) == 0);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    memcpy(first, "new", 3);
    FAILS(sp_ring_cancel_now(ring, 1), ENOENT);
    CHECK(sp_write(fds[1], "abc", 3) == 3);
    expect(next(ring), 1, -ECANCELED);
    expect(next(ring), 2, 3);
    CHECK(strcmp(first, "new") == 0 && strcmp(second, "abc") == 0);
    /* As an operation. */
    CHECK(sp_ring_read(ring, 1, fds[0], first, 3) == 0);
    CHECK(sp_ring_cancel(ring, 7, 1) == 0);
    CHECK(sp_ring_cancel(ring, 8, 99) == 0);
    expect(next(ring), 1, -ECANCELED);
    expect(next(ring), 7, 0);
    expect(next(ring), 8, -ENOENT);
    CHECK(strcmp(first, "new") == 0);
    FAILS(sp_ring_cancel_now(ring, 99), ENOENT);
}

/* A write that is half done says how much. */
static void cancel_half_a_write(struct sp_ring *ring)
{
    static char out[200000];
    CHECK(sp_ring_write(ring, 1, fds[1], out, sizeof out) == 0);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    struct sp_completion completion = next(ring);
    int unread = -1;
    CHECK(sp_ioctl(fds[0], FIONREAD, &unread) == 0);
    CHECK(unread > 0 && completion.result == unread && completion.token == 1);
    while (unread > 0)
        unread -= (int)sp_read(fds[0], out, sizeof out);
}

static void multishot(struct sp_ring *ring)
{
    struct sp_completion completions[8];
    CHECK(sp_ring_read_multishot(ring, 1, fds[0], 4) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(fds[1], "abcdef", 6) == 6);
    CHECK(sp_ring_reap(ring, completions, 8) == 2);
    for (int i = 0; i < 2; i++)
        CHECK(completions[i].token == 1 && completions[i].flags == SP_RING_MORE);
    CHECK(completions[0].result == 4 && memcmp(completions[0].data, "abcd", 4) == 0);
    CHECK(completions[1].result == 2 && memcmp(completions[1].data, "ef", 2) == 0);
    FAILS(sp_ring_timeout(ring, 1, &AT_ONCE), EEXIST);
    CHECK(sp_ring_cancel_now(ring, 1) == 0);
    expect(next(ring), 1, -ECANCELED);
    FAILS(sp_ring_read_multishot(ring, 1, fds[0], 0), EINVAL);
    /* Any size; until the end of the stream. */
    int other[2];
    CHECK(sp_pipe(other) == 0);
    CHECK(sp_ring_read_multishot(ring, 1, other[0], SIZE_MAX) == 0);
    CHECK(sp_write(other[1], "x", 1) == 1);
    CHECK(sp_close(other[1]) == 0);
    struct sp_completion completion = await(ring);
    CHECK(completion.result == 1 && *(const char *)completion.data == 'x');
    expect(await(ring), 1, 0);
    CHECK(sp_close(other[0]) == 0);
}

static void polls(struct sp_ring *ring)
{
    char c;
    CHECK(sp_ring_poll(ring, 1, fds[1], POLLOUT) == 0);
    struct sp_completion completion = next(ring);
    expect(completion, 1, 0);
    CHECK(completion.events == POLLOUT);
    CHECK(sp_ring_poll(ring, 1, fds[0], POLLIN) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_write(fds[1], "x", 1) == 1);
    completion = next(ring);
    expect(completion, 1, 0);
    CHECK(completion.events == POLLIN);
    CHECK(sp_read(fds[0], &c, 1) == 1);
}

static void timeouts(struct sp_ring *ring)
{
    const struct timespec soon = {0, 20000000}, late = {3600, 0}, odd = {0, 1000000000};
    struct timespec before, after;
    struct sp_completion completion;
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK(sp_ring_timeout(ring, 2, &late) == 0);
    CHECK(sp_ring_timeout(ring, 1, &soon) == 0);
    expect(await(ring), 1, 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= 20000000);
    CHECK(sp_ring_wait(ring, &completion, 1, &soon) == 0);
    CHECK(sp_ring_cancel_now(ring, 2) == 0);
    expect(next(ring), 2, -ECANCELED);
    FAILS(sp_ring_timeout(ring, 1, &odd), EINVAL);
    FAILS(sp_ring_timeout(ring, 1, NULL), EFAULT);
    FAILS(sp_ring_wait(ring, &completion, 1, &odd), EINVAL);
    /* An operation with a limit. */
    char c;
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    CHECK(sp_ring_link_begin(ring) == 0);
    CHECK(sp_ring_timeout(ring, 2, &soon) == 0);
    CHECK(sp_ring_cancel(ring, 3, 1) == 0);
    CHECK(sp_ring_link_end(ring) == 0);
    expect(await(ring), 2, 0);
    expect(next(ring), 1, -ECANCELED);
    expect(next(ring), 3, 0);
}

static void bad_input(struct sp_ring *ring)
{
    char c;
    struct sp_completion completion;
    struct sp_ring *none = NULL;
    FAILS(sp_ring_create(0, &none), EINVAL);
    FAILS(sp_ring_create(1, NULL), EFAULT);
    FAILS(sp_ring_read(NULL, 1, fds[0], &c, 1), EFAULT);
    FAILS(sp_ring_reap(NULL, &completion, 1), EFAULT);
    FAILS(sp_ring_reap(ring, NULL, 1), EFAULT);
    FAILS(sp_ring_reap(ring, &completion, 0), EINVAL);
    FAILS(sp_ring_wait(ring, &completion, -1, NULL), EINVAL);
    FAILS(sp_ring_read(ring, 1, fds[0], &c, 0), EINVAL);
    FAILS(sp_ring_read(ring, 1, fds[0], NULL, 1), EFAULT);
    FAILS(sp_ring_write(ring, 1, fds[1], (void *)-1, 1), EFAULT);
    FAILS(sp_ring_read(ring, 1, fds[1], &c, 1), EBADF);
    FAILS(sp_ring_write(ring, 1, fds[0], "x", 1), EBADF);
    FAILS(sp_ring_read(ring, 1, -1, &c, 1), EBADF);
    FAILS(sp_ring_read(ring, 1, 1 << 20, &c, 1), EBADF);
    FAILS(sp_ring_attach(ring, 999), EBADF);
    FAILS(sp_ring_detach(ring, 999), ENOENT);
    int bare[2];
    CHECK(sp_pipe(bare) == 0 && sp_give_up(bare[0]) == bare[0]);
    FAILS(sp_ring_attach(ring, bare[0]), EINVAL);
    FAILS(sp_ring_read(ring, 1, bare[0], &c, 1), EINVAL);
    CHECK(sp_close(bare[0]) == 0 && sp_close(bare[1]) == 0);
    CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
    FAILS(sp_ring_read(ring, 1, fds[0], &c, 1), EEXIST);
    CHECK(sp_ring_detach(ring, fds[0]) == 0);
    expect(next(ring), 1, -ECANCELED);
    FAILS(sp_ring_detach(ring, fds[0]), ENOENT);
    /* Nothing under way: nothing to wait for. */
    CHECK(sp_ring_wait(ring, &completion, 1, NULL) == 0);
    sp_ring_destroy(NULL);
}

static void no_descriptor_left(struct sp_ring *ring)
{
    struct rlimit before, few;
    int lowest = dup(fds[0]), other[2];
    CHECK(sp_close(lowest) == 0);
    CHECK(sp_pipe(other) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = (rlim_t)lowest;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    FAILS(sp_ring_read(ring, 1, other[0], (char[1]){0}, 1), EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(is_quiet(ring));
    CHECK(sp_ring_attach(ring, other[0]) == 0);
    CHECK(sp_close(other[0]) == 0 && sp_close(other[1]) == 0);
}

static void a_full_ring(void)
{
    char pieces[4][1];
    struct sp_completion completions[4];
    struct sp_ring *ring = new_ring(4);
    for (int i = 0; i < 4; i++)
        CHECK(sp_ring_read(ring, i, fds[0], pieces[i], 1) == 0);
    FAILS(sp_ring_write(ring, 9, fds[1], "x", 1), EBUSY);
    CHECK(sp_ring_cancel_now(ring, 3) == 0);
    FAILS(sp_ring_write(ring, 9, fds[1], "x", 1), EBUSY);
    expect(next(ring), 3, -ECANCELED);
    CHECK(sp_ring_write(ring, 9, fds[1], "xyz", 3) == 0);
    /* In pieces: others stay. */
    CHECK(sp_ring_reap(ring, completions, 3) == 3);
    CHECK(sp_ring_reap(ring, completions, 3) == 1);
    CHECK(pieces[0][0] == 'x' && pieces[1][0] == 'y' && pieces[2][0] == 'z');
    /* Destroyed with something under way: nothing is read any more. */
    CHECK(sp_ring_read(ring, 1, fds[0], pieces[0], 1) == 0);
    sp_ring_destroy(ring);
    CHECK(sp_write(fds[1], "n", 1) == 1);
    CHECK(pieces[0][0] == 'x');
    CHECK(sp_read(fds[0], pieces[0], 1) == 1);
}

static void everything(void)
{
    CHECK(sp_pipe(fds) == 0);
    struct sp_ring *ring = new_ring(64);
    read_and_write(ring);
    bytes_keep_the_order_of_submissions(ring);
    vectors(ring);
    a_large_write(ring);
    links(ring);
    cancel(ring);
    cancel_half_a_write(ring);
    multishot(ring);
    polls(ring);
    timeouts(ring);
    bad_input(ring);
    no_descriptor_left(ring);
    a_full_ring();
    CHECK(is_quiet(ring));
    CHECK(entries("/proc/self/task") == 1 + 2);
    sp_ring_destroy(ring);
    CHECK(sp_close(fds[0]) == 0 && sp_close(fds[1]) == 0);
}

int main(void)
{
    BEGIN();
    everything();
    int after_once = entries("/proc/self/fd");
    everything();
    CHECK(entries("/proc/self/fd") == after_once);
    return 0;
}
