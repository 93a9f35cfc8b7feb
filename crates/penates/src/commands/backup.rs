//! `penates backup`

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::backup::{Access, BackupError, Backups, Checked, Options, Place, Source, Summary, restore_stream, sync_folder, write_stream};
use anyhow::Context;
use clap::{Args, Subcommand};
use http::Method;
use indicatif::ProgressBar;
use jiff::Timestamp;
use library::Library;
use serde_json::json;
use server::config::Config;
use store::{Call, Class, Cut, Deadline, Store, SystemClock, copying};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::NamedTempFile;

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::reach::{self, Way};
use crate::settings::{self, Flags, StoreLocation};
use crate::{local, progress};

/// How long a store may take to make a cut: most of it is linking files of large contents.
const CUT_MAX: std::time::Duration = std::time::Duration::from_secs(600);

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
    /// The backup has everything that was acknowledged before it began. Files that an earlier backup
    /// in the folder has are not copied again. If the command is interrupted, there is no backup,
    /// and the next one uses what was copied.
    Create(CreateArgs),
    /// List backups, oldest first.
    List(ListArgs),
    /// Read backups whole, and compare them with their digests. The exit code is 1 if anything is
    /// damaged or missing.
    Check(CheckArgs),
    /// Write the store of a backup into an empty data folder.
    ///
    /// Each file is compared with its digest. The folder has a store only when all of it is there.
    Restore(RestoreArgs),
    /// Delete backups, and the files that no other backup has.
    Delete(DeleteArgs),
}

/// Arguments of `backup create`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup create /mnt/backups
  penates backup create /mnt/backups --store /var/lib/penates/data --json
  penates backup create --link /var/lib/penates/backups
  penates backup create penates.tar
  penates backup create - | ssh vault 'cat > penates.tar'")]
