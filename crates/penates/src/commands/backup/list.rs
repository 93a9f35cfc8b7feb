//! `penates backup list`

use std::path::PathBuf;

use ::backup::{Access, Backups, Summary};
use clap::Args;

use super::failed;
use crate::cli::OutputArgs;
use crate::exit::CliError;
use crate::output::{Output, human_bytes};

/// Arguments of `backup list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates backup list /mnt/backups")]
pub(super) struct ListArgs {
    /// The folder of backups.
    folder: PathBuf,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<()> {
    let backups = Backups::open(&args.folder, Access::Read).map_err(failed)?;
    let mut output = Output::stdout();
    let (mut rows, mut is_sound) = (Vec::new(), true);
    for id in backups.ids().map_err(failed)? {
        match backups.summary(&id) {
            Ok(summary) if args.output.json => output.json(&summary)?,
            Ok(Summary { header, end }) => rows.push(vec![
                header.id,
                end.files.to_string(),
                human_bytes(end.bytes),
                human_bytes(end.copied_bytes),
                header.folder,
            ]),
            Err(error) => {
                is_sound = false;
                note!("{error}");
            }
        }
    }
    if !args.output.json {
        output.table(&["id", "files", "bytes", "copied", "folder"], &rows)?;
    }
    output.finish()?;
    if is_sound { Ok(()) } else { Err(CliError::Incomplete.into()) }
}
