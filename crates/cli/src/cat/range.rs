//! Which bytes of a source are wanted.

use crate::units;

/// Which bytes of a source are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// From an offset on, so many, or all.
    From { start: u64, length: Option<u64> },
    /// So many at the end.
    Last(u64),
}

impl Range {
    pub fn is_all(self) -> bool {
        self == Self::From {
            start: 0,
            length: None,
        }
    }

    /// Where it begins in a source of so many bytes, and how many follow; `None`: to the end,
    /// wherever that will be. An error if it begins behind the end.
    pub fn within(self, bytes: u64) -> Result<(u64, Option<u64>), u64> {
        match self {
            Self::From { start, .. } if start > bytes => Err(start),
            Self::From { start, length } => Ok((start, length)),
            Self::Last(length) => Ok((bytes.saturating_sub(length), Some(length.min(bytes)))),
        }
    }

    /// How many bytes it is in a source of so many.
    pub fn length_in(self, bytes: u64) -> Option<u64> {
        let (start, length) = self.within(bytes).ok()?;
        Some(length.unwrap_or(u64::MAX).min(bytes - start))
    }
}

/// As curl's: `START-END`, `START-`, `-LENGTH`.
pub fn parse_range(text: &str) -> Result<Range, String> {
    let expected = || {
        format!("{text:?}: expected START-END as in 0-99, START- as in 64K-, or -LENGTH as in -1M")
    };
    let (start, end) = text.split_once('-').ok_or_else(expected)?;
    if start.is_empty() {
        return parse_offset(end).map(Range::Last).map_err(|_| expected());
    }
    let start = parse_offset(start).map_err(|_| expected())?;
    if end.is_empty() {
        return Ok(Range::From {
            start,
            length: None,
        });
    }
    // with `0-64K`, nobody means 64 KiB and a byte
    let last: u64 = end.parse().map_err(|_| {
        format!(
            "{text:?}: expected END to be a plain number: the byte END is included \
             (--offset and --length take sizes as in 64K)"
        )
    })?;
    if last < start {
        return Err(format!("{text:?}: expected END to be at least START"));
    }
    Ok(Range::From {
        start,
        length: Some((last - start).saturating_add(1)),
    })
}

/// A number of bytes; none is one, too.
pub fn parse_offset(text: &str) -> Result<u64, String> {
    if text.trim().parse() == Ok(0_u64) {
        return Ok(0);
    }
    units::parse_size(text).map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(start: u64, length: Option<u64>) -> Range {
        Range::From { start, length }
    }

    #[test]
    fn ranges_are_those_of_curl() {
        for (text, range) in [
            ("0-0", from(0, Some(1))),
            ("0-99", from(0, Some(100))),
            ("10-10", from(10, Some(1))),
            ("5-", from(5, None)),
            ("64K-", from(65536, None)),
            ("1M-1048576", from(1 << 20, Some(1))),
            ("-500", Range::Last(500)),
            ("-2M", Range::Last(2 << 20)),
            ("-0", Range::Last(0)),
        ] {
            assert_eq!(parse_range(text), Ok(range), "{text}");
        }
        for text in [
            "", "-", "5", "9-5", "a-5", "0-64K", "1-2-3", "--5", "0-0x10",
        ] {
            let error = parse_range(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}: expected")), "{error}");
        }
    }

    #[test]
    fn a_range_is_cut_to_what_there_is() {
        for (range, bytes, expected) in [
            (from(0, None), 10, Some(10)),
            (from(4, None), 10, Some(6)),
            (from(4, Some(3)), 10, Some(3)),
            (from(8, Some(3)), 10, Some(2)),
            (from(10, Some(3)), 10, Some(0)),
            (from(11, Some(3)), 10, None),
            (Range::Last(3), 10, Some(3)),
            (Range::Last(30), 10, Some(10)),
        ] {
            assert_eq!(range.length_in(bytes), expected, "{range:?} of {bytes}");
        }
        assert_eq!(from(11, None).within(10), Err(11));
        assert_eq!(Range::Last(3).within(10), Ok((7, Some(3))));
    }
}
