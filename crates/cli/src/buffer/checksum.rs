//! Checksums of what passes, as the tools of the same names print them.

use std::fmt::Write as _;

use clap::ValueEnum;
use md5::Md5;
use sha2::digest::DynDigest;
use sha2::{Sha256, Sha512};
use twox_hash::XxHash3_128;

/// Which checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Algorithm {
    /// As gzip and zip have it
    Crc32,
    /// XXH3 of 128 bits, as xxh128sum: the fastest that tells any two streams apart
    Xxh128,
    /// As md5sum
    Md5,
    /// As sha256sum
    Sha256,
    /// As sha512sum
    Sha512,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "crc32",
            Self::Xxh128 => "xxh128",
            Self::Md5 => "md5",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

/// A checksum being taken.
pub struct Checksum {
    pub algorithm: Algorithm,
    state: State,
}

enum State {
    Crc32(crc32fast::Hasher),
    Xxh128(Box<XxHash3_128>),
    Digest(Box<dyn DynDigest + Send>),
}

impl Checksum {
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Crc32 => State::Crc32(crc32fast::Hasher::new()),
            Algorithm::Xxh128 => State::Xxh128(Box::new(XxHash3_128::new())),
            Algorithm::Md5 => State::Digest(Box::<Md5>::default()),
            Algorithm::Sha256 => State::Digest(Box::<Sha256>::default()),
            Algorithm::Sha512 => State::Digest(Box::<Sha512>::default()),
        };
        Self { algorithm, state }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc32(hasher) => hasher.update(bytes),
            State::Xxh128(hasher) => hasher.write(bytes),
            State::Digest(digest) => digest.update(bytes),
        }
    }

    /// In hexadecimal.
    pub fn finish(self) -> String {
        match self.state {
            State::Crc32(hasher) => format!("{:08x}", hasher.finalize()),
            State::Xxh128(hasher) => format!("{:032x}", hasher.finish_128()),
            State::Digest(digest) => hexadecimal(&digest.finalize()),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of each: its checksum of "123456789", in two pieces.
    #[test]
    fn checksums_are_those_of_the_world() {
        for (algorithm, expected) in [
            (Algorithm::Crc32, "cbf43926"),
            (Algorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
            (
                Algorithm::Sha256,
                "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
            ),
        ] {
            let mut checksum = Checksum::new(algorithm);
            checksum.update(b"1234");
            checksum.update(b"56789");
            assert_eq!(checksum.finish(), expected, "{algorithm:?}");
        }
    }
}
