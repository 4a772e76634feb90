//! Asynchronous ends: for tokio (feature `tokio`), and for everybody else with the traits of `futures`
//! (feature `futures`).
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use standpipe::asynchronous::tokio::{ReadEnd, WriteEnd};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! # runtime.block_on(async {
//! let (reader, writer) = standpipe::pipe::pipe()?;
//! let (mut reader, mut writer) = (ReadEnd::new(reader)?, WriteEnd::new(writer)?);
//! let writing = tokio::spawn(async move { writer.write_all(b"hello").await });
//! let mut text = String::new();
//! reader.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! writing.await?
//! # })?; }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How it waits
//! A call is tried without waiting: where the lane has bytes or room that is no system call at all. What
//! would wait leaves its waker beside the lane, where tasks at the other end find it if they are in the
//! same process, again without a system call. For all else (threads, other processes, programs that
//! know nothing of the lane, the end of the stream) it is woken by
//! [`End::pollable`](crate::end::End::pollable), one descriptor of an end for as long as it lives, whatever
//! comes and goes behind it. No call waits on a thread of the runtime (but for a lock whose holder
//! was stopped in the midst of a copy, 100 milliseconds at a time), nor is one started for it. The
//! mode of the open file description (`O_NONBLOCK`), which others may share and rely on, stays as it is.
//!
//! # How it ends
//! Who reads comes to the end of the stream when all ends to write to are dropped or shut down. To shut one
//! down (tokio's `shutdown`, `close` of `futures`) closes this end, where tokio's own pipe does nothing:
//! so generic code that says it is done is understood, and `copy_bidirectional` comes to its end. Writes
//! to it fail with `BrokenPipe` from then on. Of a [`DuplexEnd`] the other direction goes on.
//!
//! # What is lost when a future is dropped
//! Nothing. A read or write has happened when its future is ready, and has not when it is not. So a
//! dropped read leaves its bytes in the pipe, and a dropped write wrote nothing; up to `PIPE_BUF` bytes
//! a write is all or nothing, of more it reports how much. A loop of writes needs to know how far it
//! came: [`WriteEnd::write_all_from`] keeps account in its argument, [`CopyBuffer`] does for a copy.
//!
//! # Runtimes
//! The ends of [`tokio`] are driven by the tokio runtime in which they are made, of either flavour; it
//! needs its I/O enabled. Those of [`futures`](mod@futures) are driven by `async-io`, which has one thread
//! for a whole process, and works with smol, with the executor of `futures`, or in the midst of any
//! other. Ends of both have the traits of both, as far as the features are there.

mod copy;
mod duplex;
mod ends;
#[cfg(feature = "futures")]
pub mod futures;
mod open;
mod reactor;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use copy::CopyBuffer;
pub use duplex::DuplexEnd;
pub use ends::{ReadEnd, WriteEnd};
pub use reactor::{Reactor, Share, Source};
