//! Paths for FIFOs and other files of a test, in a directory that goes with the test.

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::{CWD, FileType, Mode};

/// The directory of the test that this process runs; the runner removes it.
pub(crate) const DIRECTORY_VARIABLE: &str = "STANDPIPE_CONFORMANCE_DIRECTORY";

/// Where an end can be opened again, if it has a path.
pub(crate) type Path = Option<Arc<CStr>>;

/// A path in the test's directory.
pub(crate) fn named(name: &str) -> CString {
    let directory = std::env::var_os(DIRECTORY_VARIABLE).expect("the runner gives a directory");
    let path = PathBuf::from(directory).join(name);
    CString::new(path.into_os_string().into_encoded_bytes()).expect("no zero bytes in a path")
}

/// A path that no other call in this process was given.
pub(crate) fn fresh() -> CString {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let mut next = NEXT.lock().expect("nobody panics here");
    *next += 1;
    named(&format!("{}-{next}", std::process::id()))
}

/// A new FIFO, which its owner may read and write.
pub(crate) fn new_fifo() -> Arc<CStr> {
    let path = fresh();
    rustix::fs::mknodat(
        CWD,
        path.as_c_str(),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .expect("cannot make a FIFO");
    path.into()
}
