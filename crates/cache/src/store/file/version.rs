//! What tells one state of a file from another.
//!
//! A version is the device, the inode, the times of birth, of the last change (`ctime`) and of the last write
//! (`mtime`), and the length. Any write through the kernel sets `ctime`, and nobody can set it back; the inode
//! number alone would be used again for another file.
//!
//! But time is coarse: a kernel stamps files with the time of its last tick, some file systems keep whole
//! seconds only. A file that is changed twice within one grain looks the same before and after the second
//! change, so one that was changed *a grain ago or less* can be told by nothing. It gets a version that
//! nothing else is ever equal to: pages are shared between those who have one opened file, and with nobody
//! who opens it later.
//!
//! What is not seen: stores through a mapping that was dirty already (the kernel stamps the first of them
//! only, until it has written the page back), and a file server whose clock lags behind by more than a grain.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Statx, StatxTimestamp};

use crate::store::Version;
use crate::store::unique::unique;

/// More than the longest tick of a kernel, 10 ms.
const FINE_GRAIN: Duration = Duration::from_millis(50);
/// FAT keeps every second second.
const COARSE_GRAIN: Duration = Duration::from_secs(2);

/// Of a regular file. `now` is read after `statx`.
pub fn of_file(statx: &Statx, now: SystemTime) -> Version {
    let ctime = since_epoch(statx.stx_ctime);
    let grain = if ctime.subsec_nanos() == 0 {
        COARSE_GRAIN
    } else {
        FINE_GRAIN
    };
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_settled = now > ctime + grain;
    let version = format!(
        "{}:{}/{} born {} changed {} written {} {} bytes",
        statx.stx_dev_major,
        statx.stx_dev_minor,
        statx.stx_ino,
        text(statx.stx_btime),
        text(statx.stx_ctime),
        text(statx.stx_mtime),
        statx.stx_size,
    );
    if is_settled {
        Version(version)
    } else {
        unique(&version)
    }
}

/// Of a block device, which no time is kept for.
pub fn of_device(statx: &Statx) -> Version {
    unique(&format!(
        "device {}:{}",
        statx.stx_rdev_major, statx.stx_rdev_minor
    ))
}

fn since_epoch(time: StatxTimestamp) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), time.tv_nsec)
}

fn text(time: StatxTimestamp) -> String {
    format!("{}.{:09}", time.tv_sec, time.tv_nsec)
}
