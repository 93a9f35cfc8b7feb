//! `penates salvage`

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use heads::keys;
use library::{Library, SetRight};
use serde_json::{Value, json};
use store::{FormatLevel, Lane, Store, SystemClock, Table};
use store_embedded::{EmbeddedOptions, EmbeddedStore, Loss, Salvaged};

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::loading::LoadMark;
use crate::output::{Output, human_bytes};
use crate::settings::{self, Flags, Settings};
use crate::{audited, local, progress};

/// Arguments of `penates salvage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates salvage --store ./data --to ./rescued
  penates salvage --store ./data --to ./rescued --lost lost.txt
  penates import --store ./rescued --ids lost.txt /data/pairtree")]
pub struct SalvageArgs {
    /// The new data folder, which must not exist or be empty.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Write the ids of volumes that lost something to this file, one per line, for `import --ids`.
    /// It cannot be in the new folder.
    #[arg(long, value_name = "FILE")]
    lost: Option<PathBuf>,
    /// How the summary is printed.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: SalvageArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let source = settings.path.clone();
    // It gets its name when it is complete, so that an interrupted salvage is never mistaken for a
    // finished one.
    let unfinished = unfinished(&args.to)?;
    local::require_place(&args.to)?;
    local::refuse_root(&args.to).map_err(local::cannot_open)?;
    // Copying may take hours, and only this run knows what was lost.
    let list = args.lost.as_deref().map(|list| made_list(list, &args.to)).transpose()?;
    let salvaged = copy(source.clone(), unfinished.clone()).await?;
    let load = carried_load(&source, &unfinished)?;
    let set_right = set_right(&settings, &unfinished, &salvaged).await?;
    let named = put_in_place(&unfinished, &args.to);
    let printed = print(&args, &salvaged, &set_right, load.as_ref());
    let listed = match (list, &args.lost) {
        (Some(file), Some(list)) => write_list(file, &set_right).with_context(|| format!("writing {}", list.display())),
        _ => Ok(()),
    };
    named.and(listed).and(printed)?;
    let is_all = salvaged.losses.is_empty()
        && salvaged.level.is_some()
        && load.is_none()
        && set_right.lost.is_empty()
        && set_right.damaged.is_empty()
        && set_right.lost_resources.is_empty()
        && set_right.damaged_resources.is_empty();
    if is_all { Ok(()) } else { Err(CliError::Incomplete.into()) }
}

/// The working folder until everything is done.
fn unfinished(to: &Path) -> anyhow::Result<PathBuf> {
    let mut name = to.file_name().ok_or_else(|| CliError::Usage("--to names no folder".to_owned()))?.to_owned();
    name.push(".unfinished");
    let unfinished = to.with_file_name(name);
    if local::is_mount_point(to) || to.is_symlink() {
        let why = "is a mount point or a link, which cannot get the salvaged store at the end: name a folder in it";
        return Err(CliError::Usage(format!("{} {why}", to.display())).into());
    }
    for folder in [to, &unfinished] {
        if !local::is_empty(folder) {
            return Err(CliError::Usage(format!("there is something in {} already", folder.display())).into());
        }
    }
    Ok(unfinished)
}

/// Makes the file for the ids, or opens one that is there. What that holds stays until the end.
fn made_list(list: &Path, to: &Path) -> anyhow::Result<File> {
    // The new folder gets its name only if nothing is in its place.
    let place = |path: &Path| Some(local::around(path).canonicalize().ok()?.join(path.file_name()?));
    if let (Some(listed), Some(new)) = (place(list), place(to))
        && listed.starts_with(new)
    {
        let why = "is the new folder, or in it: name another place";
        return Err(CliError::Usage(format!("{} {why}", list.display())).into());
    }
    let made = File::options().write(true).create(true).truncate(false).open(list);
    made.with_context(|| format!("making {}", list.display()))
}

