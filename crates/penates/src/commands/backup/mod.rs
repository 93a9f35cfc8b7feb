//! `penates backup`

mod check;
mod create;
mod delete;
mod list;
mod restore;
mod target;

use std::path::Path;

use ::backup::BackupError;
use anyhow::Context;
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use jiff::Timestamp;

use crate::exit::CliError;
use crate::progress;

/// Arguments of `penates backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do with backups.
#[derive(Debug, Subcommand)]
enum Action {
    /// Back up a data folder, also while a server holds it.
    ///
    /// The backup has everything that was acknowledged before it began. Files that an earlier
    /// backup in the folder has are not copied again. If the command is interrupted, there is no
    /// backup, and the next one uses what was copied.
    Create(create::CreateArgs),
    /// List backups, oldest first.
    List(list::ListArgs),
    /// Read backups whole, and compare them with their digests. The exit code is 1 if anything is
    /// damaged or missing.
    Check(check::CheckArgs),
    /// Write the store of a backup into an empty data folder.
    ///
    /// Each file is compared with its digest. The folder has a store only when all of it is there.
    Restore(restore::RestoreArgs),
    /// Delete backups, and the files that no other backup has.
    Delete(delete::DeleteArgs),
}

/// Runs it.
pub async fn run(args: BackupArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Create(args) => create::create(args).await,
        Action::List(args) => in_thread(move |_| list::list(&args), None).await,
        Action::Check(args) => in_thread(move |bar| check::check(&args, bar), None).await,
        Action::Restore(args) => restore::restore(args).await,
        Action::Delete(args) => in_thread(move |_| delete::delete(&args), None).await,
    }
}

/// Runs work that reads and writes files. The bar is for bytes.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce(&ProgressBar) -> anyhow::Result<T> + Send + 'static,
    bytes: Option<u64>,
) -> anyhow::Result<T> {
    let worked = tokio::task::spawn_blocking(move || {
        let bar = progress::bytes(bytes);
        let worked = work(&bar);
        bar.finish_and_clear();
        worked
    });
    worked.await.context("the work ended early")?
}

/// The id of a backup that is made at a time.
fn id_of(time: Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Whether a path means standard output or input.
fn is_pipe(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether a path is of a backup as a tar archive.
fn is_archive(path: &Path) -> bool {
    is_pipe(path) || path.extension().is_some_and(|extension| extension == "tar")
}

/// An error with the exit code for it.
fn failed(error: BackupError) -> anyhow::Error {
    match error {
        BackupError::NoBackups(what) | BackupError::Occupied(what) => CliError::Usage(what).into(),
        BackupError::Unreleased(_) => CliError::Usage(error.to_string()).into(),
        error @ BackupError::OtherStore { .. } => CliError::Usage(error.to_string()).into(),
        BackupError::Busy(what) => CliError::Unreachable(what).into(),
        error => error.into(),
    }
}
