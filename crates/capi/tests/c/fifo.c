/* A server and its clients, which know each other by the path of a FIFO only. */
#include "check.h"
#include <poll.h>
#include <sys/stat.h>

enum { CLIENTS = 3, REQUESTS = 200 };

struct request {
    int client;
    int value;
};

static char dir[64], public[128];

static void reply_path(char *path, size_t size, int client)
{
    snprintf(path, size, "%s/reply-%d", dir, client);
}

static void client(int me)
{
    char path[128];
    reply_path(path, sizeof path, me);
    int requests = open(public, O_WRONLY);
    MUST(requests);
    int replies = open(path, O_RDONLY);
    MUST(replies);
    long sum = 0;
    for (int i = 0; i < REQUESTS; i++) {
        struct request request = {me, i};
        int answer;
        MUST(write(requests, &request, sizeof request));
        if (read(replies, &answer, sizeof answer) != sizeof answer)
            _exit(1);
        sum += answer;
    }
    _exit(sum == (long)REQUESTS * (REQUESTS - 1) ? 0 : 2);
}

static void serve(void)
{
    int replies[CLIENTS];
    int requests = open(public, O_RDONLY);
    MUST(requests);
    for (int i = 0; i < CLIENTS; i++) {
        char path[128];
        reply_path(path, sizeof path, i);
        MUST(replies[i] = open(path, O_WRONLY));
    }
    struct request request;
    int served = 0;
    ssize_t n;
    while ((n = read(requests, &request, sizeof request)) == sizeof request) {
        int answer = request.value * 2;
        MUST(write(replies[request.client], &answer, sizeof answer));
        served++;
    }
    printf("served %d, then %zd\n", served, n);
    for (int i = 0; i < CLIENTS; i++)
        close(replies[i]);
    close(requests);
}

static void server_and_clients(void)
{
    pid_t children[CLIENTS];
    MUST(mkfifo(public, 0600));
    for (int i = 0; i < CLIENTS; i++) {
        char path[128];
        reply_path(path, sizeof path, i);
        MUST(mkfifo(path, 0600));
        MUST(children[i] = fork());
        if (children[i] == 0)
            client(i);
    }
    serve();
    for (int i = 0; i < CLIENTS; i++) {
        char path[128];
        show_child("client", children[i]);
        reply_path(path, sizeof path, i);
        MUST(unlink(path));
    }
}

static void rules(void)
{
    char buffer[16] = {0};
    int writer, reader, both;
    SHOW(open(public, O_WRONLY | O_NONBLOCK));
    MUST(reader = open(public, O_RDONLY | O_NONBLOCK));
    SHOW(read(reader, buffer, 1));
    struct pollfd entry = {.fd = reader, .events = POLLIN};
    SHOW(poll(&entry, 1, 0));
    MUST(writer = open(public, O_WRONLY | O_NONBLOCK));
    SHOW(read(reader, buffer, 1));
    MUST(write(writer, "first", 5));
    SHOW(poll(&entry, 1, 0));
    close(writer);
    printf("%d\n", poll(&entry, 1, 0));
    printf("bits %#x\n", (unsigned)entry.revents);
    SHOW(read(reader, buffer, sizeof buffer));
    SHOW(read(reader, buffer, sizeof buffer));
    printf("%d\n", poll(&entry, 1, 0));
    printf("bits %#x\n", (unsigned)entry.revents);

    /* The same reader meets the next writer. */
    MUST(writer = open(public, O_WRONLY));
    MUST(write(writer, "second", 6));
    SHOW(read(reader, buffer, sizeof buffer));
    SHOW(read(reader, buffer, sizeof buffer));

    /* The bytes wait for the next reader while a writer stays. */
    MUST(write(writer, "third", 5));
    close(reader);
    MUST(reader = open(public, O_RDONLY));
    SHOW(read(reader, buffer, sizeof buffer));
    close(reader);
    close(writer);

    /* Both ends in one. */
    MUST(both = open(public, O_RDWR));
    MUST(write(both, "fourth", 6));
    SHOW(read(both, buffer, 3));
    printf("%.3s\n", buffer);
    SHOW(unlink(public));
    SHOW(read(both, buffer, sizeof buffer));
    entry.fd = both;
    entry.events = POLLIN | POLLOUT;
    printf("%d\n", poll(&entry, 1, 0));
    printf("bits %#x\n", (unsigned)entry.revents);
    close(both);
}

int main(void)
{
    BEGIN();
    strcpy(dir, "/tmp/standpipe-fifo-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return 99;
    snprintf(public, sizeof public, "%s/public", dir);
    server_and_clients();
    rules();
    SHOW(rmdir(dir));
    return 0;
}
