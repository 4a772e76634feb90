//! `standpipe fifo stat`.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::openers::{FileId, Found, Host, Opener};
use crate::units;

/// What is known of a FIFO.
#[derive(Debug, Serialize)]
struct Stat<'a> {
    path: &'a Path,
    mode: String,
    uid: u32,
    gid: u32,
    device: u64,
    inode: u64,
    /// Absent while nobody has it open, or where nobody lets us ask.
    capacity_bytes: Option<usize>,
    /// What the kernel holds; a lane's bytes are its members' own.
    queued_bytes: Option<u64>,
    /// Who serves those that look for a lane.
    lane_host: Option<Host>,
    open: Vec<Opener>,
    /// How many processes could not be looked at.
    hidden_processes: usize,
}

pub fn print(path: &Path, json: bool) -> anyhow::Result<()> {
    let stat = Stat::of(path)?;
    let text = if json {
        serde_json::to_string_pretty(&stat)? + "\n"
    } else {
        stat.words()
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("stdout"),
        _ => Ok(()),
    }
}

impl<'a> Stat<'a> {
    fn of(path: &'a Path) -> anyhow::Result<Self> {
        let name = || path.display();
        let metadata =
            fs::metadata(path).map_err(|error| anyhow::anyhow!("{}: {error}", name()))?;
        if !metadata.file_type().is_fifo() {
            bail!("{}: is something else, expected a FIFO", name());
        }
        let file = FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        let found = Found::of(file).context("cannot look at the processes in /proc")?;
        let fd: Option<OwnedFd> = found.borrow_fd();
        let fd = fd.as_ref();
        Ok(Self {
            path,
            mode: format!("{:04o}", metadata.permissions().mode() & 0o7777),
            uid: metadata.uid(),
            gid: metadata.gid(),
            device: file.device,
            inode: file.inode,
            capacity_bytes: fd.and_then(|fd| rustix::pipe::fcntl_getpipe_size(fd).ok()),
            queued_bytes: fd.and_then(|fd| rustix::io::ioctl_fionread(fd).ok()),
            lane_host: found.host,
            open: found.open,
            hidden_processes: found.hidden,
        })
    }

    /// For people.
    fn words(&self) -> String {
        let mut lines = vec![
            self.path.display().to_string(),
            format!(
                "  mode      {} of {}:{}",
                self.mode,
                user(self.uid),
                group(self.gid)
            ),
            format!("  file      inode {} on device {}", self.inode, self.device),
        ];
        if let (Some(capacity), Some(queued)) = (self.capacity_bytes, self.queued_bytes) {
            let (capacity, queued) = (units::binary(capacity), units::binary(queued as usize));
            lines.push(format!("  holds     {queued} of {capacity}"));
        }
        lines.push(match &self.lane_host {
            None => "  lane      nobody offers one".to_owned(),
            Some(Host { pid: None }) => "  lane      offered".to_owned(),
            Some(Host { pid: Some(pid) }) => format!("  lane      offered by process {pid}"),
        });
        for opener in &self.open {
            let does = match (opener.reads, opener.writes) {
                (true, true) => "reads and writes",
                (true, false) => "reads",
                _ => "writes",
            };
            lines.push(format!(
                "  open      {} {} {does}",
                opener.pid, opener.command
            ));
        }
        if self.open.is_empty() {
            lines.push("  open      by nobody".to_owned());
        }
        if self.hidden_processes > 0 {
            let count = self.hidden_processes;
            lines.push(format!(
                "  hidden    {count} processes of others were not looked at"
            ));
        }
        lines.join("\n") + "\n"
    }
}

fn user(id: u32) -> String {
    name_of(id, "/etc/passwd")
}

fn group(id: u32) -> String {
    name_of(id, "/etc/group")
}

/// The name of the line whose third field is `id`, else the number.
fn name_of(id: u32, file: &str) -> String {
    let number = id.to_string();
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.get(2) == Some(&number.as_str()));
    found.map_or(number, |fields| fields[0].to_owned())
}
