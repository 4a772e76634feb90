/* Ends inherited over exec, by this program and by others. */
#define _GNU_SOURCE
#include "check.h"
#include <spawn.h>

extern char **environ;

/* Started again as a filter between standard input and output. */
static int filter(void)
{
    char buffer[5000];
    ssize_t n;
    while ((n = read(0, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            buffer[i] ^= 1;
        for (ssize_t done = 0; done < n;) {
            ssize_t written = write(1, buffer + done, (size_t)(n - done));
            MUST(written);
            done += written;
        }
    }
    return n == 0 ? 5 : 6;
}

static pid_t start(int in, int out, int other1, int other2, char *const *argv)
{
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        MUST(dup2(in, 0));
        MUST(dup2(out, 1));
        close(in);
        close(out);
        close(other1);
        close(other2);
        execvp(argv[0], argv);
        _exit(98);
    }
    return child;
}

/* Through a filter: what was written before it starts, and after. */
static void through(const char *name, char *const *argv, int mask, size_t bytes)
{
    int there[2], back[2];
    MUST(pipe(there));
    MUST(pipe(back));
    warm(there);
    warm(back);
    unsigned char early[300];
    for (size_t i = 0; i < sizeof early; i++)
        early[i] = byte_at(i);
    MUST(write(there[1], early, sizeof early));
    pid_t child = start(there[0], back[1], there[1], back[0], argv);
    close(there[0]);
    close(back[1]);
    pid_t writer = fork();
    MUST(writer);
    if (writer == 0) {
        close(back[0]);
        write_stream(there[1], sizeof early, bytes, 3000);
        exit(0);
    }
    close(there[1]);
    unsigned char buffer[4096];
    size_t done = 0, wrong = 0;
    ssize_t n;
    while ((n = read(back[0], buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < n; i++, done++)
            wrong += (buffer[i] ^ mask) != byte_at(done);
    MUST(n);
    printf("%s: %zu bytes, %zu wrong\n", name, done, wrong);
    close(back[0]);
    show_child("writer", writer);
    show_child(name, child);
}

static void spawned(void)
{
    int fds[2];
    char text[32] = {0};
    MUST(pipe2(fds, O_CLOEXEC));
    warm(fds);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    char *argv[] = {"echo", "spawned", NULL};
    pid_t child;
    MUST(write(fds[1], "before, ", 8));
    MUST(-posix_spawnp(&child, "echo", &actions, NULL, argv, environ));
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    show_child("echo", child);
    for (size_t n = 0, got; (got = (size_t)read(fds[0], text + n, sizeof text - 1 - n)) > 0;)
        n += got;
    printf("%s", text);
    close(fds[0]);
}

/* FD_CLOEXEC: the new program does not have it, and the reader hears of it. */
static void closed_on_exec(void)
{
    int fds[2];
    char c;
    MUST(pipe2(fds, O_CLOEXEC));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(98);
    }
    close(fds[1]);
    SHOW(read(fds[0], &c, 1));
    show_child("true", child);
    close(fds[0]);
}

static void by_the_shell(void)
{
    int fds[2];
    char text[64] = {0};
    MUST(pipe(fds));
    warm(fds);
    int saved = dup(1);
    MUST(saved);
    fflush(stdout);
    MUST(dup2(fds[1], 1));
    MUST(write(1, "we write, ", 10));
    int status = system("echo the shell writes");
    MUST(dup2(saved, 1));
    close(saved);
    close(fds[1]);
    for (size_t n = 0, got; (got = (size_t)read(fds[0], text + n, sizeof text - 1 - n)) > 0;)
        n += got;
    printf("%d: %s", status, text);
    close(fds[0]);

    FILE *words = popen("echo popen", "r");
    if (words == NULL || fgets(text, sizeof text, words) == NULL)
        exit(99);
    printf("%s", text);
    SHOW(pclose(words));
}

int main(int argc, char **argv)
{
    BEGIN();
    if (argc == 2 && strcmp(argv[1], "filter") == 0)
        return filter();
    char *again[] = {"/proc/self/exe", "filter", NULL};
    char *cat[] = {"cat", NULL};
    through("ourselves", again, 1, 500000);
    through("cat", cat, 0, 500000);
    spawned();
    closed_on_exec();
    by_the_shell();
    return 0;
}
