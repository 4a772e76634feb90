//! How long the first window is, and how fast windows grow. The same for every policy.

/// The first window of a stream, for a read of `req` pages.
///
/// Small reads get four times, middling ones twice what they asked for, rounded up to a power of two;
/// never more than `max`.
///
/// # Examples
/// ```
/// use standpipe_core::readahead::init_pages;
/// assert_eq!(init_pages(1, 32), 4);
/// assert_eq!(init_pages(16, 32), 32);
/// ```
#[must_use]
pub const fn init_pages(req: u64, max: u64) -> u64 {
    if req > max {
        return max;
    }
    let rounded = req.next_power_of_two();
    if rounded <= max / 32 {
        4 * rounded
    } else if rounded <= max / 4 {
        2 * rounded
    } else {
        max
    }
}

/// The window after one of `cur` pages: four times as long while it is small, then twice, never more
/// than `max`.
///
/// # Examples
/// ```
/// use standpipe_core::readahead::next_pages;
/// assert_eq!(next_pages(4, 256), 16);
/// assert_eq!(next_pages(16, 256), 32);
/// assert_eq!(next_pages(32, 32), 32);
/// ```
#[must_use]
pub const fn next_pages(cur: u64, max: u64) -> u64 {
    let factor = if cur < max / 16 { 4 } else { 2 };
    let grown = cur.saturating_mul(factor);
    if grown < max { grown } else { max }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows that reads of one page ramp up through.
    fn ramp(max: u64) -> Vec<u64> {
        let mut sizes = vec![init_pages(1, max)];
        while sizes[sizes.len() - 1] < max {
            sizes.push(next_pages(sizes[sizes.len() - 1], max));
        }
        sizes
    }

    #[test]
    fn one_page_reads_ramp_up_as_published() {
        assert_eq!(ramp(32), [4, 8, 16, 32]);
        assert_eq!(ramp(256), [4, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn the_first_window_by_size_of_read() {
        let cases = [
            // (req, max, init)
            (1, 32, 4),
            (2, 32, 4),
            (3, 32, 8),
            (8, 32, 16),
            (9, 32, 32),
            (32, 32, 32),
            (33, 32, 32),
            (8, 256, 32),
            (9, 256, 32),
            (64, 256, 128),
            (65, 256, 256),
            (1, 2, 2),
            (1, 1, 1),
            (1, 0, 0),
            (u64::MAX, 32, 32),
        ];
        for (req, max, init) in cases {
            assert_eq!(init_pages(req, max), init, "req {req}, max {max}");
        }
    }

    #[test]
    fn the_next_window_by_size_of_the_last() {
        let cases = [
            // (cur, max, next)
            (1, 32, 4),
            (2, 32, 4),
            (15, 256, 60),
            (16, 256, 32),
            (200, 256, 256),
            (u64::MAX, 256, 256),
        ];
        for (cur, max, next) in cases {
            assert_eq!(next_pages(cur, max), next, "cur {cur}, max {max}");
        }
    }
}
