//! `penates backup create`

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::backup::{Options, Source, Summary};
use anyhow::Context;
use clap::Args;
use http::Method;
use indicatif::ProgressBar;
use jiff::Timestamp;
use store::{Call, Class, Cut, Deadline};

use super::target::Target;
use super::{failed, id_of, in_thread, is_pipe};
use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::local;
use crate::output::{Output, human_bytes};
use crate::reach::{self, Way};
use crate::settings::{self, Flags, StoreLocation};

/// How long a store may take to make a cut: most of it is linking files of large contents.
const CUT_MAX: Duration = Duration::from_secs(600);

/// Arguments of `backup create`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates backup create /mnt/backups
  penates backup create /mnt/backups --store /var/lib/penates/data --json
  penates backup create --link /var/lib/penates/backups
  penates backup create penates.tar
  penates backup create - | ssh vault 'cat > penates.tar'")]
pub(super) struct CreateArgs {
    /// The folder of backups, which is made if it is missing; a new file *.tar, or - for standard
    /// output: one whole backup as a tar archive.
    #[arg(value_name = "FOLDER|FILE.tar|-")]
    pub(super) folder: PathBuf,
    /// Make hard links instead of copies. The folder has to be on the disk of the store, and is
    /// lost with it.
    #[arg(long)]
    pub(super) link: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

pub(super) async fn create(args: CreateArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let StoreLocation::Folder(data) = settings.place() else {
        let hint = "a keyspace is backed up with the snapshots of Cassandra (docs/cassandra.md)";
        return Err(CliError::Usage(format!("only a data folder is backed up like this: {hint}")).into());
    };
    if is_in(&args.folder, data) {
        let what = format!("{} is in the data folder: name another place for backups", args.folder.display());
        return Err(CliError::Usage(what).into());
    }
    // A folder of backups is made only if there is something for it.
    local::require_store(data)?;
    // Before the store is asked for anything.
    let target = Target::open(&args)?;
    let now = Timestamp::now();
    let source = source(&args.store, data).await?;
    let options = Options {
        time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        id: id_of(now),
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
        note!("backup {}: {} files ({})", created.header.id, created.end.files, human_bytes(created.end.bytes));
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