fn write_list(mut file: File, set_right: &SetRight) -> io::Result<()> {
    // A pipe has no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let ids: String = needed(set_right).map(|id| format!("{id}\n")).collect();
    file.write_all(ids.as_bytes())
}

/// Gives the new folder its name, durably.
fn put_in_place(unfinished: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(unfinished, to).with_context(|| format!("naming {}", to.display()))?;
    let synced = File::open(local::around(to)).and_then(|around| around.sync_all());
    synced.context("syncing the new folder's name")
}

/// A load into the old store that had not finished.
enum Load {
    /// Of this source.
    Unfinished(String),
    /// Its mark cannot be read, for this reason: it may have finished.
    Unknown(String),
}

/// Writes the mark of an unfinished load into the copy too, so that nobody takes the first part of
/// a library for all of it. That of a finished load is left out: salvaging is no load.
fn carried_load(source: &Path, copy: &Path) -> anyhow::Result<Option<Load>> {
    match LoadMark::find(source) {
        Ok(Some(mark)) if !mark.is_finished => {
            mark.write(copy).with_context(|| format!("writing the mark of a load into {}", copy.display()))?;
            Ok(Some(Load::Unfinished(mark.source)))
        }
        Ok(_) => Ok(None),
        Err(error) => Ok(Some(Load::Unknown(error.to_string()))),
    }
}

async fn copy(source: PathBuf, target: PathBuf) -> anyhow::Result<Salvaged> {
    let bar = progress::bytes(Some(0));
    let summary = bar.clone();
    let copying = tokio::task::spawn_blocking(move || {
        store_embedded::salvage(&source, &target, |progress| {
            summary.set_length(progress.bytes_total.max(progress.bytes));
            summary.set_position(progress.bytes);
        })
    });
    let salvaged = copying.await.context("copying")?;
    bar.finish_and_clear();
    salvaged.map_err(local::cannot_open)
}

