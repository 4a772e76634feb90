//! Capacity and segment of a pipe, as the pair `Po So`.
//!
//! The pair is that of the "larger pipes" work on Linux 2.4.9 (October 2001): a pipe holds
//! `2^Po` pages, and its peers are woken after each *segment* of `capacity >> So` bytes. A segment
//! is at least one page and at most the whole pipe. Rounding follows `F_SETPIPE_SZ` of Linux:
//! less than a page counts as a page, anything else goes up to the next power of two of pages.

use std::fmt;
use std::str::FromStr;

/// Bytes in a page: the unit of capacities and segments.
pub const PAGE_BYTES: usize = 4096;

/// The largest write that is never mixed with another writer's bytes: 4096. Does not change with the
/// capacity. (Under `--cfg loom`, where a ring has two bytes, it is one.)
pub const PIPE_BUF: usize = if cfg!(loom) { 1 } else { 4096 };

/// The largest `Po`: 2^19 pages, 2 GiB, where `F_SETPIPE_SZ` of Linux ends as well.
pub const MAX_ORDER: u8 = 19;

/// Capacity and segment of a pipe.
///
/// # Examples
/// ```
/// use standpipe_core::size::PipeSize;
/// let size: PipeSize = "8 2".parse()?;
/// assert_eq!(size.capacity_bytes(), 1 << 20);
/// assert_eq!(size.segment_bytes(), 256 << 10);
/// assert_eq!(size.to_string(), "8 2");
/// # Ok::<(), standpipe_core::size::SizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PipeSize {
    order: u8,
    segment_shift: u8,
}

impl PipeSize {
    /// The size of a pipe that nobody configured: 64 KiB, as on Linux, in four segments.
    pub const DEFAULT: Self = Self {
        order: 4,
        segment_shift: 2,
    };

    /// The size `Po So`: `2^order` pages, segments of `capacity >> segment_shift`.
    ///
    /// # Errors
    /// [`SizeError::Order`] if `order` is above [`MAX_ORDER`], [`SizeError::SegmentShift`] if a
    /// segment would be smaller than a page.
    pub fn new(order: u8, segment_shift: u8) -> Result<Self, SizeError> {
        if order > MAX_ORDER {
            return Err(SizeError::Order {
                order: order.into(),
            });
        }
        if segment_shift > order {
            return Err(SizeError::SegmentShift {
                order,
                segment_shift: segment_shift.into(),
            });
        }
        Ok(Self {
            order,
            segment_shift,
        })
    }

    /// The smallest size that holds `capacity_bytes` in segments of at least `segment_bytes`;
    /// `None` keeps the segments of [`PipeSize::DEFAULT`] (a quarter of the pipe).
    ///
    /// # Errors
    /// [`SizeError::Capacity`] above 2 GiB, [`SizeError::Segment`] for a segment larger than the
    /// pipe.
    pub fn from_bytes(
        capacity_bytes: usize,
        segment_bytes: Option<usize>,
    ) -> Result<Self, SizeError> {
        let order = order_of(capacity_bytes).ok_or(SizeError::Capacity { capacity_bytes })?;
        let segment_shift = match segment_bytes {
            None => Self::DEFAULT.segment_shift.min(order),
            Some(bytes) => match order_of(bytes) {
                Some(segment_order) if segment_order <= order => order - segment_order,
                _ => {
                    let capacity_bytes = PAGE_BYTES << order;
                    return Err(SizeError::Segment {
                        segment_bytes: bytes,
                        capacity_bytes,
                    });
                }
            },
        };
        Ok(Self {
            order,
            segment_shift,
        })
    }

    /// `Po`: the pipe holds `2^Po` pages.
    #[must_use]
    pub const fn order(self) -> u8 {
        self.order
    }

    /// `So`: a segment is `capacity >> So`.
    #[must_use]
    pub const fn segment_shift(self) -> u8 {
        self.segment_shift
    }

    /// How many bytes the pipe holds.
    #[must_use]
    pub const fn capacity_bytes(self) -> usize {
        PAGE_BYTES << self.order
    }

    /// After how many bytes of one transfer the peers are woken.
    #[must_use]
    pub const fn segment_bytes(self) -> usize {
        self.capacity_bytes() >> self.segment_shift
    }
}

impl Default for PipeSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The power of two of pages that `bytes` rounds up to, if it is within the limits.
fn order_of(bytes: usize) -> Option<u8> {
    let pages = bytes
        .div_ceil(PAGE_BYTES)
        .max(1)
        .checked_next_power_of_two()?;
    let order = u8::try_from(pages.trailing_zeros()).ok()?;
    (order <= MAX_ORDER).then_some(order)
}

