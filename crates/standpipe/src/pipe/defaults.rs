//! The size of pipes made without one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use standpipe_core::size::PipeSize;
use standpipe_shm::sync::{AtomicU32, Ordering};

/// The environment variable that sets the default size of a process: `"Po So"`.
pub const SETTING_ENV: &str = "STANDPIPE_PIPE_SZ";

/// `Po` and `So` in a byte each, and a bit that says so. No lock, which a fork could find held.
static DEFAULT: AtomicU32 = AtomicU32::new(UNSET);
const UNSET: u32 = 0;
const SET: u32 = 1 << 16;

/// The size of pipes made without one: what [`set_default`] said, else the environment
/// (`STANDPIPE_PIPE_SZ="Po So"`), else the user's [settings file](settings_path), else
/// [`PipeSize::DEFAULT`], 64 KiB in four segments. Environment and file are read once per process,
/// and what is no size in them is passed over.
#[must_use]
pub fn default_size() -> PipeSize {
    let word = DEFAULT.load(Ordering::Relaxed);
    if word != UNSET {
        let [order, segment_shift, ..] = word.to_le_bytes();
        return PipeSize::new(order, segment_shift).unwrap_or_default();
    }
    let environment = std::env::var(SETTING_ENV).ok();
    let size = from_surroundings(environment.as_deref(), settings_path().as_deref());
    set_default(size);
    size
}

/// Sets the size of the pipes that this process makes from now on.
pub fn set_default(size: PipeSize) {
    let word = u32::from_le_bytes([size.order(), size.segment_shift(), 0, 0]) | SET;
    DEFAULT.store(word, Ordering::Relaxed);
}

/// The file with the user's default, one line `Po So`: `standpipe/pipe_sz` in `$XDG_CONFIG_HOME`,
/// or else in `~/.config`. `None` without a home.
#[must_use]
pub fn settings_path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(config.join("standpipe/pipe_sz"))
}

fn from_surroundings(environment: Option<&str>, file: Option<&Path>) -> PipeSize {
    let from_file = || std::fs::read_to_string(file?).ok()?.parse().ok();
    environment
        .and_then(|text| text.parse().ok())
        .or_else(from_file)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_wins_over_the_file_over_the_built_in() {
        let path = std::env::temp_dir().join(format!("standpipe-default-{}", std::process::id()));
        std::fs::write(&path, "7 1\n").unwrap();
        let size = |text: &str| text.parse::<PipeSize>().unwrap();
        assert_eq!(from_surroundings(Some("9 2"), Some(&path)), size("9 2"));
        assert_eq!(from_surroundings(None, Some(&path)), size("7 1"));
        assert_eq!(
            from_surroundings(Some("nonsense"), Some(&path)),
            size("7 1")
        );
        std::fs::remove_file(&path).unwrap();
        assert_eq!(from_surroundings(None, Some(&path)), PipeSize::DEFAULT);
        assert_eq!(from_surroundings(None, None), PipeSize::DEFAULT);
    }
}
