/* Descriptors in the hands of code that does not know whose they are: streams, epoll, splice, other
 * processes. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static void streams(void)
{
    int fds[2];
    char line[64];
    MUST(pipe(fds));
    warm(fds);
    MUST(write(fds[1], "first\nsecond\n", 13));
    FILE *in = fdopen(fds[0], "r");
    FILE *out = fdopen(fds[1], "w");
    fprintf(out, "third\n");
    fclose(out);
    while (fgets(line, sizeof line, in) != NULL)
        printf("line %s", line);
    printf("end %d\n", feof(in));
    fclose(in);

    /* Their numbers may be pipes again. */
    MUST(pipe(fds));
    warm(fds);
    MUST(write(fds[1], "again", 5));
    SHOW(read(fds[0], line, sizeof line));
    MUST(dprintf(fds[1], "%d", 12345));
    SHOW(read(fds[0], line, sizeof line));
    close(fds[0]);
    close(fds[1]);
}

/* By stream and by number, in turns, in order. */
static void in_turns(void)
{
    int fds[2];
    char text[256] = {0};
    MUST(pipe(fds));
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        MUST(dup2(fds[1], 1));
        MUST(dup2(fds[1], 2));
        close(fds[0]);
        close(fds[1]);
        for (int i = 0; i < 5; i++) {
            MUST(write(1, "w", 1));
            printf("p%d", i);
            fflush(stdout);
            MUST(write(2, "e", 1));
            fprintf(stderr, "s");
        }
        exit(0);
    }
    close(fds[1]);
    for (size_t n = 0, got; (got = (size_t)read(fds[0], text + n, sizeof text - 1 - n)) > 0;)
        n += got;
    printf("%s\n", text);
    close(fds[0]);
    show_child("child", child);
}

static void epolled(void)
{
    int fds[2], epoll;
    char c;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    MUST(pipe(fds));
    warm(fds);
    MUST(write(fds[1], "x", 1));
    MUST(epoll = epoll_create1(0));
    SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &event));
    SHOW(epoll_wait(epoll, &event, 1, 10000));
    printf("%#x %d\n", event.events, (int)event.data.u64);
    SHOW(read(fds[0], &c, 1));
    SHOW(epoll_wait(epoll, &event, 1, 0));
    MUST(write(fds[1], "y", 1));
    SHOW(epoll_wait(epoll, &event, 1, 10000));
    SHOW(read(fds[0], &c, 1));
    close(fds[1]);
    SHOW(epoll_wait(epoll, &event, 1, 10000));
    printf("%#x\n", event.events);
    close(fds[0]);
    close(epoll);
}

static void spliced(void)
{
    int from[2], to[2];
    char text[32] = {0};
    MUST(pipe(from));
    MUST(pipe(to));
    warm(from);
    warm(to);
    MUST(write(from[1], "spliced bytes", 13));
    SHOW(tee(from[0], to[1], 7, 0));
    SHOW(splice(from[0], NULL, to[1], NULL, 100, 0));
    SHOW(read(to[0], text, sizeof text));
    printf("%s\n", text);
    struct iovec piece = {"vm", 2};
    SHOW(vmsplice(to[1], &piece, 1, 0));
    SHOW(read(to[0], text, sizeof text));
    close(from[0]);
    close(from[1]);
    close(to[0]);
    close(to[1]);
}

static void send_fd(int socket, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {"f", 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    MUST(sendmsg(socket, &message, 0));
}

static int receive_fd(int socket)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    int fd;
    MUST(recvmsg(socket, &message, 0));
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

static void sent(void)
{
    int sockets[2], fds[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        close(sockets[0]);
        int fd = receive_fd(sockets[1]);
        write_stream(fd, 100, 100000, 4000);
        exit(0);
    }
    close(sockets[1]);
    MUST(pipe(fds));
    warm(fds);
    write_stream(fds[1], 0, 100, 100);
    send_fd(sockets[0], fds[1]);
    close(fds[1]);
    printf("%zu bytes\n", read_stream(fds[0], 0, 5000));
    close(fds[0]);
    close(sockets[0]);
    show_child("receiver", child);
}

int main(void)
{
    BEGIN();
    streams();
    in_turns();
    epolled();
    spliced();
    sent();
    return 0;
}
