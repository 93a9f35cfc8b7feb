//! `penates backup restore`

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::backup::{Access, BackupError, Backups, Place, Summary, restore_stream};
use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use jiff::Timestamp;
use library::Library;
use server::config::Config;
use store::{Store, SystemClock, copying};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use super::{failed, id_of, in_thread, is_archive, is_pipe};
use crate::cli::OutputArgs;
use crate::exit::CliError;
use crate::local;
use crate::output::{Output, human_bytes};

/// Arguments of `backup restore`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup restore /mnt/backups --to /var/lib/penates/data
  penates backup restore /mnt/backups 20261123T020000Z --to ./then
  ssh vault 'cat penates.tar' | penates backup restore - --to ./restored")]
pub(super) struct RestoreArgs {
    /// The folder of backups, a file *.tar, or - for standard input.
    #[arg(value_name = "FOLDER|FILE.tar|-")]
    folder: PathBuf,
    /// The backup [default: the newest].
    id: Option<String>,
    /// The data folder to be made. It must be empty or missing.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Restores an archive, from a file or from standard input.
fn restore_archive(from: &Path, to: &Path, bar: &ProgressBar) -> anyhow::Result<(Summary, Place)> {
    let mut file: Box<dyn Read> = match is_pipe(from) {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(from).with_context(|| format!("opening {}", from.display()))?),
    };
    let place = Place::begin(to).map_err(failed)?;
    let restored = restore_stream(&mut file, place.path(), &mut |bytes| bar.inc(bytes)).map_err(failed)?;
    Ok((restored, place))
}

/// The id of the newest backup.
fn newest(backups: &Backups) -> anyhow::Result<String> {
    // It may be an old one, of a time when the clock was wrong.
    if let Err(error @ BackupError::Clock { .. }) = backups.require_order(&id_of(Timestamp::now())) {
        let why = "name the backup to restore by its id: `penates backup list` lists them";
        return Err(CliError::Usage(format!("{why} ({error})")).into());
    }
    let newest = backups.ids().map_err(failed)?.pop();
    newest.ok_or_else(|| CliError::Usage("there is no backup in the folder yet".to_owned()).into())
}

/// Restores a backup of a folder of them.
fn restore_from(args: &RestoreArgs, bar: &ProgressBar) -> anyhow::Result<(Summary, Place)> {
    let backups = Backups::open(&args.folder, Access::Read).map_err(failed)?;
    let id = match &args.id {
        Some(id) => id.clone(),
        None => newest(&backups)?,
    };
    bar.set_length(backups.summary(&id).map_err(failed)?.end.bytes);
    let place = Place::begin(&args.to).map_err(failed)?;
    let restored = backups.restore(&id, place.path(), &mut |bytes| bar.inc(bytes)).map_err(failed)?;
    Ok((restored, place))
}

pub(super) async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let is_archive = is_archive(&args.folder);
    if is_archive && args.id.is_some() {
        return Err(CliError::Usage("an archive has one backup: name no other".to_owned()).into());
    }
    local::require_place(&args.to)?;
    local::refuse_root(&args.to).map_err(local::cannot_open)?;
    let (args, (restored, place)) = in_thread(
        move |bar| {
            let restored = match is_archive {
                true => restore_archive(&args.folder, &args.to, bar),
                false => restore_from(&args, bar),
            }?;
            Ok((args, restored))
        },
        (!is_archive).then_some(0),
    )
    .await?;
    let is_copy = settle(place.path()).await?;
    place.finish().map_err(failed)?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&restored)?;
    } else {
        let Summary { header, end } = &restored;
        output.line(format!(
            "restored backup {} to {}: {} files ({})",
            header.id,
            args.to.display(),
            end.files,
            human_bytes(end.bytes)
        ))?;
        output.line(format!("It has everything that was acknowledged until {}.", header.time))?;
        if is_copy {
            output.line("It is an unfinished copy of another store, as it was then.")?;
        } else {
            output.line(
                "Earlier cursors of the change feed are refused. Revoke again the tokens that were revoked since.",
            )?;
        }
        output.line(format!("Check it with `penates verify --store {}`.", args.to.display()))?;
    }
    output.finish()
}

/// Opens a restored store, which examines it, and refuses earlier cursors of its change feed:
/// readers may have seen changes that it does not have. Returns whether it is an unfinished copy of
/// another store, which nobody reads.
async fn settle(folder: &Path) -> anyhow::Result<bool> {
    let folder = folder.to_owned();
    let opening = tokio::task::spawn_blocking(move || {
        EmbeddedStore::open(&folder, EmbeddedOptions::default(), Arc::new(SystemClock))
    });
    let store: Arc<dyn Store> = opening.await.context("opening the restored store")?.map_err(local::cannot_open)?;
    let settled = async {
        if copying::unfinished(store.as_ref()).await?.is_some() {
            return anyhow::Ok(true);
        }
        let library = Library::open(store.clone(), Arc::new(SystemClock), Config::default().library_options()).await?;
        library.feed.forget().await?;
        Ok(false)
    };
    let settled = settled.await;
    store.close().await.context("closing the restored store")?;
    settled
}
