//! The messages of the rendezvous: whatever arrives is refused, or is exactly what would have been
//! sent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_shm::rendezvous::Refusal;
use standpipe_shm::rendezvous::message::{Hello, Reply};

fuzz_target!(|bytes: &[u8]| {
    match Hello::parse(bytes) {
        Ok(hello) => assert_eq!(hello.encode(), bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Reply::parse(bytes) {
        // Of a later version, we know the beginning only.
        Ok(Reply::Refusal(Refusal::Version { .. })) => {}
        Ok(reply) => assert_eq!(reply.encode(), bytes),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
