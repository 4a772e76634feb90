//! Shell completions and manual pages, generated from the definitions of the arguments.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::Cli;

/// Print the completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe completions bash > ~/.local/share/bash-completion/completions/standpipe
  standpipe completions zsh > \"${fpath[1]}/_standpipe\"
  standpipe completions fish > ~/.config/fish/completions/standpipe.fish")]
pub struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Print the manual page, or write the pages of all commands into a folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  standpipe man | man -l -
  standpipe man --dir ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write one page per command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "standpipe", &mut script);
    to_stdout(&script)
}

pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.dir {
        fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
            .with_context(|| folder.display().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    to_stdout(&page)
}

/// A reader that closes early (`| head`) has what it wants.
fn to_stdout(text: &[u8]) -> anyhow::Result<ExitCode> {
    match io::Write::write_all(&mut io::stdout(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
