//! `lares lab archive`

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use lab::archive::{Archived, archive};
use lab::study::Study;
use serde_json::json;

use super::{FolderArgs, with_exit_code};
use terminal::OutputArgs;
use terminal::output::Output;

/// Arguments of `lares lab archive`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares lab archive --folder compaction --archive /srv/lab-runs")]
pub struct ArchiveArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// The folder of the archive.
    #[arg(long, value_name = "DIR", default_value = "lab-runs")]
    archive: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Adds the runs of a study to an archive.
pub fn run(args: &ArchiveArgs) -> anyhow::Result<()> {
    let study = Study::read(&args.folder.folder).map_err(with_exit_code)?;
    let Archived { added, there } = archive(&study, &args.archive).context("archiving")?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&json!({ "added": added, "there": there }))?;
    } else {
        output.line(format!("{added} runs added, {there} were there: {}", args.archive.display()))?;
    }
    output.finish()
}