async fn set_right(settings: &Settings, folder: &Path, salvaged: &Salvaged) -> anyhow::Result<SetRight> {
    let (options, folder) = (EmbeddedOptions::default(), folder.to_owned());
    let opening = tokio::task::spawn_blocking(move || EmbeddedStore::open(&folder, options, Arc::new(SystemClock)));
    let store: Arc<dyn Store> = opening.await.context("opening the copy")??;
    let library = Library::open(store.clone(), Arc::new(SystemClock), settings.server.library_options()).await?;
    let is_text_incomplete = salvaged.losses.iter().any(|loss| loss.table.lane() == Lane::Text);
    let bar = progress::volumes(0);
    let set_right = library
        .set_right(is_text_incomplete, |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
        .await;
    bar.finish_and_clear();
    drop(library);
    let losses = salvaged.losses.len();
    audited::note(settings, store.clone(), "salvage", Some(format!("{} rows; {losses} losses", salvaged.rows))).await?;
    store.close().await.context("closing the copy")?;
    Ok(set_right?)
}

/// Whether heads may be lost that nothing names any more: a loss of heads without bounds.
fn may_miss_some(salvaged: &Salvaged) -> bool {
    let is_boundless = |loss: &Loss| loss.table == Table::Objects && loss.after.is_none() && loss.before.is_none();
    salvaged.losses.iter().any(is_boundless)
}

/// The volumes to import again.
fn needed(set_right: &SetRight) -> impl Iterator<Item = String> {
    let damaged = set_right.damaged.iter().map(|verified| &verified.id);
    let mut ids: Vec<String> = set_right.lost.iter().chain(damaged).map(ToString::to_string).collect();
    ids.sort_unstable();
    ids.into_iter()
}

fn print(args: &SalvageArgs, salvaged: &Salvaged, set_right: &SetRight, load: Option<&Load>) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if args.output.json {
        let damaged = set_right.damaged.iter().map(|found| json!({"id": found.id, "members": found.damaged.len()}));
        output.json(&json!({
            "rows": salvaged.rows,
            "bytes": salvaged.bytes,
            "contents": salvaged.contents,
            "volumes": set_right.volumes,
            "level": salvaged.level.map(FormatLevel::number),
            "lost": set_right.lost,
            "lost_is_complete": !may_miss_some(salvaged),
            "damaged": damaged.collect::<Vec<_>>(),
            "resources": set_right.resources,
            "lost_resources": set_right.lost_resources.iter().map(|path| format!("/{path}")).collect::<Vec<_>>(),
            "damaged_resources": set_right.damaged_resources.keys().map(|path| format!("/{path}")).collect::<Vec<_>>(),
            "unreadable": salvaged.losses.iter().map(as_json).collect::<Vec<_>>(),
            "unfinished_load": load.map(|load| match load {
                Load::Unfinished(source) => json!({"source": source}),
                Load::Unknown(why) => json!({"unknown": why}),
            }),
        }))?;
        return output.finish();
    }
    if salvaged.level.is_none() {
        output.line("the file `format` cannot be read: the new store has the newest level")?;
    }
    for loss in &salvaged.losses {
        output.line(summary(loss))?;
    }
    for id in &set_right.lost {
        output.line(format!("lost {id}"))?;
    }
    for found in &set_right.damaged {
        output.line(format!("damaged {}: {} of its members", found.id, found.damaged.len()))?;
    }
    for path in &set_right.lost_resources {
        output.line(format!("lost /{path} of the repository, with all that was in it"))?;
    }
    for (path, why) in &set_right.damaged_resources {
        output.line(format!("damaged /{path} of the repository: {why}"))?;
    }
    output.line(format!("{} resources of the repository", set_right.resources))?;
    output.line(format!(
        "{} volumes, {} of them damaged; {}{} lost ({} rows, {}, in {})",
        set_right.volumes,
        set_right.damaged.len(),
        if may_miss_some(salvaged) { "at least " } else { "" },
        set_right.lost.len(),
        salvaged.rows,
        human_bytes(salvaged.bytes),
        args.to.display(),
    ))?;
    let to = args.to.display();
    match load {
        None => {}
        Some(Load::Unfinished(source)) => output.line(format!(
            "It is an unfinished load of {source}, as the old store was: `penates load {source} --store {to}` \
             continues it."
        ))?,
        Some(Load::Unknown(why)) => output.line(format!(
            "It may be an unfinished load: the mark of the last load cannot be read ({why}). Repeat that load."
        ))?,
    }
    if salvaged.losses.iter().any(|loss| loss.table == Table::Tokens) {
        output.line("Tokens are missing, or may be: `penates token list` names those that are left.")?;
    }
    if salvaged.losses.iter().any(|loss| loss.table == Table::Records) {
        output.line("Records between the ids above are lost: import them from an export, or restore a backup.")?;
    }
    if may_miss_some(salvaged) {
        output.line(
            "What else is lost cannot be named: import everything again, and load the repository from a backup.",
        )?;
        output.line("Volumes and resources may be in an earlier state, or there again after they were deleted.")?;
    } else if !set_right.lost.is_empty() || !set_right.damaged.is_empty() {
        output.line("Import what is lost or damaged again to repair it.")?;
    }
    output.finish()
}

/// The name of a partition for people: the id, if it belongs to a volume.
fn place(partition: Option<&bytes::Bytes>) -> Option<String> {
    let partition = partition?;
    Some(match keys::volume_of_partition(&keys::object_of(partition)) {
        Some(id) => id.to_string(),
        None => partition.escape_ascii().to_string(),
    })
}

fn as_json(loss: &Loss) -> Value {
    json!({
        "table": loss.table.name(),
        "after": place(loss.after.as_ref()),
        "before": place(loss.before.as_ref()),
        "reason": loss.detail,
    })
}

fn summary(loss: &Loss) -> String {
    let bound = |partition| place(partition).unwrap_or_else(|| "the end".to_owned());
    let (after, before) = (bound(loss.after.as_ref()), bound(loss.before.as_ref()));
    format!("unreadable in {}, from {after} to {before}: {}", loss.table, loss.detail)
}
