//! Asynchronous ends: whoever drives them, whatever is dropped, whoever is killed.

#[path = "asynchronous/cancelled.rs"]
mod cancelled;
mod common;
#[path = "asynchronous/copied.rs"]
mod copied;
#[path = "asynchronous/duplex.rs"]
mod duplex;
#[path = "asynchronous/ended.rs"]
mod ended;
#[path = "asynchronous/opened.rs"]
mod opened;
#[path = "asynchronous/ready.rs"]
mod ready;
#[path = "asynchronous/wakers.rs"]
mod wakers;
#[path = "asynchronous/woken.rs"]
mod woken;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Builder, Runtime};

/// Of either flavour.
fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap(),
    ]
}

/// Polls a future a few times, then drops it.
fn poll_and_drop<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..polls).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// The byte at a position of the streams of these tests.
fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn bytes_at(position: u64, count: usize) -> Vec<u8> {
    (position..).take(count).map(byte_at).collect()
}

#[track_caller]
fn check(position: u64, bytes: &[u8]) {
    assert_eq!(bytes, bytes_at(position, bytes.len()), "at {position}");
}
