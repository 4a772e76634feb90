/*
 * Has the POSIX calls of a program come to standpipe: include it after the system's headers, or compile
 * with `-include standpipe/posix.h`.
 *
 * In C, function-like macros take the place of the names: calls are remapped, `&read` and `(read)(...)`
 * are not, and members that are called by one of these names need brackets: `(x->read)(...)`.
 * In C++, where methods bear these names, the functions are declared again with the names of ours as
 * assembler names: calls and addresses are remapped, methods are left alone.
 *
 * Streams of the C library know nothing of lanes. When one is used, its descriptor is left to the
 * kernel's pipe first, so that what is done by stream and by number stays in order. In C++ the three
 * standard ones are left to it from the start; `sp_adopt(0)` gives standard input the lane.
 *
 * _GNU_SOURCE is defined for the system's headers if this is what first includes them.
 */
#ifndef STANDPIPE_POSIX_H
#define STANDPIPE_POSIX_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#define STANDPIPE_GNU_SOURCE
#endif

/* Checked variants of these functions are inlined by the C library, and can't be renamed in C++. */
#if defined(__cplusplus) && defined(_FORTIFY_SOURCE)
#undef _FORTIFY_SOURCE
#endif

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef STANDPIPE_GNU_SOURCE
#undef STANDPIPE_GNU_SOURCE
#undef _GNU_SOURCE
#endif

/* It lies beside the folder of this file. */
#include "../standpipe.h"

#ifndef __cplusplus

/* Descriptors. */
#define pipe(...) sp_pipe(__VA_ARGS__)
#define pipe2(...) sp_pipe2(__VA_ARGS__)
#define open(...) sp_open(__VA_ARGS__)
#define open64(...) sp_open(__VA_ARGS__)
#define openat(...) sp_openat(__VA_ARGS__)
#define openat64(...) sp_openat(__VA_ARGS__)
#define creat(...) sp_creat(__VA_ARGS__)
#define creat64(...) sp_creat(__VA_ARGS__)
#define close(...) sp_close(__VA_ARGS__)
#define close_range(...) sp_close_range(__VA_ARGS__)
#define closefrom(...) sp_closefrom(__VA_ARGS__)
#define dup(...) sp_dup(__VA_ARGS__)
#define dup2(...) sp_dup2(__VA_ARGS__)
#define dup3(...) sp_dup3(__VA_ARGS__)
#define fcntl(...) sp_fcntl(__VA_ARGS__)
#define fcntl64(...) sp_fcntl(__VA_ARGS__)
#define ioctl(...) sp_ioctl(__VA_ARGS__)

/* Bytes. */
#define read(...) sp_read(__VA_ARGS__)
#define readv(...) sp_readv(__VA_ARGS__)
#define preadv2(...) sp_preadv2(__VA_ARGS__)
#define write(...) sp_write(__VA_ARGS__)
#define writev(...) sp_writev(__VA_ARGS__)
#define pwritev2(...) sp_pwritev2(__VA_ARGS__)

/* Waiting. */
#define poll(...) sp_poll(__VA_ARGS__)
#define ppoll(...) sp_ppoll(__VA_ARGS__)
#define select(...) sp_select(__VA_ARGS__)
#define pselect(...) sp_pselect(__VA_ARGS__)
#define epoll_ctl(...) sp_epoll_ctl(__VA_ARGS__)

/* What the kernel does with its own pipes only. */
#define splice(...) sp_splice(__VA_ARGS__)
#define tee(...) sp_tee(__VA_ARGS__)
#define vmsplice(...) sp_vmsplice(__VA_ARGS__)
#define sendfile(...) sp_sendfile(__VA_ARGS__)
#define sendmsg(...) sp_sendmsg(__VA_ARGS__)
#define recvmsg(...) sp_recvmsg(__VA_ARGS__)

/* Numbers that the kernel gives out for something else. */
#define socket(...) sp_forget(socket(__VA_ARGS__))
#define accept(...) sp_forget(accept(__VA_ARGS__))
#define accept4(...) sp_forget(accept4(__VA_ARGS__))
#define eventfd(...) sp_forget(eventfd(__VA_ARGS__))
#define epoll_create(...) sp_forget(epoll_create(__VA_ARGS__))
#define epoll_create1(...) sp_forget(epoll_create1(__VA_ARGS__))
#define memfd_create(...) sp_forget(memfd_create(__VA_ARGS__))
#define mkstemp(...) sp_forget(mkstemp(__VA_ARGS__))

/* Programs. A child of vfork would change the table of its parent: it gets its own. */
#define vfork() fork()
#define execl(...) (sp_prepare_for_exec(), execl(__VA_ARGS__))
#define execle(...) (sp_prepare_for_exec(), execle(__VA_ARGS__))
#define execlp(...) (sp_prepare_for_exec(), execlp(__VA_ARGS__))
#define execv(...) sp_execv(__VA_ARGS__)
#define execve(...) sp_execve(__VA_ARGS__)
#define execvp(...) sp_execvp(__VA_ARGS__)
#define execvpe(...) sp_execvpe(__VA_ARGS__)
#define fexecve(...) sp_fexecve(__VA_ARGS__)
#define posix_spawn(...) sp_posix_spawn(__VA_ARGS__)
#define posix_spawnp(...) sp_posix_spawnp(__VA_ARGS__)
#define system(...) sp_system(__VA_ARGS__)
#define popen(...) sp_popen(__VA_ARGS__)
#define daemon(...) sp_daemon(__VA_ARGS__)
#define _exit(...) sp__exit(__VA_ARGS__)
#define _Exit(...) sp__exit(__VA_ARGS__)

