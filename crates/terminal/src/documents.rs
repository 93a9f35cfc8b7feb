//! What a program writes about itself: manual pages, and completion scripts of shells.

use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::output::Output;

/// Prints a completion script for a program.
pub fn completions(shell: Shell, mut program: Command) -> anyhow::Result<()> {
    let (mut script, name) = (Vec::new(), program.get_name().to_owned());
    clap_complete::generate(shell, &mut program, name, &mut script);
    let mut output = Output::stdout();
    output.bytes(&script)?;
    output.finish()
}

/// Writes manual pages into a folder, which is created if missing: one for the program and one for each command.
pub fn manual(program: Command, folder: &Path) -> anyhow::Result<()> {
    let writing = || format!("writing manual pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(writing)?;
    clap_mangen::generate_to(program, folder).with_context(writing)
}
