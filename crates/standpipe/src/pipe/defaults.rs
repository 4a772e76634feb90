//! The size of pipes made without one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use standpipe_core::size::PipeSize;

/// The environment variable that sets the default size of a process: `"Po So"`.
pub const SETTING_ENV: &str = "STANDPIPE_PIPE_SZ";

static DEFAULT: RwLock<Option<PipeSize>> = RwLock::new(None);

/// The size of pipes made without one: what [`set_default`] said, else the environment
/// (`STANDPIPE_PIPE_SZ="Po So"`), else the user's [settings file](settings_path), else
/// [`PipeSize::DEFAULT`], 64 KiB in four segments. Environment and file are read once per process,
/// and what is no size in them is passed over.
#[must_use]
pub fn default_size() -> PipeSize {
    if let Some(size) = *DEFAULT.read().unwrap_or_else(PoisonError::into_inner) {
        return size;
    }
    let mut default = DEFAULT.write().unwrap_or_else(PoisonError::into_inner);
    *default.get_or_insert_with(|| {
        from_surroundings(
            std::env::var(SETTING_ENV).ok().as_deref(),
            settings_path().as_deref(),
        )
    })
}

/// Sets the size of the pipes that this process makes from now on.
pub fn set_default(size: PipeSize) {
    *DEFAULT.write().unwrap_or_else(PoisonError::into_inner) = Some(size);
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
