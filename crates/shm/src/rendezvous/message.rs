//! The messages of the rendezvous, as bytes. Pure: no descriptor, no socket.
//!
//! ```text
//! hello    magic "SPIP" | version u16 | flags u16 (1 reads, 2 writes, 4 has a lane) | pid namespace u64
//! welcome  magic "SPIP" | version u16 | capacity order u8 | segment shift u8 | wake u8 | 0 u8[7]
//! refusal  magic "SPIP" | version u16 | 255 u8            | reason u8        | 0 u8[8]
//! ```
//! All have 16 bytes; integers are little-endian. Magic and version come first and are looked at
//! first, so that a later version may change all that follows and is still told the reason.

use standpipe_core::size::{PipeSize, SizeError};

use super::Role;
use crate::lane::Wake;

/// What this process speaks.
pub const VERSION: u16 = 1;

/// The size of each message.
pub const MESSAGE_BYTES: usize = 16;

/// How many descriptors come with a welcome.
pub const DESCRIPTORS: usize = 6;

/// A message.
pub type Bytes = [u8; MESSAGE_BYTES];

const MAGIC: [u8; 4] = *b"SPIP";
const READS: u16 = 1;
const WRITES: u16 = 2;
const HAS_LANE: u16 = 4;
/// Stands where a welcome has the capacity's order.
const REFUSED: u8 = 255;

/// What is wrong with something that arrived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Too short or too long.
    #[error("message of {found} bytes: expected {MESSAGE_BYTES}")]
    Length {
        /// How long it was (at least).
        found: usize,
    },
    /// Something else than standpipe talks there.
    #[error("magic {found:02x?}: expected {MAGIC:02x?}")]
    Magic {
        /// What stood there.
        found: [u8; 4],
    },
    /// Another version.
    #[error("version {found}: expected {VERSION}")]
    Version {
        /// What stood there.
        found: u16,
    },
    /// Neither a reader nor a writer, or bits that mean nothing.
    #[error("flags {found:#06x}: expected 1 (reads), 2 (writes) or 3 (both), plus 4 with a lane")]
    Flags {
        /// What stood there.
        found: u16,
    },
    /// A capacity or segment that no pipe has.
    #[error("size: {0}")]
    Size(#[from] SizeError),
    /// A way to wake that does not exist.
    #[error("wake {found}: expected 0 (per segment) or 1 (per transfer)")]
    Wake {
        /// What stood there.
        found: u8,
    },
    /// A reason that does not exist.
    #[error("reason of a refusal {found}: expected 1 to 5")]
    Reason {
        /// What stood there.
        found: u8,
    },
    /// Bytes without a meaning that are not zero.
    #[error("reserved bytes {found:02x?}: expected zeros")]
    Reserved {
        /// What stood there.
        found: Vec<u8>,
    },
    /// Too few or too many descriptors.
    #[error("{found} descriptors: expected {expected}")]
    Descriptors {
        /// How many came.
        found: usize,
        /// How many should have.
        expected: usize,
    },
    /// Descriptors that came and could not be received: too many, or this process has no room.
    #[error("more descriptors than could be received: expected {DESCRIPTORS}")]
    DescriptorsCut,
    /// A descriptor of another kind.
    #[error("descriptor {field}: expected {expected}")]
    Descriptor {
        /// Which.
        field: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
}

/// Why a host did not let a guest in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It speaks another version.
    #[error("the host speaks version {host}, we speak {VERSION}")]
    Version {
        /// The host's.
        host: u16,
    },
    /// It lives in another pid namespace, where thread ids (of which locks are made) mean others.
    #[error("the host lives in another pid namespace")]
    Namespace,
    /// It does not let this user in.
    #[error("the host does not let this user in")]
    Credentials,
    /// It has no lane to give.
    #[error("the host has no lane to give")]
    NoLane,
    /// It has as many guests as it takes.
    #[error("the host has as many guests as it takes")]
    Full,
}

/// Guest to host, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the guest does with the pipe.
    pub role: Role,
    /// The inode of `/proc/self/ns/pid`.
    pub pid_namespace: u64,
}

