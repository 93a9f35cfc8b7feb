//! `penates backup check`

use std::path::PathBuf;

use ::backup::{Access, Backups, Checked};
use clap::Args;
use indicatif::ProgressBar;

use super::failed;
use crate::cli::OutputArgs;
use crate::exit::CliError;
use crate::output::{Output, human_bytes};

/// Arguments of `backup check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup check /mnt/backups
  penates backup check /mnt/backups 20261123T020000Z
  penates backup check --set-aside /mnt/backups")]
pub(super) struct CheckArgs {
    /// The folder of backups.
    folder: PathBuf,
    /// The backups to check [default: all].
    ids: Vec<String>,
    /// Rename damaged files, so that the next backup copies them again if the store still has them.
    #[arg(long)]
    set_aside: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn check(args: &CheckArgs, bar: &ProgressBar) -> anyhow::Result<()> {
    let access = if args.set_aside { Access::Delete } else { Access::Read };
    let backups = Backups::open(&args.folder, access).map_err(failed)?;
    let ids = if args.ids.is_empty() { backups.ids().map_err(failed)? } else { args.ids.clone() };
    let checked = backups.check(&ids, args.set_aside, &mut |bytes| bar.inc(bytes)).map_err(failed)?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&checked)?;
    } else {
        let Checked { backups, files, bytes, problems } = &checked;
        for problem in problems {
            let path = problem.path.as_deref().unwrap_or("its description");
            output.line(format!("{}: {path}: {}", problem.id, problem.what))?;
        }
        output.line(format!(
            "{backups} backups: {files} files read ({}), {} problems",
            human_bytes(*bytes),
            problems.len()
        ))?;
    }
    output.finish()?;
    if checked.problems.is_empty() { Ok(()) } else { Err(CliError::Incomplete.into()) }
}
