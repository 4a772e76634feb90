/* What the programs about rings share. All calls on pipes are by name, so that a program can be compiled with
 * its other calls remapped or not. */
#ifndef RING_H
#define RING_H

#include "check.h"
#include <dirent.h>
#include <stdbool.h>
#include <standpipe.h>
#include <sys/ioctl.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s (errno %s)\n", __FILE__, __LINE__, #condition,      \
                    strerrorname(errno));                                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call fails with this errno. */
#define FAILS(call, error)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == -1 && errno == (error));                                                   \
    } while (0)

static const struct timespec AT_ONCE = {0, 0};

static inline struct sp_ring *new_ring(size_t capacity)
{
    struct sp_ring *ring = NULL;
    CHECK(sp_ring_create(capacity, &ring) == 0 && ring != NULL);
    return ring;
}

/* The next completion, which is there. */
static inline struct sp_completion next(struct sp_ring *ring)
{
    struct sp_completion completion;
    CHECK(sp_ring_reap(ring, &completion, 1) == 1);
    return completion;
}

/* The next completion, waited for. */
static inline struct sp_completion await(struct sp_ring *ring)
{
    struct sp_completion completion;
    CHECK(sp_ring_wait(ring, &completion, 1, NULL) == 1);
    return completion;
}

static inline void expect(struct sp_completion completion, uint64_t token, int64_t result)
{
    if (completion.token == token && completion.result == result && completion.flags == 0 &&
        completion.data == NULL)
        return;
    fprintf(stderr, "token %llu, result %lld, flags %u; expected token %llu, result %lld\n",
            (unsigned long long)completion.token, (long long)completion.result, completion.flags,
            (unsigned long long)token, (long long)result);
    exit(1);
}

static inline bool is_quiet(struct sp_ring *ring)
{
    struct sp_completion completion;
    return sp_ring_reap(ring, &completion, 1) == 0;
}

static inline int entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

#endif