impl Hello {
    /// As sent.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let Role {
            reads,
            writes,
            has_lane,
        } = self.role;
        let flags = [(reads, READS), (writes, WRITES), (has_lane, HAS_LANE)]
            .into_iter()
            .filter(|(yes, _)| *yes)
            .fold(0, |flags, (_, flag)| flags | flag);
        let mut bytes = begin();
        bytes[6..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..].copy_from_slice(&self.pid_namespace.to_le_bytes());
        bytes
    }

    /// From what arrived.
    ///
    /// # Errors
    /// [`Malformed`], for the first field that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes = whole(bytes)?;
        let [.., f0, f1, n0, n1, n2, n3, n4, n5, n6, n7] = *bytes;
        let flags = u16::from_le_bytes([f0, f1]);
        if flags & (READS | WRITES) == 0 || flags & !(READS | WRITES | HAS_LANE) != 0 {
            return Err(Malformed::Flags { found: flags });
        }
        Ok(Self {
            role: Role {
                reads: flags & READS != 0,
                writes: flags & WRITES != 0,
                has_lane: flags & HAS_LANE != 0,
            },
            pid_namespace: u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]),
        })
    }
}

/// Host to guest, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Come in: the descriptors are with this message.
    Welcome {
        /// Capacity and segment.
        size: PipeSize,
        /// When peers are woken.
        wake: Wake,
    },
    /// Stay outside.
    Refusal(Refusal),
}

impl Reply {
    /// As sent.
    #[must_use]
    pub fn encode(self) -> Bytes {
        let mut bytes = begin();
        match self {
            Self::Welcome { size, wake } => {
                bytes[6] = size.order();
                bytes[7] = size.segment_shift();
                bytes[8] = match wake {
                    Wake::PerSegment => 0,
                    Wake::PerTransfer => 1,
                };
            }
            Self::Refusal(refusal) => {
                bytes[6] = REFUSED;
                bytes[7] = match refusal {
                    Refusal::Version { host } => {
                        bytes[4..6].copy_from_slice(&host.to_le_bytes());
                        1
                    }
                    Refusal::Namespace => 2,
                    Refusal::Credentials => 3,
                    Refusal::NoLane => 4,
                    Refusal::Full => 5,
                };
            }
        }
        bytes
    }

    /// From what arrived.
    ///
    /// # Errors
    /// [`Malformed`], for the first field that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes = match whole(bytes) {
            // The host says so itself, in the words of a version that we need not know.
            Err(Malformed::Version { found }) if bytes.get(6..8) == Some(&[REFUSED, 1]) => {
                return Ok(Self::Refusal(Refusal::Version { host: found }));
            }
            other => other?,
        };
        if bytes[6] == REFUSED {
            let refusal = refusal(bytes[7])?;
            zeros(&bytes[8..])?;
            return Ok(Self::Refusal(refusal));
        }
        let size = PipeSize::new(bytes[6], bytes[7])?;
        let wake = match bytes[8] {
            0 => Wake::PerSegment,
            1 => Wake::PerTransfer,
            found => return Err(Malformed::Wake { found }),
        };
        zeros(&bytes[9..])?;
        Ok(Self::Welcome { size, wake })
    }
}

fn begin() -> Bytes {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// A message of this version and of the right size.
fn whole(bytes: &[u8]) -> Result<&Bytes, Malformed> {
    let length = Malformed::Length { found: bytes.len() };
    let Some((&[m0, m1, m2, m3, v0, v1], _)) = bytes.split_first_chunk() else {
        return Err(length);
    };
    let magic = [m0, m1, m2, m3];
    if magic != MAGIC {
        return Err(Malformed::Magic { found: magic });
    }
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(Malformed::Version { found: version });
    }
    bytes.try_into().map_err(|_| length)
}

fn refusal(reason: u8) -> Result<Refusal, Malformed> {
    match reason {
        1 => Ok(Refusal::Version { host: VERSION }),
        2 => Ok(Refusal::Namespace),
        3 => Ok(Refusal::Credentials),
        4 => Ok(Refusal::NoLane),
        5 => Ok(Refusal::Full),
        found => Err(Malformed::Reason { found }),
    }
}

