/* A thread works in a ring, another one closes what it worked with, a third one forks. Nothing is lost, nobody
 * waits for ever, and no descriptor stays. */
#define _GNU_SOURCE
#include "ring.h"
#include <pthread.h>

enum { PIPES = 5000, FORKS = 60, BETWEEN = 64 };

static struct sp_ring *ring;
/* Pipes that are to be closed. */
static int used[BETWEEN][2];
static unsigned put, taken;

static void *closer(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < PIPES; i++) {
        while (__atomic_load_n(&put, __ATOMIC_ACQUIRE) == i)
            sched_yield();
        int *fds = used[i % BETWEEN];
        CHECK(sp_close(fds[1]) == 0 && sp_close(fds[0]) == 0);
        __atomic_store_n(&taken, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *forker(void *unused)
{
    (void)unused;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            struct sp_completion completion;
            int fds[2];
            char c;
            BEGIN();
            FAILS(sp_ring_reap(ring, &completion, 1), EPERM);
            sp_ring_destroy(ring);
            ring = new_ring(4);
            CHECK(sp_pipe(fds) == 0);
            CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
            CHECK(sp_ring_write(ring, 2, fds[1], "x", 1) == 0);
            expect(await(ring), 2, 1);
            expect(await(ring), 1, 1);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return NULL;
}

static void everything(void)
{
    pthread_t threads[2];
    put = taken = 0;
    ring = new_ring(8);
    CHECK(pthread_create(&threads[0], NULL, closer, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, forker, NULL) == 0);
    for (unsigned i = 0; i < PIPES; i++) {
        char c = 0;
        while (i - __atomic_load_n(&taken, __ATOMIC_ACQUIRE) == BETWEEN)
            sched_yield();
        int *fds = used[i % BETWEEN];
        CHECK(sp_pipe2(fds, i % 2 ? O_CLOEXEC : 0) == 0);
        CHECK(sp_ring_read(ring, 1, fds[0], &c, 1) == 0);
        CHECK(sp_ring_write(ring, 2, fds[1], "x", 1) == 0);
        expect(await(ring), 2, 1);
        expect(await(ring), 1, 1);
        CHECK(c == 'x');
        __atomic_store_n(&put, i + 1, __ATOMIC_RELEASE);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(is_quiet(ring));
    sp_ring_destroy(ring);
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