/* Streams. */
#define fdopen(...) sp_fdopen(__VA_ARGS__)
#define fclose(stream) fclose(sp_stream(stream))
#define fflush(stream) fflush(sp_stream(stream))
#define freopen(path, mode, stream) freopen(path, mode, sp_stream(stream))
#define dprintf(fd, ...) dprintf(sp_give_up(fd), __VA_ARGS__)
#define vdprintf(fd, ...) vdprintf(sp_give_up(fd), __VA_ARGS__)
#define printf(...) (sp_stream(stdout), printf(__VA_ARGS__))
#define vprintf(...) (sp_stream(stdout), vprintf(__VA_ARGS__))
#define puts(...) (sp_stream(stdout), puts(__VA_ARGS__))
#undef putchar
#define putchar(...) (sp_stream(stdout), putchar(__VA_ARGS__))
#define perror(...) (sp_stream(stderr), perror(__VA_ARGS__))
#define fprintf(stream, ...) fprintf(sp_stream(stream), __VA_ARGS__)
#define vfprintf(stream, ...) vfprintf(sp_stream(stream), __VA_ARGS__)
#define fputs(string, stream) fputs(string, sp_stream(stream))
#define fputc(c, stream) fputc(c, sp_stream(stream))
#undef putc
#define putc(c, stream) putc(c, sp_stream(stream))
#define fwrite(data, size, n, stream) fwrite(data, size, n, sp_stream(stream))
#define scanf(...) (sp_stream(stdin), scanf(__VA_ARGS__))
#undef getchar
#define getchar() (sp_stream(stdin), getchar())
#define fscanf(stream, ...) fscanf(sp_stream(stream), __VA_ARGS__)
#define fgets(string, n, stream) fgets(string, n, sp_stream(stream))
#define fgetc(stream) fgetc(sp_stream(stream))
#undef getc
#define getc(stream) getc(sp_stream(stream))
#define fread(data, size, n, stream) fread(data, size, n, sp_stream(stream))
#define getline(line, n, stream) getline(line, n, sp_stream(stream))
#define getdelim(line, n, delimiter, stream) getdelim(line, n, delimiter, sp_stream(stream))

#else /* C++ */

#if defined(__USE_FORTIFY_LEVEL) && __USE_FORTIFY_LEVEL > 0
#error "standpipe/posix.h in C++: include it before the system's headers, or compile with -U_FORTIFY_SOURCE"
#endif

#define STANDPIPE_REMAP(name) extern __typeof(name) name __asm__("sp_" #name)
#define STANDPIPE_REMAP_64(name) extern __typeof(name##64) name##64 __asm__("sp_" #name)

extern "C" {
STANDPIPE_REMAP(pipe);
STANDPIPE_REMAP(pipe2);
STANDPIPE_REMAP(open);
STANDPIPE_REMAP(openat);
STANDPIPE_REMAP(creat);
#ifdef __USE_LARGEFILE64
STANDPIPE_REMAP_64(open);
STANDPIPE_REMAP_64(openat);
STANDPIPE_REMAP_64(creat);
#endif
STANDPIPE_REMAP(close);
STANDPIPE_REMAP(dup);
STANDPIPE_REMAP(dup2);
STANDPIPE_REMAP(dup3);
STANDPIPE_REMAP(fcntl);
STANDPIPE_REMAP(ioctl);

STANDPIPE_REMAP(read);
STANDPIPE_REMAP(readv);
STANDPIPE_REMAP(preadv2);
STANDPIPE_REMAP(write);
STANDPIPE_REMAP(writev);
STANDPIPE_REMAP(pwritev2);

STANDPIPE_REMAP(poll);
STANDPIPE_REMAP(ppoll);
STANDPIPE_REMAP(select);
STANDPIPE_REMAP(pselect);
STANDPIPE_REMAP(epoll_ctl);

STANDPIPE_REMAP(splice);
STANDPIPE_REMAP(tee);
STANDPIPE_REMAP(vmsplice);
STANDPIPE_REMAP(sendfile);
STANDPIPE_REMAP(sendmsg);
STANDPIPE_REMAP(recvmsg);

STANDPIPE_REMAP(execv);
STANDPIPE_REMAP(execve);
STANDPIPE_REMAP(execvp);
STANDPIPE_REMAP(execvpe);
STANDPIPE_REMAP(fexecve);
STANDPIPE_REMAP(posix_spawn);
STANDPIPE_REMAP(posix_spawnp);
STANDPIPE_REMAP(system);
STANDPIPE_REMAP(popen);
STANDPIPE_REMAP(daemon);
STANDPIPE_REMAP(_exit);
STANDPIPE_REMAP(fdopen);
}

/* Those with any number of arguments. The compiler can't see the null pointer at their end. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
template <class... Arguments>
inline int standpipe_execl(const char *path, Arguments... arguments)
{
    sp_prepare_for_exec();
    return execl(path, arguments...);
}

template <class... Arguments>
inline int standpipe_execlp(const char *file, Arguments... arguments)
{
    sp_prepare_for_exec();
    return execlp(file, arguments...);
}

template <class... Arguments>
inline int standpipe_execle(const char *path, Arguments... arguments)
{
    sp_prepare_for_exec();
    return execle(path, arguments...);
}

#pragma GCC diagnostic pop

#define execl standpipe_execl
#define execlp standpipe_execlp
#define execle standpipe_execle
#define vfork fork

/* Streams can't be followed in C++. */
namespace standpipe {
const bool streams_use_kernel = (sp_streams_use_kernel(), sp_stream(stdin), sp_stream(stdout), sp_stream(stderr), true);
}

#undef STANDPIPE_REMAP
#undef STANDPIPE_REMAP_64

#endif
#endif
