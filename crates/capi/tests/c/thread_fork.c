/* Forks of a process whose other threads read and write, open and close pipes. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>

enum { FORKS = 100 };

static volatile int stop;
static volatile pid_t sleeper_id;

/* Bytes around in circles. */
static void *pump(void *unused)
{
    (void)unused;
    int fds[2];
    char buffer[1000] = {0};
    MUST(pipe(fds));
    while (!stop) {
        MUST(write(fds[1], buffer, sizeof buffer));
        MUST(read(fds[0], buffer, sizeof buffer));
    }
    close(fds[0]);
    close(fds[1]);
    return NULL;
}

static void *churn(void *unused)
{
    (void)unused;
    while (!stop) {
        int fds[2], copy;
        char c;
        MUST(pipe(fds));
        MUST(copy = dup(fds[1]));
        close(fds[1]);
        MUST(write(copy, "c", 1));
        MUST(read(fds[0], &c, 1));
        close(copy);
        close(fds[0]);
    }
    return NULL;
}

static void *sleep_in_read(void *fd)
{
    char c = 0;
    sleeper_id = gettid();
    ssize_t n = read(*(int *)fd, &c, 1);
    return (void *)(long)(n == 1 ? c : 0);
}

int main(void)
{
    BEGIN();
    pthread_t threads[3], sleeper;
    int sleepy[2];
    MUST(pipe(sleepy));
    pthread_create(&sleeper, NULL, sleep_in_read, &sleepy[0]);
    pthread_create(&threads[0], NULL, pump, NULL);
    pthread_create(&threads[1], NULL, pump, NULL);
    pthread_create(&threads[2], NULL, churn, NULL);
    size_t good = 0;
    for (int i = 0; i < FORKS; i++) {
        int fds[2];
        MUST(pipe(fds));
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            /* All works in the child: old ends, new ones, and closing what a thread of the parent
             * sleeps in. */
            int own[2];
            char c;
            alarm(60);
            MUST(close(sleepy[0]));
            MUST(close(sleepy[1]));
            /* It is closed at once: nobody sleeps in it here. */
            if (dup(0) != sleepy[0] || close(sleepy[0]) != 0)
                _exit(7);
            close(fds[0]);
            MUST(pipe(own));
            MUST(write(own[1], "o", 1));
            MUST(read(own[0], &c, 1));
            write_stream(fds[1], 0, 20000, 900);
            _exit(0);
        }
        close(fds[1]);
        good += read_stream(fds[0], 0, 1024) == 20000;
        close(fds[0]);
        int status;
        MUST(waitpid(child, &status, 0));
        if (status != 0)
            printf("child %d: status %d\n", i, status);
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%zu of %d children were heard\n", good, FORKS);
    void *result;
    MUST(write(sleepy[1], "!", 1));
    pthread_join(sleeper, &result);
    printf("the sleeper read %c\n", (int)(long)result);

    /* Closed under a sleeper: it sleeps on, and is served. After it nobody reads. */
    sleeper_id = 0;
    pthread_create(&sleeper, NULL, sleep_in_read, &sleepy[0]);
    while (sleeper_id == 0)
        sched_yield();
    until_asleep(sleeper_id);
    SHOW(close(sleepy[0]));
    SHOW(write(sleepy[1], "?", 1));
    pthread_join(sleeper, &result);
    printf("the sleeper read %c\n", (int)(long)result);
    signal(SIGPIPE, SIG_IGN);
    SHOW(write(sleepy[1], "x", 1));
    close(sleepy[1]);
    return 0;
}
