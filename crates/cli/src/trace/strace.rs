//! Traces as strace writes them.
//!
//! Descriptors have positions, which several may share (`dup`, `fork`); with `-y`, strace says what a
//! descriptor is. What is not understood is passed over: a trace holds many calls that are none of ours.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use super::accesses::Accesses;

mod line;

use line::{Call, Lines};

/// The calls that matter, for `strace -e`.
pub const CALLS: &str = "trace=open,openat,openat2,creat,close,dup,dup2,dup3,fcntl,lseek,read,readv,\
                         pread64,preadv,preadv2,sendfile,copy_file_range,splice,fork,vfork,clone,clone3";

/// An open file, of one descriptor or of several.
struct Open {
    path: String,
    /// As a stream.
    name: String,
    position: Cell<u64>,
}

/// The descriptors of a process.
type Table = Rc<std::cell::RefCell<HashMap<u32, Rc<Open>>>>;

#[derive(Default)]
struct World {
    tables: HashMap<u32, Table>,
    opened: u64,
    accesses: Accesses,
}

/// Reads what strace wrote.
pub fn read(text: &str) -> Accesses {
    let mut world = World::default();
    for call in Lines::new(text) {
        world.call(&call);
    }
    world.accesses
}

impl World {
    fn call(&mut self, call: &Call<'_>) -> Option<()> {
        let result = call.result()?;
        match call.name {
            "open" | "openat" | "openat2" | "creat" => {
                let path = call.result_path().or_else(|| call.quoted_path())?;
                self.open(call.process, result as u32, path);
            }
            "close" => {
                let table = self.table(call.process);
                table.borrow_mut().remove(&call.descriptor(0)?.0);
            }
            "dup" | "dup2" | "dup3" => self.duplicate(call, result as u32)?,
            "fcntl" if call.argument(1)?.starts_with("F_DUPFD") => {
                self.duplicate(call, result as u32)?;
            }
            "lseek" => self.file(call, 0)?.position.set(result),
            "read" | "readv" => self.read(call, 0, None, result)?,
            "pread64" | "preadv" => {
                let offset = call.last_argument(0)?.parse().ok()?;
                self.read(call, 0, Some(offset), result)?;
            }
            "preadv2" => {
                // the offset -1 is the position
                let offset = call.last_argument(1)?.parse().ok();
                self.read(call, 0, offset, result)?;
            }
            "sendfile" => self.read(call, 1, call.offset(2), result)?,
            "copy_file_range" | "splice" => self.read(call, 0, call.offset(1), result)?,
            "fork" | "vfork" | "clone" | "clone3" => self.fork(call, result as u32),
            _ => {}
        }
        Some(())
    }

    fn table(&mut self, process: u32) -> Table {
        Rc::clone(self.tables.entry(process).or_default())
    }

    fn open(&mut self, process: u32, descriptor: u32, path: String) -> Rc<Open> {
        self.opened += 1;
        let open = Rc::new(Open {
            name: format!("{process}.{}", self.opened),
            path,
            position: Cell::new(0),
        });
        let table = self.table(process);
        table.borrow_mut().insert(descriptor, Rc::clone(&open));
        open
    }

    /// The file of a descriptor. What it is, `-y` says; else we know if we have seen it being opened.
    fn file(&mut self, call: &Call<'_>, argument: usize) -> Option<Rc<Open>> {
        let (descriptor, path) = call.descriptor(argument)?;
        let known = self.table(call.process).borrow().get(&descriptor).cloned();
        match (known, path) {
            (Some(open), Some(path)) if open.path == path => Some(open),
            (_, Some(path)) => Some(self.open(call.process, descriptor, path)),
            (known, None) => known,
        }
    }

    fn duplicate(&mut self, call: &Call<'_>, to: u32) -> Option<()> {
        let open = self.file(call, 0)?;
        self.table(call.process).borrow_mut().insert(to, open);
        Some(())
    }

    fn fork(&mut self, call: &Call<'_>, child: u32) {
        let table = self.table(call.process);
        let has_same = call.arguments.contains("CLONE_FILES");
        let of_child = if has_same {
            table
        } else {
            let copy = table.borrow().clone();
            Rc::new(copy.into())
        };
        self.tables.insert(child, of_child);
    }

    /// `length` bytes were read, at the position if no offset is given.
    fn read(
        &mut self,
        call: &Call<'_>,
        argument: usize,
        offset: Option<u64>,
        length: u64,
    ) -> Option<()> {
        let open = self.file(call, argument)?;
        let at = offset.unwrap_or_else(|| open.position.get());
        if offset.is_none() {
            open.position.set(at + length);
        }
        if is_file(&open.path) {
            self.accesses
                .add(call.time_ns, &open.name, &open.path, at, length);
        }
        Some(())
    }
}

