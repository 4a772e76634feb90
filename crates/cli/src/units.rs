//! Sizes as people write and read them.

use standpipe::pipe::{PipeSize, SizeError};

/// Reads the size of a pipe: `64K`, `1M`, `65536`, or the pair `Po So`.
pub fn parse_pipe_size(text: &str) -> Result<PipeSize, String> {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    if text.split_whitespace().count() > 1 && text.split_whitespace().all(is_number) {
        return text.parse().map_err(|error: SizeError| error.to_string());
    }
    let bytes = parse_bytes(text).ok_or_else(|| {
        format!("{text:?}: expected a size as in 64K or 1M, or the pair \"Po So\" as in \"8 2\"")
    })?;
    PipeSize::from_bytes(bytes, None).map_err(|error| error.to_string())
}

/// Reads a size or a rate: `4096`, `64K`, `8M`, `1G`.
pub fn parse_size(text: &str) -> Result<usize, String> {
    parse_bytes(text).ok_or_else(|| format!("{text:?}: expected a size as in 4096, 64K, 8M or 1G"))
}

/// A whole number of bytes, KiB (`K`), MiB (`M`) or GiB (`G`); `KiB` and `kb` are read as `K`.
fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    let bytes = text[..digits]
        .parse::<usize>()
        .ok()?
        .checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

/// A power of two of bytes, as in `64 KiB` or `1 MiB`; anything else to one decimal.
pub fn binary(bytes: usize) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// An amount of data in powers of ten and three digits, as in `1.23 GB`.
pub fn amount(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 || value >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// So many of something, as in `1 read` or `2 reads`.
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A stretch of time, as in `0.25 s` or `2 m 05 s`.
pub fn duration(seconds: f64) -> String {
    if seconds < 0.0995 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 100.0 {
        format!("{seconds:.2} s")
    } else {
        let whole = (seconds.round() as i64).unsigned_abs();
        format!("{} m {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 65536),
            ("64 KiB", 65536),
            ("1m", 1 << 20),
            ("1G", 1 << 30),
            ("5000", 8192),
            ("8 2", 1 << 20),
        ] {
            assert_eq!(
                parse_pipe_size(text).unwrap().capacity_bytes(),
                bytes,
                "{text}"
            );
        }
        for text in [
            "",
            "K",
            "0",
            "-1",
            "1.5M",
            "1T",
            "4 2 1",
            "3G",
            "99999999999999999999",
        ] {
            let error = parse_pipe_size(text).unwrap_err();
            assert!(
                error.contains(text) || error.contains("expected"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn amounts_keep_three_digits() {
        for (bytes, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1000.0, "1.00 kB"),
            (12_345_678.0, "12.3 MB"),
            (1.5e9, "1.50 GB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
        assert_eq!(amount(999_600.0), "1.00 MB");
        assert_eq!(
            (&*count(1, "read"), &*count(0, "read")),
            ("1 read", "0 reads")
        );
        assert_eq!(binary(65536), "64 KiB");
        assert_eq!(binary(1 << 20), "1 MiB");
        assert_eq!(binary(1000), "1000 B");
        assert_eq!(duration(0.012_34), "12.3 ms");
        assert_eq!(duration(125.0), "2 m 05 s");
    }
}