struct CreateArgs {
    /// The folder of backups, which is made if it is missing; a new file *.tar, or - for standard
    /// output: one whole backup as a tar archive.
    #[arg(value_name = "FOLDER|FILE.tar|-")]
    folder: PathBuf,
    /// Make hard links instead of copies. The folder has to be on the disk of the store, and is lost
    /// with it.
    #[arg(long)]
    link: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `backup list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates backup list /mnt/backups")]
struct ListArgs {
    /// The folder of backups.
    folder: PathBuf,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Arguments of `backup check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup check /mnt/backups
  penates backup check /mnt/backups 20261123T020000Z
  penates backup check --set-aside /mnt/backups")]
struct CheckArgs {
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

/// Arguments of `backup restore`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup restore /mnt/backups --to /var/lib/penates/data
  penates backup restore /mnt/backups 20261123T020000Z --to ./then
  ssh vault 'cat penates.tar' | penates backup restore - --to ./restored")]
struct RestoreArgs {
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

/// Arguments of `backup delete`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup delete /mnt/backups 20261123T020000Z
  penates backup delete /mnt/backups --keep 30")]
struct DeleteArgs {
    /// The folder of backups.
    folder: PathBuf,
    /// The backups to delete. Without any, only what interrupted commands left is deleted.
    ids: Vec<String>,
    /// Delete all but the newest NUMBER backups.
    #[arg(long, value_name = "NUMBER", conflicts_with = "ids", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub async fn run(args: BackupArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Create(args) => create(args).await,
        Action::List(args) => in_thread(move |_| list(&args), None).await,
        Action::Check(args) => in_thread(move |bar| check(&args, bar), None).await,
        Action::Restore(args) => restore(args).await,
        Action::Delete(args) => in_thread(move |_| delete(&args), None).await,
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

async fn create(args: CreateArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let StoreLocation::Folder(data) = settings.place() else {
        let hint = "a keyspace is backed up with the snapshots of Cassandra (docs/cassandra.md)";
        return Err(CliError::Usage(format!("only a data folder is backed up like this: {hint}")).into());
    };
    if is_in(&args.folder, data) {
        let what = format!("{} is in the data folder: name another place for backups", args.folder.display());
        return Err(CliError::Usage(what).into());
    }
    // Before the store is asked for anything.
    let target = Target::open(&args)?;
    let now = Timestamp::now();
    let source = source(&args.store, data).await?;
    let options = Options {
        time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        id: now.strftime("%Y%m%dT%H%M%SZ").to_string(),
        program: format!("penates {}", env!("CARGO_PKG_VERSION")),
        folder: std::path::absolute(data).unwrap_or_else(|_| data.to_owned()).display().to_string(),
        links: args.link,
    };
    let create = move |bar: &ProgressBar| {
        bar.set_length(source.bytes().map_err(failed)?);
        target.create(&source, &options, &mut |bytes| bar.inc(bytes))
    };
    let created = in_thread(create, Some(0)).await?;
    if is_pipe(&args.folder) {
        eprintln!("backup {}: {} files ({})", created.header.id, created.end.files, human_bytes(created.end.bytes));
        return Ok(());
    }
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&created)?;
    } else {
        let Summary { header, end } = &created;
        output.line(format!(
            "backup {}: {} files ({}), {} of them copied ({})",
            header.id,
            end.files,
            human_bytes(end.bytes),
            end.copied_files,
            human_bytes(end.copied_bytes)
        ))?;
    }
    output.finish()
}

/// Whether a path stands for standard output or input.
fn is_pipe(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether a path is of a backup as a tar archive.
fn is_archive(path: &Path) -> bool {
    is_pipe(path) || path.extension().is_some_and(|extension| extension == "tar")
}

/// What a backup is written to.
enum Target {
    Folder(Backups),
    Pipe,
    /// A file, under another name in its folder until it is whole.
    File {
        file: NamedTempFile,
        folder: PathBuf,
        path: PathBuf,
    },
}

impl Target {
    fn open(args: &CreateArgs) -> anyhow::Result<Self> {
        let path = &args.folder;
        if !is_archive(path) {
            return Ok(Self::Folder(Backups::open(path, Access::Add).map_err(failed)?));
        }
        if args.link {
            return Err(CliError::Usage("an archive has no links to files of the store".to_owned()).into());
        }
        if is_pipe(path) {
            if std::io::stdout().is_terminal() {
                return Err(CliError::Usage("a backup is no text: pipe it into a program or a file".to_owned()).into());
            }
            return Ok(Self::Pipe);
        }
        if path.exists() {
            return Err(CliError::Usage(format!("{} is there already", path.display())).into());
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        let file = tempfile::Builder::new().prefix(".penates.").suffix(".tar.unfinished").tempfile_in(&folder);
        let file = file.with_context(|| format!("making a file in {}", folder.display()))?;
        Ok(Self::File { file, folder, path: path.clone() })
    }

    fn create(self, source: &Source, options: &Options, took: &mut dyn FnMut(u64)) -> anyhow::Result<Summary> {
        match self {
            Self::Folder(backups) => backups.create(source, options, took).map_err(failed),
            Self::Pipe => {
                let mut stdout = std::io::stdout().lock();
                write_stream(source, options, &mut stdout, &std::env::temp_dir(), took).map_err(failed)
            }
            Self::File { mut file, folder, path } => {
                let summary = write_stream(source, options, file.as_file_mut(), &folder, took).map_err(failed)?;
                file.as_file().sync_all().with_context(|| format!("syncing {}", file.path().display()))?;
                file.persist_noclobber(&path).with_context(|| format!("moving to {}", path.display()))?;
                sync_folder(&folder).map_err(failed)?;
                Ok(summary)
            }
        }
    }
}

/// Takes a cut of a store: through the server that holds it, or by opening it for a moment.
async fn source(args: &StoreArgs, data: &Path) -> anyhow::Result<Source> {
    match reach::find_ungated(args).await? {
        Way::Server(client) => {
            let cut: Cut = client.ask_json(Method::POST, "/admin/cut").await?;
            Ok(Source::open(data, cut).map_err(failed)?)
        }
        Way::Free(store, _) => {
            let cut = store.cut(Call::new(Class::Content, Deadline::within(CUT_MAX))).await;
            let source = cut.map_err(anyhow::Error::new).and_then(|cut| Source::open(data, cut).map_err(failed));
            store.close().await.context("closing the store")?;
            source
        }
    }
}

/// Whether a path is in a folder, or the folder itself.
fn is_in(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find_map(|above| above.canonicalize().ok()).is_some_and(|path| path.starts_with(folder))
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
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
                eprintln!("{error}");
            }
        }
    }
    if !args.output.json {
        output.table(&["id", "files", "bytes", "copied", "folder"], &rows)?;
    }
    output.finish()?;
    if is_sound { Ok(()) } else { Err(CliError::Incomplete.into()) }
}

fn check(args: &CheckArgs, bar: &ProgressBar) -> anyhow::Result<()> {
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

/// Restores a backup of a folder of them.
fn restore_from(args: &RestoreArgs, bar: &ProgressBar) -> anyhow::Result<(Summary, Place)> {
    let backups = Backups::open(&args.folder, Access::Read).map_err(failed)?;
    let newest = || backups.ids().map(|ids| ids.last().cloned()).map_err(failed);
    let id = match &args.id {
        Some(id) => id.clone(),
        None => newest()?.ok_or_else(|| CliError::Usage("there is no backup in the folder yet".to_owned()))?,
    };
    bar.set_length(backups.summary(&id).map_err(failed)?.end.bytes);
    let place = Place::begin(&args.to).map_err(failed)?;
    let restored = backups.restore(&id, place.path(), &mut |bytes| bar.inc(bytes)).map_err(failed)?;
    Ok((restored, place))
}

async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let is_archive = is_archive(&args.folder);
    if is_archive && args.id.is_some() {
        return Err(CliError::Usage("an archive has one backup: name no other".to_owned()).into());
    }
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

/// Opens a restored store, which examines it, and refuses earlier cursors of its change feed: readers
/// may have seen changes that it does not have. Returns whether it is an unfinished copy of another
/// store, which nobody reads.
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

fn delete(args: &DeleteArgs) -> anyhow::Result<()> {
    let backups = Backups::open(&args.folder, Access::Delete).map_err(failed)?;
    let ids = match args.keep {
        None => args.ids.clone(),
        Some(keep) => {
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

/// An error with the exit code for it.
fn failed(error: BackupError) -> anyhow::Error {
    match error {
        BackupError::NoBackups(what) | BackupError::Occupied(what) => CliError::Usage(what).into(),
        error @ BackupError::OtherStore { .. } => CliError::Usage(error.to_string()).into(),
        BackupError::Busy(what) => CliError::Unreachable(what).into(),
        error => error.into(),
    }
}
