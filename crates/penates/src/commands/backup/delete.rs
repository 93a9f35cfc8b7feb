//! `penates backup delete`

use std::path::PathBuf;

use ::backup::{Access, Backups};
use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::{failed, id_of};
use crate::cli::OutputArgs;
use crate::output::{Output, human_bytes};

/// Arguments of `backup delete`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup delete /mnt/backups 20261123T020000Z
  penates backup delete /mnt/backups --keep 30")]
pub(super) struct DeleteArgs {
    /// The folder of backups.
    folder: PathBuf,
    /// The backups to delete. Without any, only what interrupted commands left is deleted.
    ids: Vec<String>,
    /// Delete all but the newest NUMBER backups. It is refused if the newest one is of a later time
    /// than now.
    #[arg(long, value_name = "NUMBER", conflicts_with = "ids", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn delete(args: &DeleteArgs) -> anyhow::Result<()> {
    let backups = Backups::open(&args.folder, Access::Delete).map_err(failed)?;
    let ids = match args.keep {
        None => args.ids.clone(),
        Some(keep) => {
            // Those that are kept are the last ones only if no time was wrong.
            backups.require_order(&id_of(Timestamp::now())).map_err(failed)?;
            let mut ids = backups.ids().map_err(failed)?;
            ids.truncate(ids.len().saturating_sub(keep as usize));
            ids
        }
    };
    let deleted = backups.delete(&ids).map_err(failed)?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&json!(deleted))?;
    } else {
        for id in &deleted.backups {
            output.line(format!("deleted backup {id}"))?;
        }
        output.line(format!("deleted {} files that no backup has ({})", deleted.files, human_bytes(deleted.bytes)))?;
    }
    output.finish()
}