/// Pipes and sockets are `pipe:[1]`, and what is in these folders is no file of a store.
fn is_file(path: &str) -> bool {
    let of_kernel = ["/dev/", "/proc/", "/sys/"];
    !path.contains(":[") && !of_kernel.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stream, object, offset, length.
    fn rows(text: &str) -> Vec<(u64, String, String, u64, u64)> {
        let accesses = read(text);
        let row = |access: &super::super::accesses::Access| {
            (
                access.time_ns,
                accesses.streams[access.stream].name.clone(),
                accesses.object_of(access).name.clone(),
                access.offset,
                access.length,
            )
        };
        accesses.all.iter().map(row).collect()
    }

    fn row(
        time: u64,
        stream: &str,
        path: &str,
        at: u64,
        len: u64,
    ) -> (u64, String, String, u64, u64) {
        (time, stream.into(), path.into(), at, len)
    }

    #[test]
    fn positions_follow_reads_seeks_and_copies_of_descriptors() {
        let text = r#"
7  100.000000001 openat(AT_FDCWD</d>, "x", O_RDONLY) = 3</d/x>
7  100.000000002 read(3</d/x>, ""..., 100) = 100
7  100.000000003 dup2(3</d/x>, 9) = 9</d/x>
7  100.000000004 read(9</d/x>, ""..., 100) = 50
7  100.000000005 lseek(3</d/x>, 10, SEEK_SET) = 10
7  100.000000006 read(9</d/x>, ""..., 100) = 7
7  100.000000007 pread64(9</d/x>, "a, b\", c", 8, 4096) = 8
7  100.000000008 read(9</d/x>, "", 100) = 0
7  100.000000009 read(3</d/x>, 0x1, 100) = -1 EAGAIN (Resource temporarily unavailable)
7  100.000000010 read(0<pipe:[123]>, ""..., 10) = 10
7  100.000000010 read(4</dev/zero>, ""..., 10) = 10
7  100.000000011 sendfile(1<pipe:[5]>, 3</d/x>, NULL, 1000) = 20
7  100.000000012 preadv2(3</d/x>, [{iov_base="", iov_len=5}, {iov_base="", iov_len=5}], 2, 512, RWF_HIPRI) = 10
7  100.000000013 copy_file_range(3</d/x>, [30], 4</d/y>, NULL, 9, 0) = 9
7  100.000000014 +++ exited with 0 +++
"#;
        let at = 100_000_000_000;
        assert_eq!(
            rows(text),
            [
                row(at + 2, "7.1", "/d/x", 0, 100),
                row(at + 4, "7.1", "/d/x", 100, 50),
                row(at + 6, "7.1", "/d/x", 10, 7),
                row(at + 7, "7.1", "/d/x", 4096, 8),
                row(at + 8, "7.1", "/d/x", 17, 0),
                row(at + 11, "7.1", "/d/x", 17, 20),
                row(at + 12, "7.1", "/d/x", 512, 10),
                row(at + 13, "7.1", "/d/x", 30, 9),
            ]
        );
    }

    #[test]
    fn threads_share_descriptors_and_children_positions() {
        let text = r#"
1 openat(AT_FDCWD, "/d/x", O_RDONLY) = 3
1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES, exit_signal=0} => {parent_tid=[2]}, 88) = 2
2 openat(AT_FDCWD, "/d/y", O_RDONLY) = 4
1 read(4, "", 10) = 10
1 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 5
5 read(3, "", 10) = 10
5 close(3) = 0
1 read(3, "", 10) = 10
5 read(3, "", 10) = 10
"#;
        assert_eq!(
            rows(text),
            [
                row(0, "2.2", "/d/y", 0, 10),
                row(0, "1.1", "/d/x", 0, 10),
                row(0, "1.1", "/d/x", 10, 10),
            ]
        );
    }

    #[test]
    fn calls_that_others_interrupt_are_put_together() {
        let text = r#"
[pid    5] 12:00:01.5 openat(AT_FDCWD, "a \"(b) = 3", O_RDONLY <unfinished ...>
[pid    6] 12:00:01.6 read(3</z>, ""..., 5) = 5
[pid    5] 12:00:01.7 <... openat resumed>) = 3
[pid    5] 12:00:01.8 read(3,  <unfinished ...>
[pid    5] 12:00:01.9 <... read resumed>""..., 10) = 10
"#;
        let at = (12 * 3600 + 1) * 1_000_000_000;
        assert_eq!(
            rows(text),
            [
                row(at + 600_000_000, "6.1", "/z", 0, 5),
                row(at + 800_000_000, "5.2", "a \"(b) = 3", 0, 10),
            ]
        );
    }

    #[test]
    fn what_is_no_trace_has_no_accesses() {
        for text in [
            "",
            "\n\n",
            "read(",
            "read) = 3",
            "1 2 3",
            "read(x, y) = z",
            "[pid",
            "= (",
        ] {
            assert_eq!(rows(text), []);
        }
    }
}
