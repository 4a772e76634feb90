//! The user's own defaults, kept in one small text file.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
pub use standpipe::pipe::SETTING_ENV as ENVIRONMENT;
use standpipe::pipe::{PipeSize, settings_path};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Environment,
    File(PathBuf),
    BuiltIn,
}

fn path() -> anyhow::Result<PathBuf> {
    settings_path()
        .ok_or_else(|| anyhow!("no place for settings: neither XDG_CONFIG_HOME nor HOME is set"))
}

/// The size of new pipes and who says so. What is no size is an error here; the library, which has
/// nobody to tell, passes over it.
pub fn pipe_size() -> anyhow::Result<(PipeSize, Origin)> {
    if let Some(text) = env::var_os(ENVIRONMENT) {
        let text = text.to_string_lossy();
        let size = text
            .parse()
            .with_context(|| format!("environment {ENVIRONMENT}"))?;
        return Ok((size, Origin::Environment));
    }
    let Ok(path) = path() else {
        return Ok((PipeSize::DEFAULT, Origin::BuiltIn));
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let size = text
                .trim()
                .parse()
                .with_context(|| path.display().to_string())?;
            Ok((size, Origin::File(path)))
        }
        Err(error) if absent(&error) => Ok((PipeSize::DEFAULT, Origin::BuiltIn)),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Stores the size of new pipes; whoever reads meanwhile sees the old value or the new one.
pub fn store_pipe_size(size: PipeSize) -> anyhow::Result<PathBuf> {
    let path = path()?;
    replace(&path, &format!("{size}\n")).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Forgets the stored size; `false` if there was none.
pub fn forget_pipe_size() -> anyhow::Result<bool> {
    let path = path()?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if absent(&error) => Ok(false),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