impl fmt::Display for PipeSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.order, self.segment_shift)
    }
}

impl FromStr for PipeSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let syntax = || SizeError::Syntax {
            text: text.to_owned(),
        };
        let mut words = text.split_whitespace().map(str::parse::<u8>);
        match (words.next(), words.next(), words.next()) {
            (Some(Ok(order)), Some(Ok(shift)), None) => Self::new(order, shift),
            _ => Err(syntax()),
        }
    }
}

/// Why a pipe size was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not two whole numbers.
    #[error("pipe size {text:?}: expected two whole numbers \"Po So\", as in \"4 2\"")]
    Syntax {
        /// What was given.
        text: String,
    },
    /// `Po` too large.
    #[error("pipe size Po = {order}: expected 0 to {MAX_ORDER} (2^Po pages of {PAGE_BYTES} bytes)")]
    Order {
        /// What was given.
        order: u32,
    },
    /// A segment of less than a page.
    #[error(
        "segment So = {segment_shift}: expected 0 to Po = {order}, a segment is at least a page"
    )]
    SegmentShift {
        /// The `Po` that goes with it.
        order: u8,
        /// What was given.
        segment_shift: u32,
    },
    /// A capacity above the limit.
    #[error("capacity of {capacity_bytes} bytes: expected at most {} bytes", PAGE_BYTES << MAX_ORDER)]
    Capacity {
        /// What was given.
        capacity_bytes: usize,
    },
    /// A segment larger than the pipe.
    #[error(
        "segment of {segment_bytes} bytes: expected at most the capacity, {capacity_bytes} bytes"
    )]
    Segment {
        /// What was given.
        segment_bytes: usize,
        /// The capacity that goes with it.
        capacity_bytes: usize,
    },
}

impl From<SizeError> for std::io::Error {
    fn from(error: SizeError) -> Self {
        Self::new(std::io::ErrorKind::InvalidInput, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capacities_round_up_as_f_setpipe_sz_does() {
        // the examples of item 101
        for (asked, given) in [
            (0, 4096),
            (1, 4096),
            (4097, 8192),
            (12288, 16384),
            (65537, 131_072),
            (1_000_000, 1_048_576),
            (1 << 31, 1 << 31),
        ] {
            let size = PipeSize::from_bytes(asked, None).unwrap();
            assert_eq!(size.capacity_bytes(), given, "asked for {asked}");
        }
        assert!(PipeSize::from_bytes((1 << 31) + 1, None).is_err());
        assert!(PipeSize::from_bytes(usize::MAX, None).is_err());
    }

    #[test]
    fn the_pair_reads_back_and_errors_name_the_value() {
        let size: PipeSize = " 10 3 ".parse().unwrap();
        assert_eq!(
            (size.capacity_bytes(), size.segment_bytes()),
            (4 << 20, 512 << 10)
        );
        assert_eq!(size.to_string(), "10 3");
        for (text, named) in [
            ("", "\"\""),
            ("4", "\"4\""),
            ("4 2 1", "4 2 1"),
            ("x 1", "x 1"),
        ] {
            let error = text.parse::<PipeSize>().unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("Po So"), "{error}");
        }
        assert!(
            "20 0"
                .parse::<PipeSize>()
                .unwrap_err()
                .to_string()
                .contains("20")
        );
        assert!(
            "3 4"
                .parse::<PipeSize>()
                .unwrap_err()
                .to_string()
                .contains("So = 4")
        );
        let too_long = PipeSize::from_bytes(8192, Some(8193)).unwrap_err();
        assert!(too_long.to_string().contains("8193"), "{too_long}");
    }

    proptest! {
        #[test]
        fn a_segment_is_a_power_of_two_within_page_and_capacity(
            capacity in 0usize..1 << 31, segment in proptest::option::of(0usize..1 << 31)
        ) {
            if let Ok(size) = PipeSize::from_bytes(capacity, segment) {
                prop_assert!(size.segment_bytes() >= PAGE_BYTES.max(segment.unwrap_or(0)));
                prop_assert!(size.segment_bytes() <= size.capacity_bytes());
                prop_assert!(size.segment_bytes().is_power_of_two());
                prop_assert!(size.capacity_bytes() >= capacity);
                prop_assert_eq!(size.to_string().parse::<PipeSize>().unwrap(), size);
            } else {
                prop_assert!(segment.unwrap_or(0) > capacity);
            }
        }
    }
}
