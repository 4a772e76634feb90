//! Pipes: a read end and a write end, between threads, over `fork`, and to any program.
//!
//! Each end *is* a descriptor of a kernel pipe. The kernel says who is alive, when the stream ends,
//! and carries the bytes of programs that know nothing of standpipe. Bytes between two ends of this
//! module go through a lane in shared memory instead, which is made when the first of them is
//! written, or at a `fork`.
//!
//! # Handing an end to another program
//! Turn it into a [`Stdio`](std::process::Stdio) or an [`OwnedFd`](std::os::fd::OwnedFd): from then
//! on the other ends know that somebody without the lane takes part.
//! ```
//! use std::io::Read;
//! use std::process::Command;
//!
//! let (mut reader, writer) = standpipe::pipe::pipe()?;
//! let mut child = Command::new("echo").arg("hello").stdout(writer).spawn()?;
//! let mut text = String::new();
//! reader.read_to_string(&mut text)?;
//! assert_eq!(text, "hello\n");
//! child.wait()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//! A descriptor *borrowed* from an end ([`AsFd`](std::os::fd::AsFd)) tells about the pipe (flags,
//! identity, who is alive), and bytes in the lane are not seen through it.

mod builder;
mod defaults;
mod ends;
pub mod limits;

pub use builder::{Builder, pipe};
pub use defaults::{SETTING_ENV, default_size, set_default, settings_path};
pub use ends::{ReadEnd, WriteEnd};
pub use standpipe_core::size::{PIPE_BUF, PipeSize, SizeError};
pub use standpipe_shm::lane::{Stats, Wake};
