//! Programs that this process starts, or turns into, and its end.
//!
//! They inherit descriptors, and may know nothing of lanes. So what is queued in lanes moves into
//! the kernel's pipes before. `fork` alone needs no wrapper: the C library tells us of it.

use std::ffi::{c_char, c_int};

use libc::{FILE, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use crate::border::answer;
use crate::{gate, slot, table};

/// To be called before this process starts a program other than by fork and the functions here, and
/// before it ends without `exit`: what is queued in its lanes moves into the kernel's pipes. Returns
/// 0 or -1.
#[unsafe(no_mangle)]
pub extern "C" fn sp_prepare_for_exec() -> c_int {
    answer(
        || {
            let _inside = gate::enter();
            standpipe::end::prepare_for_exec()?;
            Ok(0)
        },
        || -1,
    )
}

/// `exit` leaves nothing in a lane that somebody who reads later could not see.
pub extern "C" fn at_exit() {
    sp_prepare_for_exec();
}

/// [_exit(2)](https://man7.org/linux/man-pages/man2/_exit.2.html). From a signal handler that interrupted
/// a call of ours it leaves lanes as they are, as a kill does.
#[unsafe(no_mangle)]
pub extern "C" fn sp__exit(status: c_int) -> ! {
    if !gate::is_inside() && !slot::is_inside() {
        sp_prepare_for_exec();
    }
    // SAFETY: what C asks for.
    unsafe { libc::_exit(status) }
}

/// [execv(3)](https://man7.org/linux/man-pages/man3/exec.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_execv(path: *const c_char, argv: *const *mut c_char) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::execv(path, argv.cast()) }
}

/// [execve(2)](https://man7.org/linux/man-pages/man2/execve.2.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_execve(
    path: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::execve(path, argv.cast(), envp.cast()) }
}

/// [execvp(3)](https://man7.org/linux/man-pages/man3/exec.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_execvp(file: *const c_char, argv: *const *mut c_char) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::execvp(file, argv.cast()) }
}

/// [execvpe(3)](https://man7.org/linux/man-pages/man3/exec.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_execvpe(
    file: *const c_char,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::execvpe(file, argv.cast(), envp.cast()) }
}

/// [fexecve(3)](https://man7.org/linux/man-pages/man3/fexecve.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_fexecve(
    fd: c_int,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::fexecve(fd, argv.cast(), envp.cast()) }
}

/// [posix_spawn(3)](https://man7.org/linux/man-pages/man3/posix_spawn.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::posix_spawn(pid, path, actions, attributes, argv, envp) }
}

/// [posix_spawnp(3)](https://man7.org/linux/man-pages/man3/posix_spawn.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::posix_spawnp(pid, file, actions, attributes, argv, envp) }
}

/// [system(3)](https://man7.org/linux/man-pages/man3/system.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_system(command: *const c_char) -> c_int {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::system(command) }
}

/// [popen(3)](https://man7.org/linux/man-pages/man3/popen.3.html)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_popen(command: *const c_char, mode: *const c_char) -> *mut FILE {
    sp_prepare_for_exec();
    // SAFETY: what C asks for.
    unsafe { libc::popen(command, mode) }
}

/// [daemon(3)](https://man7.org/linux/man-pages/man3/daemon.3.html)
#[unsafe(no_mangle)]
pub extern "C" fn sp_daemon(nochdir: c_int, noclose: c_int) -> c_int {
    if noclose == 0 {
        for fd in 0..3 {
            crate::give::sp_give_up(fd);
        }
    }
    // SAFETY: what C asks for.
    let status = unsafe { libc::daemon(nochdir, noclose) };
    if noclose == 0 {
        // They are other files now.
        (0..3).for_each(table::forget);
    }
    status
}
