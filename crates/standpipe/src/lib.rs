//! Pipes over shared memory with the semantics of the kernel's, several times faster.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let (mut reader, mut writer) = standpipe::pipe::pipe()?;
//! std::thread::spawn(move || writer.write_all(b"hello"));
//! let mut text = String::new();
//! reader.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(any(feature = "tokio", feature = "futures"))]
pub mod asynchronous;
pub mod completion;
pub mod duplex;
pub mod end;
pub mod fifo;
#[cfg(feature = "file")]
pub mod file;
pub mod pipe;
pub mod poll;
mod stdio;
mod units;

pub use stdio::{Input, Output, stdin, stdout};
