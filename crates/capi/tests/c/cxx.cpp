// A C++ program: methods keep their names, functions and their addresses are remapped.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Reader {
    ssize_t (*from)(int, void *, size_t);
    ssize_t read(int fd, char *text, size_t n) { return from(fd, text, n); }
    void close() { std::cout << "a method" << std::endl; }
};

std::string all_of(int fd)
{
    Reader reader{&::read};
    std::string text;
    char piece[7];
    for (ssize_t n; (n = reader.read(fd, piece, sizeof piece)) > 0;)
        text.append(piece, static_cast<size_t>(n));
    reader.close();
    return text;
}

} // namespace

int main()
{
    alarm(60);
    int fds[2];
    if (::pipe(fds) != 0)
        return 99;
    std::cout << "before" << std::endl;
    pid_t child = fork();
    if (child == 0) {
        ::dup2(fds[1], 1);
        ::close(fds[0]);
        ::close(fds[1]);
        if (::write(1, "number, ", 8) != 8)
            _exit(1);
        std::cout << "stream, " << std::flush;
        ::execlp("echo", "echo", "program", static_cast<char *>(nullptr));
        _exit(98);
    }
    ::close(fds[1]);
    std::cout << all_of(fds[0]);
    struct pollfd entry = {fds[0], POLLIN, 0};
    std::cout << poll(&entry, 1, 0) << ' ' << (entry.revents == POLLHUP) << std::endl;
    ::close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    std::cout << status << ' ' << std::system("exit 3") / 256 << std::endl;
    std::ofstream file;
    file.open("/dev/null");
    file.write("x", 1);
    file.close();
    std::printf("%d\n", file.good());
    errno = 0;
    std::cout << ::read(fds[0], fds, 1) << ' ' << (errno == EBADF) << std::endl;
    return 0;
}