fn zeros(bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(Malformed::Reserved {
        found: bytes.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            role: Role {
                reads: true,
                writes: false,
                has_lane: false,
            },
            pid_namespace: 0x0102_0304_0506_0708,
        }
    }

    fn changed(mut bytes: Bytes, at: usize, to: u8) -> Bytes {
        bytes[at] = to;
        bytes
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        assert_eq!(
            hello().encode(),
            *b"SPIP\x01\x00\x01\x00\x08\x07\x06\x05\x04\x03\x02\x01"
        );
        let welcome = Reply::Welcome {
            size: PipeSize::new(8, 2).unwrap(),
            wake: Wake::PerTransfer,
        };
        assert_eq!(
            welcome.encode(),
            *b"SPIP\x01\x00\x08\x02\x01\x00\x00\x00\x00\x00\x00\x00"
        );
        assert_eq!(
            Reply::Refusal(Refusal::NoLane).encode(),
            *b"SPIP\x01\x00\xff\x04\x00\x00\x00\x00\x00\x00\x00\x00"
        );
    }

    #[test]
    fn an_error_names_the_field_and_what_stood_there() {
        let good = hello().encode();
        for (bytes, error, named) in [
            (&good[..3], Malformed::Length { found: 3 }, "3 bytes"),
            (&good[..15], Malformed::Length { found: 15 }, "15 bytes"),
            (
                &changed(good, 0, b'X')[..],
                Malformed::Magic { found: *b"XPIP" },
                "58",
            ),
            (
                &changed(good, 5, 1)[..],
                Malformed::Version { found: 257 },
                "257",
            ),
            (
                &changed(good, 6, 0)[..],
                Malformed::Flags { found: 0 },
                "0x0000",
            ),
            (
                &changed(good, 6, 4)[..],
                Malformed::Flags { found: 4 },
                "0x0004",
            ),
        ] {
            assert_eq!(Hello::parse(bytes), Err(error.clone()));
            assert!(error.to_string().contains(named), "{error}");
        }
        let welcome = Reply::Welcome {
            size: PipeSize::DEFAULT,
            wake: Wake::PerSegment,
        }
        .encode();
        for (at, to, named) in [
            (6, 20, "Po = 20"),
            (7, 5, "So = 5"),
            (8, 2, "wake 2"),
            (9, 1, "reserved"),
            (15, 1, "reserved"),
        ] {
            let error = Reply::parse(&changed(welcome, at, to)).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        let refusal = Reply::Refusal(Refusal::Full).encode();
        for (at, to, named) in [(7, 0, "0"), (7, 6, "6"), (8, 1, "reserved")] {
            let error = Reply::parse(&changed(refusal, at, to)).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn a_later_version_is_understood_to_be_one_whatever_follows() {
        let mut longer = b"SPIP\x02\x00\x00\x00".to_vec();
        longer.resize(40, 0xaa);
        let later = Malformed::Version { found: 2 };
        assert_eq!(Hello::parse(&longer), Err(later.clone()));
        assert_eq!(Reply::parse(&longer), Err(later));
        longer[6..8].copy_from_slice(&[REFUSED, 1]);
        let refused = Reply::Refusal(Refusal::Version { host: 2 });
        assert_eq!(Reply::parse(&longer), Ok(refused));
    }

    fn refusals() -> impl Strategy<Value = Refusal> {
        prop_oneof![
            any::<u16>().prop_map(|host| Refusal::Version { host }),
            Just(Refusal::Namespace),
            Just(Refusal::Credentials),
            Just(Refusal::NoLane),
            Just(Refusal::Full),
        ]
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let welcome = (0_u8..=19, any::<prop::sample::Index>(), any::<bool>()).prop_map(
            |(order, shift, segments)| Reply::Welcome {
                size: PipeSize::new(order, shift.index(usize::from(order) + 1) as u8).unwrap(),
                wake: if segments {
                    Wake::PerSegment
                } else {
                    Wake::PerTransfer
                },
            },
        );
        prop_oneof![welcome, refusals().prop_map(Reply::Refusal)]
    }

    /// Bytes that get past the first checks more often than chance would.
    fn nearly() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            any::<[u8; 10]>().prop_map(|rest| [&begin()[..6], &rest].concat()),
            any::<[u8; 8]>().prop_map(|rest| [&begin()[..6], &[REFUSED, rest[0]], &rest].concat()),
        ]
    }

    proptest! {
        #[test]
        fn what_is_sent_is_understood(
            namespace in any::<u64>(), role in (0_u8..8).prop_filter("an end", |role| role & 3 != 0), reply in replies()
        ) {
            let role = Role { reads: role & 1 != 0, writes: role & 2 != 0, has_lane: role & 4 != 0 };
            let hello = Hello { role, pid_namespace: namespace };
            prop_assert_eq!(Hello::parse(&hello.encode()), Ok(hello));
            prop_assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
        }

        #[test]
        fn whatever_is_understood_was_exactly_that(bytes in nearly()) {
            if let Ok(hello) = Hello::parse(&bytes) {
                prop_assert_eq!(&hello.encode()[..], &bytes[..]);
            }
            match Reply::parse(&bytes) {
                Ok(Reply::Refusal(Refusal::Version { .. })) | Err(_) => {}
                Ok(reply) => prop_assert_eq!(&reply.encode()[..], &bytes[..]),
            }
        }
    }
}
